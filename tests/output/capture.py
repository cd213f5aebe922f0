"""Makes the samples in this folder: `python tests/output/capture.py`, as root, takes about a minute.

Each is what a real tool printed on three namespaces, in a folder named by tool and version. Run it where a new version
of a tool is to be supported, and keep the folders of the old one: what routers run is seldom the newest.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from tunnelbench.host.host import Host, LocalHost
from tunnelbench.model.plan import Direction, Plan, TcpTraffic, TunnelSpec
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.run import Bench
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.traffic import engine, iperf3, ping
from tunnelbench.traffic.engine import Load
from tunnelbench.tunnel import create
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.ipsec_userspace import IpsecUserspace
from tunnelbench.tunnel.strongswan import CHARON
from tunnelbench.tunnel.tinc import Tinc
from tunnelbench.tunnel.wireguard import boringtun

OUTPUT = Path(__file__).parent
TRAFFIC = TcpTraffic(duration_s=2, interval_s=0.5)
PLAN = Plan("capture", "", (), TRAFFIC)
ODD_NAME = "a b) (c 1"
"""The name of a program, as hard as the kernel allows."""

OPENVPN = {
    "tls-aes-128-gcm": {"cipher": "AES-128-GCM"},
    "tls-chacha20-poly1305": {"cipher": "CHACHA20-POLY1305"},
    "tls-aes-128-cbc-sha1": {"cipher": "AES-128-CBC", "auth": "SHA1"},
    "tls-bf-cbc-sha1": {"cipher": "BF-CBC", "auth": "SHA1"},
    "tls-aes-128-cbc-none": {"cipher": "AES-128-CBC", "auth": "none"},
    "tls-none-sha1": {"cipher": "none", "auth": "SHA1"},
    "tls-none-none": {"cipher": "none", "auth": "none"},
    "tls-tcp-tap-aes-256-gcm": {"transport": "tcp", "dev": "tap"},
    "static-key-aes-128-cbc-sha256": {"mode": "static-key", "cipher": "AES-128-CBC", "auth": "SHA256"},
    "static-key-none-none": {"mode": "static-key", "cipher": "none", "auth": "none"},
}
TINC = {
    "aes-128-cbc-sha1": {"cipher": "aes-128-cbc", "digest": "sha1"},
    "bf-cbc-sha1": {"cipher": "bf-cbc", "digest": "sha1"},
    "none-none": {"cipher": "none", "digest": "none"},
}

FASTD = ("null", "null@l2tp", "salsa2012+umac", "aes128-gcm", "null+aes128-gmac")

DROP_EVERY_OTHER_PING = """
table ip half {
    chain arriving {
        type filter hook input priority 0;
        icmp type echo-request numgen inc mod 2 == 0 drop
    }
}
"""


def version(argv: list[str], pattern: str) -> str:
    completed = subprocess.run(argv, capture_output=True, text=True, check=False)
    match = re.search(pattern, completed.stdout + completed.stderr)
    if match is None:
        sys.exit(f"{argv[0]} tells no version")
    return match[1]


def keep(folder: str, name: str, content: str | bytes) -> None:
    path = OUTPUT / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def tunnel_up(testbed: Testbed, kind: str, options: dict[str, Any]) -> Iterator[Tunnel[Any]]:
    ends = Bench(testbed, PLAN, Mock())._ends()
    with create(TunnelSpec(kind, kind, options), ends) as tunnel:
        yield tunnel


def capture_iperf3(testbed: Testbed) -> None:
    folder = "iperf3-" + version(["iperf3", "--version"], r"iperf (\S+)")
    sockets = "iproute2-" + version(["ss", "-V"], r"iproute2-(\S+)")
    target = testbed.addresses.target
    refused = testbed.client.run(iperf3.client_command(target, TRAFFIC, 1448, Direction.OUT), check=False)
    keep(folder, "refused-client.json", refused.stdout)
    for direction, sender in ((Direction.IN, testbed.server), (Direction.OUT, testbed.client)):
        server = testbed.server.start(iperf3.server_command(target, TRAFFIC.interval_s))
        time.sleep(0.2)
        client = testbed.client.start(iperf3.client_command(target, TRAFFIC, 1448, direction))
        time.sleep(TRAFFIC.duration_s / 2)
        keep(sockets, f"ss-{direction}-sender.txt", sender.run(["ss", "-tinHO", "state", "established"]).stdout)
        client.wait(5)
        server.wait(5)
        keep(folder, f"{direction}-client.json", client.output())
        keep(folder, f"{direction}-server.json", server.output())
    server = testbed.server.start(iperf3.server_command(target, TRAFFIC.interval_s))
    time.sleep(0.2)
    client = testbed.client.start(iperf3.client_command(target, TRAFFIC, 1448, Direction.OUT))
    time.sleep(1)
    client.interrupt()
    client.wait(2)
    server.wait(2)
    keep(folder, "interrupted-client.json", client.output())
    keep(folder, "interrupted-server.json", server.output())


def capture_ping(testbed: Testbed) -> None:
    folder = "iputils-" + version(["ping", "-V"], r"iputils (\S+)")
    a = testbed.addresses
    keep(folder, "ping-answered.txt", testbed.client.run(ping.command(a.router_lan, count=3)).stdout)
    keep(folder, "ping-unanswered.txt", testbed.client.run(ping.command("198.18.2.99", count=2), check=False).stdout)
    running = testbed.client.start(ping.command(a.router_lan))
    time.sleep(0.55)
    running.interrupt()
    running.wait(1)
    keep(folder, "ping-interrupted.txt", running.output())
    testbed.server.run(["nft", "-f", "-"], stdin=DROP_EVERY_OTHER_PING)
    keep(folder, "ping-half-lost.txt", testbed.client.run(ping.command(a.target, count=6), check=False).stdout)
    testbed.server.run(["nft", "delete", "table", "ip", "half"])


def capture_proc(testbed: Testbed) -> None:
    folder = "linux-" + version(["uname", "-r"], r"^(\d+\.\d+)")
    keep(folder, "proc-stat.txt", Path("/proc/stat").read_text())
    for name in ("dev", "snmp", "netstat"):
        keep(folder, f"proc-net-{name}.txt", testbed.router.read(f"/proc/net/{name}"))
    odd = testbed.local.folder / ODD_NAME
    shutil.copy("/bin/sleep", odd)
    process = subprocess.Popen([odd, "60"])
    time.sleep(0.1)
    keep(folder, "proc-pid-stat.txt", Path(f"/proc/{process.pid}/stat").read_text())
    process.kill()
    process.wait()


def capture_pcap(testbed: Testbed) -> None:
    """Two pings with a pattern, of which the second travels in fragments."""
    folder = "tcpdump-" + version(["tcpdump", "--version"], r"tcpdump version (\S+)")
    path = testbed.server.folder / "sample.pcap"
    argv = ["tcpdump", "--immediate-mode", "-U", "-n", "-Z", "root", "-i", testbed.wan_device, "-w", str(path), "ip"]
    tcpdump = testbed.server.start(argv)
    tcpdump.wait_for("listening on", 5)
    for size in (56, 1600):
        argv = ping.command(testbed.addresses.target, count=1, payload_bytes=size)
        argv[1:1] = ["-p", "00112233445566778899aabbccddeeff"]
        testbed.client.run(argv)
    tcpdump.interrupt()
    tcpdump.wait(2)
    keep(folder, "two-pings.pcap", path.read_bytes())


def capture_versions(host: Host) -> None:
    for name, argv in {
        "openvpn": ["openvpn", "--version"],
        "tinc": ["tincd", "--version"],
        "wireguard-go": ["wireguard-go", "--version"],
        "openssl": ["openssl", "version"],
    }.items():
        completed = host.run(argv, check=False)
        text = completed.stdout + completed.stderr
        found = version(argv, r"(?:OpenVPN |tinc version |wireguard-go v?|OpenSSL )([\d.]+\d)")
        keep(f"{name}-{found}", "version.txt", text)


def capture_tunnels(testbed: Testbed) -> None:
    openvpn = "openvpn-" + version(["openvpn", "--version"], r"OpenVPN (\S+)")
    tinc = "tinc-" + version(["tincd", "--version"], r"tinc version (\S+)")
    for name, options in OPENVPN.items():
        with tunnel_up(testbed, "openvpn", options) as tunnel:
            testbed.client.run(ping.command(testbed.addresses.target, count=2), check=False)
            keep(openvpn, f"{name}.log", tunnel.router_daemons[0].output())
    key = testbed.local.folder / "static.key"
    testbed.local.run(["openvpn", "--genkey", "secret", str(key)])
    argv = ["openvpn", "--dev", "null", "--secret", str(key), "--cipher", "AES-128-GCM"]
    keep(openvpn, "static-key-aes-128-gcm-refused.log", testbed.local.run(argv, check=False).stdout)
    for name, options in TINC.items():
        with tunnel_up(testbed, "tinc", options) as tunnel:
            assert isinstance(tunnel, Tinc)
            testbed.client.run(ping.command(testbed.addresses.target, count=2), check=False)
            keep(tinc, f"router-{name}.log", tunnel.router_daemons[0].output())
            tunnel.settle()
            keep(tinc, f"nodes-{name}.txt", tunnel._nodes(tunnel.router_daemons[0]))


def capture_fastd(testbed: Testbed) -> None:
    told = testbed.local.run(["fastd", "--version"]).stdout
    folder = "fastd-" + version(["fastd", "--version"], r"fastd v(\S+)")
    keep(folder, "version.txt", told)
    for method in FASTD:
        with tunnel_up(testbed, "fastd", {"method": method}) as tunnel:
            keep(folder, f"{method}.log", tunnel.router_daemons[0].output())


def capture_boringtun(testbed: Testbed) -> None:
    told = testbed.local.run([boringtun(), "--version"]).stdout
    folder = "boringtun-" + version([boringtun(), "--version"], r"boringtun (\S+)")
    keep(folder, "version.txt", told)
    with tunnel_up(testbed, "boringtun", {}) as tunnel:
        testbed.client.run(ping.command(testbed.addresses.target, count=2), check=False)
        device = tunnel.device_at(tunnel.ends.router)
        keep(folder, "transfer.txt", testbed.router.run(["wg", "show", device, "transfer"]).stdout)


def capture_n2n(testbed: Testbed) -> None:
    folder = "n2n-" + version(["edge", "-h"], r"n2n v\.(\S+)")
    keep(folder, "version.txt", testbed.local.run(["edge", "-h"], check=False).stdout)
    with tunnel_up(testbed, "n2n", {}) as tunnel:
        keep(folder, "alone.log", tunnel.router_daemons[0].output())
        testbed.client.run(ping.command(testbed.addresses.target, count=2), check=False)
        tunnel.settle()
        keep(folder, "direct.log", tunnel.router_daemons[0].output())


def capture_nebula(testbed: Testbed) -> None:
    folder = "nebula-" + version(["nebula", "-version"], r"Version: (\S+)")
    keep(folder, "version.txt", testbed.local.run(["nebula", "-version"]).stdout)
    with tunnel_up(testbed, "nebula", {}) as tunnel:
        keep(folder, "without-handshake.log", tunnel.router_daemons[0].output())
        testbed.client.run(ping.command(testbed.addresses.target, count=2), check=False)
        keep(folder, "with-handshake.log", tunnel.router_daemons[0].output())


def capture_ssh(testbed: Testbed) -> None:
    folder = "openssh-" + version(["ssh", "-V"], r"OpenSSH_([^ ,]+)")
    keep(folder, "version.txt", testbed.local.run(["ssh", "-V"]).stderr)
    for cipher in ("aes128-gcm", "chacha20-poly1305", "aes128-ctr"):
        with tunnel_up(testbed, "ssh", {"cipher": cipher}) as tunnel:
            keep(folder, f"{cipher}.log", tunnel.router_daemons[0].output())


def capture_openconnect(testbed: Testbed) -> None:
    folder = "openconnect-" + version(["openconnect", "--version"], r"OpenConnect version v(\S+)")
    keep(folder, "version.txt", testbed.local.run(["openconnect", "--version"]).stdout)
    told = testbed.local.run(["ocserv", "--version"])
    server = "ocserv-" + version(["ocserv", "--version"], r"ocserv (\S+)")
    keep(server, "version.txt", told.stdout + told.stderr)
    for mode in ("dtls", "tls"):
        for cipher in ("aes-128-gcm", "chacha20-poly1305"):
            with tunnel_up(testbed, "openconnect", {"mode": mode, "cipher": cipher}) as tunnel:
                keep(folder, f"{mode}-{cipher}.log", tunnel.router_daemons[0].output())


def capture_ipsec(testbed: Testbed) -> None:
    folder = "strongswan-" + version([CHARON, "--version"], r"strongSwan (\S+)")
    keep(folder, "version.txt", testbed.local.run([CHARON, "--version"], check=False).stdout)
    for cipher in ("aes-128-gcm", "chacha20-poly1305", "aes-256-cbc", "none"):
        with tunnel_up(testbed, "ipsec-userspace", {"cipher": cipher}) as tunnel:
            assert isinstance(tunnel, IpsecUserspace)
            keep(folder, f"list-sas-{cipher}.txt", tunnel._swanctl(tunnel.ends.router, "--list-sas"))


ENGINE_LOADS = {
    "paced": Load("18", 1.0, 1000.0, interval_s=0.25),
    "delays": Load("64", 1.0, 1000.0, takes_delays=True, interval_s=0.25),
    "echo": Load("18", 1.0, 1000.0, is_echo=True, takes_delays=True, interval_s=0.25),
    "burst": Load("imix", burst_packets=24, interval_s=0.25),
}


def engine_exchanges() -> None:
    """Both ends of each exchange, over the loopback device; the folder has the engine's version in its name."""
    program = engine.locate()
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    folder = OUTPUT / told.strip().replace(" ", "-")
    folder.mkdir(exist_ok=True)
    for name, load in ENGINE_LOADS.items():
        with tempfile.TemporaryDirectory() as scratch:
            local = LocalHost("local", Path(scratch), ())
            session = "00112233445566"
            far = local.start(engine.far_end_command(program, "127.0.0.1", session, load), has_input=True)
            far.wait_for('"hello"', 3)
            argv = engine.sender_command(program, "127.0.0.1", session, load, source="127.0.0.1")
            sender = local.start(argv, has_input=True)
            sender.wait(5)
            time.sleep(0.3)
            far.close_input()
            far.wait(3)
            (folder / f"{name}-sender.jsonl").write_text(sender.output())
            (folder / f"{name}-far.jsonl").write_text(far.output())


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="tunnelbench-") as folder,
        NetnsTestbed(TestbedSpec("capture", "netns"), "capture", Path(folder)) as testbed,
    ):
        capture_versions(testbed.local)
        with tunnel_up(testbed, "none", {}):
            capture_ping(testbed)
            capture_pcap(testbed)
            capture_iperf3(testbed)
        capture_proc(testbed)
        capture_tunnels(testbed)
        capture_fastd(testbed)
        capture_boringtun(testbed)
        capture_n2n(testbed)
        capture_nebula(testbed)
        capture_ssh(testbed)
        capture_openconnect(testbed)
        capture_ipsec(testbed)
    engine_exchanges()


if __name__ == "__main__":
    main()
