"""Helpers of the tests that plant lies: they measure one short trial, and take each fault back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from tests.lab.bench import make_plan, measure
from tests.watcher import Watcher

from tunnelbench.host.host import Host
from tunnelbench.model.plan import Direction, TrialSpec, TunnelSpec
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.model.soak import Soak, SoakChunk, SoakPart
from tunnelbench.testbed.netns import NetnsTestbed

VXLAN = TunnelSpec("vxlan", "VXLAN")


def trial(
    bed: NetnsTestbed,
    watcher: Watcher,
    tunnel: TunnelSpec = VXLAN,
    way: Direction = Direction.OUT,
    *,
    duration_s: int = 2,
    outcome: Outcome = Outcome.MEASURED,
) -> TrialRecord:
    """Measure one trial, which must end with this outcome."""
    plan = make_plan(tunnel, direction=(way,), duration_s=duration_s, interval_s=0.25)
    (record,) = measure(bed, plan, watcher)
    assert record.outcome is outcome, record.reason
    return record


def planted_trial(
    bed: NetnsTestbed,
    plant: Callable[[NetnsTestbed], AbstractContextManager[object]],
    tunnel: TunnelSpec = VXLAN,
    way: Direction = Direction.OUT,
    *,
    outcome: Outcome = Outcome.MEASURED,
) -> TrialRecord:
    """Measure one trial at whose start, after the proof, a lie is planted; it must end with this outcome."""
    with ExitStack() as stack:

        def at_trial(_: TrialSpec) -> None:
            stack.enter_context(plant(bed))

        return trial(bed, Watcher(at_trial), tunnel, way, outcome=outcome)


@contextmanager
def script(host: Host, plant: str, undo: str) -> Iterator[None]:
    """Run a shell script on a host, and the one that takes it back at the end of the block."""
    host.run(["sh", "-c", plant])
    try:
        yield
    finally:
        host.run(["sh", "-c", undo])


@dataclass
class OneSoak:
    """Keeps the parts of one soak in memory, without their readings."""

    kept: Soak | None = None

    def soak(self, _: int) -> Soak | None:
        return self.kept

    def chunks(self, _: int) -> Iterator[tuple[int, SoakChunk]]:
        return iter(())

    def begin_part(self, soak: Soak, part: SoakPart) -> None:
        self.kept = replace(soak, parts=(part,))

    def add_chunk(self, sequence: int, part: int, number: int, chunk: SoakChunk) -> None:
        """Forget the readings."""

    def end_part(self, soak: Soak, part: SoakPart) -> None:
        self.begin_part(soak, part)


@dataclass
class MidTrial(Watcher):
    """A watcher that calls its actions while the traffic flows, one at each reading of its rate.

    It begins again with the first action in each trial: `measure` may measure a trial once more.
    """

    actions: Sequence[Callable[[], object]] = ()
    left: Iterator[Callable[[], object]] = field(default_factory=lambda: iter(()))

    def trial_starts(self, spec: TrialSpec) -> None:
        super().trial_starts(spec)
        self.left = iter(self.actions)

    def second_passed(self, rate_bps: float, router_busy_share: float | None) -> None:
        super().second_passed(rate_bps, router_busy_share)
        if action := next(self.left, None):
            action()
