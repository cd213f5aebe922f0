"""The time for which a CPU quota stopped processes, from the files of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tunnelbench.host import cgroup

VERSION_1 = "nr_periods 9\nnr_throttled 4\nthrottled_time 1500000000\n"
VERSION_2 = "usage_usec 7\nnr_throttled 4\nthrottled_usec 1500000\n"


@pytest.fixture
def own_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The group of this process, in a file system of control groups that has no counters yet."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    (name,) = (line.split(":", 2)[2] for line in lines if line.startswith("0::"))
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    group = tmp_path / name.lstrip("/") / "service"
    group.mkdir(parents=True)
    return group.parent


@pytest.mark.parametrize("text", [VERSION_1, VERSION_2])
def test_the_time_that_a_quota_took_is_read_in_both_versions(own_group: Path, text: str) -> None:
    (own_group / "cpu.stat").write_text(text)
    found = cgroup.throttled_s_by_process(["self", str(os.getpid())])
    assert [sum(groups.values()) for groups in found.values()] == pytest.approx([1.5, 1.5])
    nothing = {pid: dict.fromkeys(groups, 0.0) for pid, groups in found.items()}
    assert cgroup.increase_s(nothing, found) == pytest.approx(1.5)  # two programs of one group


def test_groups_of_others_and_odd_files_count_nothing(own_group: Path) -> None:
    (own_group / "service/cpu.stat").write_text(VERSION_2)
    (own_group / "cpu.stat").write_text("throttled_usec many\n")
    found = cgroup.throttled_s_by_process(["self", "0"])
    assert set(found["self"].values()) == {0.0}
    assert found["0"] == {}


def test_a_group_of_a_process_that_starts_or_ends_in_a_trial_adds_nothing() -> None:
    ours, ended, begun = (Path("/sys/fs/cgroup", name) for name in ("ours", "ended", "begun"))
    before = {"self": {ours: 1.0}, "7": {ended: 500.0}}
    assert cgroup.increase_s(before, {"self": {ours: 1.5}, "7": {}, "8": {begun: 900.0}}) == 0.5


def test_a_program_that_moves_to_a_group_with_a_quota_in_mid_trial_is_seen(tmp_path: Path) -> None:
    left, joined = tmp_path / "left", tmp_path / "joined"
    left.write_text("throttled_usec 1250000\n")
    assert cgroup.increase_s({"7": {left: 1.0}}, {"7": {joined: 0.5}}) == 0.75


def test_all_the_time_of_a_group_that_the_generator_joined_counts(tmp_path: Path) -> None:
    ours, joined = tmp_path / "ours", tmp_path / "joined"
    ours.write_text("throttled_usec 1000000\n")
    joined.write_text("throttled_usec 250000\n")
    assert cgroup.increase_s({"self": {ours: 1.0}}, {"self": {ours: 1.0}}, [ours, joined]) == 0.25


def test_the_groups_of_this_process_are_among_those_of_its_programs(own_group: Path) -> None:
    (own_group / "cpu.stat").write_text(VERSION_2)
    assert own_group / "cpu.stat" in cgroup.files_of_children()
