"""Makes the samples in this folder, as root: `python -m tests.output.capture` makes all, which takes minutes.

`python -m tests.output.capture KIND...` makes only those of some kinds of tunnels, as their test files say. Each sample
is the output of a real tool on three namespaces, in a folder named by tool and version. Make samples of each new
version, and keep the old ones: routers seldom run the newest.
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
from functools import partial
from pathlib import Path
from typing import Any

from tests.unit.tunnel.cases import Options, TunnelCase, tunnel_cases

from tunnelbench.host.host import LocalHost
from tunnelbench.measure.live_tunnel import tunnel_ends
from tunnelbench.model.firewall import Firewall, RouterFilter
from tunnelbench.model.plan import Direction, TcpTraffic, TunnelSpec
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.iptables_filter import restore_input
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.traffic import engine, iperf3, ping
from tunnelbench.traffic.engine import SenderLoad
from tunnelbench.tunnel import create
from tunnelbench.tunnel.base import Tunnel

OUTPUT = Path(__file__).parent
TRAFFIC = TcpTraffic(duration_s=2, interval_s=0.5)
ODD_NAME = "a b) (c 1"
"""The name of a program, as hard as the kernel allows."""

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
        sys.exit(f"{argv[0]} prints no version")
    return match[1]


def keep(folder: str, name: str, content: str | bytes) -> None:
    path = OUTPUT / folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def tunnel_up(testbed: Testbed, kind: str, options: Options) -> Iterator[Tunnel[Any]]:
    with create(TunnelSpec(kind, kind, options), tunnel_ends(testbed)) as tunnel:
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


def capture_iptables(testbed: Testbed) -> None:
    """The chains of a plan beside rules of the router's owner, in both variants of iptables."""
    folder = "iptables-" + version(["iptables", "--version"], r"iptables v(\S+)")
    router, a = testbed.router, testbed.addresses
    rules = restore_input(RouterFilter(Firewall.STATEFUL_NAT, 2), a.client_lan, a.target)
    for program in ("iptables-nft", "iptables-legacy"):
        router.run([program, "-N", "guests"])
        router.run([program, "-A", "FORWARD", "-s", "192.0.2.0/24", "-j", "guests"])
        router.run([f"{program}-restore", "--noflush"], stdin=rules)
        testbed.client.run(ping.command(a.target, count=3))
        keep(folder, f"{program}-save.txt", router.run([f"{program}-save", "-c"]).stdout)
        for table in ("filter", "nat"):
            router.run([program, "-t", table, "-F"])
            router.run([program, "-t", table, "-X"])


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


def capture_tunnel(testbed: Testbed, case: TunnelCase) -> None:
    """Keep the output of a tunnel's programs, and what they print of their versions."""
    ends = tunnel_ends(testbed)
    commands = case.version_commands or {}
    folders = {}
    tunnel = create(TunnelSpec(case.kind, case.kind), ends)
    versions = {**tunnel.versions(ends.router), **tunnel.versions(ends.server)}
    for tool, command in commands.items():
        completed = testbed.local.run(command, check=False)
        folders[tool] = f"{tool}-{versions[tool]}"
        keep(folders[tool], "version.txt", completed.stdout + completed.stderr)
    for name, options in (case.samples or {}).items():
        with tunnel_up(testbed, case.kind, options) as tunnel:
            send = partial(testbed.client.run, ping.command(testbed.addresses.target, count=2), check=False)
            for file, text in case.capture(name, tunnel, send):
                keep(next(iter(folders.values())), file, text)


ENGINE_LOADS = {
    "paced": SenderLoad("18", 1.0, 1000.0, interval_s=0.25),
    "delays": SenderLoad("64", 1.0, 1000.0, takes_delays=True, interval_s=0.25),
    "echo": SenderLoad("18", 1.0, 1000.0, is_echo=True, takes_delays=True, interval_s=0.25),
    "burst": SenderLoad("imix", burst_packets=24, interval_s=0.25),
}


def engine_exchanges() -> None:
    """Both ends of each exchange, over the loopback device; the folder has the engine's version in its name."""
    program = engine.locate()
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    folder = OUTPUT / version.strip().replace(" ", "-")
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


def main(kinds: list[str]) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="tunnelbench-") as folder,
        NetnsTestbed(TestbedSpec("capture", "netns"), "capture", Path(folder)) as testbed,
    ):
        for kind in kinds or tunnel_cases():
            if not tunnel_cases()[kind].needs_kernel:
                capture_tunnel(testbed, tunnel_cases()[kind])
        if kinds:
            return
        with tunnel_up(testbed, "none", {}):
            capture_ping(testbed)
            capture_pcap(testbed)
            capture_iptables(testbed)
            capture_iperf3(testbed)
        capture_proc(testbed)
    engine_exchanges()


if __name__ == "__main__":
    main(sys.argv[1:])
