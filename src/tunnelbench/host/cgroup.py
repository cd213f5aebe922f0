"""CPU quotas of control groups, as containers and services have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
UNITS_S = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
"""Name and unit of the counter in cpu.stat: of version 2 and of version 1 of control groups [s]."""


def throttled_s_by_group(pids: Iterable[str]) -> dict[Path, float]:
    """Return for how long a quota has stopped each group of some processes of this machine so far [s].

    The groups above them are included as far as they can be seen; it is empty on a system without control groups.
    """
    return {path: _throttled_s(path) for pid in pids for path in _stat_files(pid)}


def increase_s(before: Mapping[Path, float], after: Mapping[Path, float]) -> float:
    """Return the increase between two readings, added up over the groups that are in both of them [s].

    A process that starts or ends between the readings may bring or take a group whose counter is old.
    """
    return sum(after[path] - before[path] for path in before.keys() & after.keys())


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
