"""Target `daemon_output`: every parser of text from a daemon, a tool, a kernel or a router.

The first line of an input names the parser; ANSWER_MARK parts the texts of several programs. A test finds the functions
of the package that parse such text, and holds that the seeds of this target reach each one.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from tests.fuzz.hostile_host import Answers, HostileDaemon, HostileHost, HostileRouter
from tests.fuzz.plans import folder
from tests.fuzz.target import ANSWER_MARK, Target
from tests.output.samples import samples
from tests.unit.builders import make_run
from tests.unit.measure.pcap import pcap
from tests.unit.traffic import test_connections as connection_lines
from tests.unit.traffic import test_engine_series as engine_lines

from tunnelbench.guest import protocol
from tunnelbench.host import cpu_samples, labgrid, procfs, radio, ssh_config
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.ip_add import existing
from tunnelbench.host.labgrid_session import unsafe_value
from tunnelbench.host.ssh import SshHost, parse_ssh_connection
from tunnelbench.measure import (
    capture,
    cipher_speed,
    connection_trial,
    counters,
    engine_setup,
    proof,
    router_filter,
    tcp_trial,
)
from tunnelbench.model.errors import TrialFailed, UserError
from tunnelbench.model.firewall import Firewall, RouterFilter
from tunnelbench.model.plan import Direction
from tunnelbench.model.testbed import HostAccess, LabgridPlace, RouterSpec, TestbedSpec
from tunnelbench.model.text import without_keys
from tunnelbench.report.render import render
from tunnelbench.report.site.gather import device_name
from tunnelbench.testbed import discovery, firewall, nic, offloads, router_cpus, virtual_host
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.discovery import CableEnd
from tunnelbench.testbed.nftables_filter import other_rules
from tunnelbench.testbed.router_filter import FilterProgram
from tunnelbench.traffic import connections, engine, engine_series, iperf3, openssl_speed, ping
from tunnelbench.tunnel import adapters, openvpn_output, tinc, versions
from tunnelbench.tunnel.base import End, Ends

Texts = list[str]

ADDED = (
    "addr add fe80::1/64 dev lan0",
    "route add 192.0.2.0/24 via 192.0.2.1",
    "l2tp add tunnel tunnel_id 42 peer_tunnel_id 42",
    "link add vxlan0 type vxlan id 42",
)
"""Commands that add something to a host (`ip` stands before them)."""


def host(texts: Texts, name: str = "router") -> HostileHost:
    return HostileHost(name, folder(), Answers(texts))


def finite(*values: float | None) -> None:
    """Raise AssertionError if a figure is not finite, or longer than a sum of a kernel's counters."""
    for value in values:
        if value is not None and not abs(value) < 2**66:
            raise AssertionError(f"{value!r:.60} is no figure that can be counted")


def values_of(record: Any) -> list[Any]:
    """Return the values of the fields of a dataclass."""
    return [getattr(record, each.name) for each in fields(record)]


# Traffic


def of_iperf3(texts: Texts) -> None:
    client, server = (*texts, "", "")[:2]
    found = iperf3.parse(client, server, Direction.IN if len(texts) % 2 else Direction.OUT)
    finite(found.duration_s, found.bytes_received, found.bytes_sent, found.retransmits)
    for each in found.intervals:
        finite(each.start_s, each.end_s, each.bytes, each.retransmits)


def of_long_iperf3(texts: Texts) -> None:
    with mock.patch.object(iperf3, "KEPT_BYTES", 10):
        iperf3.for_store(texts[0])


def of_engine(texts: Texts, *, is_echo: bool) -> None:
    sender, far = (*texts, "", "")[:2]
    load = engine.SenderLoad("18", duration_s=1.0, rate_pps=1000.0, is_echo=is_echo, takes_delays=True)
    finite(engine.hello_count(sender, "now_ns"))
    found = engine.parse(sender, far, load)
    finite(found.duration_s, found.sent_packets, found.received_packets, found.sending_s, found.receiving_s)
    finite(found.late_packets, found.stall_max_s, found.tester_dropped_packets)
    for delays in (found.delay, found.delay_variation):
        if delays:
            finite(*values_of(delays))
    for each in found.intervals:
        finite(*values_of(each))


def of_engine_series(texts: Texts, *, is_echo: bool) -> None:
    series = engine_series.Series(is_echo=is_echo)
    for end, text in zip((series.take_sender, series.take_far), (*texts, "", ""), strict=False):
        for line in text.splitlines():
            end(line)
    readings = [*series.ready(), *series.ready(is_over=True)]
    for reading in readings:
        finite(*(value for value in values_of(reading) if isinstance(value, int | float)))


def of_connections(texts: Texts) -> None:
    near, far = (*texts, "", "")[:2]
    finite(*values_of(connections.parse(near, far, connections.ConnectionLoad(2.0, 200.0))))


def of_openssl_speed(texts: Texts) -> None:
    stdout, stderr = (*texts, "", "")[:2]
    speed, _ = openssl_speed.parse(stdout, stderr)
    openssl_speed.contradiction(stdout, stderr, "aes-128-gcm", 1420)
    finite(speed)


def of_ping(texts: Texts) -> None:
    for interrupted in (True, False):
        found = ping.parse(texts[0], interrupted=interrupted)
        finite(found.sent, found.answered, found.worst_ms)


# Readings of kernels and tools


def of_host_counters(texts: Texts) -> None:
    found = counters.read_host(host(texts))
    for device in found.devices.values():
        finite(*values_of(device))
    finite(*found.snmp.values())
    place = counters.CountingPoints(Direction.IN, ("lan",), ("tun0",), "wan")
    counters.direct_counters((found, found), (found, found), place)


def of_path(texts: Texts) -> None:
    at = host(texts)
    testbed = mock.Mock(spec=Testbed, client=at, router=at, server=at, far_host=at, has_own_far_end=True)
    testbed.tunnel_cable, testbed.cables, testbed.cable_devices = (at, "wan"), (at,), ("eth0",)
    with mock.patch.object(HostileHost, "has_ipv6", True):
        found = counters.read_path(cast("Testbed", testbed))
    place = counters.CountingPoints(Direction.OUT, ("lan",), ("tun0",), "wan")
    counters.data_shares(found, found, place)
    counters.path_counters(found, found, place)


def of_tracker(texts: Texts) -> None:
    found = connection_trial.read_tracker(host(texts))
    finite(*(values_of(found) if found else ()))


def of_mtu(texts: Texts) -> None:
    finite(host(texts).device_mtu_bytes("eth0"), host(texts).device_queue_packets("eth0"))


def of_router_filter(program: FilterProgram, texts: Texts) -> None:
    at = host(texts)
    testbed = mock.Mock(spec=Testbed, router=at, server=at)
    wanted, installed = RouterFilter(Firewall.STATEFUL_NAT, 3), router_filter.InstalledFilter(program, "rules")
    found = router_filter.read_filter(cast("Testbed", testbed), wanted, installed)
    assert found is not None
    finite(found.connections, found.rules)
    finite(other_rules(at.run(["nft", "list", "ruleset"]).stdout))
    for counters_of in (found.counters, found.seen):
        finite(*(value for pair in (counters_of or {}).values() for value in pair))


def of_queues(texts: Texts) -> None:
    for queue in counters.read_queues(host(texts)).values():
        finite(*values_of(queue))


def of_capture(texts: Texts) -> None:
    content = ANSWER_MARK.join(texts)  # a capture is one text, and may hold the mark
    for packet in capture.read_pcap(content.encode("latin-1", errors="replace")):
        finite(packet.length_bytes)


def of_ss(texts: Texts) -> None:
    finite(tcp_trial.parse_mss(texts[0], 1448))
    finite(*tcp_trial.parse_starts(texts[0], [5201]))
    sender = tcp_trial.parse_sender(texts[0], 1448)
    if sender:
        finite(*values_of(sender))


def of_route(texts: Texts) -> None:
    proof._route_device(host(texts), "192.0.2.1")


def of_iw(texts: Texts) -> None:
    radio.stations(texts[0])
    found = radio.antennas(host(["", *texts], "client"), "wlan0", host(texts), "br-lan")
    for antenna in (*found.values(), radio.Antenna(host(texts), "wlan0")):
        seen, _ = antenna.look()
        finite(seen.frequency_mhz, seen.channel, seen.width_mhz, seen.tx_mbps, seen.rx_mbps, seen.signal_dbm)
        str(seen.facts("radio_"))


def of_offloads(texts: Texts) -> None:
    for ask in (
        offloads.merging,
        offloads.changeable,
        offloads.switch_off,
        partial(offloads.late, with_checksums=True),
    ):
        with suppress(UserError):
            ask(host(texts), "eth0")


def of_ip_addr(texts: Texts) -> None:
    answers = Answers(texts)
    end = CableEnd("eth0", "192.0.2.1/24", is_there=True)
    namespace = mock.Mock(namespace="tb-client", ip=lambda *_words: None)
    run = mock.patch.object(nic, "run_command", lambda argv, **_rest: answers.run(argv, check=True))
    with run, mock.patch.object(nic, "_radio", return_value=""):
        with suppress(UserError):
            nic.bring_up(end, mock.Mock())
        nic.move(end, namespace, mock.Mock())


def of_openssl_machine(texts: Texts) -> None:
    for machine in cipher_speed.machines([host(texts)]):
        str(machine.flags)


def of_labgrid(texts: Texts) -> None:
    """Read what the program that talks to labgrid prints."""
    answers = Answers(texts)
    hold = labgrid.PlaceHold("rack", "127.0.0.1:1", "machine/user")
    with mock.patch.object(labgrid, "run_command", lambda argv, **_rest: answers.run(argv, check=False)):
        for ask in (labgrid.acquire, labgrid.holder_of, labgrid.release):
            with suppress(UserError):
                ask(hold)
    labgrid.is_left_here(texts[0])


def of_labgrid_values(texts: Texts) -> None:
    """Check the values of a resource, which the coordinator of labgrid names."""
    with suppress(ValueError, RecursionError):
        for key in ("args", "extra"):
            values = {"args": {}, "extra": {}} | {key: json.loads(texts[0])}
            if isinstance(values[key], dict):
                unsafe_value(cast("Any", SimpleNamespace(cls="NetworkPowerPort", **values)))


# A router behind SSH


def of_ip_add(texts: Texts) -> None:
    """Look for what a command would add."""
    for words in ADDED:
        existing(host(texts), ["ip", *words.split()])


def router(texts: Texts) -> HostileRouter:
    return HostileRouter(folder(), Answers(texts))


def of_router_script(texts: Texts) -> None:
    at = router(texts)
    for ask in (at.lease, at.facts, at.take, at.put_back, partial(at.hold, 1.0), at.release):
        with suppress(UserError):
            ask()


def of_router_facts(texts: Texts) -> None:
    """Read the facts of a router, and draw them in a report."""
    at = router(texts)
    facts = {f"router_{name}": value for name, value in at.facts().items()}
    at.has_congestion_control("bbr")
    run = make_run(host_facts={"router_kernel": "", **facts})
    device_name(run)
    for name in ("json", "terminal"):
        render(run, (), name, 100)


def of_firewall(texts: Texts) -> None:
    passing = firewall.Traffic("lan", "192.0.2.1", ("192.0.2.2",), "wan", "192.0.2.3")
    firewall.open_for(router(texts), firewall.rules(passing))


def of_discovery(texts: Texts) -> None:
    spec = TestbedSpec("mine", "ssh", router=RouterSpec(HostAccess("root@192.168.1.1")))
    own = [*texts, "", "", ""]
    found = discovery.find(spec, host(own[0:1], "client"), host(own[1:4]), host(own[4:6], "server"))
    for end in (found.client, found.router_lan, found.router_wan, found.server):
        str(end.network)
    if len(texts) > 6:
        gateway = replace(spec, gateway=RouterSpec(HostAccess("root@192.168.2.1")))
        client, router, server = host(own[0:1], "client"), host(own[1:4]), host(own[4:6], "server")
        discovery.find(gateway, client, router, server, host(own[6:7], "gateway"))


def of_samples(texts: Texts) -> None:
    programs = {7: "openvpn"}
    sampler = cpu_samples.RemoteSampler.__new__(cpu_samples.RemoteSampler)
    sampler.host, sampler.programs, sampler._ahead_s = cast("Any", router(texts)), programs, 0.0
    sampler._samples, sampler._pid, sampler._path = None, "1", Path("/samples")
    found = sampler.stop()
    for reading in found.readings:
        finite(reading.clock_s, *(value for times in reading.cpus.values() for value in values_of(times)))
        finite(*(reading.daemons_s or {}).values())
    finite(found.cost_s)


def of_new_sampler(texts: Texts) -> None:
    with mock.patch.object(cpu_samples, "SAMPLER_START_LIMIT_S", -1.0):
        cpu_samples.RemoteSampler(cast("Any", router(texts)), [], 5.0).stop()


def of_account(texts: Texts) -> None:
    guest = virtual_host.VirtualHost("router", HostAccess("root@r"), "run", folder(), host(texts), emulated_on=(0,))
    with mock.patch.object(SshHost, "run", lambda _self, argv, **_rest: Answers(texts).run(argv, check=False)):
        guest.account([cast("Daemon", HostileDaemon("", "openvpn"))])


def of_places(texts: Texts) -> None:
    guest = virtual_host.VirtualHost("router", HostAccess("root@r"), "run", folder(), host(texts), emulated_on=(0,))
    guest.emulator = cast("Any", SimpleNamespace(board=SimpleNamespace(kernel_start=0x80000000)))
    answers = Answers(texts)
    with mock.patch.object(SshHost, "run", lambda _self, argv, **_rest: answers.run(argv, check=False)):
        names = guest.address_names([cast("Daemon", HostileDaemon("", "openvpn"))])
    for address in (0, 0x400000, 0x80100000, 1 << 63):
        names.place_of(address)


def of_stat(texts: Texts) -> None:
    for times in procfs.parse_stat(texts[0]).values():
        finite(*values_of(times))


def of_status(texts: Texts) -> None:
    finite(procfs.anonymous_bytes(texts[0]))


def of_affinities(texts: Texts) -> None:
    for path, mask in router_cpus.affinities(texts[0]).items():
        if not (path.startswith("/proc/irq/") and set(mask) <= {*"0123456789abcdef,"}):
            raise AssertionError("a file or a mask that no kernel has")


def of_ssh_config(texts: Texts) -> None:
    content = texts[0].encode("utf-8", "surrogateescape")
    with (
        mock.patch("os.geteuid", return_value=0),
        mock.patch.multiple(ssh_config, require_trusted=mock.DEFAULT, require_trusted_folder=mock.DEFAULT),
        mock.patch.object(ssh_config, "read_regular", return_value=content),
        mock.patch("glob.glob", side_effect=lambda pattern: [pattern]),
    ):
        ssh_config.require_trusted_config("config")


def of_ssh_server(texts: Texts) -> None:
    parse_ssh_connection(texts[0])


def of_find_engine(texts: Texts) -> None:
    engine_setup.find_engine(router(texts))
    at = router(texts)
    with mock.patch.object(engine, "locate", return_value="/nowhere/engine"), suppress(UserError):
        at.bring = lambda program: program  # type: ignore[method-assign]
        engine_setup.engine_on(at)


def of_guest(texts: Texts) -> None:
    for line in texts[0].splitlines():
        protocol.message(line.encode(errors="replace"))


# Tunnels


def of_tunnel(kind: str, texts: Texts) -> None:
    """Ask an adapter everything that it reads from its programs, for a tunnel that is up."""
    adapter = adapters()[kind]
    answers = Answers(texts)
    ends = [HostileHost(name, folder(), answers) for name in ("router", "server", "local")]
    placed = (
        End(each, f"198.18.2.{n}", "wan", f"198.18.3.{n}", reaches="198.18.4.1") for n, each in enumerate(ends, 1)
    )
    router_end, server_end, _ = placed
    tunnel = adapter(adapter.options_type(), Ends(router_end, server_end, ends[2], "abcdef", lambda *_: None))
    tunnel.router_daemons = [cast("Daemon", HostileDaemon(text, "daemon")) for text in texts[:2]]
    tunnel.server_daemons = [cast("Daemon", HostileDaemon(text, "daemon")) for text in texts[:2]]
    if hasattr(tunnel, "_asked_s"):
        tunnel._asked_s = -math.inf
    asked: list[Callable[[], object]] = [
        tunnel.negotiated, partial(tunnel.versions, router_end), partial(tunnel.versions, server_end),
        tunnel.keep_alives, partial(tunnel.rekeys_since, (0, 0)), partial(tunnel.rekeys_since, (0, 0)),
        partial(tunnel.restart_since, (0, 0)), partial(tunnel.too_long_since, (0, 0)),
    ]  # fmt: skip
    for ask in asked:
        with suppress(UserError, TrialFailed):
            ask()


def of_openvpn_log(texts: Texts) -> None:
    if not all(openvpn_output.parse_data_channel(texts[0])):
        raise AssertionError("a cipher or digest is empty")
    openvpn_output.parse_engine(texts[0])
    openvpn_output.parse_compression(texts[0])
    openvpn_output.has_peer_id(texts[0])
    openvpn_output.parse_library(texts[0])
    openvpn_output.first_complaint(texts[0])
    openvpn_output.rekey_of_client(texts[0])


def of_tinc_nodes(texts: Texts) -> None:
    for name in ("server", "router"):
        node = tinc.parse_node(texts[0], name)
        finite(node.minimum_mtu_bytes, node.maximum_mtu_bytes)


def of_library(texts: Texts) -> None:
    versions.library_version(host(texts), "swanctl", "libstrongswan")
    versions.openssl_version(host(texts))


def of_keys(texts: Texts) -> None:
    without_keys(texts[0])


PARSERS: Mapping[str, Callable[[Texts], None]] = {
    "iperf3": of_iperf3,
    "iperf3-long": of_long_iperf3,
    "engine": partial(of_engine, is_echo=False),
    "engine-echo": partial(of_engine, is_echo=True),
    "engine-series": partial(of_engine_series, is_echo=False),
    "engine-series-echo": partial(of_engine_series, is_echo=True),
    "connections": of_connections,
    "openssl-speed": of_openssl_speed,
    "openssl-machine": of_openssl_machine,
    "ping": of_ping,
    "host-counters": of_host_counters,
    "path": of_path,
    "tracker": of_tracker,
    "mtu": of_mtu,
    "labgrid": of_labgrid,
    "labgrid-values": of_labgrid_values,
    "ip-add": of_ip_add,
    **{f"router-filter {each.name}": partial(of_router_filter, each) for each in router_filter.FILTER_PROGRAMS},
    "queues": of_queues,
    "capture": of_capture,
    "ss": of_ss,
    "route": of_route,
    "iw": of_iw,
    "offloads": of_offloads,
    "ip-addr": of_ip_addr,
    "router-script": of_router_script,
    "router-facts": of_router_facts,
    "firewall": of_firewall,
    "discovery": of_discovery,
    "samples": of_samples,
    "new-sampler": of_new_sampler,
    "account": of_account,
    "places": of_places,
    "stat": of_stat,
    "status": of_status,
    "affinities": of_affinities,
    "ssh-config": of_ssh_config,
    "ssh-server": of_ssh_server,
    "find-engine": of_find_engine,
    "guest": of_guest,
    "openvpn-log": of_openvpn_log,
    "tinc-nodes": of_tinc_nodes,
    "library": of_library,
    "keys": of_keys,
    **{f"tunnel {kind}": partial(of_tunnel, kind) for kind in adapters()},
}


def take(data: bytes) -> None:
    first, _, content = data.partition(b"\n")
    name = first.decode(errors="replace")
    if name not in PARSERS:
        names = sorted(PARSERS)
        name = names[zlib.crc32(first) % len(names)]
    PARSERS[name](content.decode(errors="replace").split(ANSWER_MARK))


def seed(name: str, *texts: str) -> bytes:
    return f"{name}\n{ANSWER_MARK.join(texts)}".encode()


def seeds() -> Iterator[bytes]:
    yield from (seed(name, "") for name in PARSERS)
    yield from seeds_of_traffic()
    yield from seeds_of_tools()
    yield from seeds_of_routers()
    yield from seeds_of_tunnels()


def seeds_of_traffic() -> Iterator[bytes]:
    found = samples("iperf3-*/*-*.json")
    for way in ("in", "out", "interrupted"):
        pair = [
            next(text for name, text in found.items() if name.endswith(f"/{way}-{end}.json"))
            for end in ("client", "server")
        ]
        yield seed("iperf3", *pair)
        yield seed("iperf3", *pair, "")
    yield seed("iperf3-long", next(iter(found.values())))
    lines = samples("tunnelbench-engine-*/*.jsonl")
    for name, text in lines.items():
        if name.endswith("-sender.jsonl"):
            far = lines[name.replace("-sender", "-far")]
            for parser in ("engine", "engine-echo", "engine-series", "engine-series-echo"):
                yield seed(parser, text, far)
    sent = "\n".join((engine_lines.hello(), engine_lines.sent(0), engine_lines.sent(1), engine_lines.sent(9)))
    arrived = "\n".join(
        (engine_lines.hello(), engine_lines.arrived(0), engine_lines.arrived(1), engine_lines.arrived(1))
    )
    yield seed("engine-series", sent, arrived)
    yield seed(
        "connections", connection_lines.lines(connection_lines.NEAR), connection_lines.lines(connection_lines.FAR)
    )
    yield from (seed("openssl-speed", text, text) for text in samples("openssl-*/speed-*.txt").values())
    yield from (seed("ping", text) for text in samples("iputils-*/ping-*.txt").values())


STAT = "cpu  10 0 10 10 0 0 0 0 0 0\ncpu0 10 0 10 10 0 0 0 0 0 0\n"
NFT = {
    "nftables": [
        {"metainfo": {}},
        *({"counter": {"name": name, "packets": 3, "bytes": 100}} for name in counters.COUNTERS),
    ]
}
TC = [{"kind": "noqueue", "handle": "0:", "dev": "lo", "drops": 0, "overlimits": 0, "qlen": 0}]
ETHTOOL = [{"ifname": "eth0", "generic-receive-offload": {"active": True, "fixed": False, "requested": True},
            "tx-checksum-ip-generic": {"active": True, "fixed": None}}]  # fmt: skip
ADDR = [{"ifname": "eth0", "flags": ["UP"], "addr_info": [{"local": "192.0.2.1", "prefixlen": 24, "scope": "global"}]}]
ADDRESSES = "1: lo    inet 127.0.0.1/8 scope host lo\n7: br-lan@x    inet 192.168.1.1/24 scope global br-lan\n"
OWN = "2: eth0    inet 192.168.1.100/24 scope global eth0\n"
LINKS = "5: enx02: <UP,LOWER_UP> mtu 1500 qdisc mq state UP \\    link/ether 02:00:00:00:00:02 brd ff\n"
ROUTES = "default via 10.0.0.1 dev wan  src 10.0.0.7 \n192.168.1.0/24 dev br-lan scope link\n"
NFT_RULES = (
    "table inet fw4 {\n chain forward {\n ct state established,related accept # handle 12\n }\n chain input {\n }\n}\n"
)
FILTER = (
    "table ip tunnelbench-firewall {\n\tcounter established {\n\t\tpackets 3 bytes 100\n\t}\n\n\tchain trial {\n"
    "\t\tip saddr 240.0.0.1 drop\n\t}\n}\n"
)
LEASE = {"state": "stale", "owner": "a@b, run r", "folder": "/tmp/tunnelbench-dut-r", "left_s": 3}


SNMP6 = "Ip6InReceives                   \t7\nIp6OutForwDatagrams             \t5\nIcmp6InMsgs\t0\n"


def seeds_of_tools() -> Iterator[bytes]:
    kernel = {name.rpartition("/")[2]: text for name, text in samples("linux-6.18/*.txt").items()}
    devices = kernel["proc-net-dev.txt"] + kernel["proc-net-snmp.txt"]
    yield seed("host-counters", devices)
    host = devices, SNMP6
    yield seed("path", json.dumps(NFT), *host, *host, json.dumps(TC), *host, *host, json.dumps(TC), devices)
    yield seed("tracker", "7\n262144\n")
    yield seed("mtu", "5: eth0: <UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default qlen 1000")
    yield seed("router-filter nft", "7\n", FILTER, FILTER, FILTER)
    yield from (seed("router-filter iptables", "7\n", saved, FILTER) for saved in samples("iptables-*/*.txt").values())
    yield seed("queues", json.dumps(TC))
    packets = [b"\x45" + bytes(range(60)), b"\x60" + bytes(5) + b"\x2c" + bytes(range(60)), bytes(64)]
    yield seed("capture", pcap(packets).decode("latin-1"))
    yield from (seed("ss", text) for text in samples("iproute2-*/ss-*.txt").values())
    yield seed("route", "192.0.2.1 via 198.18.3.2 dev tun0 src 198.18.3.1")
    iw = {name.rpartition("/")[2]: text for name, text in samples("iw-*/*.txt").items()}
    yield seed(
        "iw",
        "",
        "02:00:00:00:01:00",
        "wlan1 wlan0",
        iw["router-station-dump.txt"],
        iw["router-info.txt"],
        iw["router-station-dump.txt"],
    )
    yield seed("iw", iw["client-info.txt"], iw["client-link.txt"])
    yield seed("offloads", json.dumps(ETHTOOL))
    yield seed(
        "ip-addr", json.dumps(ADDR), json.dumps(ADDR), "192.0.2.0/24 scope link linkdown\ndefault via 192.0.2.9\n"
    )
    engines = [text for name, text in samples("openssl-*/engine-*.txt").items()]
    yield seed("openssl-machine", *engines, "flags\t: fpu aes vaes\nFeatures : pmull\n", "OpenSSL 3.0.19 x\n")
    yield seed("stat", kernel["proc-stat.txt"])
    yield seed("affinities", "/proc/irq/0/smp_affinity 3\n/proc/irq/24/smp_affinity ffffffff,00000002\n")
    yield seed("status", "Name:\topenvpn\nVmRSS:\t    9120 kB\nRssAnon:\t    1480 kB\nThreads:\t1\n")


def seeds_of_routers() -> Iterator[bytes]:
    service = {"state": "acquired", "address": "192.168.1.1", "username": "root", "port": 22}
    yield seed("labgrid", json.dumps(service), json.dumps({"state": "free"}), json.dumps({"state": "released"}))
    yield seed("labgrid", labgrid.hold_for(LabgridPlace("rack"), "run-1").holder)
    yield seed("labgrid-values", json.dumps({"host": "192.0.2.1", "index": 3, "params": {"options": ["-v", None]}}))
    yield seed("labgrid-values", json.dumps({"host": "http://192.0.2.1/{index}?set={value}"}))
    yield seed("ip-add", "2: lan0    inet6 fe80::1/64 scope link\n", "fe80::1 dev lan0\n", "Tunnel 42, encap UDP\n")
    yield seed("router-script", json.dumps(LEASE))
    yield seed("router-script", "\x01tunnelbench-dut: the lease is taken")
    yield seed("router-facts", json.dumps({"kernel": "6.6", "cpus": 2, "memory_mib": 64}), "reno bbr cubic\n")
    yield seed("firewall", "", NFT_RULES)
    yield seed("firewall", "\x01no", "-P FORWARD DROP\n-A FORWARD -j ACCEPT\n", "")
    wan = "3: wan    inet 10.0.0.7/24 brd 10.0.0.255 scope global wan\n"
    yield seed(
        "discovery", OWN, ADDRESSES + wan, "wan\n", ROUTES, OWN + "4: eth9    inet 10.0.0.9/24 scope global\n", LINKS
    )
    yield seed("discovery", OWN, ADDRESSES, "wan\n", ROUTES, OWN, LINKS)
    between = "3: up    inet 10.0.0.9/24 scope global up\n4: down    inet 10.2.0.1/24 scope global down\n"
    server = OWN + "4: eth9    inet 10.2.0.2/24 scope global\n"
    yield seed("discovery", OWN, ADDRESSES + wan, "wan\n", ROUTES, server, LINKS, between)
    for text in samples("busybox-*/samples.txt").values():
        yield seed("samples", "", text)
        yield seed("new-sampler", "100.5 3\n", "100.5 3\n", "100.5 3\n", "17\n", text)
    symbols = "80100000 T ip_rcv\nc0000000 t xmit\t[virtio_net]\n"
    yield seed("places", "virtio_net 1 0 - Live 0x0\n", symbols, "00400000-00410000 r-xp 0 0:0 1 /sbin/x\n")
    yield seed("account", STAT + "0 (openvpn) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n")
    yield seed("ssh-config", "Host a\n  Include b ~/c/* 'd e' # f\n\"include\"=~g/h\n")
    yield seed("ssh-config", "Include $a\n")
    yield seed("ssh-server", "192.0.2.2 40000 192.0.2.1 22\n")
    yield seed("find-engine", "x86_64\n/tmp/tunnelbench-engine\n")
    yield seed("find-engine", "x86_64\n\n", "\x01cannot execute")
    yield seed("guest", '\x1b[2Jtunnelbench {"type": "ready"}\n{"type": "trial", "record": {}}\n')


def seeds_of_tunnels() -> Iterator[bytes]:
    logs = {**samples("*/*.log"), **samples("*/*.txt")}
    own = {"openvpn": "openvpn", "tinc": "tinc", "fastd": "fastd", "nebula": "nebula", "n2n": "n2n", "openssh": "ssh",
           "openconnect": "openconnect", "strongswan": "ipsec", "linux-6.1": "ipsec", "ppp": "l2tpv2",
           "xl2tpd": "l2tpv2", "wireguard": "wireguard", "boringtun": "boringtun"}  # fmt: skip
    for name, text in logs.items():
        for prefix, kinds in own.items():
            if name.startswith(prefix):
                yield from (seed(f"tunnel {kind}", text, text) for kind in adapters() if kind.startswith(kinds))
        if name.startswith("openvpn"):
            yield seed("openvpn-log", text[:8000])
        if name.startswith("tinc"):
            yield seed("tinc-nodes", text)
    link = [{"ifname": "tun0", "linkinfo": {"info_kind": "vxlan", "info_data": {"id": 1, "port": 4789, "ttl": 64}}}]
    yield from (seed(f"tunnel {kind}", json.dumps(link)) for kind in adapters())
    yield seed("tunnel l2tpv3", "Tunnel 1, encap UDP\n  From 198.18.2.1 to 198.18.2.2\n")
    yield from (seed(f"tunnel {kind}", "key 1700000000\n") for kind in adapters() if "wireguard" in kind)
    yield seed("tunnel boringtun", "key 100 200\n")
    yield seed("library", "/usr/sbin/swanctl\n", "libstrongswan.so.0 => /usr/lib/x.so (0x1)\n", "/usr/lib/x.so.5.9.8\n")
    yield seed("keys", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\npsk = secret\nInitialization\n")


WORDS = ("null", "NaN", "-Infinity", "1e400", '"1"', "[", "{", "Station 02:00:00:00:01:00 (on wlan0)\n", "inet ",
         " dev ", "/33", "link/ether", "INSTALLED, TUNNEL, ESP:", "cpu0 ", "Ip: ", "lo: ", "block short\n",
         "/proc/uptime:", "/proc/stat:", "/proc/7/stat:", "mss:", "bytes_sent:", ":5201", "rtt:", "established",
         "# handle ", "src 1 dst 2\n\tproto esp ",
         "lifetime current:\n 1(bytes), ", "(packets)", " at x cipher 1 digest 2 compression 0 (min 1 max 2)", "\u0663",
         "\x1b[2J", "+F:1:aes:", "packets transmitted, ", ANSWER_MARK, "\x01", "9" * 5000)  # fmt: skip

TARGET = Target("daemon_output", take, seeds, WORDS)
