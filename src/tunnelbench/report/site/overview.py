"""The overview of a site: the highest throughput of each device by kind of tunnel, with and without encryption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from tunnelbench.analysis.encryption import lacks_digest
from tunnelbench.analysis.number_format import significant
from tunnelbench.model.plan import BASELINE_KIND
from tunnelbench.model.reference import Comparable
from tunnelbench.report.site.gather import GatheredRun, Published, is_lower_bound
from tunnelbench.report.site.index import Device, Result

FULL_PAYLOAD_BYTES = 1000
"""Smallest payload of large packets; the overview has only these [bytes]."""

STRIP_PX, TIME_AXIS_PX = 80, 22
"""Height of a strip with its name, and height of the axis."""
LANE_PX, LANES = 10, 5
"""Height of a lane of dots, and the number of lanes in which dots of one kind avoid each other."""

MeasuredDevice = tuple[Device, Sequence[GatheredRun], Sequence[Published]]


@dataclass(frozen=True)
class Best:
    """The highest throughput of a device through a kind of tunnel."""

    rate_bps: float
    text: str
    """Throughput in Mbit/s as the page prints it."""
    note: str
    """Tunnel and source of the figure."""
    is_comparable: bool
    lacks_digest: bool
    """True if the variant of the tunnel is known to have no digest."""


@dataclass(frozen=True)
class OverviewTable:
    """Devices by kinds of tunnel."""

    kinds: tuple[str, ...]
    rows: tuple[tuple[Device, Mapping[str, Best]], ...]


@dataclass(frozen=True)
class Dot:
    """A device in the chart."""

    device: Device
    best: Best
    x_percent: float
    """Place on the logarithmic axis, in per cent of its length."""
    y_px: int


@dataclass(frozen=True)
class OverviewChart:
    """Dots of devices on one axis of throughput, a strip for each kind of tunnel."""

    strips: tuple[tuple[str, int, tuple[Dot, ...]], ...]
    """Name, top [px] and dots of each strip."""
    ticks: tuple[tuple[float, str], ...]
    """Place [%] and text of each tick [Mbit/s]."""
    sentence: str
    """The content in words, for readers who cannot see the chart."""

    left, scale = 1.5, 0.96
    """Place of the beginning of the axis [%], and its length as a share of the picture's width."""

    @property
    def height_px(self) -> int:
        return len(self.strips) * STRIP_PX + TIME_AXIS_PX


def overview_table(devices: Sequence[MeasuredDevice], *, is_encrypted: bool) -> OverviewTable:
    """Return the devices with figures of tunnels that encrypt, or of those that do not or of which it is unknown.

    Devices with runs come first, then those with figures that can be compared. A tunnel has the figure of its fastest
    variant; of encrypted tunnels, a variant that is known to have no digest counts only if there is no other.
    """
    table = []
    for device, runs, rows in sorted(devices, key=lambda each: (not each[1], not any(map(is_comparable_row, each[2])))):
        cells: dict[str, Best] = {}
        for result, best in rates(runs, rows, FULL_PAYLOAD_BYTES):
            before = cells.get(result.kind)
            if (result.is_encrypted is True) is is_encrypted and (before is None or order(best) > order(before)):
                cells[result.kind] = best
        if cells:
            table.append((device, cells))
    counts = Counter(kind for _, cells in table for kind in cells)
    # The baseline comes first, then the kinds that were measured on most devices.
    kinds = sorted(counts, key=lambda kind: (kind != BASELINE_KIND, -counts[kind], kind))
    return OverviewTable(tuple(kinds), tuple(table))


def order(best: Best) -> tuple[bool, bool, float]:
    """Return the rank of a figure: comparable figures first, then variants with a digest, then by throughput."""
    return best.is_comparable, not best.lacks_digest, best.rate_bps


def rates(
    runs: Sequence[GatheredRun], rows: Sequence[Published], least_bytes: int = 0
) -> Iterator[tuple[Result, Best]]:
    """Yield each throughput of TCP with payloads of `least_bytes` or more; a payload that is not stated is large."""
    every: list[tuple[Result, str, str, bool, bool]] = [
        (result, run.entry.title, mbps_text(result), marks.is_line_speed, not run.known.is_guest)
        for run in runs
        for result, marks in zip(run.entry.results, run.marks, strict=True)
    ]
    every += [(row.result, row.reference, row.mbps_text, row.is_line_speed, is_comparable_row(row)) for row in rows]
    for result, where, text, is_line_speed, is_comparable in every:
        best = rate_of(
            result, where, text, is_line_speed=is_line_speed, is_comparable=is_comparable, least_bytes=least_bytes
        )
        if best is not None:
            yield result, best


def rate_of(
    result: Result, where: str, text: str, *, is_line_speed: bool, is_comparable: bool, least_bytes: int
) -> Best | None:
    """Return the throughput of a result; None if it has none of TCP, or its payload is below `least_bytes`.

    `text` is the throughput in Mbit/s.
    """
    rate = result.throughput_bps
    if rate is None or result.test != "tcp" or (result.payload_bytes or FULL_PAYLOAD_BYTES) < least_bytes:
        return None
    bound = "≥ " * is_lower_bound(result, is_line_speed=is_line_speed)
    lacking = result.is_encrypted is True and lacks_digest(
        {"cipher": result.cipher or "", "digest": result.digest or ""}
    )
    return Best(rate, bound + text, f"{result.tunnel}, {where}", is_comparable, lacking)


def mbps_text(result: Result) -> str:
    """Return the throughput of a result of a run [Mbit/s]."""
    return significant((result.throughput_bps or 0.0) / 1e6)


def is_comparable_row(row: Published) -> bool:
    return row.comparability.comparable is not Comparable.NO


def as_published(value: float | None, scale: float = 1.0) -> str:
    """Return a figure with the digits that were published."""
    return "" if value is None else f"{value * scale:.10g}"


def overview_chart(table: OverviewTable) -> OverviewChart | None:
    """Return the chart of a table; None if it has no figures."""
    rates = [best.rate_bps / 1e6 for _, cells in table.rows for best in cells.values() if best.rate_bps > 0]
    if not rates:
        return None
    low, high = floor(log10(min(rates))), max(ceil(log10(max(rates))), floor(log10(min(rates))) + 1)

    def place(mbps: float) -> float:
        return round((log10(mbps) - low) / (high - low) * 100, 2)

    strips: list[tuple[str, int, tuple[Dot, ...]]] = []
    for kind in table.kinds:
        found = sorted(
            ((cells[kind], device) for device, cells in table.rows if kind in cells and cells[kind].rate_bps > 0),
            key=lambda each: each[0].rate_bps,
        )
        dots = tuple(
            Dot(device, best, place(best.rate_bps / 1e6), LANE_PX * (number % LANES + 1))
            for number, (best, device) in enumerate(found)
        )
        if dots:
            strips.append((kind, len(strips) * STRIP_PX, dots))
    said = [
        f"{kind}: {len(dots)}, from {dots[0].best.text} ({dots[0].device.name}) to {dots[-1].best.text} "
        f"({dots[-1].device.name})"
        for kind, _, dots in strips
    ]
    return OverviewChart(
        strips=tuple(strips),
        ticks=tuple((place(10.0**power), f"{10**power:,}" if power >= 0 else f"{10.0**power:g}")
                    for power in range(low, high + 1)),
        sentence=f"Number of devices by tunnel, with the lowest and the highest Mbit/s. {'; '.join(said)}.",
    )  # fmt: skip
