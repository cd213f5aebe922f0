"""A run, from plan to store: testbed up, tunnel up and proven, trials, each stored before the next one starts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path

from tunnelbench.analysis.soak import check_soak
from tunnelbench.measure.plan_runner import PlanRunner
from tunnelbench.measure.request import RunRequest, RunSink
from tunnelbench.measure.simulation import simulate


def run_plan(request: RunRequest, sink: RunSink) -> None:
    """Measure the ciphers and the trials of a request that have no stored record yet, in the order of the plan.

    Raises CannotHere if the testbed cannot be set up, or if the testers lack a program or a kernel feature that the
    whole plan needs.
    """
    if request.testbed.spec.is_simulated:
        simulate(request, sink)
        return
    request.testbed.prepare_for([tunnel.conditions for tunnel in request.plan.tunnels])
    with on_cpus(request.testbed.local.cpus), request.testbed:
        if found := request.testbed.try_out():
            sink.observer.tried_out(found)
        runner = PlanRunner(request, sink, check_soak)
        runner.require_same_versions()
        for speed in runner.measure_ciphers():
            sink.results.add_cipher_speed(speed)
        for record in runner.calibrate(request.missing(request.plan.calibrations())):
            sink.keep(record)
        trials = request.missing(request.plan.trials())
        for _, block in groupby(trials, key=lambda trial: (trial.round, trial.tunnel.name)):
            for record in runner.measure_block(list(block)):  # through one tunnel, which is proven first
                sink.keep(record)


@contextmanager
def on_cpus(cpus: Collection[int]) -> Iterator[None]:
    """Keep all threads of the controller off the router's CPU while the block runs, such as that of the live view."""
    before = os.sched_getaffinity(0)
    _set_affinity_of_threads(cpus)
    try:
        yield
    finally:
        _set_affinity_of_threads(before)


def _set_affinity_of_threads(cpus: Collection[int]) -> None:
    """Set the CPUs of each thread of this process; a new thread takes over those of the thread that starts it."""
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(int(task.name), cpus)
