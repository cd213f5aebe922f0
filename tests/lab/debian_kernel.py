"""Tests in a guest that take minutes if it is emulated: simulated radios, and guests that are killed in mid-run.

`make test` leaves them out: it has a guest that proves tunnels (test_guest.py), and a program in place of a guest that
dies (tests/unit/guest). `make test-debian-kernel` runs them, and proves all tunnels of test_guest.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.lab.awaiting import await_folder, await_machines, await_text
from tests.lab.bench import TUNNELBENCH
from tests.lab.test_guest import LIMIT_S, command

from tunnelbench.guest import machine
from tunnelbench.guest.kernel import debian_kernel
from tunnelbench.guest.machine import Guest, choose_accelerator, left_guests
from tunnelbench.host.cache import cache_folder
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.model.result import Outcome
from tunnelbench.store.store import Store

pytestmark = [pytest.mark.lab, pytest.mark.timeout(500)]

SHORT_PLAN = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 1
interval_s = 0.5
[[tunnel]]
kind = "ipip"
"""

ROAD_WARRIOR = 'kind = "netns"\nkernel = "debian"\ntopology = "road-warrior"\nquiet_wait_s = 0\n'
OF_CLIENTS = """
rounds = 1
[tcp]
payload_bytes = 1200
direction = "out"
duration_s = 2
interval_s = 0.5
[clients]
count = 3
[[tunnel]]
kind = "ipsec"
"""
OF_HANDSHAKES = """
rounds = 1
[handshake]
parallel = 2
rate = 50
duration_s = 10
[[tunnel]]
kind = "ipsec"
"""

PROGRAM = Path(__file__).with_name("debian_kernel_guest.py")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Results of the program in the guest."""
    folder = tmp_path_factory.mktemp("guest")
    init = folder / "init-of-a-test.sh"
    init.write_text(machine.INIT.read_text().replace("-m tunnelbench.guest.worker", str(PROGRAM)))
    kernel = debian_kernel()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "INIT", init)
        try:
            with Guest(kernel, choose_accelerator(kernel, "test00", folder), "test00", folder) as guest:
                found = guest.hello
        finally:
            (cache_folder() / init.name).unlink(missing_ok=True)
    assert "bug" not in found, found["bug"]
    return found


def test_a_wireless_lan_is_recorded_without_names_and_the_card_comes_back(seen: Mapping[str, Any]) -> None:
    assert seen["pinged"]
    assert set(seen["looks"]) == {"client", "router"}
    assert seen["looks"]["client"]["device"] == "wlan1"
    assert seen["looks"]["router"]["device"] == "wlan0"  # a port of the bridge that is its LAN device
    for end in seen["looks"].values():
        radio = end["radio"]
        assert (end["band"], radio["channel"], radio["frequency_mhz"], radio["width_mhz"]) == ("2.4 GHz", 6, 2437, 20)
        assert radio["tx_mbps"] >= 1
        assert radio["rx_mbps"] >= 1
        assert -100 < radio["signal_dbm"] < 0
        assert "bitrate" in end["text"]
        assert "private" not in end["text"]
        assert "02:00:00" not in end["text"]
    assert seen["of_a_cable"] == []
    assert seen["is_back"]


@pytest.mark.timeout(2 * LIMIT_S)
def test_what_a_guest_measured_before_it_was_killed_is_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    before = set(RUN_FOLDER.glob("[0-9]*"))
    said, again = tmp_path / "said.txt", tmp_path / "again.txt"
    with said.open("w") as out, subprocess.Popen(command(tmp_path, SHORT_PLAN), stdout=out, stderr=out) as controller:
        (folder,) = await_folder(before)
        mark = folder.name[-6:]
        await_text(said, "1/3 round 0 testers back to back", LIMIT_S)
        (first,) = left_guests(mark)
        os.kill(first, signal.SIGKILL)
        # The block is not repeated. Another guest is started for the next block.
        await_machines(lambda run: [pid for pid in left_guests(run) if pid != first], mark, 1)
        (second,) = left_guests(mark)
        os.kill(second, signal.SIGKILL)
        assert controller.wait(60) == 3
    printed = said.read_text()
    assert "tunnelbench: a guest ended, and another did not come up: the guest ended; last on its console: " in printed
    assert f"hint: tunnelbench run --resume {folder.name} measures the missing trials" in printed
    store = tmp_path / "results.sqlite"
    with Store.open(str(store), create=False) as kept:
        calibration, baseline = kept.trials(folder.name)
    assert (calibration.spec.round, calibration.reason.startswith("the guest ended")) == (0, False)
    assert (baseline.spec.tunnel.kind, baseline.outcome) == ("none", Outcome.VOID)
    assert baseline.reason.startswith("the guest ended; last on its console: ")
    assert (left_guests(mark), folder.exists()) == ([], False)

    resume = [TUNNELBENCH, "run", "--resume", folder.name, "--store", str(store)]
    with again.open("w") as out, subprocess.Popen(resume, stdout=out, stderr=out) as controller:
        await_machines(left_guests, mark, 1)
        controller.send_signal(signal.SIGINT)
        assert controller.wait(60) == 130
    assert f"run {folder.name}: 2 trials stored, 1 missing" in again.read_text()
    assert (left_guests(mark), folder.exists()) == ([], False)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("text", [OF_CLIENTS, OF_HANDSHAKES], ids=["clients", "handshakes"])
def test_an_ipsec_server_has_several_clients(text: str, tmp_path: Path) -> None:
    plan, testbed = tmp_path / "plan.toml", tmp_path / "testbed.toml"
    plan.write_text(text)
    testbed.write_text(ROAD_WARRIOR)
    words = ["run", str(plan), "--on", str(testbed), "--store", str(tmp_path / "results.sqlite"), "--json"]
    done = subprocess.run([TUNNELBENCH, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in {0, 3}, done.stderr  # 3: on a machine that others use, no figure counts
    (trial,) = [each for each in json.loads(done.stdout)["trials"] if each["spec"]["tunnel"]["kind"] == "ipsec"]
    assert trial["proof"] is not None, trial["reason"]
    assert {each["reason"] for each in trial["proof"]["checks"] if each["verdict"] != "ok"} == set()
    assert trial["outcome"] == "measured", trial["reason"]
    if text == OF_CLIENTS:
        assert len(trial["tcp"]["clients"]) == 3
        assert {each["name"] for each in trial["proof"]["checks"]} >= {"clients", "kernel-packets-out"}
    else:
        found = trial["udp"]["handshakes"]
        assert found["failed"] == 0
        assert sum(client["finished"] for client in found["clients"]) > 2
