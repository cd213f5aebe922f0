"""The plan runner with a meter that offers no traffic, and a tunnel that carries none."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import Mock

import pytest
from tests.unit.builders import make_proof, make_spec, make_tcp
from tests.unit.tunnel.fakes import FakeDaemon

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.host import THIS_MACHINE
from tunnelbench.measure import plan_runner
from tunnelbench.measure.meter import TrialFindings
from tunnelbench.measure.plan_runner import PlanRunner
from tunnelbench.measure.request import ResultsInMemory, RunRequest, RunSink
from tunnelbench.measure.step_times import StepTimes
from tunnelbench.model.errors import KeptForDebugging, TrialFailed
from tunnelbench.model.plan import Plan, TcpTraffic
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict
from tunnelbench.model.step import Step

KEY = "0123456789abcdef" * 2


class FakeLiveTunnel:
    """A tunnel with one daemon on the router, that has printed a key."""

    def __init__(self, testbed: Any, spec: Any, *, keep: bool, steps: StepTimes) -> None:
        self.steps = steps
        daemon = FakeDaemon(f"peer key {KEY}\n", "openvpn")
        self.created = self.tunnel = Mock(daemons=[daemon], has_died=False)

    def __enter__(self) -> Self:
        with self.steps.measured(Step.BRING_UP):
            return self

    def __exit__(self, *error: object) -> None:
        with self.steps.measured(Step.TAKE_DOWN):
            """Nothing is up."""


@pytest.fixture(autouse=True)
def _without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_runner, "LiveTunnel", FakeLiveTunnel)
    monkeypatch.setattr(plan_runner, "prove", lambda *_: make_proof())
    monkeypatch.setattr(plan_runner, "prove_again", lambda *_, **__: proof_after(Verdict.OK))
    for name in ("install_outer_counters", "prove_reach"):
        monkeypatch.setattr(plan_runner, name, lambda *_: None)
    monkeypatch.setattr(plan_runner, "wait_for_quiet", lambda *_: 0.0)


def proof_after(verdict: Verdict) -> Check:
    return Check("proof-after", verdict, "the known pattern was readable", rule=3)


def by_an_error(*_: object) -> TrialFindings:
    error = TrialFailed("iperf3 did not end")
    error.raw = {"ping": "1 packet"}
    raise error


def with_verdict(verdict: Verdict, *_: object) -> TrialFindings:
    check = Check("merged-frames", verdict, "frames of 64 kB were forwarded", rule=4)
    return TrialFindings(make_tcp(), (check,), {"ping": "1 packet"})


def by_a_check(*_: object) -> TrialFindings:
    return with_verdict(Verdict.VOID)


def by_background_load(*_: object) -> TrialFindings:
    check = Check("foreign-load", Verdict.VOID, "other processes used 40 % of the CPUs", rule=8)
    return TrialFindings(make_tcp(), (check,), {})


def doubtful(*_: object) -> TrialFindings:
    return with_verdict(Verdict.DOUBTFUL)


def make_runner(meter: Mock, *, keep: bool = False) -> PlanRunner:
    router = SimpleNamespace(name="router", cpus_here=(0,), machine=THIS_MACHINE, shell_command="ip netns exec x sh")
    testbed = Mock(hosts=(router,), has_own_router=False)
    plan = Plan("p", "", (make_spec().tunnel,), TcpTraffic(), rounds=1)
    runner = PlanRunner(RunRequest(plan, testbed, keep=keep), RunSink(ResultsInMemory()), Mock())
    runner.meters = dict.fromkeys(runner.meters, meter)
    return runner


def output_of(record: TrialRecord) -> dict[str, Any]:
    """Return the raw output of a record, without the times of its steps."""
    return {name: content for name, content in record.raw.items() if name != "steps_s"}


def measure_with(meter: Mock, *, keep: bool = False) -> list[TrialRecord]:
    """Measure a block of two trials."""
    return [*make_runner(meter, keep=keep).measure_block([make_spec(1), make_spec(2)])]


def measure(trial: Any, kept: list[TrialRecord], *, keep: bool = False) -> Sequence[TrialRecord]:
    """Measure a block of two trials, and append each record to `kept`."""
    kept += measure_with(Mock(measure=trial, versions=Mock(return_value={})), keep=keep)
    return kept


@pytest.mark.parametrize(("trial", "outcome"), [(by_an_error, Outcome.VOID), (by_a_check, Outcome.MEASURED)])
def test_a_void_trial_keeps_the_logs_of_the_daemons_without_keys(trial: Any, outcome: Outcome) -> None:
    for record in measure(trial, []):
        assert record.outcome is outcome
        assert record.verdict is Verdict.VOID
        assert output_of(record) == {"ping": "1 packet", "router.0001-openvpn.log": "peer key [key]\n"}


@pytest.mark.parametrize("verdict", [Verdict.DOUBTFUL, Verdict.VOID])
def test_a_tunnel_that_fails_its_proof_after_a_trial_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    made: list[object] = []

    class CountedTunnel(FakeLiveTunnel):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            made.append(self)

    monkeypatch.setattr(plan_runner, "LiveTunnel", CountedTunnel)
    monkeypatch.setattr(plan_runner, "prove_again", lambda *_, **__: proof_after(verdict))
    assert [record.verdict for record in measure(doubtful, [])] == [verdict] * 2
    assert len(made) == 2


def test_a_valid_trial_keeps_no_logs_of_the_daemons() -> None:
    for record in measure(doubtful, [], keep=True):
        assert output_of(record) == {"ping": "1 packet"}


def test_each_trial_has_the_times_of_the_steps_since_the_trial_before() -> None:
    of_block = {Step.BRING_UP, Step.REACH, Step.SETTLE, Step.PROOF, Step.WARM_UP}
    of_trial = {Step.MEASURE, Step.PROOF_AFTER}
    first, second = (set(record.raw["steps_s"]) for record in measure(doubtful, []))
    assert (first, second) == (of_block | of_trial, of_trial)
    _, anew = (set(record.raw["steps_s"]) for record in measure(by_an_error, []))
    assert anew == of_block | {Step.MEASURE, Step.TAKE_DOWN}


def test_keep_does_not_end_the_run_at_background_load() -> None:
    assert [record.verdict for record in measure(by_background_load, [], keep=True)] == [Verdict.VOID] * 2


@pytest.mark.parametrize(
    ("trial", "reason"), [(by_an_error, "iperf3 did not end"), (by_a_check, "frames of 64 kB were forwarded")]
)
def test_keep_ends_the_run_at_the_first_void_trial(trial: Any, reason: str) -> None:
    with pytest.raises(KeptForDebugging, match=f"a trial is void, and --keep ends the run: {reason}") as stopped:
        measure(trial, [], keep=True)
    assert stopped.value.hint.splitlines()[1:] == [
        "  router: ip netns exec x sh",
        "logs of the tunnel's programs:",
        "  /run/0001-openvpn.log",
    ]


def test_versions_are_asked_for_after_the_warm_up_has_renewed_the_engine() -> None:
    meter = Mock(measure=doubtful, versions=Mock(return_value={"server.engine": "1.0"}))
    (first, _) = measure_with(meter)
    assert [name for name, *_ in meter.method_calls][:2] == ["warm_up", "versions"]
    assert first.proof is not None
    assert first.proof.versions["server.engine"] == "1.0"


def test_a_tester_that_does_not_print_versions_in_time_ends_no_run() -> None:
    slow = CommandFailed(["iperf3", "--version"], "did not end in 20 s", "")
    runner = make_runner(Mock(versions=Mock(side_effect=slow)))
    (record,) = runner.calibrate([make_spec(1)])
    assert record.outcome is Outcome.UNAVAILABLE
    assert "did not end in 20 s" in record.reason
