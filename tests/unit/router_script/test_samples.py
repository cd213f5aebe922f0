"""The readings that `tunnelbench-dut sample` keeps, and the end of the loop."""

from __future__ import annotations

import os
import subprocess
import time

from tests.unit.router_script.conftest import Router, eventually


def test_samples_hold_what_a_trial_needs_and_what_they_cost(router: Router) -> None:
    router.take()
    pid = int(router.ok("start", router.folder, "daemon", "sleep", "50"))
    began = time.monotonic()
    router.ok("sample", router.folder, 1, 2, pid)
    assert 1.9 <= time.monotonic() - began < 20
    header, *blocks = (router.folder / "samples").read_text().split("block ")
    assert header.startswith("samples 1 interval_s 1 seconds 2 pid ")
    own = header.split()[-1]
    kinds = [block.split("\n")[0] for block in blocks]
    assert kinds[0] == kinds[-1] == "full"
    assert set(kinds[1:-1]) == {"short"}
    assert len(kinds) >= 4
    assert blocks[-1].endswith("\nend\n")
    for block in blocks:
        lines = [line for line in block.split("\n")[1:] if line not in ("", "end")]
        files = [line.split(":")[0] for line in lines]
        assert files[0] == files[-1] == "/proc/uptime"
        assert files.count("/proc/uptime") == 3
        assert sum(line.startswith("/proc/stat:cpu") for line in lines) == (os.cpu_count() or 1) + 1
        assert {f"/proc/{own}/stat", f"/proc/{pid}/stat"} <= set(files)
        assert any(line.startswith("/proc/meminfo:MemAvailable:") for line in lines)
    assert {"/proc/softirqs", "/proc/interrupts", "/proc/net/dev", "/proc/1/stat"} <= {
        line.split(":")[0] for line in blocks[0].split("\n")
    }
    # User and system time of the sampler and of its children: what sampling cost, in ticks.
    own_stats = [line for line in blocks[-1].split("\n") if line.startswith(f"/proc/{own}/stat:")]
    assert sum(map(int, own_stats[-1].rsplit(")", 1)[1].split()[11:15])) < 100


def test_samples_end_when_their_folder_is_gone(router: Router) -> None:
    router.take()
    sampler = subprocess.Popen(
        router.command("sample", router.folder, 1, 50), env=router.environment, stderr=subprocess.PIPE, text=True
    )
    assert eventually((router.folder / "samples").exists)
    router.ok("clean", router.folder)
    assert "is there no space left?" in sampler.communicate(timeout=20)[1]
    assert sampler.returncode == 6
