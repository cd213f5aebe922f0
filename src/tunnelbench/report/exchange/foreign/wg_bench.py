"""The table of wg-bench (github.com/cyyself/wg-bench), in Markdown: WireGuard measured by owners on their devices."""

from __future__ import annotations

import re

from tunnelbench.analysis.audit.headings import rate_unit
from tunnelbench.analysis.audit.quantities import quantity
from tunnelbench.analysis.audit.tables import markdown
from tunnelbench.model.errors import WrongInput
from tunnelbench.report.exchange.foreign.result import ON_DEVICE, ForeignResult, cell_text, rate_text

_DEVICE, _SYSTEM, _SPEED, _NOTE = "Device / CPU", "OS / Kernel / iperf Param", "Speed", "Note"
"""Headings of the table."""

_HEADINGS = re.compile(r"^\|[^\n]{0,20}Device / CPU[^\n]{0,200}\|[^\n]{0,20}Speed", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}\)")


def recognises(text: str) -> bool:
    """Return True if a text has the headings of the table."""
    return _HEADINGS.search(text) is not None


def read(text: str) -> ForeignResult:
    """Return the rows of the table. Raises WrongInput if a row has no speed with a unit."""
    rows = []
    for table in markdown.read(text):
        headings = table.rows[0].cells
        if not {_DEVICE, _SPEED} <= set(headings):
            continue
        for line in table.rows[1:]:
            cells = {name: _LINK.sub(r"\1", cell) for name, cell in zip(headings, line.cells, strict=False)}
            if not any(cells.values()):
                continue
            speed, unit = quantity(cells.get(_SPEED, "")), rate_unit(cells.get(_SPEED, ""))
            if speed is None or unit is None:
                message = f"line {line.line}: {cells.get(_SPEED, '')[:40]!r} is no speed"
                raise WrongInput(message, "a speed has a unit, such as 93 Mbits/sec")
            rows.append(
                {
                    "device": cell_text(cells[_DEVICE]),
                    "system": cell_text(cells.get(_SYSTEM, "")),
                    "tunnel": "wireguard",
                    "cipher": "ChaCha20-Poly1305",
                    "traffic": "iperf3 tcp 10 s, one flow",
                    "throughput_mbps": rate_text(speed.value * unit / 1e6, f"line {line.line}: the speed"),
                    "comment": cell_text(cells.get(_NOTE, "")),
                }
            )
    return ForeignResult(
        program="wg-bench",
        title="WireGuard measured by owners on their own devices",
        source="wg-bench",
        method=(
            "Tunnel, iperf3 client and iperf3 server all on the device itself, over veth; one flow for 10 s. Traffic "
            "and both ends of the tunnel share the device's CPU."
        ),
        rows=tuple(rows),
        comparability=ON_DEVICE,
    )
