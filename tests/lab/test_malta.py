"""A virtual router: its image, a short matrix through it by SSH, and the end of both when the controller is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.lab.awaiting import await_folder, await_machines
from tests.lab.bench import TRIALS_OF_A_VIRTUAL_ROUTER, TUNNELBENCH

from tunnelbench.analysis.packet_instructions import packet_instructions
from tunnelbench.cli.common_options import open_store
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.qemu.boards import MALTA
from tunnelbench.qemu.image import Image, find_image
from tunnelbench.qemu.machine import ALIAS, left_machines
from tunnelbench.tunnel import virtual_router_packages

pytestmark = pytest.mark.lab

PLAN = (
    TRIALS_OF_A_VIRTUAL_ROUTER
    + """
[udp]
payload_bytes = 18
direction = "out"
test = "rate"
rate = [100, 400]
duration_s = 1
[[tunnel]]
kind = "openvpn"
cipher = "AES-128-CBC"
[[tunnel]]
kind = "vxlan"
"""
)
TESTBED = """
kind = "qemu"
board = "malta"
speed_mips = 62.5
"""
"""The testbed `malta` without its second virtual machine, which `make test-boards` has."""
TRIALS = {"testers back to back", "no tunnel", "openvpn", "vxlan"}
SET = ("--set", "quiet_wait_s=0")
LIMIT_S = 400
"""Time limit for an emulated machine on a busy machine [s]; a quiet machine needs a quarter of it."""
BUILD_IPK = Path(__file__).parents[2] / "openwrt" / "build-ipk"
UNPACK = """
set -e
mkdir /tmp/package && cd /tmp/package
tar xzf - && tar xzf data.tar.gz && tar xzf control.tar.gz
test "$(cat debian-binary)" = 2.0 && grep -q '^Package: tunnelbench-dut$' control
./usr/sbin/tunnelbench-dut facts
rm -r /tmp/package
"""
"""Unpacks the package like opkg, in another folder: a compressed tar that contains two more."""
PROOF = {"reach", "route-router", "route-server", "outer-protocol", "payload-pattern", "outer-length"}


@pytest.fixture(scope="module")
def image() -> Image:
    return find_image(MALTA, virtual_router_packages(), print)


def command(folder: Path) -> list[str]:
    plan = folder / "plan.toml"
    plan.write_text(PLAN)
    testbed, store = folder / "testbed.toml", str(folder / "results.sqlite")
    testbed.write_text(TESTBED)
    return [TUNNELBENCH, "run", str(plan), "--on", str(testbed), *SET, "--store", store]


def run_package(ssh_config: Path, folder: Path) -> dict[str, Any]:
    """Unpack the package for OpenWrt on the virtual router as soon as that is up, and return the router's facts."""
    package = subprocess.run([str(BUILD_IPK), str(folder)], capture_output=True, text=True, check=True).stdout.strip()
    ssh = ["ssh", "-F", str(ssh_config), "-o", "ConnectTimeout=5", ALIAS]
    deadline = time.monotonic() + LIMIT_S
    while (
        not ssh_config.exists()
        or subprocess.run([*ssh, "true"], check=False, capture_output=True, timeout=60).returncode != 0
    ):
        assert time.monotonic() < deadline, "the router does not answer"
        time.sleep(0.5)
    done = subprocess.run(
        [*ssh, UNPACK], input=Path(package).read_bytes(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.timeout(3 * LIMIT_S + 300)
def test_tunnels_are_proven_through_a_virtual_router_that_says_how_busy_it_was(image: Image, tmp_path: Path) -> None:
    before = set(RUN_FOLDER.glob("[0-9]*"))
    argv = [*command(tmp_path), "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            (folder,) = await_folder(before)
            facts_of_package = run_package(folder / "machine-router" / "ssh_config", tmp_path)
            output, errors = running.communicate(timeout=LIMIT_S)
        finally:
            running.terminate()
    assert facts_of_package["architecture"].startswith("mips")
    assert facts_of_package["kernel"] == image.kernel_version
    assert facts_of_package["busybox"]
    assert running.returncode in {0, 3}, errors  # 3: on a machine that others use, no figure counts
    found = json.loads(output)
    facts = found["run"]["host_facts"]
    assert facts["guest_kernel"] == image.kernel_version
    assert facts["guest"] == "on a virtual router, emulated"
    trials = {trial["spec"]["tunnel"]["name"]: trial for trial in found["trials"] if trial["spec"]["test"] == "tcp"}
    assert {name.split()[0] for name in trials} == {name.split()[0] for name in TRIALS}
    for name, trial in trials.items():
        if name == "testers back to back":
            continue
        proof = trial["proof"]
        assert proof is not None, trial["reason"]
        assert {check["verdict"] for check in proof["checks"]} == {"ok"}
        assert {check["name"] for check in proof["checks"]} >= PROOF
        if trial["outcome"] == "measured":  # on a machine that stands still there may be no window
            router = trial["tcp"]["window"]["router_cpu"]
            assert router["idle_s"] < router["wall_s"] * 0.9
            busy_s = router["wall_s"] - router["idle_s"]
            assert trial["tcp"]["window"]["router_instructions"] == pytest.approx(busy_s * 62.5e6, rel=0.001)
            assert "router-clock" in {check["name"] for check in trial["checks"]}
            # Too few packets say nothing about the testers' ACKs, nor does a trial in which somebody had no CPU.
            is_void = any(check["verdict"] == "void" for check in trial["checks"])
            if trial["tcp"]["window"]["data_packets"] > 1000 and not is_void:
                assert trial["tcp"]["window"]["ack_packets"] / trial["tcp"]["window"]["data_packets"] > 0.35
    with open_store(tmp_path / "results.sqlite") as store:
        paced = [record for record in store.trials(found["run"]["run_id"], with_raw=False) if record.udp]
    counting = [record for record in paced if record.counts and record.udp and record.udp.counts]
    if len(counting) == 6 and not any(record.udp.counts.path_lost_packets for record in counting):  # type: ignore[union-attr]
        work = {each.tunnel.kind: each.by_payload[18].median for each in packet_instructions(paced)}
        assert 1000 < work["no tunnel"] < work["vxlan"] < work["openvpn"]
    mark = found["run"]["run_id"][-6:]
    assert left_machines(mark) == []


def test_a_controller_that_is_killed_takes_its_virtual_router_with_it(image: Image, tmp_path: Path) -> None:
    before = set(RUN_FOLDER.glob("[0-9]*"))
    with subprocess.Popen(command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as controller:
        (folder,) = await_folder(before)
        mark = folder.name[-6:]
        await_machines(left_machines, mark, 1)
        controller.send_signal(signal.SIGKILL)
    await_machines(left_machines, mark, 0)
    cleaned = subprocess.run([TUNNELBENCH, "clean"], capture_output=True, text=True, timeout=30, check=True)
    assert folder.name in cleaned.stdout
    assert not folder.exists()
