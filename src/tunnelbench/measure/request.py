"""The input of a run: the plan to measure (`RunRequest`), and the receivers of results and progress (`RunSink`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tunnelbench import __version__
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Plan, TrialSpec, TunnelSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.soak import Soak, SoakChunk, SoakPart
from tunnelbench.testbed.base import Testbed


@dataclass(frozen=True)
class RunRequest:
    """The plan and the testbed of a run, and the records of its earlier parts if it was resumed."""

    plan: Plan
    testbed: Testbed
    known: Sequence[TrialRecord] = ()
    """Records of trials that an earlier part of the run has stored; the run skips these trials."""
    known_speeds: Sequence[CipherSpeed] = ()
    """Cipher speeds that an earlier part of the run has stored; the run skips their measurement."""
    begun_with: str = __version__
    """Version of TunnelBench that began the run."""
    accepts_versions: bool = False
    """True if the run continues although its programs have other versions than in the known trials."""
    keep: bool = False
    """True if the run stops at the first failed trial and leaves testbed and tunnel up for a user to examine."""

    def missing(self, trials: Sequence[TrialSpec]) -> list[TrialSpec]:
        """Return the trials without a stored record, in their order."""
        done = {record.spec.sequence for record in self.known}
        return [spec for spec in trials if spec.sequence not in done]


class SoakJournal(Protocol):
    """The store of the series of soaks. Each piece of a series is on disk when the method that stores it returns."""

    def soak(self, sequence: int) -> Soak | None:
        """Return a stored soak with its parts; None if nothing of it is stored."""

    def chunks(self, sequence: int) -> Iterator[tuple[int, SoakChunk]]:
        """Yield the stored series of a soak in pieces, each with the number of its part."""

    def begin_part(self, soak: Soak, part: SoakPart) -> None:
        """Store the beginning of a part of a soak."""

    def add_chunk(self, sequence: int, part: int, number: int, chunk: SoakChunk) -> None:
        """Store one piece of a soak's series."""

    def end_part(self, soak: Soak, part: SoakPart) -> None:
        """Store the end of a part of a soak, with its reason and its totals."""


class RunStore(Protocol):
    """The store of one run."""

    @property
    def soaks(self) -> SoakJournal | None:
        """The store of the series of the run's soaks; None if this store cannot keep a soak."""

    def add_trial(self, record: TrialRecord) -> None:
        """Store a trial that has ended."""

    def add_cipher_speed(self, speed: CipherSpeed) -> None:
        """Store the speed of one cipher."""


@dataclass
class ResultsInMemory:
    """Keeps the results of a short run in memory, without a store."""

    trials: list[TrialRecord] = field(default_factory=list)
    speeds: list[CipherSpeed] = field(default_factory=list)
    soaks: SoakJournal | None = None

    def add_trial(self, record: TrialRecord) -> None:
        self.trials.append(record)

    def add_cipher_speed(self, speed: CipherSpeed) -> None:
        self.speeds.append(speed)


class Observer:
    """An observer of a run's progress. The methods of this class do nothing; a subclass overrides those that it
    needs."""

    def tried_out(self, found: str) -> None:
        """Called with what a short trial of the testbed found, before anything is measured."""

    def recovered(self, done: str) -> None:
        """Called with what was done to a host that was lost, when the testbed is set up on it again."""

    def cipher_starts(self, what: str) -> None:
        """Called when the measurement of a cipher begins."""

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        """Called before a tunnel is brought up and proven."""

    def trial_starts(self, spec: TrialSpec) -> None:
        """Called when the traffic of a trial begins."""

    def second_passed(self, rate_bps: float, router_busy_share: float | None) -> None:
        """Called about once a second during a trial, with the current rate [bit/s], and with the busy share of the
        router's CPUs, 0 to 1; None: not known before the trial ends."""

    def trial_ended(self, record: TrialRecord) -> None:
        """Called when the record of a trial is stored."""

    def waited_for_quiet(self, seconds: float) -> None:
        """Called when the run has waited `seconds` for background load to end."""


@dataclass(frozen=True)
class RunSink:
    """The store of a run's results, and the observer of its progress."""

    results: RunStore
    observer: Observer = field(default_factory=Observer)

    def keep(self, record: TrialRecord) -> None:
        """Store a trial's record, then report the trial to the observer."""
        self.results.add_trial(record)
        self.observer.trial_ended(record)
