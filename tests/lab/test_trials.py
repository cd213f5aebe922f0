"""Causes of a void trial: a daemon that dies, merged frames, background load on the testbed's CPUs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.lab.bench import NO_TUNNEL, check, make_plan, make_testbed, measure, pids_of, void_checks
from tests.watcher import Watcher

from tunnelbench.host.host import Host
from tunnelbench.model.plan import Direction, TrialSpec, TunnelSpec
from tunnelbench.model.result import Outcome, Verdict
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

OPENVPN = TunnelSpec("openvpn", "OpenVPN", {"mode": "static-key", "cipher": "AES-128-CBC", "auth": "SHA1"})
BOTH = (Direction.IN, Direction.OUT)


@pytest.mark.parametrize(
    ("end", "after_s"), [("router", 0.05), ("server", 0.05), ("router", 1.2), ("server", 1.2), ("router", 1.97)]
)
def test_a_daemon_that_dies_makes_its_trial_void_and_the_next_is_measured(
    testbed: NetnsTestbed, end: str, after_s: float
) -> None:
    victims: list[int] = []

    def kill() -> None:
        for pid in pids_of(f"tb-{testbed.mark}-{end}", "openvpn"):
            victims.append(pid)
            os.kill(pid, signal.SIGKILL)

    def at_trial(_: TrialSpec) -> None:
        if not victims:
            threading.Timer(after_s, kill).start()

    watcher = Watcher(at_trial)
    first, second = measure(testbed, make_plan(OPENVPN, direction=BOTH, duration_s=2), watcher)
    assert len(victims) == 1
    assert first.outcome is Outcome.VOID
    assert first.reason.startswith(f"openvpn on the {end} ended during the trial; last: ")
    assert first.tcp is None
    assert second.outcome is Outcome.MEASURED, second.reason
    assert watcher.tunnels == ["OpenVPN", "OpenVPN"], "the tunnel is set up again"


def test_a_generator_that_does_not_start_makes_its_trials_void_with_its_words(
    testbed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.traffic.iperf3.server_command", lambda *_: ["sh", "-c", "echo no; exit 1"])
    records = measure(testbed, make_plan(NO_TUNNEL, direction=BOTH))
    assert [record.outcome for record in records] == [Outcome.VOID, Outcome.VOID]
    assert records[0].reason == "iperf3's server does not listen: no"


class MergesOnItsCables(NetnsTestbed):
    """A testbed whose veths keep their default offloads."""

    def set_up(self) -> None:
        super().set_up()
        for host, devices in ((self.client, ["lan"]), (self.router, ["lan", "wan"]), (self.server, ["wan"])):
            for device in devices:
                host.run(["ethtool", "-K", device, "tx", "on", "tso", "on", "gso", "on", "gro", "on"])


class MergesInItsTunnels(NetnsTestbed):
    """A testbed whose tunnel devices keep their default offloads."""

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        self._steer(host, device)


@pytest.mark.parametrize(
    ("kind", "tunnel"),
    [(MergesOnItsCables, NO_TUNNEL), (MergesInItsTunnels, TunnelSpec("vxlan", "VXLAN"))],
    ids=["cables", "tunnels"],
)
def test_frames_that_hold_several_packets_make_a_trial_void(
    lab: None, tmp_path: Path, kind: type[NetnsTestbed], tunnel: TunnelSpec
) -> None:
    with make_testbed(tmp_path / "run", kind=kind) as testbed:
        records = measure(testbed, make_plan(tunnel, direction=BOTH))
    assert [record.outcome for record in records] == [Outcome.MEASURED, Outcome.MEASURED], records[0].reason
    assert any("merged-frames" in void_checks(record) for record in records), [
        check(record, "merged-frames").reason for record in records
    ]


@contextmanager
def background_load(folder: Path, work: str = "pass") -> Iterator[None]:
    """Run a process that does this work again and again, and is no descendant of the test; `pass` uses CPU time."""
    pid_path = folder / "load.pid"
    burn = (
        "import os, subprocess, sys, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\n"
        "end = time.monotonic() + 30\n"
        f"while time.monotonic() < end: {work}\n"
    )
    subprocess.run([sys.executable, "-c", burn, pid_path], check=True)
    while not pid_path.exists() or not pid_path.read_text().endswith("\n"):
        time.sleep(0.01)
    pid = int(pid_path.read_text())
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.alone
def test_strangers_on_our_cpus_are_waited_for_and_then_make_a_trial_void(lab: None, tmp_path: Path) -> None:
    watcher = Watcher()
    with make_testbed(tmp_path / "run", quiet_wait_s=1) as testbed, background_load(tmp_path):
        (beside,) = measure(testbed, make_plan(NO_TUNNEL), watcher)
    assert beside.outcome is Outcome.MEASURED, beside.reason
    found = check(beside, "foreign-load")
    assert found.verdict is Verdict.VOID
    assert "python" in found.reason
    assert not beside.counts
    assert watcher.waits_s[0] == pytest.approx(1, abs=0.5)


@pytest.mark.alone
def test_a_parent_is_not_blamed_for_the_cpu_time_of_its_children(lab: None, tmp_path: Path) -> None:
    child = "subprocess.run([sys.executable, '-c', 'sum(range(3_000_000))'])"
    with make_testbed(tmp_path / "run", quiet_wait_s=0) as testbed, background_load(tmp_path, child):
        (beside,) = measure(testbed, make_plan(NO_TUNNEL))
    found = check(beside, "foreign-load")
    assert found.verdict is Verdict.VOID
    assert "ended children of python" in found.reason
