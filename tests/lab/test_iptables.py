"""The packet filter of a plan on routers that have iptables and no nft, with both variants of iptables."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.lab import rig as rigs
from tests.lab.awaiting import until
from tests.lab.bench import check, make_testbed
from tests.lab.lies import MidTrial, script, trial
from tests.lab.rig import Rig, plan, start
from tests.lab.test_router_filter import BEHIND_NAT, STATEFUL
from tests.watcher import Watcher

from tunnelbench.measure.router_filter import FILTER_CHECK
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import Verdict
from tunnelbench.testbed.iptables_filter import Iptables
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.testbed.router_filter import FILTER_NAME

pytestmark = pytest.mark.lab

PLAN = """
rounds = 1
[tcp]
duration_s = 4
payload_bytes = 1448
direction = "out"
[[tunnel]]
kind = "none"
firewall = "stateful-nat"
rules = 5
"""


@pytest.fixture(params=["legacy", "nft"])
def bed(
    request: pytest.FixtureRequest, lab: None, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NetnsTestbed]:
    """A testbed whose router has one variant of iptables, with a rule and a chain of its owner, and no nft."""
    programs = short_path / "bin"
    programs.mkdir()
    found = shutil.which(f"xtables-{request.param}-multi")
    assert found, "the test needs iptables: scripts/install-debian --dev"
    for name in Iptables.programs:
        (programs / name).symlink_to(found)
    (programs / "nft").write_text("#!/bin/sh\nexit 127\n")
    (programs / "nft").chmod(0o755)
    made = make_testbed(short_path / "run")
    inside = made.router.command

    def command(argv: Sequence[str]) -> list[str]:
        return inside(argv if argv[0] == "ip" else ["env", f"PATH={programs}:{os.environ['PATH']}", *argv])

    def has_program(program: str) -> bool:
        return program != "nft" and shutil.which(program) is not None

    monkeypatch.setattr(made.router, "command", command)
    monkeypatch.setattr(made.router, "has_program", has_program)
    with made:
        made.router.run(["sh", "-c", "iptables -N guests && iptables -A INPUT -s 192.0.2.0/24 -j guests"])
        yield made


def rules_of(bed: NetnsTestbed) -> list[str]:
    """Return the rules on the router, and its chains other than the kernel's, without their counts."""
    saved = bed.router.run(["iptables-save"]).stdout.splitlines()
    return [line for line in saved if line.startswith("-A") or " - [" in line]


def test_trials_through_iptables_are_proven_and_the_router_is_as_before(bed: NetnsTestbed) -> None:
    before = rules_of(bed)
    assert len(before) == 2
    for spec, way in ((STATEFUL, Direction.OUT), (BEHIND_NAT, Direction.IN)):
        record = trial(bed, Watcher(), spec, way)
        found = check(record, FILTER_CHECK)
        assert found.verdict is Verdict.OK, found.reason
        assert "rules of iptables" in found.reason
        assert check(record, "path-setup").verdict is Verdict.OK
        assert rules_of(bed) == before
    assert "with 20 rules of iptables" in found.reason
    assert "all from the router" in found.reason
    assert "tunnelbench-seen" not in bed.server.run(["nft", "list", "ruleset"]).stdout
    plain = trial(bed, Watcher())
    assert check(plain, FILTER_CHECK).reason == "the router tracked no new connection"


def test_chains_that_are_added_twice_are_there_once_and_are_removed_twice(bed: NetnsTestbed) -> None:
    change = Iptables().change(BEHIND_NAT.packet_filter, "198.18.1.0/24", "198.18.4.1")
    before = rules_of(bed)
    for _ in range(2):
        bed.router.run(change.argv, stdin=change.stdin)
        added = [line for line in rules_of(bed) if line not in before]
        assert sum(f"-j {FILTER_NAME}" in line for line in added) == 3
        assert sum(line.startswith(f"-A {FILTER_NAME}") for line in added) == 20 + 3 + 1
    for _ in range(2):
        bed.router.run(change.undo, check=False)
        assert rules_of(bed) == before


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (["-D", FILTER_NAME, "1"], "the router had 19 of 20 rules"),
        (["-F", FILTER_NAME], "packets were forwarded by the state of their connection"),
        (["-I", FILTER_NAME, "-j", "RETURN"], "the rules on the router were not those that were set up"),
    ],
)
def test_a_trial_whose_chain_is_changed_meanwhile_is_void(bed: NetnsTestbed, lie: list[str], words: str) -> None:
    def plant() -> None:
        bed.router.run(["iptables", *lie])

    record = trial(bed, MidTrial(actions=[plant]), BEHIND_NAT)
    assert check(record, FILTER_CHECK).verdict is Verdict.VOID
    assert words in check(record, FILTER_CHECK).reason


@pytest.mark.parametrize(
    ("plant", "undo", "words"),
    [
        (f"iptables -N {FILTER_NAME}", f"iptables -X {FILTER_NAME}", "of an earlier trial"),
        (
            "iptables -A FORWARD -m conntrack --ctstate INVALID -j DROP",
            "iptables -F FORWARD",
            "although the plan has no firewall",
        ),
    ],
)
def test_chains_or_a_tracker_without_a_filter_in_the_plan_make_a_trial_void(
    bed: NetnsTestbed, plant: str, undo: str, words: str
) -> None:
    with script(bed.router, plant, undo):
        record = trial(bed, Watcher())
    assert check(record, FILTER_CHECK).verdict is Verdict.VOID
    assert words in check(record, FILTER_CHECK).reason


@pytest.fixture
def rig(lab: None, tmp_path: Path) -> Iterator[Rig]:
    made = rigs.set_up(tmp_path / "rig", ("dropbear", *Iptables.programs))
    try:
        yield made
    finally:
        made.take_down()


@pytest.mark.timeout(400)
def test_a_router_behind_ssh_has_the_chains_for_the_run_and_clean_removes_them(
    rig: Rig, store: str, tmp_path: Path
) -> None:
    testbed = str(rig.testbed_file())
    words = ["run", plan(tmp_path, PLAN), "--on", testbed, "--store", store]
    running = start(*words)
    try:
        until(lambda: FILTER_NAME in rig.on_router("iptables-save"), "the filter")
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert FILTER_NAME in rig.on_router("iptables-save")
    assert "undid the changes of" in rig.tunnelbench("clean", "--on", testbed, "--store", store).stdout
    assert FILTER_NAME not in rig.on_router("iptables-save")
    done = rig.tunnelbench(*words, "--json", check=False, timeout_s=200)  # 3: a busy machine's trials do not count
    trials = [each for each in json.loads(done.stdout)["trials"] if each["spec"]["tunnel"]["kind"] == "none"]
    reasons = [
        (found["verdict"], found["reason"])
        for each in trials
        for found in each["checks"]
        if found["name"] == FILTER_CHECK and "iptables" in found["reason"]
    ]
    assert [verdict for verdict, _ in reasons] == ["ok"], done.stdout
    assert "with 5 rules of iptables" in reasons[0][1]
    assert FILTER_NAME not in rig.on_router("iptables-save")
