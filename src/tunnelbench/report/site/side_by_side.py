"""The figures of all devices, for the page that puts two devices side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tunnelbench.model.plan import direction_label
from tunnelbench.report.site.overview import Best, MeasuredDevice, order, rates

MOST_FIGURES = 20_000
"""Largest number of figures on the page; a device whose figures do not fit is left out."""


def side_by_side(devices: Sequence[MeasuredDevice]) -> list[dict[str, Any]]:
    """Return for each device its facts, and its best figure for each tunnel, payload and direction of TCP."""
    found = []
    left = MOST_FIGURES
    for device, runs, rows in devices:
        best: dict[tuple[str, ...], Best] = {}
        for result, each in rates(runs, rows):
            group = {True: "encrypted", False: "plain", None: "unknown"}[result.is_encrypted]
            payload = "" if result.payload_bytes is None else str(result.payload_bytes)
            key = (group, result.kind, result.tunnel, payload, direction_label(result.direction or ""))
            if key not in best or order(each) > order(best[key]):
                best[key] = each
        if len(best) > left:
            continue
        left -= len(best)
        facts = {
            "CPU": device.cpu,
            "CPUs": device.cpus,
            "Memory": device.memory_mib and f"{device.memory_mib} MiB",
            "Price": device.price,
            "Power": device.watts,
        }
        found.append(
            {
                "name": device.name,
                "page": device.page,
                "facts": {name: str(value) for name, value in facts.items() if value},
                "figures": [
                    [*key, each.text + ("" if each.is_comparable else "*"), each.note] for key, each in best.items()
                ],
            }
        )
    return found
