"""The testbed of namespaces: one frame is one packet, each CPU has its work, and nothing else changes."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import KERNEL_FEATURE
from tests.lab.awaiting import until
from tests.lab.bench import NO_TUNNEL, make_testbed, namespaces, open_tunnel, pids_in

from tunnelbench.host.namespace import NamespaceHost, remove_namespace
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.testbed import Link
from tunnelbench.testbed.netns import NetnsTestbed

pytestmark = pytest.mark.lab

VXLAN = TunnelSpec("vxlan", "VXLAN")
LARGEST_FRAME_BYTES = 1514
TRANSFER_BYTES = 6_000_000


def transfer(testbed: NetnsTestbed, *arguments: str) -> None:
    """Transfer data by TCP from client to server, or from server to client with --reverse."""
    target = testbed.addresses.target
    server = testbed.server.start(["iperf3", "--server", "--one-off", "--bind", target])
    try:
        argv = ["iperf3", "--client", target, "--bytes", str(TRANSFER_BYTES), "--connect-timeout", "2000", *arguments]
        deadline = time.monotonic() + 5
        while testbed.client.run(argv, check=False).returncode != 0:  # the server does not listen yet
            assert time.monotonic() < deadline, server.last_line()
            time.sleep(0.05)
        server.wait(5)
    finally:
        server.stop()


@contextmanager
def frames_on(host: NamespaceHost, *devices: str) -> Iterator[dict[str, list[int]]]:
    """Record the lengths of the frames on devices during the block [bytes without FCS]; they are known at its end."""
    lengths: dict[str, list[int]] = {}
    with ExitStack() as stack:
        running = {}
        for device in devices:
            path = host.folder / f"{device}.pcap"
            argv = ["tcpdump", "--immediate-mode", "-U", "-n", "-Z", "root", "-B", "8192", "-s", "64", "-i", device]
            running[device] = path, host.start([*argv, "-w", str(path), "tcp or udp"])
            stack.callback(running[device][1].stop)
            assert running[device][1].wait_for("listening on", 5)
        yield lengths
        for device, (path, daemon) in running.items():
            daemon.interrupt()
            daemon.wait(5)
            lengths[device] = frame_lengths(path.read_bytes())


def frame_lengths(data: bytes) -> list[int]:
    """Return the lengths of the frames on the device; a capture may hold less of each frame."""
    lengths, position = [], 24
    while position + 16 <= len(data):
        kept, length = struct.unpack_from("<II", data, position + 8)
        lengths.append(length)
        position += 16 + kept
    return lengths


@pytest.mark.alone
@pytest.mark.parametrize(
    ("tunnel", "devices"), [(NO_TUNNEL, ("lan", "wan")), (VXLAN, ("lan", "wan", "vxlan0"))], ids=["none", "vxlan"]
)
def test_no_frame_is_larger_than_a_packet(testbed: NetnsTestbed, tunnel: TunnelSpec, devices: tuple[str, ...]) -> None:
    slowly = ("--bitrate", "200M")  # so that the capture misses nothing
    with open_tunnel(testbed, tunnel), frames_on(testbed.router, *devices) as lengths:
        transfer(testbed, *slowly)
        transfer(testbed, *slowly, "--reverse")
    for device in devices:
        full = [length for length in lengths[device] if length > 1400]
        assert len(full) > 2 * TRANSFER_BYTES / 1448 * 0.9, f"the capture on {device} is not whole"
        assert max(full) <= LARGEST_FRAME_BYTES, device


SEND_AT_ONCE = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.IPPROTO_UDP, 103, 100)  # UDP_SEGMENT of linux/udp.h: packets of 100 bytes
    sender.sendto(bytes(2000), (sys.argv[1], 4321))
"""


def test_packets_of_one_call_are_several_frames_on_the_device_of_a_tunnel(testbed: NetnsTestbed) -> None:
    with open_tunnel(testbed, VXLAN):
        device = Path("/sys/class/net/vxlan0/statistics/tx_packets")
        before = int(testbed.server.run(["cat", str(device)]).stdout)
        client = testbed.addresses.client_lan
        testbed.server.run([sys.executable, "-c", SEND_AT_ONCE, client])
        sent = int(testbed.server.run(["cat", str(device)]).stdout) - before
    assert sent >= 20


def processed_by_cpu() -> dict[int, int]:
    """Return the packets that each CPU has received from devices (net/core/net-procfs.c, softnet_seq_show)."""
    rows = [line.split() for line in Path("/proc/net/softnet_stat").read_text().splitlines()]
    return {int(row[12], 16): int(row[0], 16) for row in rows}


def arrived(host: NamespaceHost) -> int:
    """Return the number of packets that have arrived on a host's devices."""
    links = json.loads(host.ip("-j", "-s", "link").stdout)
    return sum(link["stats64"]["rx"]["packets"] for link in links if link["ifname"] != "lo")


@pytest.mark.alone
@pytest.mark.parametrize("direction", [(), ("--reverse",)], ids=["out", "in"])
def test_the_routers_packets_are_processed_on_its_own_cpu_and_no_others_are(
    testbed: NetnsTestbed, direction: tuple[str, ...]
) -> None:
    if testbed.router.cpus == testbed.client.cpus:
        pytest.skip(f"{KERNEL_FEATURE} a second CPU")
    (router_cpu,) = testbed.router.cpus
    with open_tunnel(testbed, NO_TUNNEL):
        transfer(testbed, *direction)  # ARP has settled
        before, arrived_before = processed_by_cpu(), arrived(testbed.router)
        transfer(testbed, *direction)
        after, at_router = processed_by_cpu(), arrived(testbed.router) - arrived_before
    assert at_router > TRANSFER_BYTES / 1448 / 2  # what was under way when iperf3 ended may not arrive
    on_its_cpu = after[router_cpu] - before[router_cpu]
    elsewhere = sum(after[cpu] - before[cpu] for cpu in testbed.client.cpus)
    # Every packet arrives twice: at the router, and at a tester. The machine itself has a few, too.
    assert 0.98 < on_its_cpu / at_router < 1.05
    assert 0.98 < elsewhere / at_router < 1.15


def own_network() -> dict[str, Any]:
    """Return the network of the machine's own namespace."""

    def output(*argv: str) -> str:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout

    sysctls = [line for line in output("sysctl", "-a").splitlines() if line.startswith("net.") and "_count" not in line]
    addresses = json.loads(output("ip", "-j", "addr"))
    for link in addresses:
        for address in link["addr_info"]:
            address.pop("valid_life_time", None)  # of a lease, it runs
            address.pop("preferred_life_time", None)
    return {
        "addresses": addresses,
        "routes": json.loads(output("ip", "-j", "route", "show", "table", "all")),
        "rules": json.loads(output("ip", "-j", "rule")),
        "links": json.loads(output("ip", "-j", "-d", "link")),
        "packet filter": output("nft", "list", "ruleset"),
        "sysctls": sysctls,
        "steering": {str(path): path.read_text() for path in Path("/sys/class/net").glob("*/queues/rx-*/rps_cpus")},
    }


def test_the_machines_own_network_stays_as_it_is(lab: None, tmp_path: Path) -> None:
    before = own_network()
    with make_testbed(tmp_path / "run", Link(rate_out_mbps=50)) as testbed, open_tunnel(testbed, VXLAN):
        transfer(testbed)
        during = own_network()
    after = own_network()
    for what, value in before.items():
        assert during[what] == value, f"{what}, while it was up"
        assert after[what] == value, f"{what}, afterwards"
    assert before["sysctls"]
    assert before["links"]


def test_tcp_has_buffers_of_one_size_on_every_machine(testbed: NetnsTestbed) -> None:
    """A namespace would take over the sizes of the machine."""
    for host in (testbed.client, testbed.server):
        sizes = host.run(["sysctl", "-n", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]).stdout.split()
        assert sizes == ["4096", "131072", "6291456", "4096", "16384", "4194304"]


def test_a_testbed_is_taken_down_twice_without_harm(lab: None, tmp_path: Path) -> None:
    testbed = make_testbed(tmp_path / "run")
    with testbed:
        assert len(namespaces(testbed.mark)) == 3
        testbed.take_down()
        assert namespaces(testbed.mark) == []
    testbed.take_down()
    assert namespaces(testbed.mark) == []


class Stop(Exception):
    """An error that ends the set-up."""


@pytest.mark.parametrize(
    "step",
    [
        (NamespaceHost, "_start_anchor", 2),
        (NetnsTestbed, "_connect", 1),
        (NetnsTestbed, "_connect", 3),
        (NetnsTestbed, "_shape", 2),
        (NetnsTestbed, "_address", 1),
    ],
)
@pytest.mark.parametrize("error", [Stop(), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_set_up_that_ends_half_way_leaves_nothing(
    lab: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: tuple[type, str, int], error: BaseException
) -> None:
    owner, name, count = step
    calls = []
    method: Callable[..., None] = getattr(owner, name)

    def stop(self: object, *arguments: Any) -> None:
        calls.append(name)
        if len(calls) == count:
            raise error
        method(self, *arguments)

    testbed = make_testbed(tmp_path / "run", Link(rate_in_mbps=10))
    monkeypatch.setattr(owner, name, stop)
    with pytest.raises(type(error)), testbed:
        pass
    assert namespaces(testbed.mark) == []


def test_a_kernel_that_cannot_delay_says_so_and_one_that_can_does(lab: None, tmp_path: Path) -> None:
    testbed = make_testbed(tmp_path / "run", Link(delay_ms=20, rate_out_mbps=100))
    try:
        testbed.set_up()
    except CannotHere as error:
        caught = error
    else:
        answer = testbed.client.run(["ping", "-n", "-c", "3", testbed.addresses.router_lan]).stdout
        assert 40 <= float(answer.rsplit("/", 3)[1]) < 60
        return
    finally:
        testbed.take_down()
    assert namespaces(testbed.mark) == []
    assert caught.message == (
        "this kernel cannot delay packets (no sch_netem), and testbed lab asks for link.delay_ms = 20"
    )
    assert caught.hint.startswith("run with --set link.delay_ms=0")


def test_what_a_kernel_can_make_is_found_by_making_it(testbed: NetnsTestbed) -> None:
    for _ in range(2):
        assert testbed.router.has_link_type("dummy") or testbed.router.has_link_type("veth")
        assert testbed.router.has_link_type("vxlan", "external")
        assert not testbed.router.has_link_type("no-such-type")
    assert "tbprobe0" not in testbed.router.ip("-j", "link").stdout


KILLED_CONTROLLER = """
import sys, time
from pathlib import Path
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.testbed.netns import NetnsTestbed
testbed = NetnsTestbed(TestbedSpec("lab", "netns"), sys.argv[1], Path(sys.argv[2]))
testbed.set_up()
testbed.client.start(["ping", "-q", testbed.addresses.router_lan])
testbed.server.start(["iperf3", "--server", "--bind", testbed.addresses.server_wan])
print("up", flush=True)
time.sleep(60)
"""


def test_all_programs_die_with_a_controller_that_is_killed_outright(lab: None, tmp_path: Path) -> None:
    mark = f"k{os.getpid()}"[-6:]
    argv = [sys.executable, "-c", KILLED_CONTROLLER, f"test-{mark}", str(tmp_path / "run")]
    try:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as controller:
            assert controller.stdout is not None
            assert controller.stdout.readline() == "up\n"
            names = namespaces(mark)
            assert len(names) == 3
            until(lambda: sum(len(pids_in(name)) for name in names) == 5, "three holders, ping and iperf3")
            controller.send_signal(signal.SIGKILL)
        until(lambda: not any(pids_in(name) for name in names), "the end of all programs", 5)
    finally:
        for name in namespaces(mark):
            remove_namespace(name)
