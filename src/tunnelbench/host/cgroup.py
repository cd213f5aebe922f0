"""CPU quotas of control groups, as containers and services have them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tunnelbench.host.procfs import with_children

ROOT = Path("/sys/fs/cgroup")
UNITS_S = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""Name and unit of the counter in cpu.stat: of version 2 and of version 1 of control groups [s]."""


ThrottledTimes = Mapping[str, Mapping[Path, float]]
"""Time for which a quota has stopped the groups of each process so far [s], by process number and by file."""


def throttled_s_by_process(pids: Iterable[str]) -> ThrottledTimes:
    """Return for how long a quota has stopped each group of some processes of this machine so far [s].

    The groups above them are included as far as they can be seen; a system without control groups has none.
    """
    return {pid: {path: _throttled_s(path) for path in _stat_files(pid)} for pid in pids}


def files_of_children() -> frozenset[Path]:
    """Return the files that count the throttling of this process and of all its living descendants."""
    return frozenset(path for pid in with_children(os.getpid()) for path in _stat_files(str(pid)))


def increase_s(before: ThrottledTimes, after: ThrottledTimes, further: Collection[Path] = ()) -> float:
    """Return the increase between two readings, added up over the groups of the processes that are in both [s].

    Only processes in both readings count. If a process has left a group, the group's counter is read again at the end.
    For a group that it joined, and for `further` groups, of programs that started between the readings, the whole
    counter is added.
    """
    first = {path: seconds for groups in before.values() for path, seconds in groups.items()}
    last = {path: seconds for groups in after.values() for path, seconds in groups.items()}
    both = [pid for pid in before if before[pid] and after.get(pid)]
    paths = {path for pid in both for path in (*before[pid], *after[pid])} | {*further}
    return sum(max(0.0, last.get(path, _throttled_s(path)) - first.get(path, 0.0)) for path in paths)


def _stat_files(pid: str) -> Iterator[Path]:
    """Yield the files that may count the throttling of a process (cgroups(7), /proc/PID/cgroup)."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:  # it has ended
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            for base in (ROOT, ROOT / controllers):
                group = base / name.lstrip("/")
                yield from (each / "cpu.stat" for each in (group, *group.parents) if each.is_relative_to(base))


def _throttled_s(path: Path) -> float:
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in UNITS_S:
                return int(value) * UNITS_S[name]
    return 0.0
