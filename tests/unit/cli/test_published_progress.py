"""The progress that a run publishes: what it says, and that it never disturbs the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from tests.unit.builders import make_plan, make_spec, make_trial
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli import published_progress
from tunnelbench.cli.progress import Progress
from tunnelbench.cli.published_progress import PublishedProgress
from tunnelbench.measure import simulation
from tunnelbench.model.progress import MOST_RATES, RunProgress
from tunnelbench.store.progress import ProgressTable
from tunnelbench.store.store import Store


@dataclass
class FakeTable:
    """A table that keeps what is published; `act` is called before."""

    act: Callable[[], object] = lambda: None
    published: list[RunProgress] = field(default_factory=list)
    is_closed: bool = False

    def publish(self, found: RunProgress) -> None:
        self.act()
        self.published.append(found)

    def close(self) -> None:
        self.is_closed = True

    def publisher(self) -> PublishedProgress:
        return PublishedProgress(Progress(make_plan()), cast("ProgressTable", self))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_progress, "PUBLISH_INTERVAL_S", 0.01)


def until(condition: Callable[[], object]) -> None:
    give_up_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def test_a_running_trial_is_published_with_its_rates_and_the_routers_cpu() -> None:
    table = FakeTable()
    publisher = table.publisher()
    with publisher.publishing():
        publisher.trial_starts(make_spec(1, tunnel="vxlan"))
        for second in range(MOST_RATES + 5):
            publisher.second_passed(second * 1e6, 0.25)
        count = len(table.published)
        until(lambda: len(table.published) > count + 1)
    found = table.published[-1]
    assert found.activity == "round 1: vxlan, 1448 bytes, down"
    assert (len(found.rates_bps), found.rates_bps[-1]) == (MOST_RATES, (MOST_RATES + 4) * 1e6)
    assert (found.router_busy_share, found.trials_done) == (0.25, 0)
    assert found.trial_expected_s
    assert found.left_s > found.trial_expected_s
    assert table.is_closed


def test_after_a_trial_nothing_of_it_is_left() -> None:
    table = FakeTable()
    publisher = table.publisher()
    with publisher.publishing():
        publisher.trial_starts(make_spec(1))
        publisher.second_passed(1e6, 0.5)
        publisher.trial_ended(make_trial(make_spec(1)))
        count = len(table.published)
        until(lambda: len(table.published) > count + 1)
    found = table.published[-1]
    assert (found.rates_bps, found.router_busy_share, found.trial_passed_s) == ((), None, None)
    assert found.trials_done == 1
    assert found.activity.startswith("round 1: after none")


def test_every_event_reaches_the_progress_on_the_terminal() -> None:
    table = FakeTable()
    progress = Progress(make_plan())
    publisher = PublishedProgress(progress, cast("ProgressTable", table))
    publisher.trial_starts(make_spec(1))
    assert progress.trial_started_s > 0
    publisher.trial_ended(make_trial(make_spec(1)))
    assert progress.done == 1
    own = {name for name in vars(PublishedProgress) if not name.startswith("_")}
    events = {name for name in vars(PublishedProgress.__mro__[1]) if not name.startswith("_")}
    assert events <= own


def test_a_store_that_fails_does_not_end_the_run() -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise RuntimeError("the server is away")

    table = FakeTable(fail)
    with table.publisher().publishing():
        until(lambda: len(calls) > 2)
    assert (table.published, table.is_closed) == ([], True)


def test_a_store_that_hangs_holds_the_run_up_for_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_progress, "END_WAIT_S", 0.05)
    hanging, release = threading.Event(), threading.Event()

    def hang() -> None:
        hanging.set()
        release.wait(60)

    publisher = FakeTable(hang).publisher()
    with publisher.publishing():
        assert hanging.wait(20)
        publisher.trial_starts(make_spec(1))
    assert not release.is_set()
    release.set()


def test_a_simulated_run_publishes_its_progress_as_a_measured_one(
    tmp_path: Path, type_in: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "REPORT_INTERVAL_S", 0.02)
    (tmp_path / "rack.toml").write_text('kind = "simulated"\n[simulation]\nseed = 1\ntrial_s = 0.5\n')
    (tmp_path / "plan.toml").write_text(
        'rounds = 1\n[tcp]\nduration_s = 1\ndirection = "out"\n[[tunnel]]\nkind = "gre"\n'
    )
    path = tmp_path / "store.sqlite"
    done = type_in("run", tmp_path / "plan.toml", "--on", tmp_path / "rack.toml", "--store", path)
    assert done.exit_code == 0, done.stderr
    with Store.open(path) as store:
        (run,) = store.runs()
        found = store.progress(run.run_id).read()
    assert found
    assert (found.trials_done > 0, found.activity.startswith("round 1: ")) == (True, True)
    assert found.rates_bps
    assert found.router_busy_share
