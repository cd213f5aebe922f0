"""CPU time around a trial: the router's, the testers', the tunnel's own and that of strangers (rules 11 to 14)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import CpuReading, Host
from tunnelbench.host.procfs import (
    ProcessCpu,
    all_processes,
    foreign_cpu_s,
    parse_stat,
    thread_cpu_s,
    with_children,
)
from tunnelbench.model.result import CpuUsage

FOREIGN_LIMIT_SHARE = 0.05
"""Of one CPU: above it a trial is void (rule 12)."""

QUIET_WINDOW_S = 0.25


def read_cpu(host: Host, daemons: Sequence[Daemon]) -> CpuReading:
    """Read it now; costs some 0.2 ms and starts no process."""
    spent_s: dict[str, float] = {}
    method = ""
    for daemon in daemons:
        own_s, method = thread_cpu_s(with_children(daemon.pid))
        spent_s[daemon.name] = spent_s.get(daemon.name, 0.0) + own_s
    return CpuReading(
        time.monotonic(), parse_stat(host.read_machine("/proc/stat")), spent_s if daemons else None, method
    )


def cpus_here(*hosts: Host) -> list[int]:
    """CPUs of this machine that any of these hosts may use: those of another machine have numbers of their own."""
    return sorted({cpu for host in hosts for cpu in host.cpus_here})


def usage(before: CpuReading, after: CpuReading, cpus: Sequence[int]) -> CpuUsage:
    """CPU time of some CPUs between two readings."""
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
    """The same shares over another length of time: of samples that lie inside a window, for the whole of it."""
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
    """CPUs of several machines over the same length of time, as one set."""
    return CpuUsage(
        cpus=tuple(cpu for each in usages for cpu in each.cpus),
        wall_s=usages[0].wall_s,
        idle_s=sum(each.idle_s for each in usages),
        user_s=sum(each.user_s for each in usages),
        system_s=sum(each.system_s for each in usages),
        softirq_s=sum(each.softirq_s for each in usages),
        steal_s=sum(each.steal_s for each in usages),
    )


def foreign_by_name(
    before: Mapping[int, ProcessCpu], after: Mapping[int, ProcessCpu], cpus: Sequence[int]
) -> dict[str, float]:
    """CPU seconds that other people's processes used on some CPUs between two readings of all processes."""
    return foreign_cpu_s(before, after, os.getpid(), cpus)


def wait_for_quiet(cpus: Sequence[int], limit_s: float) -> float:
    """Wait until strangers leave our CPUs alone, at most `limit_s`; returns how long that took [s]."""
    started = time.monotonic()
    while True:
        before = all_processes()
        time.sleep(QUIET_WINDOW_S)
        strangers = foreign_by_name(before, all_processes(), cpus)
        waited_s = time.monotonic() - started
        if sum(strangers.values()) <= FOREIGN_LIMIT_SHARE * QUIET_WINDOW_S or waited_s >= limit_s:
            return waited_s - QUIET_WINDOW_S
