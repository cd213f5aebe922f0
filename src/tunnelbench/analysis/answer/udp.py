"""UDP figures of each tunnel: one object for each tunnel, the best tunnel first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tunnelbench.analysis.answer.tunnels import by_tunnel, common, group_place, why_no_figures
from tunnelbench.analysis.soak import SoakSummary
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.plan import FLAT_OUT, Direction, Test, TunnelSpec
from tunnelbench.model.search import PDR_LOSS_RATIO


@dataclass(frozen=True)
class LongerTrial:
    """A trial that lasts longer than those of a search: the confirming trial at the NDR, or a soak."""

    offered_pps: float
    """Packets sent per second."""
    loss_ratio: float
    """Packets lost on the path over packets sent, 0 to 1."""

    def bound_of(self, rate_pps: Estimate) -> Estimate:
        """Return the rate that the path carries less than: that of this trial, or a found rate if that is lower."""
        return rate_pps.times(min(1.0, self.offered_pps / rate_pps.median))

    def refutes(self, rate_pps: Estimate | None, loss_ratio: float) -> bool:
        """Return True if the trial lost more than a share of its packets, at a rate that a search had found."""
        return rate_pps is not None and self.offered_pps <= rate_pps.high and self.loss_ratio > loss_ratio


@dataclass(frozen=True)
class UdpDirectionAnswer:
    """UDP figures of one tunnel in one direction, with the smallest payload of the run; None: not measured."""

    ndr_pps: Estimate | None = None
    """Highest rate without loss [packets/s]."""
    pdr_pps: Estimate | None = None
    """Highest rate with at most 0.5 % loss [packets/s]."""
    longer: tuple[LongerTrial, ...] = ()
    """Longer trials with the same payload that lost packets, the one with the most loss first."""
    carried_pps: Estimate | None = None
    """Packets that arrived per second when the sender sent as fast as it could; used if the run made no search."""
    large_bps: Estimate | None = None
    """UDP throughput with the largest payload of the run, at the PDR or at full load [bit/s]; None: one size only."""
    delay_p99_ns: Estimate | None = None
    """Delay that 99 % of the packets do not exceed, at `delay_load` [ns]."""
    delay_load: str = ""
    """Offered load at which the delay was measured, such as `50%` of the PDR."""
    is_lower_bound: bool = False
    """True if the testers limited the rate."""
    is_large_lower_bound: bool = False
    """True if the testers limited `large_bps`."""
    doubts: tuple[str, ...] = ()
    """Names of the checks that mark as doubtful a trial from which the rates come."""
    large_doubts: tuple[str, ...] = ()
    """Names of the checks that mark as doubtful a trial from which `large_bps` comes."""
    delay_doubts: tuple[str, ...] = ()
    """Names of the checks that mark as doubtful a trial from which the delay comes."""

    @property
    def is_doubtful(self) -> bool:
        """True if the rates are doubtful."""
        return bool(self.doubts)

    def marks(self) -> Iterator[tuple[bool, tuple[str, ...]]]:
        """Yield for each figure if the testers limited it, and its doubts; an upper bound is not limited by testers."""
        for rate, refutation in ((self.ndr_pps, self.ndr_refutation), (self.pdr_pps, self.pdr_refutation)):
            if rate:
                yield self.is_lower_bound and refutation is None, self.doubts
        if self.carried_pps:
            yield self.is_lower_bound, self.doubts
        if self.large_bps:
            yield self.is_large_lower_bound, self.large_doubts
        if self.delay_p99_ns:
            yield False, self.delay_doubts

    @property
    def ndr_refutation(self) -> LongerTrial | None:
        """Longer trial with the lowest rate that lost packets at no more than the NDR; None if there is none."""
        return self._slowest(self.ndr_pps, 0.0)

    @property
    def pdr_refutation(self) -> LongerTrial | None:
        """Longer trial with the lowest rate that lost more than 0.5 % at no more than the PDR; None if there is
        none."""
        return self._slowest(self.pdr_pps, PDR_LOSS_RATIO)

    def _slowest(self, rate_pps: Estimate | None, loss_ratio: float) -> LongerTrial | None:
        found = [each for each in self.longer if each.refutes(rate_pps, loss_ratio)]
        return min(found, key=lambda each: each.offered_pps, default=None)

    @property
    def rate_pps(self) -> Estimate | None:
        """Rate by which tunnels are compared: the PDR, or the packets that arrived at full load [packets/s]."""
        return self.pdr_pps or self.carried_pps


@dataclass(frozen=True)
class UdpAnswer:
    """UDP figures of one tunnel."""

    tunnel: TunnelSpec
    is_encrypted: bool | None
    """True if the tunnel encrypts its packets; None: unknown."""
    payload_bytes: int
    """Smallest payload of the run, which the figures are for [bytes]."""
    large_payload_bytes: int | None
    """Largest payload of the run [bytes]; None: one size only."""
    down: UdpDirectionAnswer
    up: UdpDirectionAnswer
    reason: str
    """Reason for which the tunnel has no figures; empty if it has some."""
    repeats: int
    """Smallest number of trials that count, of all its rows with figures."""

    @property
    def name(self) -> str:
        return self.tunnel.name

    @property
    def directions(self) -> dict[str, UdpDirectionAnswer]:
        """Figures by the direction in words."""
        return {"down": self.down, "up": self.up}

    @property
    def measured_directions(self) -> list[str]:
        return [way for way, found in self.directions.items() if any(found.marks())]

    @property
    def mean_pps(self) -> float | None:
        """Mean rate of the measured directions, by which tunnels are ranked [packets/s]; None: not measured."""
        rates = [way.rate_pps.median for way in self.directions.values() if way.rate_pps]
        return sum(rates) / len(rates) if rates else None


LOADS = ("50%", "10%", "90%", "idle")
"""Loads at which a delay may have been measured; the answer uses the first of them that has a figure."""
BY_LOAD = ("idle", "10%", "50%", "90%")
"""The same loads in ascending order."""
BASELINE_DELAY = "baseline-delay"
"""Name of the doubt about a delay of the baseline that is longer than that of a tunnel."""
OFFERED = "offered"
"""Name of the check that the sender offered the planned load."""


def udp_answers(
    rows: Sequence[UdpRow], soaks: Sequence[SoakSummary] = (), *, allow_plaintext: bool = False
) -> tuple[UdpAnswer, ...]:
    """Return the figures of each tunnel: encrypted ones, the others with the baseline, those of unknown encryption.

    Soaks of the same run may refute the rates that a search found. With `allow_plaintext`, all are one group. Tunnels
    that lack a direction come after the others of their group.
    """
    groups = by_tunnel(rows)
    sizes = sorted({row.payload_bytes for group in groups for row in group if row.payload_bytes})
    sizes = sizes or [0]
    found = _with_baseline_doubts([_udp_answer(group, sizes, soaks) for group in groups])
    return tuple(sorted(found, key=lambda each: _rank(each, allow_plaintext)))


def _with_baseline_doubts(answers: Sequence[UdpAnswer]) -> list[UdpAnswer]:
    """Return the answers; a baseline's delay is doubtful if a tunnel had a shorter one at the same or a higher load.

    A tunnel adds work to each packet, so something else delayed the packets of the baseline.
    """
    rivals = [answer for answer in answers if answer.tunnel.has_tunnel]

    def judged(answer: UdpAnswer, way: str) -> UdpDirectionAnswer:
        own = answer.directions[way]
        if answer.tunnel.is_baseline and any(_is_faster(rival.directions[way], own) for rival in rivals):
            return replace(own, delay_doubts=(*own.delay_doubts, BASELINE_DELAY))
        return own

    return [replace(answer, down=judged(answer, "down"), up=judged(answer, "up")) for answer in answers]


def _is_faster(tunnel: UdpDirectionAnswer, baseline: UdpDirectionAnswer) -> bool:
    """Return True if all delays of a tunnel are below those of the baseline, at the same or a higher load."""
    shorter, longer = tunnel.delay_p99_ns, baseline.delay_p99_ns
    if shorter is None or longer is None or shorter.high >= longer.low:
        return False
    return BY_LOAD.index(tunnel.delay_load) >= BY_LOAD.index(baseline.delay_load)


def _rank(answer: UdpAnswer, allow_plaintext: bool) -> tuple[int, bool, int, float]:
    place = group_place(answer.is_encrypted, allow_plaintext=allow_plaintext)
    missing = sum(way.rate_pps is None for way in answer.directions.values())
    return place, answer.tunnel.is_baseline, missing, -(answer.mean_pps or 0.0)


def _udp_answer(rows: Sequence[UdpRow], sizes: Sequence[int], soaks: Sequence[SoakSummary]) -> UdpAnswer:
    has_figures = any(row.figures for row in rows)
    large = sizes[-1] if len(sizes) > 1 else None
    own = [soak for soak in soaks if soak.spec.tunnel.name == rows[0].tunnel.name]
    down, up = (_direction(rows, direction, sizes[0], large, own) for direction in (Direction.IN, Direction.OUT))
    return UdpAnswer(
        tunnel=rows[0].tunnel,
        is_encrypted=common(row.is_encrypted for row in rows),
        payload_bytes=sizes[0],
        large_payload_bytes=large,
        down=down,
        up=up,
        reason="" if has_figures else why_no_figures(rows),
        repeats=min((row.trials - row.uncounted_trials for row in rows if row.figures), default=0),
    )


def _direction(
    rows: Sequence[UdpRow], direction: Direction, size: int, large: int | None, soaks: Sequence[SoakSummary]
) -> UdpDirectionAnswer:
    there = [row for row in rows if row.direction is direction]
    search, search_doubts = _figures(there, size, Test.SEARCH)
    carried, carried_doubts = _figures(there, size, Test.RATE, FLAT_OUT)
    rated = search or carried
    delays = [(load, *_figures(there, size, Test.LATENCY, load)) for load in LOADS]
    load, delay, delay_doubts = next(
        ((load, found.delay_p99_ns, doubts) for load, found, doubts in delays if found and found.delay_p99_ns),
        ("", None, ()),
    )
    large_row = next((row for row in there if row.payload_bytes == large and _is_rate(row)), None)
    large_rate = large_row.figures if large_row else None
    return UdpDirectionAnswer(
        ndr_pps=search.ndr_pps if search else None,
        pdr_pps=search.pdr_pps if search else None,
        longer=_longer_trials(
            search, search_doubts, [soak for soak in soaks if soak.spec.direction is direction], size
        ),
        carried_pps=carried.forwarding_rate_pps if carried and not search else None,
        large_bps=large_rate.rate_pps.times(large_row.payload_bps(1.0))
        if large_row and large_rate and large_rate.rate_pps
        else None,
        delay_p99_ns=delay,
        delay_load=load,
        is_lower_bound=bool(rated and rated.is_tester_limited),
        is_large_lower_bound=bool(large_rate and large_rate.is_tester_limited),
        doubts=search_doubts if search else carried_doubts,
        large_doubts=large_row.doubts if large_row else (),
        delay_doubts=delay_doubts,
    )


def _longer_trials(
    search: UdpFigures | None, doubts: Sequence[str], soaks: Sequence[SoakSummary], size: int
) -> tuple[LongerTrial, ...]:
    """Return the longer trials of one direction that lost packets; the loss of an echo has no direction.

    A confirming trial whose sender stalled and then sent a burst refutes nothing: the burst may have caused the loss.
    """
    found = [
        LongerTrial(soak.offered_pps, soak.loss_ratio)
        for soak in soaks
        if soak.lost_packets and soak.spec.payload_bytes == size and not soak.is_echo
    ]
    if search and search.refuted and search.ndr_pps and search.loss_ratio and OFFERED not in doubts:
        found.append(LongerTrial(search.ndr_pps.median, search.loss_ratio.median))
    return tuple(sorted(found, key=lambda each: -each.loss_ratio))


def _figures(
    rows: Sequence[UdpRow], size: int, test: Test, load: str = ""
) -> tuple[UdpFigures | None, tuple[str, ...]]:
    """Return the figures of the row of a test, and the names of the checks that make them doubtful."""
    found = [row for row in rows if (row.payload_bytes, row.test, row.load) == (size, test, load)]
    return (found[0].figures, found[0].doubts) if found else (None, ())


def _is_rate(row: UdpRow) -> bool:
    """Return True if a row gives the maximum rate for its payload, because its test is a search or a trial at full
    load."""
    is_rated = row.test is Test.SEARCH or (row.test, row.load) == (Test.RATE, FLAT_OUT)
    return is_rated and bool(row.figures and row.figures.rate_pps)
