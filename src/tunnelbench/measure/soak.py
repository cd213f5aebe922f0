"""Measures a soak: packets at one rate for hours or days. The counts of each second are stored soon after it.

A resumed soak continues for its remaining time, in a new part; the time between the parts is a gap. If a program of the
tunnel ends, the tunnel is brought up again while packets are sent; the packets lost meanwhile count as loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.meter import TrialFindings
from tunnelbench.measure.request import SoakJournal
from tunnelbench.measure.soak_segment import PartCut, SoakPath, SoakSegment
from tunnelbench.measure.trial_monitor import OnSecond, path_through
from tunnelbench.measure.udp_trial import EngineMeter
from tunnelbench.model.errors import NotBegun, TrialFailed
from tunnelbench.model.plan import Direction, SoakTraffic, Test, TrialSpec
from tunnelbench.model.result import Check, TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, lower_bounds
from tunnelbench.model.soak import Soak, SoakChunk, SoakPart
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.testbed.base import Testbed

SHORTEST_REST_S = 1.0
"""Smallest remaining time for which a resumed soak sends packets [s]; with less it is complete."""

JudgeSoak = Callable[[Soak, Iterable[tuple[int, SoakChunk]]], Check]
"""Function that checks a soak as a whole; takes its series in pieces, each with the number of its part."""


class SoakMeter(EngineMeter):
    """Measures soaks. It keeps each NDR that a search has found, because a soak's rate may be a share of it."""

    def __init__(
        self, testbed: Testbed, traffic: SoakTraffic, on_second: OnSecond, journal: SoakJournal, judge: JudgeSoak
    ) -> None:
        super().__init__(testbed, traffic, on_second)
        self.traffic = traffic
        self.journal = journal
        self._judge = judge
        self._ndr_pps: dict[tuple[str, int, Direction], list[float]] = {}
        """NDR of each search [packets/s], by tunnel, payload and direction."""

    def remember(self, record: TrialRecord) -> None:
        spec = record.spec
        if spec.test is Test.SEARCH and record.counts and record.udp is not None:
            found = self._ndr_pps.setdefault((spec.tunnel.name, spec.payload_bytes, spec.direction), [])
            found += lower_bounds(record.udp.searches, NDR_LOSS_RATIO)

    def measure(self, spec: TrialSpec, live: LiveTunnel) -> TrialFindings:
        """Offer packets for the soak's duration, less the time that earlier parts have measured.

        Raises TrialFailed when the soak cannot continue; the readings up to then are stored. An interrupt ends the soak
        cleanly and is raised again.
        """
        soak = self.journal.soak(spec.sequence)
        if soak is None:
            soak = Soak(spec, self.traffic.duration_s, self._rate_pps(spec), self.traffic.is_echo)
        left_s = soak.duration_s - self._measured_s(spec.sequence)
        if left_s >= SHORTEST_REST_S:
            path = path_through(self.testbed, live.tunnel, spec.direction)
            route = SoakPath(self.exchanger(path, spec.payload), live, self.on_second)
            try:
                SoakSegment(route, soak, len(soak.parts) + 1, left_s, self.journal).run()
            except PartCut as cut:
                raise TrialFailed(str(cut)) from None
        return self._findings(spec)

    def _findings(self, spec: TrialSpec) -> TrialFindings:
        """Return the figures and checks of all parts together. Raises TrialFailed if the soak has no part."""
        soak = self.journal.soak(spec.sequence)
        if soak is None:
            raise TrialFailed("nothing was measured")
        whole = self._judge(soak, self.journal.chunks(spec.sequence))
        return TrialFindings(UdpMeasurement(counts=None), (whole, *_of_all_parts(soak.parts)), {})

    def _measured_s(self, sequence: int) -> float:
        """Return the time that the soak's stored parts have measured [s]."""
        return sum(each.end_s - each.start_s for _, chunk in self.journal.chunks(sequence) for each in chunk.readings)

    def _rate_pps(self, spec: TrialSpec) -> float:
        """Return the soak's rate [packets/s]. Raises NotBegun if that is a share of an NDR that no search has found."""
        if self.traffic.share is None:
            return float(self.traffic.rate)
        found = self._ndr_pps.get((spec.tunnel.name, spec.payload_bytes, spec.direction))
        if not found:
            raise NotBegun(f"the soak's rate is {self.traffic.rate}, but no search of this run found the NDR")
        return median(found) * self.traffic.share


def _of_all_parts(parts: Sequence[SoakPart]) -> list[Check]:
    """Return the worst check of each name; with several parts, its reason names the part."""
    gravest: dict[str, Check] = {}
    for part in parts:
        for check in part.checks:
            before = gravest.get(check.name)
            if before is None or check.verdict.severity > before.verdict.severity:
                where = f"part {part.number}: " if len(parts) > 1 else ""
                gravest[check.name] = replace(check, reason=f"{where}{check.reason}")
    return list(gravest.values())
