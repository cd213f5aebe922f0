"""`run --resume`: what is refused, and what is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.builders import make_run

from tunnelbench import __version__
from tunnelbench.cli.run import RunArguments, _as_lines, refuse_change, resumed_job
from tunnelbench.host.facts import machine_facts
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.plan import read_plan, read_testbed
from tunnelbench.store.store import Store
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import PLANNED, option_schemas

PLAN = 'rounds = 2\n[tcp]\npayload_bytes = 1448\ndirection = "out"\n[[tunnel]]\nkind = "vxlan"\n'


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def store(tmp_path: Path, plan: Path) -> Iterator[Store]:
    """A store with a run of that plan that ended early."""
    loaded, testbed = read_plan(str(plan), option_schemas(), (), PLANNED), read_testbed("netns", KINDS)
    run = replace(
        make_run(run_id="a", status="interrupted"),
        plan_name=loaded.plan.name,
        plan_text=loaded.text,
        testbed_name="netns",
        testbed_text=testbed.text,
        host_facts=machine_facts(),
    )
    with Store.open(tmp_path / "results.sqlite") as opened:
        opened.begin_run(run)
        opened.add_trial("a", stored(loaded.plan.trials()[0]))
        yield opened


def stored(spec: TrialSpec) -> TrialRecord:
    return TrialRecord(spec, Outcome.VOID, "it failed", "2025-03-14T09:26:53+00:00", "2025-03-14T09:26:54+00:00")


def named(plan: Path | None = None, testbed: str | None = None, *overrides: str) -> RunArguments:
    return RunArguments(str(plan) if plan else None, testbed, overrides)


def test_a_run_goes_on_with_what_it_began_with(store: Store, plan: Path) -> None:
    for what in (named(), named(plan), named(plan, "netns")):
        job = resumed_job(store, "last", what)
        assert (job.run_id, job.is_new) == ("a", False)
        assert [record.spec.sequence for record in job.known] == [1]
        assert len(job.plan.plan.trials()) == 4


def test_the_last_run_may_be_one_that_was_killed(store: Store) -> None:
    earlier = store.run("a")
    store.begin_run(
        replace(earlier, run_id="b", status="running", started_at="2125-03-14T09:26:53+00:00", ended_at=None)
    )
    assert resumed_job(store, "last", named()).run_id == "b"
    assert store.run("b").status == "killed"


def test_the_plan_may_be_gone_for_it_is_stored(store: Store, plan: Path) -> None:
    plan.unlink()
    assert resumed_job(store, "a", named()).plan.plan.rounds == 2


def test_a_plan_that_has_changed_is_refused_with_the_difference(store: Store, plan: Path) -> None:
    plan.write_text(PLAN.replace("1448", "700"))
    with pytest.raises(WrongInput, match="the plan has changed since the run began") as caught:
        resumed_job(store, "a", named(plan))
    assert "-payload_bytes = 1448" in caught.value.message
    assert "+payload_bytes = 700" in caught.value.message


def test_a_testbed_or_a_machine_that_has_changed_is_refused(
    store: Store, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongInput, match="the testbed has changed"):
        resumed_job(store, "a", named(plan, "netns-100m"))
    monkeypatch.setattr("tunnelbench.cli.run.machine_facts", lambda: {**machine_facts(), "kernel": "9.9"})
    with pytest.raises(WrongInput, match="the machine has changed") as caught:
        resumed_job(store, "a", named())
    assert "+kernel: 9.9" in caught.value.message


def test_another_version_of_tunnelbench_is_refused_unless_it_is_accepted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.cli.run.__version__", "9.9")
    with pytest.raises(WrongInput) as caught:
        resumed_job(store, "a", named())
    assert caught.value.message == f"run a began with TunnelBench {__version__}, and this is 9.9"
    assert "--accept-versions" in caught.value.hint
    assert resumed_job(store, "a", replace(named(), accepts_versions=True)).accepts_versions


def test_accepting_versions_needs_a_run_that_is_resumed() -> None:
    with pytest.raises(WrongInput, match="--accept-versions goes with --resume"):
        replace(named(), accepts_versions=True).check(is_resumed=False)


def test_values_cannot_be_set_anew(store: Store) -> None:
    with pytest.raises(WrongInput, match="--set does not go with --resume"):
        resumed_job(store, "a", named(None, None, "rounds=3"))


def test_facts_of_a_gateway_are_not_those_of_this_machine() -> None:
    facts = {"kernel": "6.1", "gateway_kernel": "5.15", "router_kernel": "5.15"}
    assert _as_lines(facts) == "kernel: 6.1\n"
    assert _as_lines(facts, of_hosts=True) == "gateway_kernel: 5.15\nrouter_kernel: 5.15\n"


def test_a_radio_may_have_another_rate_when_a_run_goes_on_and_no_other_channel() -> None:
    before = {"client_radio_channel": 36, "client_radio_tx_mbps": 866.7, "client_radio_signal_dbm": -45}
    later = before | {"client_radio_tx_mbps": 390.0, "client_radio_signal_dbm": -60}
    refuse_change("router", _as_lines(before, of_hosts=True), _as_lines(later, of_hosts=True))
    with pytest.raises(WrongInput, match="the router has changed"):
        refuse_change(
            "router", _as_lines(before, of_hosts=True), _as_lines(later | {"client_radio_channel": 1}, of_hosts=True)
        )
