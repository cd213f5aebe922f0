"""Threads that run as soon as they can, before all threads of the normal class (sched(7), SCHED_FIFO)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

TESTER_PRIORITY = 1
"""Real-time priority of the testers' programs, 1 to 99."""


def set_realtime(thread: int, priority: int) -> None:
    """Give a thread a real-time priority, 1 to 99; 0: the normal class, with the nice value that it had before.

    Raises OSError if the system refuses it, as in a container without CAP_SYS_NICE, or if the thread has ended.
    """
    policy = os.SCHED_FIFO if priority else os.SCHED_OTHER
    os.sched_setscheduler(thread, policy, os.sched_param(priority))


def threads_of(pid: int) -> dict[int, str]:
    """Return the names of the threads of a process, by their number; empty: it has ended."""
    names = {}
    with suppress(OSError):  # the process has ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # the thread has just ended
                names[int(task.name)] = (task / "comm").read_text().strip()
    return names
