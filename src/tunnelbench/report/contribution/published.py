"""Compares a contributed run with the published results of the same device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tunnelbench.model.reference import Reference
from tunnelbench.report.exchange import Imported
from tunnelbench.report.site.device_names import device_key
from tunnelbench.report.site.gather import device_name, gathered, published

LARGEST_FACTOR = 5.0
"""Largest quotient of a throughput and the highest published one of the same device and kind of tunnel. A tunnel in the
kernel in place of one in user space, or a figure through the device in place of one on it, explains less."""


@dataclass(frozen=True)
class HighestPublished:
    """The highest published throughput of a device through a kind of tunnel."""

    throughput_bps: float
    reference: str


Highest = Mapping[tuple[str, str], HighestPublished]
"""Highest published throughput by device, as `device_key` names it, and kind of tunnel."""


def highest_published(references: Iterable[Reference]) -> Highest:
    """Return the highest throughput of each device and kind of tunnel."""
    found: dict[tuple[str, str], HighestPublished] = {}
    for row in (row for reference in references for row in published(reference)):
        key, rate_bps = (device_key(row.device), row.result.kind), row.result.throughput_bps
        if rate_bps and (key not in found or rate_bps > found[key].throughput_bps):
            found[key] = HighestPublished(rate_bps, row.reference)
    return found


def above_published(found: Imported, highest: Highest) -> Iterator[str]:
    """Yield a sentence for each kind of tunnel that is implausibly faster than the published results of the device."""
    device = device_key(device_name(found.run))
    fastest: dict[str, float] = {}
    for result in gathered(found).entry.results:
        fastest[result.kind] = max(fastest.get(result.kind, 0.0), result.throughput_bps or 0.0)
    for kind, rate_bps in fastest.items():
        known = highest.get((device, kind))
        if known is not None and rate_bps > known.throughput_bps * LARGEST_FACTOR:
            yield (
                f"{kind} carries {rate_bps / 1e6:.4g} Mbit/s, more than {LARGEST_FACTOR:g} times the "
                f"{known.throughput_bps / 1e6:.4g} Mbit/s that {known.reference} has of this device"
            )
