"""Programs that misbehave: the trial is void with the reason, the tunnel comes up anew, the run goes on."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab.bench import NO_TUNNEL, check, make_plan, measure, open_tunnel, pids_of, processes_of, void_checks
from tests.lab.lies import MidTrial
from tests.watcher import Watcher

from tunnelbench.model.plan import Direction, TrialSpec, TunnelSpec
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel.base import End, Tunnel
from tunnelbench.tunnel.none import NoTunnel
from tunnelbench.tunnel.wireguard import CONTROL_SOCKETS

pytestmark = pytest.mark.lab

OPENVPN = {"mode": "static-key", "cipher": "AES-128-CBC", "auth": "SHA1"}
BOTH = (Direction.IN, Direction.OUT)


class Once:
    """Sends a signal to a program at one end, a moment after the first trial has started."""

    def __init__(self, testbed: NetnsTestbed, end: str, program: str, number: signal.Signals, after_s: float) -> None:
        self.hit: list[int] = []

        def strike() -> None:
            for pid in pids_of(f"tb-{testbed.mark}-{end}", program):
                os.kill(pid, number)
                self.hit.append(pid)

        self.timer = threading.Timer(after_s, strike)

    def __call__(self, _: TrialSpec) -> None:
        if not self.timer.ident:
            self.timer.start()


def disturbed(testbed: NetnsTestbed, tunnel: TunnelSpec, once: Once) -> tuple[TrialRecord, TrialRecord, Watcher]:
    """Two trials, of which the first is disturbed."""
    watcher = Watcher(once)
    first, second = measure(testbed, make_plan(tunnel, direction=BOTH, duration_s=2), watcher)
    assert once.hit, "nobody was hit"
    return first, second, watcher


@pytest.mark.parametrize("end", ["router", "server"])
def test_a_daemon_that_hangs_makes_its_trial_void_and_the_next_gets_a_new_tunnel(
    testbed: NetnsTestbed, end: str
) -> None:
    once = Once(testbed, end, "openvpn", signal.SIGSTOP, 1.0)
    first, second, watcher = disturbed(testbed, TunnelSpec("openvpn", "OpenVPN", OPENVPN), once)
    assert first.outcome is Outcome.VOID
    assert first.reason == f"openvpn on the {end} was stopped during the trial (SIGSTOP)"
    assert second.outcome is Outcome.MEASURED, second.reason
    assert watcher.tunnels == ["OpenVPN", "OpenVPN"]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP], ids=lambda number: number.name)
def test_a_daemon_that_restarts_itself_makes_its_trial_void(testbed: NetnsTestbed, number: signal.Signals) -> None:
    once = Once(testbed, "router", "openvpn", number, 1.0)
    first, second, _ = disturbed(testbed, TunnelSpec("openvpn", "OpenVPN", {"cipher": "AES-128-GCM"}), once)
    assert not first.counts
    if first.outcome is Outcome.MEASURED:
        assert "restart" in void_checks(first)
        assert "process restarting" in check(first, "restart").reason
    assert second.outcome is Outcome.MEASURED, second.reason


@pytest.mark.parametrize("end", ["client", "server"])
def test_an_iperf3_that_hangs_makes_its_trial_void_and_is_gone_before_the_next(
    testbed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("tunnelbench.measure.trial_monitor.SENDER_GRACE_S", 5.0)
    first, second, _ = disturbed(testbed, NO_TUNNEL, Once(testbed, end, "iperf3", signal.SIGSTOP, 1.0))
    assert first.outcome is Outcome.VOID
    assert "iperf3" in first.reason
    assert second.outcome is Outcome.MEASURED, second.reason


@pytest.mark.parametrize("end", ["client", "server"])
def test_an_iperf3_that_is_killed_is_reported_with_its_host_and_the_signal(testbed: NetnsTestbed, end: str) -> None:
    first, second, _ = disturbed(testbed, NO_TUNNEL, Once(testbed, end, "iperf3", signal.SIGKILL, 1.0))
    assert first.outcome is Outcome.VOID
    assert first.reason.startswith(f"iperf3 on the {end} was killed by SIGKILL; ")
    assert second.outcome is Outcome.MEASURED, second.reason


def test_a_program_that_is_killed_in_its_last_trial_leaves_no_control_socket(testbed: NetnsTestbed) -> None:
    once = Once(testbed, "router", "wireguard-go", signal.SIGKILL, 1.0)
    plan = make_plan(TunnelSpec("wireguard-go", "WireGuard"), duration_s=2)
    (record,) = measure(testbed, plan, Watcher(once))
    assert once.hit
    assert record.outcome is Outcome.VOID
    assert record.reason.startswith("wireguard-go on the router ended during the trial; last: ")
    assert list(CONTROL_SOCKETS.glob(f"*{testbed.mark}*")) == []


def test_a_trial_continues_if_the_processes_in_its_namespaces_are_killed(testbed: NetnsTestbed) -> None:
    """A sleeping process in each namespace gives access to its counters."""
    killed: list[int] = []

    def kill() -> None:
        for host in (testbed.client, testbed.router, testbed.server):
            for pid in pids_of(host.namespace, "sleep"):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    (record,) = measure(testbed, make_plan(NO_TUNNEL, duration_s=3), MidTrial(actions=[kill]))
    assert len(killed) >= 3
    assert record.outcome is Outcome.MEASURED, record.reason


def test_readings_of_megabytes_are_read_whole(testbed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def note(text: str) -> str:
        sizes.append(len(text))
        return ""

    monkeypatch.setattr("tunnelbench.traffic.iperf3.for_store", note)
    plan = make_plan(NO_TUNNEL, duration_s=6, interval_s=0.1, streams=128)
    (record,) = measure(testbed, plan)
    assert record.tcp is not None, record.reason
    assert plan.tcp is not None
    beside = 128 * 2000  # what iperf3 prints of each stream at its start and its end
    assert 1_000_000 < max(sizes) < plan.tcp.result_bytes + beside, "`check` expects less than iperf3 prints"
    assert len(record.tcp.intervals) > 10


@pytest.fixture
def wrapper(tmp_path: Path) -> Callable[[str], str]:
    """A program of that script which ends by being the real openvpn."""

    def write(script: str) -> str:
        path = tmp_path / "wrapped-openvpn"
        path.write_text(f"#!/bin/sh\nreal={shutil.which('openvpn')}\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


def test_a_daemon_that_prints_megabytes_is_measured_all_the_same(
    testbed: NetnsTestbed, wrapper: Callable[[str], str]
) -> None:
    chatty = wrapper('case "$1" in --config) yes "some words" | head -c 20000000 ;; esac\nexec "$real" "$@"')
    (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "OpenVPN", {**OPENVPN, "program": chatty})))
    assert record.outcome is Outcome.MEASURED, record.reason
    assert record.proof is not None
    assert sum(len(text) for text in record.proof.raw.values()) < 3_000_000


def test_a_daemon_that_dies_while_its_device_is_awaited_is_reported_with_its_log(
    testbed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Tunnel._registry, "dying", DyingTunnel)
    started_s = time.monotonic()
    (record,) = measure(testbed, make_plan(TunnelSpec("dying", "dying")))
    assert time.monotonic() - started_s < 10
    assert record.outcome is Outcome.REFUSED
    assert record.reason == (
        "none: no device tun0 on the router: dying on the router ended while the tunnel came up; "
        r"last: key [key] / \x1b[2J / device refused"
    )
    (log,) = [text for name, text in record.raw.items() if name.startswith("router.")]
    assert log.splitlines() == ["starting", "key [key]", "\033[2J", "device refused"]


KEY = "0123456789abcdef" * 2


class DyingTunnel(NoTunnel):
    """A tunnel whose program prints four lines, of which one has a key, and ends."""

    def device_at(self, end: End) -> str:
        return "tun0"

    def _up(self) -> None:
        script = 'printf "starting\\nkey $1\\n\\033[2J\\ndevice refused\\n"; sleep 0.2; exit 1'
        self._start(self.ends.router, ["sh", "-c", script, "sh", KEY], name="dying")
        self._await_device(self.ends.router, timeout_s=60)


def test_a_daemon_that_never_ends_to_print_is_ended_before_it_fills_the_memory(
    testbed: NetnsTestbed, wrapper: Callable[[str], str]
) -> None:
    endless = wrapper('case "$1" in --config) exec yes "some words" ;; esac\nexec "$real" "$@"')
    (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "OpenVPN", {**OPENVPN, "program": endless})))
    assert record.outcome is Outcome.REFUSED
    assert "it was ended because it printed more than 100 MB" in record.reason


def test_a_daemon_that_ignores_the_request_to_end_is_killed_with_all_that_it_started(
    testbed: NetnsTestbed, wrapper: Callable[[str], str]
) -> None:
    stubborn = wrapper('trap \'\' TERM INT HUP\nsleep 1000 &\n"$real" "$@"; sleep 1000')
    started_s = time.monotonic()
    measure(testbed, make_plan(TunnelSpec("openvpn", "OpenVPN", {**OPENVPN, "program": stubborn})))
    assert processes_of(testbed) == []
    assert time.monotonic() - started_s < 60


@pytest.mark.parametrize(
    ("says", "version"),
    [("echo 'OpenVPN 17.3-next [SSL (OtherSSL)] built on a Sunday'", "17.3-next"), ("printf '\\000\\377'", "unknown")],
    ids=["newer", "unreadable"],
)
def test_a_program_of_an_unknown_version_is_measured_and_its_version_reported(
    testbed: NetnsTestbed, wrapper: Callable[[str], str], says: str, version: str
) -> None:
    strange = wrapper(f'case "$1" in --version) {says} ;; *) exec "$real" "$@" ;; esac')
    (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "OpenVPN", {**OPENVPN, "program": strange})))
    assert record.outcome is Outcome.MEASURED, record.reason
    assert record.proof is not None
    assert record.proof.versions["router.openvpn"] == version


def test_three_failures_in_a_row_end_a_tunnel_and_not_the_run(testbed: NetnsTestbed) -> None:
    killing = Watcher(lambda _: kill_in(testbed, 0.3))
    records = measure(testbed, make_plan(TunnelSpec("openvpn", "OpenVPN", OPENVPN), payload_bytes=(1448, 700, 76),
                                         direction=BOTH), killing)  # fmt: skip
    assert [record.outcome for record in records] == [Outcome.VOID] * 3 + [Outcome.GIVEN_UP] * 3
    assert records[3].reason.startswith("not tried again after 3 failures in a row; the last: openvpn on the router")
    assert killing.tunnels == ["OpenVPN"] * 3


def kill_in(testbed: NetnsTestbed, after_s: float) -> None:
    def kill() -> None:
        for pid in pids_of(testbed.router.namespace, "openvpn"):
            os.kill(pid, signal.SIGKILL)

    threading.Timer(after_s, kill).start()


def test_a_charon_that_is_killed_leaves_no_rule_of_routing(testbed: NetnsTestbed) -> None:
    """Each packet of the next tunnels would pay for it."""
    hosts = (testbed.router, testbed.server)
    before = [host.ip("rule", "show").stdout for host in hosts]
    with open_tunnel(testbed, TunnelSpec("ipsec-userspace", "IPsec")) as tunnel:
        assert all("lookup 220" in host.ip("rule", "show").stdout for host in hosts)
        for daemon in tunnel.daemons:
            os.kill(daemon.pid, signal.SIGKILL)
            daemon.wait(5)
    assert [host.ip("rule", "show").stdout for host in hosts] == before
