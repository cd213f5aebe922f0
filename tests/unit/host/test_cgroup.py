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
    assert sum(cgroup.throttled_s_by_group(["self", str(os.getpid())]).values()) == pytest.approx(1.5)


def test_groups_of_others_and_odd_files_count_nothing(own_group: Path) -> None:
    (own_group / "service/cpu.stat").write_text(VERSION_2)
    (own_group / "cpu.stat").write_text("throttled_usec many\n")
    assert set(cgroup.throttled_s_by_group(["self", "0"]).values()) == {0.0}


def test_a_group_of_a_process_that_starts_or_ends_in_a_trial_adds_nothing() -> None:
    ours, ended, begun = (Path("/sys/fs/cgroup", name) for name in ("ours", "ended", "begun"))
    assert cgroup.increase_s({ours: 1.0, ended: 500.0}, {ours: 1.5, begun: 900.0}) == 0.5
