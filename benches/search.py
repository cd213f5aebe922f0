"""Measure the error and the spread of searches for the highest load, on paths with known and unknown limits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from itertools import product

from lab import Lab, lab, run
from one_way import last_line, listen, ours, send, session
from table import Row, spread
from tunnelbench.measure.search import Measure, MlrSearch
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, CatchUp, SearchPoint, SearchRun

LIMITS_PPS = (7_300, 41_000, 61_000)
LIMIT_BURSTS_PACKETS = (1, 5, 50)
"""Packets that a limiter lets through at once; the fewer, the less uneven a sender may be."""
LOSSY_LIMIT_PPS = 41_000
DROPPED_SHARE = 0.01
"""Share of the packets that the lossy path loses at each load, which is more than the PDR allows."""
TOLERATED_LOSS_RATIO = 0.02
"""Loss ratio of the searches that have a known answer on the lossy path."""
HIGHEST_SHARE = 0.9
"""Largest share of the testers' own maximum rate that a search offers; above it the testers are the limit."""


def _trial(where: Lab) -> Measure:
    """Return a function that offers a load for a duration and returns what arrived, as a search needs it."""

    def measure(duration_s: float, offered_pps: float, *, catch_up: CatchUp) -> SearchPoint:
        token = ("--session", session(), "--interval-s", "0")
        receiver = listen(where, "receive", *token)
        load = ("--rate-pps", f"{offered_pps:.3f}", "--catch-up", catch_up)
        sent = last_line(send(where, duration_s, *token, *load))
        time.sleep(0.05)
        received = last_line(receiver.finish())
        return SearchPoint(
            duration_s,
            offered_pps,
            sent["intended_packets"],
            sent["sent_packets"],
            received["received_packets"],
            received["socket_dropped_packets"] or 0,
            sent["stalls"],
            is_even=catch_up.is_even,
        )

    return measure


def _limiter(pps: int, burst_packets: int) -> str:
    """Return a rule of nftables that drops what exceeds a rate."""
    return f"meta l4proto udp limit rate over {pps}/second burst {burst_packets} packets drop"


def _searches(hops: int, count: int, *rules: str, search: MlrSearch | None = None) -> list[SearchRun]:
    """Make searches on a path whose router in the middle has rules of nftables."""
    search = search or MlrSearch()
    with lab(hops) as where:
        highest_pps = ours(where, 1).pps * HIGHEST_SHARE
        if rules:
            chain = f"chain forward {{ type filter hook forward priority 0; {'; '.join(rules)}; }}"
            run("ip", "netns", "exec", where.middle, "nft", f"table inet limited {{ {chain}; }}")
        return [search.find(_trial(where), highest_pps) for _ in range(count)]


def _found(searches: list[SearchRun], loss_ratio: float) -> list[float]:
    """Return the lower bounds [packets/s]; 0 where there is none."""
    return [found.bounds(loss_ratio).lower_pps or 0.0 for found in searches]


def _variation(values: list[float]) -> float:
    """Return the coefficient of variation [%]."""
    return 100 * statistics.stdev(values) / statistics.mean(values)


def limited_rows(
    count: int, limits_pps: tuple[int, ...] = LIMITS_PPS, bursts_packets: tuple[int, ...] = LIMIT_BURSTS_PACKETS
) -> Iterator[Row]:
    """Yield rows of the NDR and the PDR on paths with limits that the search does not know.

    In a trial of one second, a limiter lets its burst through in addition.
    """
    for limit_pps, burst_packets in product(limits_pps, bursts_packets):
        searches = _searches(2, count, _limiter(limit_pps, burst_packets))
        for name, loss_ratio in (("NDR", NDR_LOSS_RATIO), ("PDR", PDR_LOSS_RATIO)):
            figure = f"search: {name} at {limit_pps} packets/s, bursts of {burst_packets}"
            truth_pps = (limit_pps + burst_packets) / (1 - loss_ratio)
            yield _near_row(figure, _found(searches, loss_ratio), truth_pps)
        yield _time_row(searches)


def lossy_rows(count: int) -> list[Row]:
    """Return rows of searches on a path that drops each hundredth packet and has a limit behind that.

    Where 2 % may be lost, the highest load is (limit + burst) / 0.98. NDR and PDR are below the load at which a trial
    has a hundred packets, so that one of them is lost.
    """
    every = round(1 / DROPPED_SHARE)
    rules = f"meta l4proto udp numgen inc mod {every} 0 drop", _limiter(LOSSY_LIMIT_PPS, LIMIT_BURSTS_PACKETS[-1])
    tolerant = _searches(2, count, *rules, search=MlrSearch(loss_ratios=(TOLERATED_LOSS_RATIO,)))
    truth_pps = (LOSSY_LIMIT_PPS + LIMIT_BURSTS_PACKETS[-1]) / (1 - TOLERATED_LOSS_RATIO)
    where = f"on a path that loses {DROPPED_SHARE:.0%}"
    figure = f"search: within {TOLERATED_LOSS_RATIO:.0%} loss {where}, limited to {LOSSY_LIMIT_PPS} packets/s"
    rows = [_near_row(figure, _found(tolerant, TOLERATED_LOSS_RATIO), truth_pps), _time_row(tolerant)]
    usual = _searches(2, count, *rules)
    for name, loss_ratio in (("NDR", NDR_LOSS_RATIO), ("PDR", PDR_LOSS_RATIO)):
        found = _found(usual, loss_ratio)
        low = sum(pps < every for pps in found)
        target = f"9 of 10 below {every}"
        rows.append(Row(f"search: {name} {where}", spread(found), "", f"{low} of {count}", target, low >= 0.9 * count))
    return [*rows, _time_row(usual)]


def _near_row(figure: str, found: list[float], truth_pps: float) -> Row:
    near = sum(abs(pps / truth_pps - 1) <= 0.01 for pps in found)
    count = len(found)
    return Row(
        figure, spread(found), f"{truth_pps:.0f}", f"{near} of {count}", "9 of 10 within 1 %", near >= 0.9 * count
    )


def _time_row(searches: list[SearchRun]) -> Row:
    trial_s = statistics.median(run.trial_s for run in searches)
    return Row("... trial seconds, median", f"{trial_s:.1f}", "", "", "<= 15", trial_s <= 15)


def free_rows(count: int) -> list[Row]:
    """Return rows of the spread of searches on the same path."""
    searches = _searches(1, count)
    pdr, ndr = (_found(searches, loss_ratio) for loss_ratio in (PDR_LOSS_RATIO, NDR_LOSS_RATIO))
    of_pdr, of_ndr = _variation(pdr), _variation(ndr)
    return [
        Row("search: PDR of the free path, kpps", spread(pdr, 1e3), "", f"CV {of_pdr:.1f} %", "CV <= 5 %", of_pdr <= 5),
        Row("search: NDR of the free path, kpps", spread(ndr, 1e3), "", f"CV {of_ndr:.1f} %", "", None),
    ]
