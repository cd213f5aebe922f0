"""What a run answers, in two sentences that say no more than its figures do: which tunnel, and what the limit was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.advice import Advice
from tunnelbench.analysis.limits import Finding, Limit
from tunnelbench.analysis.numbers import significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Row
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.plan import Direction, Test

TARGET_RULE = "target"
COST = "cpu_s_per_million_packets"

NOTHING = "No trial of this run counts."
NO_TUNNEL = "No tunnel has a rate that counts, so none can be recommended."
NOT_COMPARED = "No two tunnels have figures that can be compared"


@dataclass(frozen=True)
class Answer:
    """Two sentences: which tunnel, and what set the limit."""

    tunnel: str
    limit: str


def answer(
    rows: Sequence[Row],
    limits: Sequence[Sequence[Finding]],
    udp_rows: Sequence[UdpRow],
    advice: Sequence[Advice],
    *,
    is_shared: bool,
) -> Answer:
    """Of TCP where there is TCP, else of UDP. `is_shared`: the machine is no device of its own."""
    where = "; all of it holds for this machine, not for a device." if is_shared else "."
    routed = [row for row in rows if row.figures is not None and not row.is_calibration]
    if routed:
        target = [each.text for each in advice if each.rule == TARGET_RULE]
        return Answer(_target(target) if target else _cheapest(routed), _limits(limits) + where)
    routed_udp = [row for row in udp_rows if row.figures is not None and not row.is_calibration]
    if routed_udp:
        return Answer(_fastest(routed_udp), _udp_limits(routed_udp) + where)
    return Answer(NOTHING, "What is said of its trials below is why.")


def _target(said: Sequence[str]) -> str:
    """The tunnel with most headroom, where the advice ends with it; else whether anything was shown to carry it."""
    if said[-1].startswith("Of the tunnels that carry"):
        return said[-1]
    target = said[0].split(" through ")[0]
    if any(": yes" in text for text in said):
        return f"What carries {target}, and what was not shown to, is in the advice."
    return f"Nothing was shown to carry {target} both ways; the advice has why."


def _cheapest(rows: Sequence[Row]) -> str:
    """The tunnels that cost the router least per packet, with the largest payload."""
    largest = max(row.payload_bytes for row in rows)
    rivals = [row for row in rows if row.payload_bytes == largest and not row.tunnel.is_baseline]
    names = {row.tunnel.name for row in rivals}
    ways = []
    is_single = False
    for direction in Direction:
        there = [row for row in rivals if row.direction is direction]
        best = [row for row in there if COST in row.best or len(names) == 1]  # one alone is the best of nothing
        costs = [(row.tunnel.name, cost) for row in best if (cost := _cost(row))]
        if costs:
            is_single = is_single or any(cost.count == 1 for _, cost in costs)
            named = " and ".join(f"{name} ({significant(cost.median, 3)} us)" for name, cost in costs)
            ways.append(f"{direction}: {named}{_beside(rows, largest, direction)}")
    if not ways:
        return f"{NOT_COMPARED} with {largest} bytes of payload."
    single = ", by single trials, which show no spread" if is_single else ""
    size = f"per packet with {largest} bytes of payload"
    if len(names) == 1:
        return f"CPU that the router needs {size}{single}: {'; '.join(ways)}."
    return (
        f"Of {len(names)} tunnels this costs the router least CPU {size}, whether it encrypts or not{single}: "
        f"{'; '.join(ways)}."
    )


def _beside(rows: Sequence[Row], payload_bytes: int, direction: Direction) -> str:
    """What the same costs without a tunnel."""
    place = (payload_bytes, direction)
    baseline = [row for row in rows if row.tunnel.is_baseline and (row.payload_bytes, row.direction) == place]
    costs = [cost for row in baseline if (cost := _cost(row))]
    return "".join(f", without a tunnel {significant(cost.median, 3)} us" for cost in costs)


def _cost(row: Row) -> Estimate | None:
    """Router CPU [s] per million packets, which is microseconds per packet."""
    return row.figures.cpu_s_per_million_packets if row.figures else None


LIMITED_BY = {
    Limit.LINE: "by the line",
    Limit.ROUTER_CPU: "by the router's CPU",
    Limit.ONE_CORE: "by one core of the router",
    Limit.TESTER: "by the testers, not the router",
    Limit.WINDOW: "by TCP's window",
    Limit.LOSS: "by loss",
    Limit.UNKNOWN: "by what is not known",
}


def _limits(limits: Iterable[Sequence[Finding]]) -> str:
    """How many rows each limit was found in; a row may have several."""
    found = [{finding.limit for finding in each} for each in limits if each]
    counted = Counter(limit for each in found for limit in each)
    parts = [f"{times} {LIMITED_BY[limit]}" for limit, times in counted.most_common()]
    return f"Of {len(found)} rows the throughput was limited in {', in '.join(parts)}"


def _fastest(rows: Sequence[UdpRow]) -> str:
    """The tunnels that carried most, of the smallest packets, by the first of PDR and forwarding rate that there is."""
    rated = [(rate, row, row.figures) for row in rows if row.figures and (rate := row.figures.rate_pps)]
    own = [each for each in rated if not each[1].tunnel.is_baseline and each[1].test in {Test.SEARCH, Test.RATE}]
    if not own:
        return NO_TUNNEL
    _, first, _ = min(own, key=lambda each: (each[1].test is not Test.SEARCH, each[1].payload_bytes or 1e9))
    alike = [
        (rate, row, figures)
        for rate, row, figures in own
        if (row.payload_bytes, row.test, row.load) == (first.payload_bytes, first.test, first.load)
    ]
    ways = []
    for direction in Direction:
        there = [each for each in alike if each[1].direction is direction]
        if there:
            most, row, figures = max(there, key=lambda each: each[0].median)
            tied = [each for each in there if each[0].ties_with(most)]
            names = " and ".join(each[1].tunnel.name for each in tied) if len(tied) > 1 else row.tunnel.name
            said = "" if len(tied) > 1 else _searched(figures)
            ways.append(f"{direction}: {names} ({significant(most.median, 3, thousands=True)} packets/s{said})")
    size = f"{first.payload_bytes} bytes of payload" if first.payload_bytes else "the mix of sizes"
    measure = "with at most 0.5 % lost" if first.test is Test.SEARCH else f"at the load {first.load}"
    return f"Of the tunnels measured, these forwarded most UDP packets of {size}, {measure}: {'; '.join(ways)}."


def _searched(figures: UdpFigures) -> str:
    if figures.refuted:
        return "; its rate without loss did not hold in the longer trial"
    return ""


def _udp_limits(rows: Sequence[UdpRow]) -> str:
    limited = sum(bool(row.figures and row.figures.is_tester_limited) for row in rows)
    if not limited:
        return f"In none of the {len(rows)} rows were the testers found to be the limit"
    return f"In {limited} of {len(rows)} rows the testers, not the path, were the limit"
