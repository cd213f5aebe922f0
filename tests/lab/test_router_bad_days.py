"""Faults of a router and of its SSH connection in the middle of a run."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab import rig as rigs
from tests.lab.awaiting import await_traffic, until
from tests.lab.rig import BESIDE, LAN, TRIALS, Rig, other_laptop, outcomes, plan, router, start, trials_in

from tunnelbench.host.ssh import LinkLost
from tunnelbench.model.errors import CannotHere

pytestmark = pytest.mark.lab

NOBODY = 65534


CLEAN_ALL = "cp /tmp/tunnelbench-dut-*/tunnelbench-dut /tmp/dut; sh /tmp/dut clean --all; rm /tmp/dut"
"""Ends a lease as its watchdog does."""


def test_a_lease_that_has_ended_is_a_host_that_was_lost_and_can_be_taken_anew(untouched: Rig, tmp_path: Path) -> None:
    with router(untouched, tmp_path / "a") as host:
        host.take()
        host.hold(10)
        held = host.lease()["left_s"]
        assert 30 < held <= 40
        untouched.on_router(CLEAN_ALL)  # too late for this controller
        with pytest.raises(LinkLost, match=r"the lease of the router, .*, has ended"):
            host.hold(10)
        host.take()
        host.hold(10)


def test_a_controller_that_was_away_does_not_end_the_lease_of_another(untouched: Rig, tmp_path: Path) -> None:
    with router(untouched, tmp_path / "a") as first, router(untouched, tmp_path / "b") as second:
        first.take()
        untouched.on_router(CLEAN_ALL)
        second.take()
        second.ip("route", "add", "198.18.4.1/32", "via", f"{rigs.WAN}.2")
        with pytest.raises(CannotHere, match="test-b uses this router for another"):
            first.take()
        second.hold(10)
        assert second.lease()["owner"] == second.owner
        assert "198.18.4.1 via" in untouched.on_router("ip route")
        assert untouched.on_router("ls -d /tmp/tunnelbench-dut-*").split() == [str(second.folder)]


def test_a_run_whose_controller_was_killed_is_resumed_over_ssh(untouched: Rig, store: str, tmp_path: Path) -> None:
    testbed = str(untouched.testbed_file(quiet_wait_s=0))
    words = [plan(tmp_path, "rounds = 1\n" + TRIALS), "--on", testbed, "--store", store]
    running = start("run", *words)
    try:
        until(lambda: trials_in(store) == 1, "the calibration")
        await_traffic(running.pid)
    finally:
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert "held" in untouched.on_router("sh /tmp/tunnelbench-dut-*/tunnelbench-dut lease show")
    resumed = untouched.tunnelbench("run", "--resume", "last", "--store", store, "--json", check=False)
    assert "1 trial stored, 1 missing" in resumed.stderr
    assert outcomes(resumed.stdout) == [("measured", "")] * 2


def test_a_router_behind_a_jump_host_is_reached_as_the_users_ssh_config_says(untouched: Rig, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host behind\n  HostName {LAN}.1\n  User root\n  ProxyJump root@{BESIDE}.1\n{untouched.ssh_config.read_text()}"
    )
    with other_laptop(untouched):
        rigs.run("ip", "-n", rigs.OTHER, "route", "add", f"{LAN}.0/24", "via", f"{rigs.WAN}.1")
        with router(untouched, tmp_path / "a", host="behind", config=str(config)) as host:
            host.take()
            assert host.facts()["busybox"]
            peers = untouched.on_router("netstat -tn | grep ':22 ' | grep ESTABLISHED")
            assert f"{rigs.WAN}.2:" in peers
            host.release()
            rigs.end_all_of(rigs.OTHER)  # the jump host goes
            until(lambda: not host.is_connected, "the end of the connection")
            with pytest.raises(LinkLost, match="the SSH connection to the router was lost"):
                host.run(["true"])


@pytest.fixture
def of_nobody(rig: Rig) -> Iterator[Path]:
    """A folder of the user nobody, with a copy of the key, and an ssh_config that names it."""
    folder = Path(tempfile.mkdtemp(prefix="tb-sudo-"))
    folder.chmod(0o755)
    try:
        for name in ("id", "known_hosts"):
            shutil.copy(rig.folder / name, folder / name)
            os.chown(folder / name, NOBODY, NOBODY)
        (folder / "id").chmod(0o600)
        config = folder / "config"
        config.write_text(rig.ssh_config.read_text().replace(str(rig.folder), str(folder)))
        config.chmod(0o644)
        yield folder
    finally:
        shutil.rmtree(folder)


def test_under_sudo_the_keys_are_those_of_the_user_who_called(
    untouched: Rig, tmp_path: Path, of_nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    with router(untouched, tmp_path / "a", config=str(of_nobody / "config")) as host:
        assert host.facts()["busybox"]
        processes = rigs.run("ps", "-ww", "-eo", "uid=,args=").splitlines()  # -ww: COLUMNS cuts no line
        masters = [line.split()[0] for line in processes if " -M -N " in line]
        assert masters == [str(NOBODY)]
        host.forget()
    os.chown(of_nobody / "id", 0, 0)  # root's own, which root could read
    with pytest.raises(LinkLost, match="it accepts none of your keys"):
        router(untouched, tmp_path / "b", config=str(of_nobody / "config")).connect()
