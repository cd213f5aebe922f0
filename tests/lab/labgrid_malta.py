"""A virtual MIPS router as a place of labgrid, whose power labgrid switches; `make test-labgrid` runs this."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.awaiting import await_text, await_traffic, until
from tests.lab.labgrid_runs import COUNTING_OR_NOT
from tests.lab.rig import end_all_of, outcomes, plan, run, trials_in
from tests.labgrid_rack import LabgridRack, labgrid_rack, service

from tunnelbench.qemu.boards import MALTA
from tunnelbench.qemu.image import find_image
from tunnelbench.qemu.machine import ALIAS
from tunnelbench.tunnel import virtual_router_packages

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

BENCH = "tbt-labgrid"
PORT, SSH_PORT, SWITCH_PORT = 20408, 20422, 20409
GROUPS = {"malta": {"NetworkService": service("127.0.0.1", port=SSH_PORT), "NetworkPowerPort": {}}}
ENTER = ("nsenter", f"--net=/run/netns/{BENCH}")
PLAN = """
rounds = 2
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 5
interval_s = 0.5
[[tunnel]]
kind = "vxlan"
"""
TESTBED = """
kind = "ssh"
quiet_wait_s = 0
place = "malta"
power_after_s = 60
[router]
config = "{config}"
lan_device = "lan"
wan_device = "wan"
[client]
device = "nic0"
address = "198.18.1.2/24"
[server]
device = "nic1"
address = "198.18.2.2/24"
"""
SLOW_S = 600.0
"""Time limit for an emulated machine on a busy machine [s]."""


@pytest.fixture
def folder(lab: None, tmp_path: Path) -> Iterator[Path]:
    """The folder of a virtual router that is up between two taps of a namespace."""
    find_image(MALTA, virtual_router_packages(), print)
    run("ip", "netns", "add", BENCH)
    run("ip", "-n", BENCH, "link", "set", "lo", "up")
    program = [sys.executable, str(Path(__file__).with_name("malta_on_a_switch.py"))]
    log = tmp_path / "machine.log"
    with log.open("wb") as out:
        router = subprocess.Popen(
            [*ENTER, *program, str(tmp_path), str(SSH_PORT), str(SWITCH_PORT)], stdout=out, stderr=out
        )
    try:
        await_text(log, "ready")
        config = tmp_path / "ssh_config"
        config.write_text(config.read_text().replace(f"Host {ALIAS}", "Host *"))
        for device, address in (("nic0", "198.18.1.2/24"), ("nic1", "198.18.2.2/24")):
            run("ip", "-n", BENCH, "link", "set", device, "up")
            run("ip", "-n", BENCH, "addr", "add", address, "dev", device)
        ssh = [*ENTER, "ssh", "-F", str(config), "-p", str(SSH_PORT), "root@127.0.0.1", "true"]
        until(lambda: subprocess.run(ssh, check=False, capture_output=True).returncode == 0, "the router is up", SLOW_S)
        yield tmp_path
    finally:
        router.kill()
        router.wait()
        end_all_of(BENCH)
        run("ip", "netns", "del", BENCH)


@pytest.fixture
def rack(folder: Path) -> Iterator[LabgridRack]:
    (folder / "rack").mkdir()
    with labgrid_rack(folder / "rack", PORT, GROUPS, ENTER, has_switch=True) as made:
        yield made


def test_a_virtual_router_that_hangs_in_mid_run_is_switched_off_and_on_by_labgrid(
    folder: Path, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    testbed = tmp_path / "malta.toml"
    testbed.write_text(TESTBED.format(config=folder / "ssh_config"))
    tunnelbench = str(Path(sys.executable).with_name("tunnelbench"))
    argv = [*ENTER, tunnelbench, "run", plan(tmp_path, PLAN), "--on", str(testbed), "--store", store, "--json"]
    output, errors = tmp_path / "output", tmp_path / "errors"
    with output.open("wb") as out, errors.open("wb") as err:
        running = subprocess.Popen(argv, stdout=out, stderr=err)
    try:
        until(lambda: trials_in(store) == 1, "the calibration", SLOW_S)
        assert "-tunnelbench-" in rack.holder_of("malta")
        await_traffic(running.pid)
        time.sleep(2)  # some of the trial
        (qemu,) = [pid for pid in run("ip", "netns", "pids", BENCH).split() if _is_qemu(pid)]
        run("kill", "-STOP", qemu)
        assert running.wait(SLOW_S) in COUNTING_OR_NOT, errors.read_text()
    finally:
        running.kill()
        running.wait()
    assert (folder / "switched").read_text() == "01"
    assert "labgrid has switched the power of the place malta off and on" in errors.read_text()
    _, (first, _), (second, reason) = outcomes(output.read_text())
    assert first == "void"
    assert second == "measured", reason
    assert json.loads(output.read_text())["run"]["host_facts"]["router_place"] == "malta"
    assert rack.holder_of("malta") == "None"


def _is_qemu(pid: str) -> bool:
    try:
        return "qemu" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:  # it has just ended
        return False
