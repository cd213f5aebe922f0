"""CPU time around a trial: of the router, the testers, the tunnel and other processes (rules 11 to 14)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import CpuReading, Host
from tunnelbench.host.procfs import (
    CpuTimes,
    ProcessCpu,
    all_processes,
    foreign_cpu_s,
    hidden_user_s,
    parse_stat,
    thread_cpu_s,
    with_children,
)
from tunnelbench.model.counters import CpuUsage

FOREIGN_LIMIT_SHARE = 0.05
"""Share of one CPU that other processes may take; above it a trial is void (rule 12)."""

HIDDEN = "processes that /proc does not show"

QUIET_WINDOW_S = 0.25


def read_cpu(host: Host, daemons: Sequence[Daemon]) -> CpuReading:
    """Read the CPU times of a host and of its daemons. It takes about 0.2 ms and starts no process."""
    spent_s: dict[str, float] = {}
    method = ""
    for daemon in daemons:
        own_s, method = thread_cpu_s(with_children(daemon.pid))
        spent_s[daemon.name] = spent_s.get(daemon.name, 0.0) + own_s
    return CpuReading(
        time.monotonic(), parse_stat(host.read_machine("/proc/stat")), spent_s if daemons else None, method
    )


def cpus_here(*hosts: Host) -> list[int]:
    """Return the CPUs of this machine that any of some hosts may use; CPUs of other machines are left out."""
    return sorted({cpu for host in hosts for cpu in host.cpus_here})


def usage(before: CpuReading, after: CpuReading, cpus: Sequence[int]) -> CpuUsage:
    """Return the CPU time of some CPUs between two readings."""
    changes = [after.cpus[cpu] - before.cpus[cpu] for cpu in cpus]
    return CpuUsage(
        cpus=tuple(cpus),
        wall_s=after.clock_s - before.clock_s,
        idle_s=sum(change.idle_s for change in changes),
        user_s=sum(change.user_s for change in changes),
        system_s=sum(change.system_s for change in changes),
        softirq_s=sum(change.softirq_s for change in changes),
        steal_s=sum(change.steal_s for change in changes),
    )


def scaled(found: CpuUsage, wall_s: float) -> CpuUsage:
    """Scale CPU times to another duration, for samples that cover only a part of a window."""
    factor = wall_s / found.wall_s
    return CpuUsage(
        cpus=found.cpus,
        wall_s=wall_s,
        idle_s=found.idle_s * factor,
        user_s=found.user_s * factor,
        system_s=found.system_s * factor,
        softirq_s=found.softirq_s * factor,
        steal_s=found.steal_s * factor,
    )


def together(usages: Sequence[CpuUsage]) -> CpuUsage:
    """Join the CPU usage of several machines over the same time into one."""
    return CpuUsage(
        cpus=tuple(cpu for each in usages for cpu in each.cpus),
        wall_s=usages[0].wall_s,
        idle_s=sum(each.idle_s for each in usages),
        user_s=sum(each.user_s for each in usages),
        system_s=sum(each.system_s for each in usages),
        softirq_s=sum(each.softirq_s for each in usages),
        steal_s=sum(each.steal_s for each in usages),
    )


@dataclass(frozen=True)
class BackgroundLoad:
    """CPU time that other processes took from some CPUs of this machine."""

    bracket_s: float
    """Time from the first reading to the second [s]."""
    by_name: Mapping[str, float]
    """CPU time by the name of the process [s]."""

    @property
    def cpu_s(self) -> float:
        """CPU time of all other processes together [s]."""
        return sum(self.by_name.values())


class BackgroundWatch:
    """Measures the background load on some CPUs of this machine, since the object was created.

    `router` and `testers` are the hosts of a testbed. Processes that /proc does not show, such as those of other
    containers, are looked for on the CPUs of each group. The name of a process in a host's network namespace is given
    together with the namespace.
    """

    def __init__(self, cpus: Sequence[int], router: Host | None = None, testers: Sequence[Host] = ()) -> None:
        self._cpus = cpus
        hosts = [*([router] if router else []), *testers]
        self._groups = [group for group in (cpus_here(*hosts[:1]), cpus_here(*testers)) if group]
        named = {host.name: Path("/run/netns", host.namespace) for host in hosts if host.namespace}
        self._networks = {path.stat().st_ino: name for name, path in named.items() if path.exists()}
        self._before = all_processes()
        self._cpus_before = parse_stat(Path("/proc/stat").read_text())
        self._started_s = time.monotonic()

    def load(self) -> BackgroundLoad:
        """Return the background load since the object was created."""
        bracket_s = time.monotonic() - self._started_s
        cpus = parse_stat(Path("/proc/stat").read_text())
        after = all_processes()
        by_name = foreign_cpu_s(self._before, after, os.getpid(), self._cpus, self._networks)
        hidden_s = [self._hidden_s(after, cpus, group) for group in self._groups]
        # A process that changes its CPU twice between the readings is seen on the wrong one, but not outside all CPUs.
        least_s = min(max(hidden_s, default=0.0), self._hidden_s(after, cpus, list(cpus)))
        if least_s > FOREIGN_LIMIT_SHARE * bracket_s:
            by_name[HIDDEN] = least_s
        return BackgroundLoad(bracket_s, by_name)

    def _hidden_s(
        self, after: Mapping[int, ProcessCpu], cpus_after: Mapping[int, CpuTimes], group: Sequence[int]
    ) -> float:
        user_s = sum(cpus_after[one].user_s - self._cpus_before[one].user_s for one in group)
        return hidden_user_s(self._before, after, user_s, group)


def wait_for_quiet(cpus: Sequence[int], limit_s: float) -> float:
    """Wait until the background load on some CPUs has ended, at most `limit_s`. Return the time waited [s]."""
    started = time.monotonic()
    while True:
        watch = BackgroundWatch(cpus)
        time.sleep(QUIET_WINDOW_S)
        busy_s = watch.load().cpu_s
        waited_s = time.monotonic() - started
        if busy_s <= FOREIGN_LIMIT_SHARE * QUIET_WINDOW_S or waited_s >= limit_s:
            return waited_s - QUIET_WINDOW_S
