"""The steps of a run: the controller leaves the router's CPU alone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tunnelbench.run import on_cpus


def affinities() -> list[set[int]]:
    """Return the CPUs of each thread of this process."""
    return [os.sched_getaffinity(int(task.name)) for task in Path("/proc/self/task").iterdir()]


def test_a_thread_that_ran_before_leaves_the_routers_cpu_and_comes_back() -> None:
    own = os.sched_getaffinity(0)
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        testers = {min(own)}
        with on_cpus(testers):
            assert affinities() == [testers] * len(affinities())
        assert affinities() == [own] * len(affinities())
    finally:
        ended.set()
        thread.join()
