"""Charts over time: received traffic, and below it the load of the router's CPU, with the start of the test marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.statistics import median
from tunnelbench.model.counters import Window
from tunnelbench.model.plan import CALIBRATION_KIND, TrialSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.charts.chart import LIMIT_COLOUR, PALETTE, Chart, PageSection, Spec, chart_name, hover, rounded
from tunnelbench.report.document import Document
from tunnelbench.report.text import one_line

MOST_POINTS = 300
"""Largest number of points of one line; neighbours are merged."""
MOST_POINTS_OF_ALL = 6_000
"""Largest number of points of a whole report, which keeps a page small."""
MOST_SERIES_ROWS = 20
"""Largest number of table rows for each line of a time series: neighbouring readings are merged in a table."""
TRAFFIC_PX, CPU_PX = 170, 110
TIME = "s since data began to flow"
VALUE_AXIS_PX = 62
"""Space left of both pictures, which aligns their time axes."""


@dataclass(frozen=True)
class SeriesPoint:
    """A reading of a time interval of a trial."""

    start_s: float
    end_s: float
    value: float
    """Packets or bits that arrived, or CPU seconds."""
    lost: int = 0

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def rate(self) -> float:
        return self.value / self.length_s


def series_charts(document: Document) -> Iterator[Chart]:
    """Yield a chart for each tunnel and kind of trial, of the trial whose rate is the median."""
    groups: dict[tuple[str, str], list[TrialRecord]] = {}
    for record in document.records:
        if record.counts and record.spec.tunnel.kind != CALIBRATION_KIND and len(_readings(record)[0]) > 1:
            groups.setdefault((record.spec.tunnel.name, record.spec.what), []).append(record)
    most = max(10, min(MOST_POINTS, MOST_POINTS_OF_ALL // max(1, len(groups))))
    for (tunnel, what), own in groups.items():
        yield _chart(_middle(own), len(own), chart_name("series", tunnel, what), most)


def _middle(records: Sequence[TrialRecord]) -> TrialRecord:
    ordered = sorted(records, key=_rate)
    return ordered[(len(ordered) - 1) // 2]


def _rate(record: TrialRecord) -> float:
    if record.tcp:
        return record.tcp.throughput_bps
    return record.udp.counts.forwarding_rate_pps if record.udp and record.udp.counts else 0.0


def _readings(record: TrialRecord) -> tuple[list[SeriesPoint], str]:
    """Return the time series of a trial, and its unit."""
    if record.tcp:
        found = [SeriesPoint(each.start_s, each.end_s, each.bytes * 8 / 1e6) for each in record.tcp.intervals]
        unit = "Mbit/s"
    elif record.udp and record.udp.counts:
        intervals = record.udp.counts.intervals
        found = [SeriesPoint(each.start_s, each.end_s, each.received_packets, each.lost_packets) for each in intervals]
        unit = "packets/s"
    else:
        found, unit = [], ""
    return _without_sliver([each for each in found if each.end_s > each.start_s]), unit


def _without_sliver(readings: Sequence[SeriesPoint]) -> list[SeriesPoint]:
    """Merge the last reading into the one before if it is less than half as long as the first: its rate is inexact."""
    if len(readings) < 2 or readings[-1].length_s * 2 >= readings[0].length_s:
        return list(readings)
    return [*readings[:-2], _joined(readings[-2:])]


def _window(record: TrialRecord) -> Window | None:
    if record.tcp:
        return record.tcp.window
    return record.udp.window if record.udp else None


def _chart(record: TrialRecord, trials: int, name: str, most: int) -> Chart:
    readings, unit = _readings(record)
    readings = _merged(readings, most)
    window = _window(record)
    parts = window.intervals if window else ()
    cpus = len(window.router_cpu.cpus) if window else 1
    cpu = _merged([SeriesPoint(each.start_s, each.end_s, each.busy_s / cpus) for each in parts], most)
    spec = record.spec
    which = f"round {spec.round}" if trials == 1 else f"round {spec.round}, the median of {trials} trials that count"
    title = f"{spec.tunnel.name}, {spec.what}"
    return _over_time(readings, cpu, unit, name=name, title=title, which=which, spec=spec)


def soak_charts(document: Document) -> Iterator[Chart]:
    """Yield a chart for each soak; time without measurement stays blank."""
    for report in document.soaks:
        columns = report.columns(MOST_POINTS)
        readings = [SeriesPoint(each.start_s, each.end_s, each.received_packets, each.lost_packets) for each in columns]
        cpu = [
            SeriesPoint(each.start_s, each.end_s, each.router_busy_share * (each.end_s - each.start_s))
            for each in columns
            if each.router_busy_share is not None
        ]
        spec = report.soak.spec
        if readings:
            title = f"Soak: {spec.tunnel.name}, {spec.what}"
            name = chart_name("soak", spec.tunnel.name, spec.what)
            yield _over_time(readings, cpu, "packets/s", name=name, title=title, which="all parts", spec=spec)


def _over_time(
    readings: Sequence[SeriesPoint],
    cpu: Sequence[SeriesPoint],
    unit: str,
    *,
    name: str,
    title: str,
    which: str,
    spec: TrialSpec,
) -> Chart:
    return Chart(
        name=name,
        place=PageSection.SERIES,
        title=one_line(title),
        sentence=f"{which}: {_sentence(readings, cpu, unit)}",
        spec=_spec(readings, cpu, unit),
        header=("Series", "Begins [s]", "Ends [s]", "Value"),
        rows=tuple(_rows(_merged(readings, MOST_SERIES_ROWS), _merged(cpu, MOST_SERIES_ROWS), unit)),
        tunnel=one_line(spec.tunnel.name),
        payload=spec.payload,
        direction=spec.direction.label,
    )


def _merged(readings: Sequence[SeriesPoint], most: int) -> list[SeriesPoint]:
    step = -(-len(readings) // most) if readings else 1
    return [_joined(readings[first : first + step]) for first in range(0, len(readings), step)]


def _joined(group: Sequence[SeriesPoint]) -> SeriesPoint:
    total, lost = sum(each.value for each in group), sum(each.lost for each in group)
    return SeriesPoint(group[0].start_s, group[-1].end_s, total, lost)


def _sentence(readings: Sequence[SeriesPoint], cpu: Sequence[SeriesPoint], unit: str) -> str:
    rates = [each.rate for each in readings]
    low, middle, high = (_number(value) for value in (min(rates), median(rates), max(rates)))
    said = f"{low} to {high} {unit}, median {middle}, in {len(rates)} readings over {readings[-1].end_s:.0f} s"
    if lost := sum(each.lost for each in readings):
        said += f"; {lost:,} packets lost"
    before, during = [each for each in cpu if each.end_s <= 0], [each for each in cpu if each.start_s >= 0]
    if during:
        said += f"; router CPU {percent(max(0.0, min(each.rate for each in during)))} to "
        said += f"{percent(min(1.0, max(each.rate for each in during)))} busy"
    if before:
        said += f", before the test {percent(min(1.0, before[0].rate))}"
    return f"{said}."


def _rows(readings: Sequence[SeriesPoint], cpu: Sequence[SeriesPoint], unit: str) -> Iterator[tuple[str, ...]]:
    for each in readings:
        lost = f", {each.lost} lost" if each.lost else ""
        yield ("arrived", f"{each.start_s:.2f}", f"{each.end_s:.2f}", f"{_number(each.rate)} {unit}{lost}")
    for each in cpu:
        yield ("router CPU", f"{each.start_s:.2f}", f"{each.end_s:.2f}", percent(min(1.0, each.rate)))


def _spec(readings: Sequence[SeriesPoint], cpu: Sequence[SeriesPoint], unit: str) -> Spec:
    first = min([0.0, *(each.start_s for each in cpu)])
    last = max([readings[-1].end_s, *(each.end_s for each in cpu)])
    scale = {"domain": [round(first, 3), round(last, 3)], "nice": False}
    traffic = _picture(readings, unit, scale, TRAFFIC_PX, colour=PALETTE[0], is_last=not cpu)
    if lost := [each for each in readings if each.lost]:
        marks = [{"t": round((each.start_s + each.end_s) / 2, 3), "lost": "x"} for each in lost]
        traffic["layer"].append(
            {
                "data": {"values": marks},
                "mark": {"type": "text", "color": LIMIT_COLOUR, "fontSize": 14, "fontWeight": "bold", "dy": -8},
                "encoding": {
                    "x": {"field": "t", "type": "quantitative", "scale": scale},
                    "y": {"value": TRAFFIC_PX},
                    "text": {"field": "lost"},
                },
            }
        )
    below = (
        [_picture(cpu, "router CPU [%]", scale, CPU_PX, colour=PALETTE[5], is_last=True, share_of=100)] if cpu else []
    )
    return {"spacing": 8, "vconcat": [traffic, *below]}


def _picture(
    readings: Sequence[SeriesPoint],
    unit: str,
    scale: Spec,
    height_px: int,
    *,
    colour: str,
    is_last: bool,
    share_of: int | None = None,
) -> Spec:
    """Return steps with a filled area below them, and a line at the start of the test."""
    factor = share_of or 1
    values: list[dict[str, float | None]] = []
    for each, following in zip_longest(readings, readings[1:]):
        value = rounded(each.rate * factor)
        values.append({"t": round(each.start_s, 3), "v": value})
        is_gap = following is not None and following.start_s - each.end_s > (each.end_s - each.start_s) / 2
        if is_gap or following is None:
            values.append({"t": round(each.end_s, 3), "v": value})
        if is_gap:  # nothing was measured
            values.append({"t": round(each.end_s, 3), "v": None})
    y_scale: Spec = {"domain": [0, share_of], "clamp": True} if share_of else {"zero": True}
    x: Spec = {"type": "quantitative", "scale": scale, "title": TIME if is_last else None}
    return {
        "width": "container",
        "height": height_px,
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "area", "interpolate": "step-after", "line": {"color": colour}, "color": colour,
                         "fillOpacity": 0.2},
                "encoding": {
                    "x": {"field": "t", **x},
                    "y": {"field": "v", "type": "quantitative", "title": unit, "scale": y_scale,
                          "axis": {"minExtent": VALUE_AXIS_PX, "maxExtent": VALUE_AXIS_PX, "tickCount": 4}},
                },
            },
            {
                "mark": {"type": "point", "size": 150, "filled": True, "color": colour, "opacity": 0},
                "encoding": {
                    "x": {"field": "t", **x},
                    "y": {"field": "v", "type": "quantitative", "title": unit, "scale": y_scale},
                    "tooltip": hover(t="Seconds", v=unit),
                },
            },
            {
                "data": {"values": [{"t": 0, "said": "start of the test"}]},
                "layer": [
                    {"mark": {"type": "rule", "color": LIMIT_COLOUR, "strokeWidth": 2, "strokeDash": [5, 3]},
                     "encoding": {"x": {"field": "t", **x}}},
                    {"mark": {"type": "text", "align": "left", "baseline": "top", "dx": 4},
                     "encoding": {"x": {"field": "t", **x}, "y": {"value": 2}, "text": {"field": "said"}}},
                ],
            },
        ],
    }  # fmt: skip


def _number(value: float) -> str:
    return significant(value, 4, thousands=True)
