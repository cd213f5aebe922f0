"""A share of a CPU for a process and all its threads, by a control group of either version."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tunnelbench.model.errors import CannotHere

PREFIX = "tunnelbench-"
"""Each group is called so, followed by the mark of its run and a role: by that `clean` knows it."""

PERIOD_US = 10_000
"""So long a quota lasts [us]; a router that stood still for the 100 ms that are usual would drop what arrives then."""

LAST_PROCESS_LIMIT_S = 2.0


@contextmanager
def cpu_share(name: str, percent: float, pid: int) -> Iterator[None]:
    """Hold a process to a share of one CPU while the block runs [%]. Raises CannotHere where no group can be made."""
    group = _make_group(f"{PREFIX}{name}")
    try:
        _limit(group, round(PERIOD_US * percent / 100), pid)
        yield
    finally:
        remove_group(group)


def controllers() -> list[Path]:
    """Where the kernel's control groups for the CPU are mounted, those of version 1 first."""
    found: list[Path] = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            found.insert(0, Path(place))
        elif kind == "cgroup2":
            found.append(Path(place))
    return found


def left_groups(mark: str) -> list[Path]:
    """Groups of a run that are still there."""
    return [group for place in controllers() for group in place.glob(f"{PREFIX}{mark}-*")]


def remove_group(group: Path) -> None:
    """Remove a group whose processes are ending; does no harm where it is gone."""
    deadline = time.monotonic() + LAST_PROCESS_LIMIT_S
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # busy: a process that was killed has not left it yet
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
        else:
            return


def _make_group(name: str) -> Path:
    faults = []
    for place in controllers():
        group = place / name
        try:
            if (place / "cgroup.subtree_control").exists():
                (place / "cgroup.subtree_control").write_text("+cpu")
            group.mkdir(exist_ok=True)
        except OSError as error:
            faults.append(f"{place}: {error.strerror}")
            continue
        if _has_quota(group):
            return group
        with suppress(OSError):
            group.rmdir()
        faults.append(f"{place} has no quota")
    raise _cannot("; ".join(faults) or "none is mounted")


def _has_quota(group: Path) -> bool:
    return any((group / file).exists() for file in ("cpu.max", "cpu.cfs_quota_us"))


def _limit(group: Path, quota_us: int, pid: int) -> None:
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise _cannot(f"{group}: {error.strerror}") from None


def _cannot(why: str) -> CannotHere:
    who = "" if os.geteuid() == 0 else "root, and "
    return CannotHere(
        f"the virtual router's CPU share cannot be set: no control group of this kernel can be used ({why})",
        f"{who}a kernel and container with cgroups that can be written; or leave out cpu_share_percent",
    )
