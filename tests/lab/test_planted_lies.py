"""Lies that are planted on the path: each is found by its check, and an honest trial next to it is not."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager

import pytest
from tests.lab.bench import NO_TUNNEL, check, measure
from tests.lab.bpf_program import attach, load_passing_program
from tests.lab.lies import VXLAN, MidTrial, OneSoak, planted_trial, script, trial
from tests.watcher import Watcher

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import Host
from tunnelbench.host.inside import call_inside
from tunnelbench.model.plan import Direction, Plan, SoakTraffic, TunnelSpec
from tunnelbench.model.result import Outcome, Verdict
from tunnelbench.testbed.netns import RPS_FILE, NetnsTestbed

pytestmark = pytest.mark.lab

VXLAN_PACKETS = "udp dport 4789"
NEW_CHECKS = (
    "router-losses",
    "router-queues",
    "retransmits",
    "router-setup",
    "path-setup",
    "other-traffic",
    "iperf3-figures",
    "cpu-quota",
    "copies",
    "acks",
    "sender",
    "offloads",
    "outer-protocol-in-trial",
    "rekeys",
    "restart",
    "clock",
    "proof-after",
    "iperf3-settings",
)
OFF_S = 0.3
"""Time for which the router does not forward [s]."""


@pytest.mark.parametrize("tunnel", [NO_TUNNEL, VXLAN], ids=lambda tunnel: tunnel.name)
@pytest.mark.parametrize("way", list(Direction))
def test_an_honest_trial_passes_each_of_these_checks(bed: NetnsTestbed, tunnel: TunnelSpec, way: Direction) -> None:
    record = trial(bed, Watcher(), tunnel, way)
    wrong = [each for each in record.checks if each.name in NEW_CHECKS and each.verdict is not Verdict.OK]
    assert not wrong


def rule(host: Host, chain: str) -> AbstractContextManager[None]:
    ruleset = f"table ip lie {{ chain lie {{ {chain} }}; }}"
    return script(host, f"nft '{ruleset}'", "nft delete table ip lie")


def drops_every_100th_inner_packet(bed: NetnsTestbed) -> AbstractContextManager[None]:
    return rule(bed.router, "type filter hook forward priority 0; numgen inc mod 100 == 0 drop;")


def drops_every_100th_outer_packet(bed: NetnsTestbed) -> AbstractContextManager[None]:
    """Drop packets that the router sends into the tunnel; its VXLAN device counts each of them as dropped."""
    return rule(bed.router, f"type filter hook output priority 0; {VXLAN_PACKETS} numgen inc mod 100 == 0 drop;")


def doubles_outer_packets(bed: NetnsTestbed) -> AbstractContextManager[None]:
    double = f'dup to {bed.addresses.server_wan} device "{bed.router_wan_device}"'
    return rule(bed.router, f"type filter hook postrouting priority 0; {VXLAN_PACKETS} {double};")


def filters_packets(bed: NetnsTestbed) -> AbstractContextManager[None]:
    return rule(bed.router, "type filter hook forward priority 0; ip saddr 203.0.113.1 drop;")


def steers_packets_to_a_tester(bed: NetnsTestbed) -> AbstractContextManager[None]:
    file = RPS_FILE.format(bed.router_lan_device)
    was, lie = (format(sum(1 << cpu for cpu in host.cpus), "x") for host in (bed.router, bed.client))
    return script(bed.router, f"echo {lie} >{file}", f"echo {was} >{file}")


def clamps_the_segment_size(bed: NetnsTestbed) -> AbstractContextManager[None]:
    clamp = "tcp flags syn tcp option maxseg size set 800"
    return rule(bed.router, f"type filter hook forward priority 0; {clamp};")


def shapes_to_75_mbps(bed: NetnsTestbed) -> AbstractContextManager[None]:
    plant = f"tc qdisc add dev {bed.router_wan_device} root tbf rate 75mbit burst 20kb latency 50ms"
    return script(bed.router, plant, f"tc qdisc del dev {bed.router_wan_device} root")


def queue(host: Host, device: str, words: str) -> AbstractContextManager[None]:
    return script(host, f"tc qdisc add dev {device} {words}", f"tc qdisc del dev {device} {words.split(maxsplit=1)[0]}")


def queues_with_another_handle(bed: NetnsTestbed) -> AbstractContextManager[None]:
    """A queue of a kind that the kernel makes by itself, which may still be as short as somebody wants it."""
    return queue(bed.router, bed.router_wan_device, "root handle 7: pfifo_fast")


def shapes_at_the_client(bed: NetnsTestbed) -> AbstractContextManager[None]:
    return queue(bed.client, bed.lan_device, "root tbf rate 75mbit burst 20kb latency 50ms")


def shapes_acks_at_the_server(bed: NetnsTestbed) -> AbstractContextManager[None]:
    return queue(bed.server, bed.wan_device, "root tbf rate 5mbit burst 3kb latency 50ms")


def classifies_each_packet_in_the_router(bed: NetnsTestbed) -> AbstractContextManager[None]:
    """A queue with filters and a rule of routing cost the router CPU time, and delay and drop nothing."""
    device, rule = bed.router_wan_device, "from 203.0.113.1 lookup 77"
    plant = f"tc qdisc add dev {device} clsact && ip rule add {rule}"
    return script(bed.router, plant, f"tc qdisc del dev {device} clsact; ip rule del {rule}")


def compares_packets_with_a_policy(bed: NetnsTestbed) -> AbstractContextManager[None]:
    """An IPsec policy in the router that matches no packet: the kernel compares each packet with it."""
    policy = "src 203.0.113.0/24 dst 203.0.113.0/24 dir fwd"
    return script(bed.router, f"ip xfrm policy add {policy}", f"ip xfrm policy delete {policy}")


def taps_packets(bed: NetnsTestbed) -> AbstractContextManager[object]:
    """A packet socket in the router: the kernel shows it each packet."""
    return closing(
        call_inside(bed.router.namespace, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
    )


@contextmanager
def runs_a_program_for_each_packet(bed: NetnsTestbed) -> Iterator[None]:
    """A program of BPF on the router's LAN device, which lets each packet pass (tcx)."""
    program = load_passing_program()
    try:
        device = call_inside(bed.router.namespace, lambda: attach(program, socket.if_nametoindex(bed.lan_device)))
        try:
            yield
        finally:
            os.close(device)
    finally:
        os.close(program)


def steers_flows_to_their_programs(bed: NetnsTestbed) -> AbstractContextManager[None]:
    folder = f"/sys/class/net/{bed.router_wan_device}/queues/rx-0"
    return script(bed.router, f"echo 4096 > {folder}/rps_flow_cnt", f"echo 0 > {folder}/rps_flow_cnt")


def limits_acks_at_the_server(bed: NetnsTestbed) -> AbstractContextManager[None]:
    limit = "type filter hook output priority -500; tcp sport 5201 limit rate over 2000/second drop;"
    return rule(bed.server, limit)


def by_the_plain_route(host: Host, target: str, gateway: str) -> AbstractContextManager[None]:
    """A host that sends to `target` beside the tunnel."""
    plant = f"ip route add {target} via {gateway} table 77 && ip rule add to {target} lookup 77 pref 10"
    return script(host, plant, "ip rule del pref 10; ip route flush table 77")


def sends_acks_outside(bed: NetnsTestbed) -> AbstractContextManager[None]:
    """The server's ACKs take the plain route; the client sees them arrive all the same."""
    return by_the_plain_route(bed.server, bed.addresses.client_lan, bed.addresses.router_wan)


def sends_acks_beside_the_path(bed: NetnsTestbed) -> AbstractContextManager[None]:
    """The router sends the client's ACKs to the server by the plain route."""
    return by_the_plain_route(bed.router, bed.addresses.target, bed.addresses.server_wan)


LOST = (("router-losses", Verdict.DOUBTFUL, "vanished in it"), ("retransmits", Verdict.DOUBTFUL, "without a counter"))
CLASSIFIED = (
    ("path-setup", Verdict.DOUBTFUL, "queue clsact"),
    ("path-setup", Verdict.DOUBTFUL, "a rule of routing that the testbed has not made: 32765: from 203.0.113.1"),
)


@pytest.mark.parametrize(
    ("plant", "way", "expected"),
    [
        (drops_every_100th_inner_packet, Direction.OUT, LOST),
        (drops_every_100th_outer_packet, Direction.OUT, LOST),
        (doubles_outer_packets, Direction.OUT, [("copies", Verdict.DOUBTFUL, "packets were copied")]),
        (filters_packets, Direction.OUT, [("router-setup", Verdict.DOUBTFUL, "a packet filter of")]),
        (steers_packets_to_a_tester, Direction.OUT, [("router-setup", Verdict.VOID, "lan on the router are steered")]),
        (clamps_the_segment_size, Direction.OUT, [("payload", Verdict.NOTE, "the kernel used 788")]),
        (shapes_to_75_mbps, Direction.OUT, [("router-queues", Verdict.DOUBTFUL, "tbf on wan")]),
        (queues_with_another_handle, Direction.OUT, [("path-setup", Verdict.DOUBTFUL, "a queue pfifo_fast")]),
        (shapes_at_the_client, Direction.OUT, [("path-setup", Verdict.DOUBTFUL, "the client has a queue tbf")]),
        (shapes_acks_at_the_server, Direction.OUT, [("path-setup", Verdict.DOUBTFUL, "the server has a queue tbf")]),
        (classifies_each_packet_in_the_router, Direction.IN, CLASSIFIED),
        (compares_packets_with_a_policy, Direction.OUT, [("path-setup", Verdict.DOUBTFUL, "an IPsec policy without")]),
        (taps_packets, Direction.OUT, [("path-setup", Verdict.DOUBTFUL, "on the router, 1 packet socket received")]),
        (runs_a_program_for_each_packet, Direction.OUT, [("path-setup", Verdict.DOUBTFUL, "a BPF program for the")]),
        (steers_flows_to_their_programs, Direction.OUT, [("router-setup", Verdict.VOID, "steered by flow (RFS)")]),
        (limits_acks_at_the_server, Direction.OUT, [("path-setup", Verdict.DOUBTFUL, "packet filter: table ip lie")]),
        (sends_acks_outside, Direction.OUT, [("outer-protocol-in-trial", Verdict.VOID, "packets were not")]),
        (sends_acks_beside_the_path, Direction.IN, [("acks", Verdict.VOID, "the others took another way")]),
    ],
)
def test_a_lie_on_the_path_is_found(
    bed: NetnsTestbed,
    plant: Callable[[NetnsTestbed], AbstractContextManager[object]],
    way: Direction,
    expected: Sequence[tuple[str, Verdict, str]],
) -> None:
    record = planted_trial(bed, plant, way=way)
    for name, verdict, words in expected:
        found = check(record, name)
        assert (found.verdict, words in found.reason) == (verdict, True), found


@contextmanager
def a_loop_of_bridges(cpu: int) -> Iterator[None]:
    """A network of its own in which one frame goes round and round, on one CPU, and in no program's name."""
    name = f"tb-loop-{secrets.token_hex(3)}"
    setup = [
        *(f"link add {bridge} type bridge" for bridge in ("left", "right")),
        *(f"link add p{number} type veth peer name q{number}" for number in (1, 2)),
        *(f"link set p{number} master left" for number in (1, 2)),
        *(f"link set q{number} master right" for number in (1, 2)),
        "addr add 198.18.99.1/24 dev left",
    ]
    devices = ("p1", "q1", "p2", "q2", "left", "right")
    steer = "; ".join(f"echo {1 << cpu:x} > /sys/class/net/{each}/queues/rx-0/rps_cpus" for each in devices[:4])
    slow = "; ".join(f"tc qdisc add dev {each} root tbf rate 20mbit burst 3000 latency 20ms" for each in ("p1", "q2"))
    quiet = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "-batch", "-"], input="\n".join(setup), text=True, check=True)
        subprocess.run(["ip", "netns", "exec", name, "sh", "-euc", f"{quiet}; {steer}; {slow}"], check=True)
        up = "\n".join(f"link set {each} up" for each in devices)
        subprocess.run(["ip", "-n", name, "-batch", "-"], input=up, text=True, check=True)
        ask = ["ip", "netns", "exec", name, "ping", "-q", "-c", "1", "-W", "1", "198.18.99.2"]
        subprocess.run(ask, check=False, stdout=subprocess.DEVNULL)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.alone
def test_packets_of_another_network_on_the_routers_cpu_are_found(bed: NetnsTestbed) -> None:
    (cpu,) = bed.router.cpus
    honest = check(trial(bed, Watcher()), "softirq")
    assert honest.verdict is Verdict.OK, honest
    with a_loop_of_bridges(cpu):
        found = check(trial(bed, Watcher()), "softirq")
    assert found.verdict is Verdict.DOUBTFUL, found


def test_traffic_against_the_direction_of_the_data_is_found(fast_ethernet: NetnsTestbed) -> None:
    """The router carries it, so that its CPU time would be charged to the data."""
    flood = (
        "import socket, time\n"
        "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        f"sender.bind(('{fast_ethernet.addresses.target}', 0))\n"
        "while True:\n"
        "    for _ in range(10):\n"
        f"        sender.sendto(bytes(100), ('{fast_ethernet.addresses.client_lan}', 9))\n"
        "    time.sleep(0.002)\n"
    )
    floods: list[Daemon] = []
    server = fast_ethernet.server
    try:
        record = trial(fast_ethernet, Watcher(lambda _: floods.append(server.start([sys.executable, "-c", flood]))))
    finally:
        for each in floods:
            each.stop()
    found = check(record, "other-traffic")
    assert (found.verdict, "carried other traffic" in found.reason) == (Verdict.DOUBTFUL, True), found


def doubles_frames_on_the_cable(bed: NetnsTestbed) -> AbstractContextManager[None]:
    """The router sends each frame once, and two of it arrive at the far end."""
    near, far = bed.cable_devices
    chain = f'type filter hook ingress device "{near}" priority 0; dup to "{far}";'
    plant = f"nft 'table netdev lie {{ chain lie {{ {chain} }}; }}'"
    return script(bed.cables[1], plant, "nft delete table netdev lie")


def test_frames_that_are_doubled_behind_the_router_are_found(fast_ethernet: NetnsTestbed) -> None:
    found = check(planted_trial(fast_ethernet, doubles_frames_on_the_cable), "copies")
    assert (found.verdict, found.reason.endswith("packets were copied")) == (Verdict.DOUBTFUL, True), found


def test_a_cable_whose_rate_changes_is_found(fast_ethernet: NetnsTestbed) -> None:
    cable = fast_ethernet.cables[1]
    device = fast_ethernet.cable_devices[1]
    words = "handle 1: stab overhead 24 mpu 64 tbf rate 50mbit burst 3100 latency 50ms"
    slow = ["tc", "qdisc", "change", "dev", device, "root", *words.split()]
    record = trial(fast_ethernet, MidTrial(actions=[lambda: cable.run(slow)]), NO_TUNNEL)
    found = check(record, "path-setup")
    assert (found.verdict, "the queues of cable-wan have changed" in found.reason) == (Verdict.DOUBTFUL, True), found


def drops_by_a_legacy_rule(bed: NetnsTestbed) -> AbstractContextManager[None]:
    chosen = "FORWARD -m statistic --mode nth --every 50 --packet 0 -j DROP"
    return script(bed.router, f"iptables-legacy -A {chosen}", f"iptables-legacy -D {chosen}")


def test_a_rule_of_iptables_legacy_is_found(testbed: NetnsTestbed) -> None:
    """Rules that nft does not list, and about which the kernel sends no message; their table stays after them."""
    for record in (planted_trial(testbed, drops_by_a_legacy_rule), trial(testbed, Watcher())):
        found = check(record, "path-setup")
        expected = "the router has a packet filter of iptables-legacy: filter"
        assert (found.verdict, expected in found.reason) == (Verdict.DOUBTFUL, True), found


def test_what_is_changed_and_undone_during_a_trial_is_found(bed: NetnsTestbed) -> None:
    """The changes are undone before the trial ends, so that a comparison of before and after shows nothing."""
    lan, wan, router_wan = bed.lan_device, bed.wan_device, bed.router_wan_device
    of_router = ["a rule of routing", "the packet filter", "an IPsec policy"]

    def change() -> None:
        for host, plant, undo in (
            (
                bed.client,
                f"tc qdisc add dev {lan} root tbf rate 75mbit burst 20kb latency 50ms",
                f"tc qdisc del dev {lan} root",
            ),
            (bed.router, "nft add table ip lie", "nft delete table ip lie"),
            (bed.router, f"ip link set {router_wan} mtu 1400", f"ip link set {router_wan} mtu 1500"),
            (bed.router, "ip rule add from 203.0.113.1 lookup 77", "ip rule del from 203.0.113.1 lookup 77"),
            (bed.router, "ip -6 rule add from 2001:db8::1 lookup 77", "ip -6 rule del from 2001:db8::1 lookup 77"),
            (bed.router, "ip xfrm policy add dir fwd sport 7 proto tcp priority 9", "ip xfrm policy flush"),
            (bed.server, f"ethtool -K {wan} gro on", f"ethtool -K {wan} gro off"),
            (bed.server, "ip route add 203.0.113.0/24 dev lo", "ip route del 203.0.113.0/24 dev lo"),
        ):
            host.run(["sh", "-c", f"{plant}; {undo}"])

    found = check(trial(bed, MidTrial(actions=[change]), NO_TUNNEL), "path-setup")
    assert found.verdict is Verdict.DOUBTFUL
    assert found.reason.split("; ") == [
        f"changed on the client during the trial: a queue of {lan}",
        f"changed on the router during the trial: the MTU of {router_wan}, {', '.join(of_router)}",
        f"changed on the server during the trial: an offload of {wan}, a route",
    ]


def test_what_is_changed_during_a_soak_is_found(bed: NetnsTestbed) -> None:
    """A filter stays in the router, and a queue of the client is gone again at the end."""
    lan = bed.lan_device

    def change() -> None:
        bed.client.run(["sh", "-c", f"tc qdisc add dev {lan} clsact; tc qdisc del dev {lan} clsact"])
        bed.router.run(["nft", "add table ip lie"])

    soak = SoakTraffic(payload_bytes=(500,), direction=(Direction.OUT,), duration_s=2, rate="200", with_baseline=True)
    with script(bed.router, "true", "nft flush ruleset"):
        (record,) = measure(
            bed, Plan("lab", "", (NO_TUNNEL,), None, 1, soak=soak), MidTrial(actions=[change]), OneSoak()
        )
    assert record.outcome is Outcome.MEASURED, record.reason
    assert check(record, "router-setup").verdict is Verdict.DOUBTFUL
    assert f"changed on the client during the trial: a queue of {lan}" in check(record, "path-setup").reason


def test_a_path_mtu_that_the_testers_learned_earlier_changes_no_trial(bed: NetnsTestbed) -> None:
    """The kernel keeps it for 10 minutes, and another tunnel may have a larger one."""
    narrow = f"ip link set {bed.router_wan_device} mtu 1200"
    target = bed.addresses.target
    gateway = bed.addresses.server_wan
    with (
        script(bed.router, narrow, f"ip link set {bed.router_wan_device} mtu 1500"),
        script(bed.router, f"ip route add {target} via {gateway}", f"ip route del {target}"),
    ):
        bed.client.run(["ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1400", target], check=False)
    assert "mtu 1200" in bed.client.run(["ip", "route", "get", target]).stdout
    record = trial(bed, Watcher(), NO_TUNNEL)
    found = check(record, "payload")
    assert found.verdict is Verdict.OK, found


def test_a_router_that_stops_forwarding_for_a_moment_is_found(bed: NetnsTestbed) -> None:
    def pause() -> None:
        bed.router.run(["sysctl", "-qw", "net.ipv4.ip_forward=0"])
        time.sleep(OFF_S)
        bed.router.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])

    timer = threading.Timer(1.2, pause)
    record = trial(bed, Watcher(lambda _: timer.start()))
    timer.join()
    found = check(record, "router-losses")
    assert (found.verdict, "its forwarding was off" in found.reason) == (Verdict.DOUBTFUL, True), found
    assert check(record, "stalls").verdict is Verdict.DOUBTFUL


@pytest.mark.parametrize(
    ("words", "verdict"), [("tso on gso on", Verdict.VOID), ("tx on", Verdict.DOUBTFUL)], ids=["merging", "checksums"]
)
def test_an_offload_that_is_switched_on_late_is_found(bed: NetnsTestbed, words: str, verdict: Verdict) -> None:
    ethtool = ["ethtool", "-K", bed.wan_device]
    timer = threading.Timer(1.5, lambda: bed.server.run([*ethtool, *words.split()]))
    try:
        record = trial(bed, Watcher(lambda _: timer.start()), NO_TUNNEL)
    finally:
        timer.join()
        bed.server.run([*ethtool, "tso", "off", "gso", "off", "tx", "off"])
    found = check(record, "offloads")
    assert (found.verdict, "wan on the server" in found.reason) == (verdict, True), found
