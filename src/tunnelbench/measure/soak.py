"""A soak: packets at one rate for hours or days, each second stored soon after it was counted.

A controller that is killed and resumed goes on for the time that is left, in a new part; what lies between is a gap.
A tunnel whose program ends is brought up again while the packets go on: what they lose meanwhile is loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Protocol

from tunnelbench.analysis.soak import in_words, summarise_soak
from tunnelbench.measure.soak_part import Part, PartCut, Way
from tunnelbench.measure.tcp_trial import TrialFindings
from tunnelbench.measure.udp_trial import UdpMeter
from tunnelbench.model.errors import NotBegun, TrialFailed
from tunnelbench.model.plan import Direction, SoakTraffic, Test, TrialSpec
from tunnelbench.model.result import Check, TrialRecord, Verdict
from tunnelbench.model.search import NDR_LOSS_RATIO
from tunnelbench.model.soak import Soak, SoakChunk, SoakPart
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.tunnel.base import Tunnel

SHORTEST_REST_S = 1.0
"""With less left to do, a soak that is resumed has all that it was to have [s]."""


class Journal(Protocol):
    """Where the series goes, piece by piece; what has returned stays, whatever happens to the controller."""

    def soak(self, sequence: int) -> Soak | None:
        """What is there of a soak; None: it has not begun."""

    def chunks(self, sequence: int) -> Iterator[tuple[int, SoakChunk]]:
        """Its series with the number of the part, a piece at a time."""

    def begin_part(self, soak: Soak, part: SoakPart) -> None:
        """Keep a part that has begun."""

    def add_chunk(self, sequence: int, part: int, number: int, chunk: SoakChunk) -> None:
        """Keep a piece of its series."""

    def end_part(self, soak: Soak, part: SoakPart) -> None:
        """Note how a part ended."""


class SoakMeter:
    """Measures soaks, knowing what the searches of the run have found."""

    def __init__(self, traffic: SoakTraffic, udp: UdpMeter, journal: Journal) -> None:
        self.traffic = traffic
        self.udp = udp
        self.journal = journal
        self._ndr_pps: dict[tuple[str, int, Direction], list[float]] = {}
        """Of each search, by tunnel, payload and direction [packets/s]."""

    def remember(self, record: TrialRecord) -> None:
        """Take what a search found; other records are passed over."""
        spec = record.spec
        if spec.test is Test.SEARCH and record.counts and record.udp is not None:
            found = [pps for run in record.udp.searches if (pps := run.bounds(NDR_LOSS_RATIO).lower_pps) is not None]
            self._ndr_pps.setdefault((spec.tunnel.name, spec.payload_bytes, spec.direction), []).extend(found)

    def measure(self, spec: TrialSpec, tunnel: Tunnel[Any], revive: Callable[[], Tunnel[Any]]) -> TrialFindings:
        """Offer packets until all of the soak's time is measured, earlier parts included.

        `revive` takes the tunnel down and brings it up again. Raises TrialFailed when the soak cannot go on; what was
        measured is stored then, too. An interrupt ends it cleanly and passes through.
        """
        soak = self.journal.soak(spec.sequence)
        if soak is None:
            soak = Soak(spec, self.traffic.duration_s, self._rate_pps(spec), self.traffic.is_echo)
        left_s = soak.duration_s - self._measured_s(spec.sequence)
        if left_s >= SHORTEST_REST_S:
            way = Way(self.udp, spec, tunnel, revive)
            try:
                Part(way, soak, len(soak.parts) + 1, left_s, self.journal).run()
            except PartCut as cut:
                raise TrialFailed(str(cut)) from None
        return self._findings(spec)

    def _findings(self, spec: TrialSpec) -> TrialFindings:
        """What all parts say together. Raises TrialFailed where there is no part."""
        soak = self.journal.soak(spec.sequence)
        if soak is None:
            raise TrialFailed("nothing was measured")
        summary = summarise_soak(soak, self.journal.chunks(spec.sequence))
        lost = summary.lost_packets or summary.restarts
        told = Check("soak", Verdict.NOTE if lost or summary.gaps else Verdict.OK, in_words(summary), rule=20)
        return TrialFindings(None, (told, *_of_all_parts(soak.parts)), {}, UdpMeasurement(counts=None))

    def _measured_s(self, sequence: int) -> float:
        """For how long packets have been offered already [s]."""
        return sum(each.end_s - each.start_s for _, chunk in self.journal.chunks(sequence) for each in chunk.readings)

    def _rate_pps(self, spec: TrialSpec) -> float:
        """Raises NotBegun where no search has told the NDR."""
        if self.traffic.share is None:
            return float(self.traffic.rate)
        found = self._ndr_pps.get((spec.tunnel.name, spec.payload_bytes, spec.direction))
        if not found:
            raise NotBegun(f"no search of this run told the NDR of which to take {self.traffic.rate}")
        return median(found) * self.traffic.share


def _of_all_parts(parts: Sequence[SoakPart]) -> list[Check]:
    """The gravest of each check, with its part where there are several."""
    gravest: dict[str, Check] = {}
    for part in parts:
        for check in part.checks:
            before = gravest.get(check.name)
            if before is None or check.verdict.severity > before.verdict.severity:
                where = f"part {part.number}: " if len(parts) > 1 else ""
                gravest[check.name] = replace(check, reason=f"{where}{check.reason}")
    return list(gravest.values())
