"""Control groups of either version; the files of a kernel are played by files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu import cpu_quota
from tunnelbench.qemu.cpu_quota import cpu_share, left_groups


class Kernel:
    """A folder in which each new group has the files that the kernel would put there."""

    def __init__(self, place: Path, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        monkeypatch.setattr(cpu_quota, "controllers", lambda: [place])
        make, remove = Path.mkdir, Path.rmdir

        def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
            make(path, mode, parents, exist_ok)
            for name in files:
                (path / name).write_text("")

        def rmdir(path: Path) -> None:
            for file in path.iterdir():
                file.unlink()
            remove(path)

        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr(Path, "rmdir", rmdir)


def test_version_1_holds_a_process_by_period_and_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Kernel(tmp_path, ("cgroup.procs", "cpu.cfs_quota_us", "cpu.cfs_period_us"), monkeypatch)
    with cpu_share("abc123-router", 50, 4711):
        (group,) = left_groups("abc123")
        assert (group / "cpu.cfs_period_us").read_text() == "10000"
        assert (group / "cpu.cfs_quota_us").read_text() == "5000"
        assert (group / "cgroup.procs").read_text() == "4711"
    assert left_groups("abc123") == []


def test_version_2_holds_a_process_by_one_file_once_the_controller_is_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Kernel(tmp_path, ("cgroup.procs", "cpu.max"), monkeypatch)
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    with cpu_share("abc123-router", 25, 4711):
        (group,) = left_groups("abc123")
        assert (group / "cpu.max").read_text() == "2500 10000"
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
    assert left_groups("abc123") == []


def test_without_a_group_that_has_a_quota_the_share_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Kernel(tmp_path, ("cgroup.procs",), monkeypatch)
    with pytest.raises(CannotHere, match="CPU share cannot be set") as caught, cpu_share("abc123-router", 50, 4711):
        pytest.fail("it was held to nothing")
    assert "leave cpu_share_percent out" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
