"""The first chart of a page: the encrypted tunnels by CPU time and by throughput, of UDP by packet rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tunnelbench.analysis.answer.comparison import AnswerT
from tunnelbench.analysis.answer.tunnels import TunnelAnswer
from tunnelbench.analysis.answer.udp import UdpAnswer
from tunnelbench.analysis.answer.words import carried, cpu_taken, large_packets, thousands
from tunnelbench.analysis.statistics import INTERVAL_FROM, Estimate
from tunnelbench.report.charts.bars import Bar, bar_row, bars_spec
from tunnelbench.report.charts.chart import Chart, PageSection
from tunnelbench.report.document import Document
from tunnelbench.report.text import one_line

MOST_CHART_TUNNELS = 12
"""Largest number of tunnels in the chart; the table below the chart has all."""
PANEL_GAP_PX = 40
LOWER_BOUNDS = " Striped bars with ≥ are lower bounds."
DOUBTFUL = " ?: a check makes the figure doubtful."
REFUTED = " Refuted: a longer trial at this rate or below lost more than 0.5 %."
BARS_HEADER = ("Tunnel", "Direction", "Unit", "Median", "Low", "High", "Remark")


def answer_charts(document: Document) -> Iterator[Chart]:
    """Yield the chart of TCP; if the run has no TCP figures, that of UDP; if it has neither, nothing."""
    chart = None
    if shown := _shown(document.answer.tunnels):
        chart = _tcp(shown, document.answer.tunnels)
    elif udp := _shown(document.answer.udp):
        chart = _udp(udp, document.answer.udp)
    if chart:
        yield chart


def _shown(answers: Sequence[AnswerT]) -> list[AnswerT]:
    """Return the encrypted tunnels with figures; if there are none, the other tunnels with figures."""
    own = [each for each in answers if not each.reason and not each.tunnel.is_baseline]
    return ([each for each in own if each.is_encrypted] or own)[:MOST_CHART_TUNNELS]


def _tcp(shown: Sequence[TunnelAnswer], every: Sequence[TunnelAnswer]) -> Chart | None:
    cpu, rates = [], []
    for tunnel in shown:
        for way, found in tunnel.directions.items():
            doubt = found.is_doubtful
            cpu.append(_bar(tunnel, way, found.cpu_share, 100, is_doubtful=doubt))
            rates.append(
                _bar(tunnel, way, found.throughput_bps, 1e-6, is_limited=found.is_lower_bound, is_doubtful=doubt)
            )
    bounds = LOWER_BOUNDS * any(bar.is_limited for bar in rates)
    bounds += DOUBTFUL * any(bar.is_doubtful for bar in rates)
    baseline = "".join(
        f" Without a tunnel: {words}." for each in every if each.tunnel.is_baseline and (words := _carried(each))
    )
    reference = f"{shown[0].reference_mbps:g} Mbit/s"
    panels = [(f"% of one CPU of the router at {reference}", cpu), ("Mbit/s", rates)]
    title = f"{_who(shown)}: router CPU at {reference}, and throughput with {large_packets(shown)}"
    order = "The tunnel that takes the least CPU by its medians is the first."
    said = f"{order}{_spreads([*cpu, *rates])}{bounds}{baseline}{_left_out(shown, every)}"
    return _chart(title, said, panels)


def _udp(shown: Sequence[UdpAnswer], every: Sequence[UdpAnswer]) -> Chart | None:
    small, large = [], []
    for tunnel in shown:
        for way, found in tunnel.directions.items():
            is_refuted = found.pdr_refutation is not None
            is_limited = found.is_lower_bound and not is_refuted
            bar = _bar(tunnel, way, found.rate_pps, 1e-3, is_limited=is_limited, is_doubtful=found.is_doubtful)
            small.append(replace(bar, remark="refuted") if is_refuted else bar)
            doubt = bool(found.large_doubts)
            large.append(
                _bar(tunnel, way, found.large_bps, 1e-6, is_limited=found.is_large_lower_bound, is_doubtful=doubt)
            )
    bounds = LOWER_BOUNDS * any(bar.is_limited for bar in [*small, *large])
    bounds += DOUBTFUL * any(bar.is_doubtful for bar in [*small, *large])
    bounds += REFUTED * any(bar.remark for bar in small)
    baseline = [
        f"{thousands(rate, is_lower_bound=found.is_lower_bound)} thousand packets/s {way}"
        for each in every
        if each.tunnel.is_baseline
        for way, found in each.directions.items()
        if (rate := found.rate_pps)
    ]
    without = f" Without a tunnel: {' and '.join(baseline)}." if baseline else ""
    panels = [(f"thousand packets/s, {_size(shown[0].payload_bytes)}", small)]
    if any(bar.figure for bar in large):
        panels.append((f"Mbit/s, {_size(shown[0].large_payload_bytes)}", large))
    order = "The tunnel with the highest rate is the first."
    said = f"{order}{_spreads([*small, *large])}{bounds}{without}{_left_out(shown, every)}"
    return _chart(f"{_who(shown)}: UDP", said, panels)


def _spreads(bars: Sequence[Bar]) -> str:
    """Explain the line across each bar, which depends on the number of trials; empty if no bar has one."""
    counts = [bar.figure.count for bar in bars if bar.figure and bar.figure.count > 1]
    if not counts:
        return ""
    if max(counts) < INTERVAL_FROM:
        return " A thin line goes from the smallest to the largest trial."
    fewer = f"; with fewer than {INTERVAL_FROM} trials it goes from the smallest to the largest one"
    return f" A thin line is the 95 % interval of the median{fewer * (min(counts) < INTERVAL_FROM)}."


def _carried(baseline: TunnelAnswer) -> str:
    cpu = cpu_taken(baseline)
    return "; ".join(filter(None, (carried(baseline), f"{baseline.reference_mbps:g} Mbit/s take {cpu}" if cpu else "")))


def _bar(
    tunnel: TunnelAnswer | UdpAnswer,
    way: str,
    figure: Estimate | None,
    scale: float,
    *,
    is_limited: bool = False,
    is_doubtful: bool = False,
) -> Bar:
    return Bar(
        one_line(tunnel.name),
        way,
        way,
        figure.times(scale) if figure else None,
        is_limited=is_limited,
        is_doubtful=is_doubtful,
    )


def _who(shown: Sequence[TunnelAnswer | UdpAnswer]) -> str:
    if all(each.is_encrypted for each in shown):
        return "Encrypted tunnels"
    is_plaintext = all(each.is_encrypted is False for each in shown)
    return "Tunnels, none of them encrypted" if is_plaintext else "Tunnels not known to encrypt"


def _size(payload_bytes: int | None) -> str:
    return f"{payload_bytes} bytes" if payload_bytes else "mixed sizes"


def _left_out(shown: Sequence[AnswerT], every: Sequence[AnswerT]) -> str:
    """State how many tunnels of the same group are not drawn."""
    is_encrypted = bool(shown[0].is_encrypted)
    own = [each for each in every if not each.reason and not each.tunnel.is_baseline]
    left = sum(bool(each.is_encrypted) is is_encrypted for each in own) - len(shown)
    return f" {left} more are in the table." if left > 0 else ""


def _chart(title: str, sentence: str, panels: Sequence[tuple[str, Sequence[Bar]]]) -> Chart | None:
    """Return the panels next to each other; each has the same tunnels. None: no bar has a figure."""
    measured = {bar.group for _, bars in panels for bar in bars if bar.figure}
    if not measured:
        return None
    panels = [(unit, [bar for bar in bars if bar.group in measured]) for unit, bars in panels]
    pictures = []
    for unit, bars in panels:
        tunnels = dict.fromkeys(bar.tunnel for bar in bars)
        picture = dict(bars_spec(bars, tuple(dict.fromkeys(bar.group for bar in bars)), len(tunnels), unit))
        del picture["autosize"]
        pictures.append(picture)
    return Chart(
        name="answer",
        place=PageSection.ANSWER,
        title=title,
        sentence=sentence,
        spec={"spacing": PANEL_GAP_PX, "hconcat": pictures} if len(pictures) > 1 else pictures[0],
        header=BARS_HEADER,
        rows=tuple((row[0], row[1], unit, *row[2:5], row[6]) for unit, bars in panels for row in map(bar_row, bars)),
    )
