"""A soak before and after its traffic: its rate, the time that is left, and the verdict on all its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from tests.unit.soak_builders import make_chunks, make_part, make_reading, make_soak, sample_soak
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.soak import check_soak
from tunnelbench.host.host import LocalHost
from tunnelbench.measure import soak as soak_module
from tunnelbench.measure.live_tunnel import LiveTunnel
from tunnelbench.measure.soak import SoakMeter
from tunnelbench.measure.soak_segment import PartCut
from tunnelbench.model.errors import NotBegun, TrialFailed
from tunnelbench.model.plan import SoakTraffic, Test, TrialSpec
from tunnelbench.model.result import Check, Verdict
from tunnelbench.model.search import NDR_LOSS_RATIO
from tunnelbench.model.soak import Soak, SoakChunk, SoakPart
from tunnelbench.testbed.base import Testbed

HERE = LocalHost("tester", Path("/nowhere"), ())


@dataclass
class Kept:
    """A journal in memory."""

    known: Soak | None = None
    pieces: list[tuple[int, SoakChunk]] = field(default_factory=list)

    def soak(self, sequence: int) -> Soak | None:
        return self.known

    def chunks(self, sequence: int) -> Iterator[tuple[int, SoakChunk]]:
        yield from self.pieces

    def begin_part(self, soak: Soak, part: SoakPart) -> None:
        self.known = replace(soak, parts=(*soak.parts, part))

    def add_chunk(self, sequence: int, part: int, number: int, chunk: SoakChunk) -> None:
        self.pieces.append((part, chunk))

    def end_part(self, soak: Soak, part: SoakPart) -> None: ...


@dataclass
class FakePart:
    """Instead of traffic: all of its time is counted at once."""

    path: Any
    soak: Soak
    number: int
    duration_s: float
    keeper: Kept

    def run(self) -> None:
        self.keeper.begin_part(self.soak, make_part(self.number, 100.0 * (self.number - 1)))
        for number, chunk in enumerate(make_chunks(make_reading(s) for s in range(round(self.duration_s)))):
            self.keeper.add_chunk(0, self.number, number, chunk)


@pytest.fixture(autouse=True)
def _no_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.traffic.engine.locate", lambda: "engine")
    monkeypatch.setattr(soak_module, "path_through", Mock())
    monkeypatch.setattr(soak_module, "SoakSegment", FakePart)


def meter(journal: Kept, **traffic: Any) -> SoakMeter:
    asked = SoakTraffic(**{"duration_s": 60.0, "rate": "1000", **traffic})
    testbed = cast("Testbed", SimpleNamespace(client=HERE, server=HERE))
    return SoakMeter(testbed, asked, lambda *_: None, journal, check_soak)


def measure(found: SoakMeter, spec: TrialSpec) -> tuple[Check, ...]:
    return found.measure(spec, cast("LiveTunnel", Mock())).checks


def test_a_resumed_soak_goes_on_for_the_time_that_is_left() -> None:
    soak, pieces = sample_soak()
    journal = Kept(soak, list(pieces))
    checks = measure(meter(journal), soak.spec)
    assert journal.known is not None
    assert [part.number for part in journal.known.parts] == [1, 2, 3]
    assert sum(len(chunk.readings) for part, chunk in journal.pieces if part == 3) == 40
    (check,) = checks
    assert (check.name, check.verdict) == ("soak", Verdict.NOTE)
    assert check.reason.startswith("60 of 60 s at 1,000 packets/s, 30 of 60,000 packets lost")
    assert check.reason.endswith("1 rekey, 2 gaps")


def test_a_soak_that_has_all_its_time_needs_no_more_traffic() -> None:
    soak = make_soak(duration_s=10)
    journal = Kept(soak, [(1, chunk) for chunk in make_chunks(map(make_reading, range(10)))])
    (check,) = measure(meter(journal), soak.spec)
    assert (check.verdict, len(journal.pieces)) == (Verdict.OK, 2)


def test_the_rate_is_a_share_of_the_ndr_that_the_searches_found() -> None:
    journal = Kept()
    asked = meter(journal, rate="50%")
    search = next(record for record in make_udp_records() if record.spec.test is Test.SEARCH and record.counts)
    assert search.udp is not None
    found = sorted(run.bounds(NDR_LOSS_RATIO).lower_pps or 0 for run in search.udp.searches)
    asked.remember(search)
    spec = replace(search.spec, test=Test.SOAK, load="50%")
    measure(asked, spec)
    assert journal.known is not None
    assert journal.known.rate_pps == pytest.approx(found[len(found) // 2] / 2)
    with pytest.raises(NotBegun, match="no search of this run found the NDR"):
        measure(meter(Kept(), rate="50%"), spec)


def test_the_gravest_verdict_of_each_check_is_reported_with_its_part() -> None:
    fine = Check("offered", Verdict.OK, "all", rule=7)
    parts = (
        make_part(1, checks=(fine,)),
        make_part(2, 20.0, checks=(replace(fine, verdict=Verdict.DOUBTFUL, reason="half"),)),
    )
    soak = make_soak(*parts, duration_s=10)
    pieces = [(number, chunk) for number in (1, 2) for chunk in make_chunks(map(make_reading, range(5)))]
    checks = measure(meter(Kept(soak, pieces)), soak.spec)
    assert checks[1] == Check("offered", Verdict.DOUBTFUL, "part 2: half", rule=7)


def test_a_part_that_cannot_go_on_makes_the_trial_fail_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(_part: FakePart) -> None:
        raise PartCut("the tunnel does not come up again")

    monkeypatch.setattr(FakePart, "run", cut)
    with pytest.raises(TrialFailed, match="does not come up again"):
        measure(meter(Kept()), make_soak().spec)
