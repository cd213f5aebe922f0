"""Measure the error and the spread of searches for the highest load, on paths with known and unknown limits."""

from __future__ import annotations

import statistics
import time
from itertools import product

from lab import Lab, lab, run
from one_way import last_line, listen, ours, send, session
from table import Row, spread
from tunnelbench.measure.search import Measure, MlrSearch
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, SearchPoint, SearchRun

LIMITS_PPS = (7_300, 41_000, 61_000)
LIMIT_BURSTS_PACKETS = (1, 5, 50)
"""Packets that a limiter lets through at once; the fewer, the less uneven a sender may be."""
HIGHEST_SHARE = 0.9
"""Largest share of the testers' own maximum rate that a search offers; above it the testers are the limit."""


def _trial(where: Lab) -> Measure:
    """Return a function that offers a load for a duration and returns what arrived, as a search needs it."""

    def measure(duration_s: float, offered_pps: float, *, is_even: bool) -> SearchPoint:
        token = ("--session", session(), "--interval-s", "0")
        receiver = listen(where, "receive", *token)
        even = ("--even",) if is_even else ()
        sent = last_line(send(where, duration_s, *token, *even, "--rate-pps", f"{offered_pps:.3f}"))
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
            is_even=is_even,
        )

    return measure


def _limit(where: Lab, pps: int, burst_packets: int) -> None:
    """Limit the router in the middle to a rate."""
    rules = (
        "table inet limited { chain forward { type filter hook forward priority 0; "
        f"meta l4proto udp limit rate over {pps}/second burst {burst_packets} packets drop; }}; }}"
    )
    run("ip", "netns", "exec", where.middle, "nft", rules)


def _searches(hops: int, count: int, limit: tuple[int, int] | None) -> list[SearchRun]:
    """Make searches on a path; `limit`: its packets/s and its burst."""
    with lab(hops) as where:
        highest_pps = ours(where, 1).pps * HIGHEST_SHARE
        if limit is not None:
            _limit(where, *limit)
        return [MlrSearch().find(_trial(where), highest_pps) for _ in range(count)]


def _found(searches: list[SearchRun], loss_ratio: float) -> list[float]:
    """Return the lower bounds [packets/s]; 0 where there is none."""
    return [found.bounds(loss_ratio).lower_pps or 0.0 for found in searches]


def _variation(values: list[float]) -> float:
    """Return the coefficient of variation [%]."""
    return 100 * statistics.stdev(values) / statistics.mean(values)


def limited_rows(
    count: int, limits_pps: tuple[int, ...] = LIMITS_PPS, bursts_packets: tuple[int, ...] = LIMIT_BURSTS_PACKETS
) -> list[Row]:
    """Return rows of the NDR and the PDR on paths with limits that the search does not know."""
    rows = []
    for limit_pps, burst_packets in product(limits_pps, bursts_packets):
        searches = _searches(2, count, (limit_pps, burst_packets))
        for name, loss_ratio in (("NDR", NDR_LOSS_RATIO), ("PDR", PDR_LOSS_RATIO)):
            found = _found(searches, loss_ratio)
            near = sum(abs(pps / limit_pps - 1) <= 0.01 for pps in found)
            figure = f"search: {name} at {limit_pps} packets/s, bursts of {burst_packets}"
            rows.append(Row(figure, spread(found), "", f"{near} of {count}", "9 of 10 within 1 %", near >= 0.9 * count))
        trial_s = statistics.median(run.trial_s for run in searches)
        rows.append(Row("... trial seconds, median", f"{trial_s:.1f}", "", "", "<= 15", trial_s <= 15))
    return rows


def free_rows(count: int) -> list[Row]:
    """Return rows of the spread of searches on the same path."""
    searches = _searches(1, count, None)
    pdr, ndr = (_found(searches, loss_ratio) for loss_ratio in (PDR_LOSS_RATIO, NDR_LOSS_RATIO))
    of_pdr, of_ndr = _variation(pdr), _variation(ndr)
    return [
        Row("search: PDR of the free path, kpps", spread(pdr, 1e3), "", f"CV {of_pdr:.1f} %", "CV <= 5 %", of_pdr <= 5),
        Row("search: NDR of the free path, kpps", spread(ndr, 1e3), "", f"CV {of_ndr:.1f} %", "", None),
    ]
