"""Programs of the lowest priority that keep CPUs of this machine from sleeping.

A CPU that sleeps wakes up late: in a virtual machine its hypervisor must give it a CPU of the host first. A program
that waits for each packet, such as the QEMU of a router with idle time, then starts late each time.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from tunnelbench.host.autogroup import LOWEST_NICE, set_session_nice
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import CpuReading, Host
from tunnelbench.host.procfs import thread_cpu_s

POLLING = """
import os
os.sched_setaffinity(0, {{{cpu}}})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    pass
"""
"""A program that runs on a CPU whenever nothing else does: any other program that wakes up there replaces it at once
(sched(7), SCHED_IDLE)."""


@contextmanager
def polled(host: Host, cpus: Collection[int]) -> Iterator[Mapping[int, Daemon]]:
    """Keep CPUs of this machine awake while the block runs; yields the program of each CPU."""
    with ExitStack() as stack:
        pollers = {}
        for cpu in cpus:
            argv = [sys.executable, "-I", "-S", "-c", POLLING.format(cpu=cpu)]
            pollers[cpu] = host.start(argv, name="polling")
            stack.callback(pollers[cpu].stop)
            # With autogroups it would else get half of the CPU beside a busy program, in place of some per cent.
            with suppress(OSError):
                set_session_nice(pollers[cpu].pid, LOWEST_NICE)
        yield pollers


def without_polling(reading: CpuReading, pollers: Mapping[int, Daemon]) -> CpuReading:
    """Count the time of the programs of `polled` as idle time."""
    if not pollers:
        return reading
    cpus = dict(reading.cpus)
    for cpu, daemon in pollers.items():
        spent_s, _ = thread_cpu_s([daemon.pid])
        cpus[cpu] = replace(cpus[cpu], user_s=cpus[cpu].user_s - spent_s, idle_s=cpus[cpu].idle_s + spent_s)
    return replace(reading, cpus=cpus)
