"""Tunnels of every kind: up, proven, measured, and gone without a trace."""

from __future__ import annotations

import socket
from unittest.mock import Mock

import pytest
from tests.conftest import KERNEL_FEATURE
from tests.lab.bench import check, make_plan, measure, open_tunnel, processes_of, secret_files
from tests.unit.tunnel.cases import make_tunnel, tunnel_cases

from tunnelbench.host.inside import call_inside
from tunnelbench.measure.counters import closed_ports
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Outcome, TrialRecord, Verdict
from tunnelbench.plan import read_plan
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel import PLANNED, option_schemas, unmet
from tunnelbench.tunnel.wireguard import CONTROL_SOCKETS, Options

pytestmark = pytest.mark.lab

OF_THE_KERNEL = {case.kind for case in tunnel_cases().values() if case.needs_kernel}
"""Kinds that need a kernel such as that of the guest, in which another test measures them."""
QUICK = [
    tunnel
    for tunnel in read_plan("quick", option_schemas(), [], PLANNED).plan.tunnels
    if tunnel.kind not in OF_THE_KERNEL
]
MORE = [
    TunnelSpec(case.kind, f"{case.kind} {' '.join(map(str, options.values()))}".strip(), options)
    for case in tunnel_cases().values()
    if not case.needs_kernel
    for options in case.measured
]
MEASURED = [pytest.param(tunnel, id=tunnel.name.replace(" ", "-")) for tunnel in [*QUICK, *MORE]]
TRIAL_CHECKS = ("merged-frames", "outer-protocol-in-trial", "packet-rate")


def require_measured(record: TrialRecord) -> None:
    """Assert that a trial is proven, and that no check of its tunnel makes it void."""
    assert record.outcome is Outcome.MEASURED, record.reason
    assert record.proof is not None
    assert {found.verdict for found in record.proof.checks} == {Verdict.OK}
    assert {"reach", "route-router", "route-server", "outer-protocol", "payload-pattern", "outer-length"} <= {
        found.name for found in record.proof.checks
    }
    for name in TRIAL_CHECKS:
        assert check(record, name).verdict is Verdict.OK, check(record, name).reason
    assert record.tcp is not None
    assert record.tcp.throughput_bps > 1e6
    assert "unknown" not in record.proof.versions.values()
    assert {name.split(".")[0] for name in record.proof.versions} == {"client", "router", "server"}


@pytest.mark.parametrize("tunnel", MEASURED)
def test_a_tunnel_is_proven_measured_and_gone_without_a_trace(testbed: NetnsTestbed, tunnel: TunnelSpec) -> None:
    (record,) = measure(testbed, make_plan(tunnel))
    require_measured(record)
    assert processes_of(testbed) == []
    assert secret_files(testbed.folder) == []
    assert list(CONTROL_SOCKETS.glob(f"*{testbed.mark}*")) == []
    for host in (testbed.router, testbed.server):
        devices = {line.split(":")[1].split("@")[0].strip() for line in host.ip("-o", "link").stdout.splitlines()}
        assert devices == {"lo", "lan", "wan"} & devices


def test_while_a_tunnel_is_up_its_keys_are_for_root_alone(testbed: NetnsTestbed) -> None:
    for tunnel in (TunnelSpec("openvpn", "o", {"mode": "static-key", "cipher": "none"}), TunnelSpec("tinc", "t")):
        with open_tunnel(testbed, tunnel):
            keys = secret_files(testbed.folder)
            assert len(keys) == 2
            assert {(testbed.folder / key).stat().st_mode & 0o777 for key in keys} == {0o600}
            assert testbed.folder.joinpath("router").stat().st_mode & 0o777 == 0o700


@pytest.mark.alone
def test_the_daemons_own_time_is_reported_where_there_is_a_daemon(testbed: NetnsTestbed) -> None:
    (record,) = measure(testbed, make_plan(TunnelSpec("openvpn", "o", {"mode": "static-key", "cipher": "AES-128-CBC"})))
    assert record.tcp is not None
    window = record.tcp.window
    assert window.daemon_cpu_s is not None
    assert 0.1 < window.daemon_cpu_s < window.router_cpu.busy_s * 1.1 < window.duration_s * 1.2


def test_wireguard_of_the_kernel_is_proven_where_there_is_one(testbed: NetnsTestbed) -> None:
    if unmet("wireguard", Options(), testbed.router):
        pytest.skip(f"{KERNEL_FEATURE} no wireguard module")
    (record,) = measure(testbed, make_plan(TunnelSpec("wireguard", "WireGuard")))
    require_measured(record)


@pytest.mark.parametrize(("cable", "answer"), [("wan", b"there"), ("another", b"")])
def test_a_port_on_all_addresses_is_closed_for_other_devices_than_the_cable(
    testbed: NetnsTestbed, cable: str, answer: bytes
) -> None:
    """Only a far end outside of a namespace gets the rule. All packets of this test arrive by the device `wan`."""
    server = Mock(wraps=testbed.server, namespace="")
    tunnel = make_tunnel("n2n", {})
    address = (testbed.addresses.server_wan, tunnel.open_ports[0])

    def bound() -> socket.socket:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.settimeout(1)
        receiver.bind(address)
        return receiver

    def received(sender: socket.socket, receiver: socket.socket) -> bytes:
        sender.sendto(b"there", address)
        try:
            return receiver.recv(10)
        except TimeoutError:
            return b""

    with (
        call_inside(testbed.server.namespace, bound) as receiver,
        call_inside(testbed.router.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender,
    ):
        with closed_ports(Mock(tunnel_cable=(server, cable)), tunnel):
            assert received(sender, receiver) == answer
        assert received(sender, receiver) == b"there"
