"""Lies of programs and clocks that are planted in a trial: each is found by its check."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.lab import scrambler
from tests.lab.bench import NO_TUNNEL, SHORT_TRIALS, TUNNELBENCH, check, pids_of, void_checks
from tests.lab.lies import MidTrial, planted_trial, script, trial
from tests.watcher import Watcher

from tunnelbench.measure.counters import TABLE
from tunnelbench.measure.cpu import HIDDEN
from tunnelbench.model.plan import Direction, TunnelSpec
from tunnelbench.model.result import Outcome, Verdict
from tunnelbench.testbed.netns import RPS_FILE, NetnsTestbed
from tunnelbench.traffic import iperf3
from tunnelbench.tunnel.ssh import Ssh

pytestmark = pytest.mark.lab

OPENVPN = {"mode": "static-key", "cipher": "none"}
AWAY = """\
#!/bin/sh
# An OpenVPN whose process on the router is no child of the run. It takes the place of that of an earlier trial.
case "$1 $2" in
"--config "*/router/*)
    [ ! -f "$0.pid" ] || kill -KILL "$(cat "$0.pid")"
    setsid --fork sh -c 'echo $$ >"$0"; exec openvpn "$@"' "$0.pid" "$@"
    exec sleep 600
    ;;
esac
exec openvpn "$@"
"""
WHOLE = """\
#!/bin/sh
# An OpenVPN that forbids fragments: the kernel refuses each packet that does not fit into the device (EMSGSIZE).
case "$1" in
--config) exec openvpn "$@" --mtu-disc yes ;;
esac
exec openvpn "$@"
"""
PLAN = f'{SHORT_TRIALS}[[tunnel]]\nkind = "none"\n'


def openvpn_as(program: Path, text: str) -> TunnelSpec:
    """Return a tunnel of OpenVPN with a script of this text as its program."""
    program.write_text(text)
    program.chmod(0o755)
    return TunnelSpec("openvpn", "OpenVPN", {**OPENVPN, "program": str(program)})


def test_a_sending_program_that_offers_too_little_is_found(bed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = iperf3.client_command
    monkeypatch.setattr(iperf3, "client_command", lambda *words, **more: [*usual(*words, **more), "--bitrate", "50M"])
    found = check(trial(bed, Watcher()), "sender")
    assert (found.verdict, "application-limited" in found.reason) == (Verdict.DOUBTFUL, True), found


def test_an_iperf3_that_makes_another_test_is_found(bed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = iperf3.client_command
    monkeypatch.setattr(
        iperf3, "client_command", lambda *words, **more: [*usual(*words, **more), "--parallel", "2", "--length", "8K"]
    )
    found = check(trial(bed, Watcher()), "iperf3-settings")
    assert found.verdict is Verdict.VOID, found
    assert "num_streams 2 on the client (planned: 1)" in found.reason
    assert "blksize 8192 on the server (planned: 131072)" in found.reason


def test_a_clock_that_is_set_and_set_back_makes_a_trial_void(
    bed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the clock that the controller reads is false: a test must not set the machine's clock."""
    real, step_s = time.time, 0.0

    def set_by(seconds: float) -> None:
        nonlocal step_s
        step_s = seconds

    monkeypatch.setattr(time, "time", lambda: real() + step_s)
    watcher = MidTrial(lambda _: set_by(0.0), actions=[lambda: set_by(1.0), lambda: set_by(0.0)])
    found = check(trial(bed, watcher, NO_TUNNEL, duration_s=3), "clock")
    assert (found.verdict, "was set by +1.0 s" in found.reason) == (Verdict.VOID, True), found


def renew_wireguard(bed: NetnsTestbed) -> None:
    """Let the router forget its session: its next packet begins a handshake, as it does every two minutes."""
    device = f"wgr-{bed.mark}"
    peer, endpoint = bed.router.run(["wg", "show", device, "endpoints"]).stdout.split()
    bed.router.run(["wg", "set", device, "peer", peer, "remove"])
    bed.router.run(["wg", "set", device, "peer", peer, "allowed-ips", "0.0.0.0/0", "endpoint", endpoint])


def change_keys_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let OpenSSH change its keys after 8 MB: with ChaCha20-Poly1305, it does so after 1 GiB."""
    usual = Ssh._client_command

    def command(tunnel: Ssh, key: str, known_hosts: str) -> list[str]:
        *words, destination = usual(tunnel, key, known_hosts)
        return [*words, "-o", "RekeyLimit=8M", destination]

    monkeypatch.setattr(Ssh, "_client_command", command)


@pytest.mark.parametrize(
    ("tunnel", "action", "words"),
    [
        (TunnelSpec("openvpn", "OpenVPN", {"reneg_sec": 1}), lambda _: None, "Control Channel: TLS"),
        (TunnelSpec("wireguard-go", "WireGuard"), renew_wireguard, "handshake at"),
        (TunnelSpec("ssh", "SSH"), lambda _: None, "rekeying out"),
    ],
    ids=lambda value: value.kind if isinstance(value, TunnelSpec) else "",
)
def test_a_change_of_keys_in_a_timed_trial_is_noted(
    bed: NetnsTestbed,
    monkeypatch: pytest.MonkeyPatch,
    tunnel: TunnelSpec,
    action: Callable[[NetnsTestbed], None],
    words: str,
) -> None:
    change_keys_often(monkeypatch)
    record = trial(bed, MidTrial(actions=[lambda: action(bed)]), tunnel, duration_s=3)
    found = check(record, "rekeys")
    assert (found.verdict, words in found.reason) == (Verdict.NOTE, True), found


def test_openvpn_without_a_cipher_does_not_change_its_keys_after_64_megabytes(bed: NetnsTestbed) -> None:
    record = trial(bed, MidTrial(), TunnelSpec("openvpn", "OpenVPN", {"cipher": "none", "auth": "none"}), duration_s=4)
    assert record.tcp is not None
    assert record.tcp.bytes_received > 64 * 2**20
    found = check(record, "rekeys")
    assert found.verdict is Verdict.OK, found


def test_tincs_control_connection_that_is_cut_makes_a_trial_void(bed: NetnsTestbed) -> None:
    cut = ["ss", "--kill", "--tcp", "--numeric", "state", "established", "( dport = :655 or sport = :655 )"]
    record = trial(bed, MidTrial(actions=[lambda: bed.router.run(cut)]), TunnelSpec("tinc", "tinc"))
    found = check(record, "restart")
    assert (found.verdict, "onnection" in found.reason) == (Verdict.VOID, True), found


def test_a_program_of_the_router_that_moves_to_a_testers_cpu_is_found(bed: NetnsTestbed) -> None:
    def move() -> None:
        for pid in pids_of(bed.router.namespace, "openvpn"):
            os.sched_setaffinity(pid, bed.client.cpus)

    found = check(trial(bed, MidTrial(actions=[move]), TunnelSpec("openvpn", "OpenVPN", OPENVPN)), "router-setup")
    assert (found.verdict, "openvpn on the router may run on" in found.reason) == (Verdict.VOID, True), found


def test_a_program_of_the_testers_that_moves_to_the_routers_cpu_is_found(bed: NetnsTestbed) -> None:
    def move() -> None:
        for pid in pids_of(bed.client.namespace, "iperf3"):
            os.sched_setaffinity(pid, bed.router.cpus)

    found = check(trial(bed, MidTrial(actions=[move]), duration_s=3), "router-setup")
    assert (found.verdict, "iperf3 of the testers may run on" in found.reason) == (Verdict.VOID, True), found


def test_work_of_the_router_that_comes_back_to_its_cpu_is_found(bed: NetnsTestbed) -> None:
    """A program and the packets of a device are on a tester's CPU for a part of the trial."""
    steering = RPS_FILE.format(bed.router_lan_device)

    def move(cpus: tuple[int, ...]) -> None:
        for pid in pids_of(bed.router.namespace, "openvpn"):
            os.sched_setaffinity(pid, cpus)
        bed.router.set_kernel_file(steering, format(sum(1 << cpu for cpu in cpus), "x"))

    watcher = MidTrial(actions=[lambda: move(bed.client.cpus), lambda: move(bed.router.cpus)])
    found = check(trial(bed, watcher, TunnelSpec("openvpn", "OpenVPN", OPENVPN), duration_s=4), "router-setup")
    assert len(watcher.rates_bps) >= len(watcher.actions)
    assert found.verdict is Verdict.VOID, found
    assert "openvpn on the router may run on" in found.reason
    assert f"packets of {bed.router_lan_device} on the router are steered to" in found.reason


@pytest.fixture
def tight_group() -> Iterator[Path]:
    """A control group whose programs may use a tenth of a CPU."""
    root = Path("/sys/fs/cgroup")
    for group, limit in ((root / "cpu/tunnelbench-lie", "cpu.cfs_quota_us"), (root / "tunnelbench-lie", "cpu.max")):
        with suppress(OSError):
            group.mkdir()
            (group / limit).write_text("10000")
            break
    else:
        pytest.skip("no control group with a CPU quota can be made here")
    yield group
    group.rmdir()


@pytest.mark.alone
def test_a_generator_that_gets_a_cpu_quota_in_mid_trial_is_found(bed: NetnsTestbed, tight_group: Path) -> None:
    def limit() -> None:
        for pid in pids_of(bed.server.namespace, "iperf3"):
            (tight_group / "cgroup.procs").write_text(str(pid))

    found = check(trial(bed, MidTrial(actions=[limit]), duration_s=3), "cpu-quota")
    assert found.verdict is Verdict.DOUBTFUL, found


@pytest.mark.parametrize(
    ("figure", "factor", "words"),
    [
        ("seconds", 0.5, "its time is wrong"),
        ("seconds", 2.0, "its time is wrong"),
        ("bytes", 0.5, "it reports too few bytes"),
    ],
)
def test_an_iperf3_that_reports_wrong_figures_is_found(
    bed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch, figure: str, factor: float, words: str
) -> None:
    """The receiver's own figures are false; the sender's, and the series, are true."""
    usual = iperf3.parse

    def parse(client_json: str, server_json: str, direction: Direction) -> iperf3.Iperf3Result:
        ends = [json.loads(text) for text in (client_json, server_json)]
        for end in ends:
            received = end["end"]["sum_received"]
            received[figure] = type(received[figure])(received[figure] * factor)
        return usual(json.dumps(ends[0]), json.dumps(ends[1]), direction)

    monkeypatch.setattr(iperf3, "parse", parse)
    found = check(trial(bed, Watcher()), "iperf3-figures")
    assert (found.verdict, words in found.reason) == (Verdict.DOUBTFUL, True), found


def test_a_tunnel_that_stops_encrypting_after_its_proof_is_found(
    bed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packets of this tunnel keep their lengths, so that no counter shows the change."""
    tunnel = scrambler.use(monkeypatch)
    record = trial(bed, MidTrial(actions=[scrambler.Scrambler.stop_hiding]), tunnel, duration_s=3)
    found = check(record, "proof-after")
    assert (found.verdict, "a known pattern was readable" in found.reason) == (Verdict.VOID, True), found
    assert void_checks(record) - {"foreign-load"} == {"proof-after"}


def test_a_tunnel_that_encrypts_to_the_end_passes_its_proof_again(
    bed: NetnsTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = trial(bed, Watcher(), scrambler.use(monkeypatch))
    assert check(record, "proof-after").verdict is Verdict.OK, record.checks


def test_counters_that_are_reset_in_mid_trial_make_it_void(bed: NetnsTestbed) -> None:
    reset = ["nft", "reset", "counters", "table", "inet", TABLE]
    record = trial(bed, MidTrial(actions=[lambda: bed.server.run(reset)]))
    assert check(record, "outer-protocol-in-trial").verdict is Verdict.VOID


def test_a_hole_for_large_packets_is_reported_with_the_bytes_that_arrived(bed: NetnsTestbed) -> None:
    hole = "type filter hook input priority -300; udp dport 4789 meta length > 1000 drop;"
    plant = f"nft 'table ip lie {{ chain lie {{ {hole} }}; }}'"
    record = planted_trial(bed, lambda bed: script(bed.server, plant, "nft delete table ip lie"), outcome=Outcome.VOID)
    assert "iperf3 received 0 bytes" in record.reason, record.reason
    assert "(MTU)" in record.reason


def test_a_daemon_whose_packets_do_not_fit_is_quoted(tmp_path: Path, bed: NetnsTestbed) -> None:
    set_mtu = f"ip link set {bed.router_wan_device} mtu"
    record = planted_trial(
        bed,
        lambda bed: script(bed.router, f"{set_mtu} 1000", f"{set_mtu} 1500"),
        openvpn_as(tmp_path / "openvpn-whole", WHOLE),
        outcome=Outcome.VOID,
    )
    assert "iperf3 received 0 bytes" in record.reason, record.reason
    assert "; openvpn-whole on the router: " in record.reason
    assert "Message too long" in record.reason


def test_a_program_that_left_the_run_is_named_with_its_socket(tmp_path: Path, bed: NetnsTestbed) -> None:
    try:
        record = trial(bed, Watcher(), openvpn_as(tmp_path / "openvpn-away", AWAY))
    finally:
        for pid in pids_of(bed.router.namespace, "openvpn"):
            os.kill(pid, signal.SIGKILL)
    found = check(record, "foreign-load")
    assert found.verdict is Verdict.VOID, found
    assert "openvpn in the router's network with udp port " in found.reason


@pytest.mark.alone
@pytest.mark.parametrize("end", ["router", "client"])
def test_a_burner_that_proc_does_not_show_makes_a_trial_void(tmp_path: Path, bed: NetnsTestbed, end: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    cpu = {"router": bed.router, "client": bed.client}[end].cpus[0]
    burn = ["taskset", "-c", str(cpu), sys.executable, "-c", "while True: pass"]
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    words = ["run", str(plan), "--set", "quiet_wait_s=0", "--store", str(tmp_path / "store.sqlite"), "--json"]
    with subprocess.Popen(burn) as burner:
        try:
            done = subprocess.run(
                [*inside, TUNNELBENCH, *words], capture_output=True, text=True, check=False, timeout=60
            )
        finally:
            burner.kill()
    trials = json.loads(done.stdout)["trials"]
    (found,) = (each for each in trials[-1]["checks"] if each["name"] == "foreign-load")
    assert (found["verdict"], HIDDEN in found["reason"]) == ("void", True), found
