"""A virtual MIPS router as a place of labgrid, whose power labgrid switches; `make test-labgrid` runs this."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.awaiting import await_traffic, until
from tests.lab.labgrid_runs import COUNTING_OR_NOT
from tests.lab.rig import outcomes, plan, run, trials_in
from tests.lab.switched_router import BENCH, ENTER, SLOW_S, SSH_PORT, TESTBED, switched_router
from tests.labgrid_rack import LabgridRack, labgrid_rack, service

from tunnelbench.qemu.boards import MALTA

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

PORT = 20408
GROUPS = {"malta": {"NetworkService": service("127.0.0.1", port=SSH_PORT), "NetworkPowerPort": {}}}
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


@pytest.fixture
def config(lab: None, tmp_path: Path) -> Iterator[Path]:
    """The SSH configuration of a virtual router that is up."""
    with switched_router(tmp_path, MALTA) as made:
        yield made


@pytest.fixture
def rack(config: Path, tmp_path: Path) -> Iterator[LabgridRack]:
    (tmp_path / "rack").mkdir()
    with labgrid_rack(tmp_path / "rack", PORT, GROUPS, ENTER, has_switch=True) as made:
        yield made


def test_a_virtual_router_that_hangs_in_mid_run_is_switched_off_and_on_by_labgrid(
    config: Path, rack: LabgridRack, store: str, tmp_path: Path
) -> None:
    testbed = tmp_path / "malta.toml"
    testbed.write_text(TESTBED.format(config=config, more='place = "malta"\npower_after_s = 60', router=""))
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
    assert (tmp_path / "switched").read_text() == "01"
    assert "labgrid has switched the power of the place malta off and on" in errors.read_text()
    found = outcomes(output.read_text())  # a calibration, then no tunnel and VXLAN in each round
    assert [outcome for outcome, _ in found] == ["measured", "void", "measured", "measured", "measured"], found
    assert json.loads(output.read_text())["run"]["host_facts"]["router_place"] == "malta"
    assert rack.holder_of("malta") == "None"


def _is_qemu(pid: str) -> bool:
    try:
        return "qemu" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:  # it has just ended
        return False
