"""Programs that keep CPUs awake give way to all others, end with their block, and count as idle time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tunnelbench.host.cpu_polling import polled, without_polling
from tunnelbench.host.host import CpuReading, LocalHost
from tunnelbench.host.procfs import CpuTimes, thread_cpu_s


@pytest.mark.lab
def test_a_polling_program_gives_way_to_all_others_and_ends_with_its_block(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    with polled(LocalHost("local", tmp_path, ()), [cpu]) as pollers:
        (pid,) = (daemon.pid for daemon in pollers.values())
        deadline_s = time.monotonic() + 10
        while os.sched_getscheduler(pid) != os.SCHED_IDLE and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert os.sched_getscheduler(pid) == os.SCHED_IDLE
        assert os.sched_getaffinity(pid) == {cpu}
        autogroup = Path(f"/proc/{pid}/autogroup")
        if autogroup.exists():
            while not autogroup.read_text().endswith("nice 19\n") and time.monotonic() < deadline_s:
                time.sleep(0.01)
            assert autogroup.read_text().endswith("nice 19\n")
        while thread_cpu_s([pid])[0] < 0.1 and time.monotonic() < deadline_s:
            time.sleep(0.01)
        before = CpuReading(0.0, {cpu: CpuTimes(50.0, 1.0, 10.0, 0.0, 0.0)}, None, "")
        spent_s = 50.0 - without_polling(before, pollers).cpus[cpu].user_s
        assert spent_s >= 0.1
        assert without_polling(before, pollers).cpus[cpu].idle_s >= 10.0 + spent_s - 1e-6
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_without_polling_programs_a_reading_stays_as_it_is() -> None:
    reading = CpuReading(0.0, {0: CpuTimes(1.0, 1.0, 1.0, 0.0, 0.0)}, None, "")
    assert without_polling(reading, {}) is reading
