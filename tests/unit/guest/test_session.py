"""A run whose testbed is inside a guest, with guests that send given messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.builders import make_tcp
from tests.watcher import Watcher

from tunnelbench.guest import protocol
from tunnelbench.guest.kernel import Kernel
from tunnelbench.guest.machine import Accelerator, CpuWait, Guest, GuestDied
from tunnelbench.guest.session import GuestKernel, GuestRun, check_guest_cpus
from tunnelbench.measure.request import ResultsInMemory, RunRequest, RunSink
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.plan import Direction, Plan, TcpTraffic, TrialSpec, TunnelSpec
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.testbed import open_testbed

PLAN = Plan(
    "p",
    "",
    (TunnelSpec("none", "none"), TunnelSpec("gre", "gre")),
    TcpTraffic(payload_bytes=(1448,), direction=(Direction.IN, Direction.OUT)),
    rounds=2,
)
GUEST = GuestKernel(Kernel("6.1", Path("/k"), Path("/"), "linux-image 6.1.1"), Accelerator.TCG, "max of QEMU 7.2")

Words = list[bytes | GuestDied]


class FakeGuest:
    """Says its words, and keeps what it was sent."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.sent: list[protocol.GuestJob] = []

    def send(self, text: bytes) -> None:
        message = protocol.message(text)
        assert message is not None
        self.sent.append(protocol.load(protocol.GuestJob, message["job"]))

    def messages(self) -> Iterator[protocol.Message]:
        for word in self.words:
            if isinstance(word, GuestDied):
                raise word
            message = protocol.message(word)
            assert message is not None
            yield message

    def cpu_wait(self) -> CpuWait:
        return CpuWait(1.0, 0.0)


@dataclass
class FakeRun(GuestRun):
    """Gets its guests from a list."""

    guests: list[FakeGuest] = field(default_factory=list)

    def _boot(self) -> Any:
        return cast("AbstractContextManager[Guest]", nullcontext(self.guests.pop(0)))


def all_specs() -> list[TrialSpec]:
    return [*PLAN.calibrations(), *PLAN.trials()]


def measured(spec: TrialSpec) -> TrialRecord:
    return TrialRecord(spec, Outcome.MEASURED, "", "a", "b", (), make_tcp())


def word(record: TrialRecord) -> bytes:
    return protocol.line(protocol.RECORD, record=protocol.dump(record))


DONE = protocol.line(protocol.DONE)


def make_run(*guests: FakeGuest, known: list[TrialRecord] | None = None) -> tuple[FakeRun, list[TrialRecord], Watcher]:
    results, watcher = ResultsInMemory(), Watcher()
    spec = TestbedSpec("t", "netns", kernel="debian")
    testbed = open_testbed(spec, "20250314-092653-abcdef", Path("/nowhere"))
    run = FakeRun(GUEST, RunRequest(PLAN, testbed, known or ()), RunSink(results, watcher), list(guests))
    return run, results.trials, watcher


def test_each_trial_is_stored_when_it_arrives_and_the_observer_hears_of_everything() -> None:
    records = [measured(spec) for spec in all_specs()]
    said: Words = [
        protocol.line(protocol.ALIVE),
        protocol.line(protocol.COMES_UP, tunnel="gre", round=2),
        protocol.line(protocol.SECOND, rate_bps=5.0, router_busy_share=0.5),
        protocol.line(protocol.WAITED, seconds=1.5),
        protocol.line(protocol.CIPHER, cipher="aes"),
        *(word(record) for record in records),
        DONE,
    ]
    run, stored, watcher = make_run(FakeGuest(said))
    run.run()
    assert stored == records
    assert (watcher.tunnels, watcher.rates_bps, watcher.waits_s, watcher.ciphers) == (["gre"], [5.0], [1.5], ["aes"])


def test_a_guest_that_dies_costs_its_block_and_the_next_one_knows_the_rest() -> None:
    specs = all_specs()
    first_trial = next(number for number, spec in enumerate(specs) if spec.round == 1)
    before = specs[: first_trial + 1]
    dying = FakeGuest([*(word(measured(spec)) for spec in before), GuestDied("the guest ended; last: panic")])
    block = [spec for spec in specs[first_trial + 1 :] if (spec.round, spec.tunnel.name) == (1, before[-1].tunnel.name)]
    rest = specs[len(before) + len(block) :]
    second = FakeGuest([*(word(measured(spec)) for spec in rest), DONE])
    run, stored, _ = make_run(dying, second)
    run.run()
    assert [record.spec for record in stored] == specs
    assert [(record.outcome, record.reason) for record in stored if record.spec in block] == [
        (Outcome.VOID, "the guest ended; last: panic")
    ] * len(block)
    assert len(block) == 1
    assert [record.spec for record in second.sent[0].known] == [*before, *block]


def test_a_guest_that_dies_after_the_last_trial_costs_nothing() -> None:
    records = [measured(spec) for spec in all_specs()]
    run, stored, _ = make_run(FakeGuest([*(word(record) for record in records), GuestDied("gone")]))
    run.run()
    assert stored == records


def test_guests_that_always_die_end_the_run_with_a_record_for_each_trial() -> None:
    run, stored, _ = make_run(*(FakeGuest([GuestDied("dead")]) for _ in all_specs()))
    run.run()
    assert [record.spec for record in stored] == all_specs()
    assert {record.outcome for record in stored} == {Outcome.VOID}


def test_what_was_measured_before_is_handed_to_the_guest_without_raw_output() -> None:
    first, *rest = [measured(spec) for spec in all_specs()]
    known = TrialRecord(first.spec, Outcome.MEASURED, "", "a", "b", (), make_tcp(), raw={"iperf3": "long"})
    guest = FakeGuest([*(word(record) for record in rest), DONE])
    run, stored, _ = make_run(guest, known=[known])
    run.run()
    assert stored == rest
    assert guest.sent[0].known == (first,)


def test_an_error_of_a_guest_is_reported_like_one_of_this_machine() -> None:
    run, _, _ = make_run(FakeGuest([protocol.line(protocol.CANNOT, message="no veth", hint="get one")]))
    with pytest.raises(CannotHere, match="no veth") as caught:
        run.run()
    assert caught.value.hint == "get one"


def test_a_bug_inside_keeps_its_traceback() -> None:
    run, _, _ = make_run(FakeGuest([protocol.line(protocol.BUG, traceback="Traceback: ZeroDivisionError")]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run.run()


@pytest.mark.parametrize(("waited_s", "verdict"), [(0.0, Verdict.OK), (0.04, Verdict.OK), (0.2, Verdict.DOUBTFUL)])
def test_a_guest_whose_cpus_had_to_wait_gives_doubtful_figures(waited_s: float, verdict: Verdict) -> None:
    check = check_guest_cpus(CpuWait(10.0, 1.0), CpuWait(11.0, 1.0 + waited_s))
    assert check.verdict is verdict
    assert f"{waited_s:.1%}" in check.reason


def test_a_measured_trial_has_that_check_and_one_without_figures_has_not() -> None:
    specs = all_specs()
    failed = TrialRecord(specs[0], Outcome.VOID, "no", "a", "b")
    said: Words = [
        protocol.line(protocol.STARTS, sequence=specs[0].sequence),
        word(failed),
        protocol.line(protocol.STARTS, sequence=specs[1].sequence),
        word(measured(specs[1])),
        *(word(measured(spec)) for spec in specs[2:]),
        DONE,
    ]

    class Clock(FakeGuest):
        now_s = 0.0

        def cpu_wait(self) -> CpuWait:
            self.now_s += 1
            return CpuWait(self.now_s, 0.0)

    run, stored, _ = make_run(Clock(said))
    run.run()
    assert [len(record.checks) for record in stored[:3]] == [0, 1, 0]


def test_the_facts_of_a_guest_name_its_kernel_its_package_and_what_is_emulated() -> None:
    assert GUEST.facts == {
        "guest": "inside a guest, emulated",
        "guest_kernel": "6.1",
        "guest_cpu": "max of QEMU 7.2",
        "guest_package": "linux-image 6.1.1",
    }
    assert "guest_cpu" not in GuestKernel(GUEST.kernel, Accelerator.KVM).facts
