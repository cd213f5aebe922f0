"""Charts of the loss and the delay of UDP against the offered load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.udp import UdpRow
from tunnelbench.model.plan import LATENCY_LOADS, Direction, Test, payload_text
from tunnelbench.report.charts.chart import Chart, PageSection
from tunnelbench.report.charts.lines import Axis, ChartLine, line_spec
from tunnelbench.report.document import Document
from tunnelbench.report.text import one_line


def load_charts(document: Document) -> Iterator[Chart]:
    """Yield a chart of loss and one of delay for each payload and direction measured at several loads."""
    for payload, direction in dict.fromkeys((row.payload_bytes, row.direction) for row in document.udp_rows):
        own = [row for row in document.udp_rows if (row.payload_bytes, row.direction) == (payload, direction)]
        size = f"{payload} bytes of payload" if payload else "mix of sizes (IMIX)"
        name = f"{payload_text(payload)}-{direction.label}"
        yield from _loss(own, size, name, direction)
        yield from _delay(own, size, name, direction)


def _loss(rows: Sequence[UdpRow], size: str, name: str, direction: Direction) -> Iterator[Chart]:
    curves = [
        (one_line(row.tunnel.name), row.figures.curve)
        for row in rows
        if row.test is Test.LOSS_CURVE and row.figures and row.figures.curve
    ]
    if not curves:
        return
    lines = [
        ChartLine(tunnel, [(round(pps), loss * 100) for pps, loss in curve], family, family, tunnel=tunnel)
        for family, (tunnel, curve) in enumerate(curves)
    ]
    first = {tunnel: next((pps for pps, loss in curve if loss > 0), None) for tunnel, curve in curves}
    said = "Lowest load with packet loss: " + "; ".join(
        f"{tunnel} {pps:,.0f} packets/s" if pps else f"{tunnel} no tried load" for tunnel, pps in first.items()
    )
    yield Chart(
        name=f"loss-{name}",
        place=PageSection.LOAD,
        title=f"Loss against load, {size}, {direction.label}",
        sentence=f"{said}.",
        spec=line_spec(lines, Axis("offered [packets/s]"), Axis("lost [%]")),
        header=("Tunnel", "Offered [packets/s]", "Lost"),
        rows=tuple((tunnel, f"{pps:,.0f}", percent(loss)) for tunnel, curve in curves for pps, loss in curve),
        payload=payload_text(rows[0].payload_bytes),
        direction=direction.label,
    )


def _delay(rows: Sequence[UdpRow], size: str, name: str, direction: Direction) -> Iterator[Chart]:
    by_tunnel: dict[str, dict[str, UdpRow]] = {}
    for row in rows:
        if row.test is Test.LATENCY and row.figures and row.figures.delay_p50_ns:
            by_tunnel.setdefault(one_line(row.tunnel.name), {})[row.load] = row
    if not by_tunnel:
        return
    lines = [
        line for family, (tunnel, loads) in enumerate(by_tunnel.items()) for line in _delay_lines(tunnel, loads, family)
    ]
    worst = max((at, line.name, load) for line in lines for load, at in line.points)
    yield Chart(
        name=f"delay-{name}",
        place=PageSection.LOAD,
        title=f"Delay against load, {size}, {direction.label}",
        sentence=f"Loads are shares of each path's own PDR. Highest: {worst[1]} at {worst[2]}, {_us(worst[0])} µs.",
        spec=line_spec(lines, Axis("load, of the PDR", "ordinal"), Axis("one way [µs]", scale="log")),
        header=("Tunnel and percentile", *(f"{load} [µs]" for load in LATENCY_LOADS)),
        rows=tuple(
            (line.name, *(_us(dict(line.points)[load]) if load in dict(line.points) else "" for load in LATENCY_LOADS))
            for line in lines
        ),
        payload=payload_text(rows[0].payload_bytes),
        direction=direction.label,
    )


def _delay_lines(tunnel: str, loads: Mapping[str, UdpRow], family: int) -> Iterator[ChartLine]:
    for member, percentile in enumerate((50, 99)):
        points = []
        for load in LATENCY_LOADS:
            figures = loads[load].figures if load in loads else None
            found = (figures.delay_p50_ns if percentile == 50 else figures.delay_p99_ns) if figures else None
            if found and found.median > 0:
                points.append((load, found.median / 1e3))
        if points:
            yield ChartLine(f"{tunnel}, {percentile} %", points, family, member, tunnel)


def _us(value: float) -> str:
    return significant(value, 3)
