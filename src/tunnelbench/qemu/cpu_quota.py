"""A share of a CPU for a process and all its threads, set by a control group of version 1 or 2."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tunnelbench.host.namespace import PROCESS_END_LIMIT_S
from tunnelbench.model.errors import CannotHere

GROUP_PREFIX = "tunnelbench-"
"""Beginning of a group's name; the mark of the run and a role follow, so that `clean` finds the group."""

PERIOD_US = 10_000
"""Period of a quota [us]. With the usual 100 ms, a router would stop for so long that it drops packets."""


@contextmanager
def cpu_share(name: str, percent: float, pid: int) -> Iterator[None]:
    """Limit a process to a share of one CPU [%] while the block runs. Raises CannotHere if no group can be made."""
    group = _make_group(f"{GROUP_PREFIX}{name}")
    try:
        _limit(group, round(PERIOD_US * percent / 100), pid)
        yield
    finally:
        remove_group(group)


def controllers() -> list[Path]:
    """List the mount points of the control groups for the CPU, those of version 1 first."""
    found: list[Path] = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            found.insert(0, Path(place))
        elif kind == "cgroup2":
            found.append(Path(place))
    return found


def left_groups(mark: str) -> list[Path]:
    """List the groups of a run that still exist."""
    return [group for place in controllers() for group in place.glob(f"{GROUP_PREFIX}{mark}-*")]


def remove_group(group: Path) -> None:
    """Remove a group whose processes are ending; does nothing if there is no such group."""
    deadline = time.monotonic() + PROCESS_END_LIMIT_S
    while group.exists() and time.monotonic() < deadline:
        with suppress(OSError):  # busy: a killed process has not left it yet
            group.rmdir()
            return
        time.sleep(0.01)


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
        f"the virtual router's CPU share cannot be set: this kernel has no usable control group ({why})",
        f"use {who}a kernel and container with writable cgroups, or leave cpu_share_percent out",
    )
