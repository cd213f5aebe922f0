"""A laptop and a router as two network namespaces, joined by two cables (veth pairs).

    laptop(nic0) --- (lan0)router         where ssh goes
    laptop(nic1) --- (wan0)router

A test may move the second card to another laptop, which is reached by SSH, too:

    laptop(mgmt0) --- (mgmt0)other laptop(nic1) --- (wan0)router

or to a gateway, behind which is a third card:

    laptop(nic2) --- (lan2)other laptop(nic1) --- (wan0)router

The router runs dropbear. Its users have BusyBox only: ash is their shell, and the applets are their programs. A test
may install a few more. /tmp is small and in memory, as on a router. /proc is the machine's. No machine behind SSH has
what this machine has in /usr/local/bin, where TunnelBench may be installed for all users.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.model.testbed import HostAccess

ROUTER, LAPTOP, OTHER = "tbt-router", "tbt-laptop", "tbt-other"
LAN, WAN, BESIDE, BEHIND = "192.168.77", "192.168.78", "192.168.79", "192.168.80"
INSTALLED = ("dropbear", "openvpn", "nft")
START_LIMIT_S = 10.0
TMP_SIZE = "8m"
TRIALS = '[tcp]\nduration_s = 4\npayload_bytes = 1448\ndirection = "out"\n[[tunnel]]\nkind = "none"\n'
"""A calibration, and a trial a round."""


FW4 = """
table inet fw4 {
    chain input {
        type filter hook input priority filter; policy accept; ct state established accept;
        ip saddr 10.9.9.9 accept comment "tunnelbench";
    }
    chain forward { type filter hook forward priority filter; policy drop; ct state established,related accept; drop; }
    chain srcnat { type nat hook postrouting priority srcnat; policy accept; masquerade; }
}
"""
"""A firewall like that of OpenWrt."""


@dataclass
class Rig:
    """A rig that is set up. `folder` holds keys and programs."""

    folder: Path
    dropbear: subprocess.Popen[bytes]
    forwards: str
    """The router's own setting of ip_forward, `0` or `1`."""

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def testbed_file(self, more: str = "", quiet_wait_s: int = 5, topology: str = "router-server") -> Path:
        """Write a testbed file of this rig, with `more` tables, and return its path."""
        lines = [
            'kind = "ssh"',
            f"quiet_wait_s = {quiet_wait_s}",
            f'topology = "{topology}"',
            "[router]",
            f'host = "root@{LAN}.1"',
            f'config = "{self.ssh_config}"',
        ]
        path = self.folder / "rig.toml"
        path.write_text("\n".join([*lines, more, ""]))
        return path

    def tunnelbench(self, *words: str, check: bool = True, timeout_s: float = 90) -> subprocess.CompletedProcess[str]:
        """Run tunnelbench on the laptop with the rig's ssh_config. With `check`, it must not fail."""
        environment = {**os.environ, "PATH": f"{self.folder / 'laptop'}:{os.environ['PATH']}"}
        argv = on_laptop(*words)
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def on_router(self, script: str) -> str:
        """Run a script with sh in the router's network, /tmp and programs, and return its output."""
        inside = [f"--net=/run/netns/{ROUTER}", f"--mount=/proc/{self.dropbear.pid}/ns/mnt"]
        argv = ["nsenter", *inside, "sh", "-c", script]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout

    def state(self) -> str:
        """Return all that a run could leave on the router and the laptop: addresses, routes, rules, settings, files."""
        router = self.on_router(
            "ip -o -4 addr; ip route; ip rule; ls /tmp /run; cat /proc/sys/net/ipv4/ip_forward; nft list ruleset"
        )
        shown = [run("ip", "-n", LAPTOP, "-o", "-4", *what) for what in (["addr"], ["route"], ["rule"])]
        offloads = run("ip", "netns", "exec", LAPTOP, "ethtool", "-k", "nic1") if "nic1" in shown[0] else ""
        return "\n".join([_without_times(router), *map(_without_times, shown), offloads])

    def end_sessions(self) -> None:
        """Kill every session of the router's SSH server, as a restart of the router does."""
        for pid in run("ps", "-o", "pid=", "--ppid", str(self.dropbear.pid)).split():
            os.kill(int(pid), signal.SIGKILL)

    def restart(self, after_s: float) -> None:
        """Switch the router off and on after a time. It has its addresses again, and nothing that a run made."""
        self.dropbear.kill()
        self.dropbear.wait()
        end_all_of(ROUTER)
        run("ip", "netns", "exec", ROUTER, "nft", "flush", "ruleset")
        run("ip", "netns", "exec", ROUTER, "sysctl", "-q", "-w", f"net.ipv4.ip_forward={self.forwards}")
        for device in ("lan0", "wan0"):
            run("ip", "-n", ROUTER, "link", "set", device, "down")  # its routes go
        time.sleep(after_s)
        for device in ("lan0", "wan0"):
            run("ip", "-n", ROUTER, "link", "set", device, "up")
        run("ip", "-n", ROUTER, "route", "add", "default", "via", f"{WAN}.2")
        self.dropbear = _dropbear(self.folder, ROUTER, f"{LAN}.1", BUSYBOX_ONLY)

    def end_sleepers(self) -> None:
        """Kill the last `sleep` of a lease's watchdog, which outlives the watchdog by up to 30 s."""
        for pid in run("ip", "netns", "pids", ROUTER).split():
            with suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                    os.kill(int(pid), signal.SIGKILL)

    def take_down(self) -> None:
        self.dropbear.kill()
        self.dropbear.wait()
        for name in (LAPTOP, ROUTER):
            end_all_of(name)
            run("ip", "netns", "del", name)


def end_all_of(name: str) -> None:
    """Kill every process of a namespace."""
    for pid in run("ip", "netns", "pids", name).split():
        subprocess.run(["kill", "-9", pid], check=False, capture_output=True)


def on_laptop(*words: str) -> list[str]:
    """Return the command that runs tunnelbench on the laptop. With nsenter, mounts of `ip netns` stay visible here."""
    return ["nsenter", f"--net=/run/netns/{LAPTOP}", str(Path(sys.executable).with_name("tunnelbench")), *words]


def router(rig: Rig, folder: Path, **access: object) -> LeasedHost:
    """Return the router as a host that is reached from the laptop."""
    laptop = NamespaceHost("laptop", folder, (0,), LAPTOP)
    folder.mkdir(exist_ok=True)
    where = HostAccess(**{"host": f"root@{LAN}.1", "config": str(rig.ssh_config), **access})  # type: ignore[arg-type]
    return LeasedHost("router", where, f"test-{folder.name}", folder / "router", laptop)


def plan(folder: Path, text: str) -> str:
    path = folder / "plan.toml"
    path.write_text(text)
    return str(path)


def outcomes(output: str) -> list[tuple[str, str]]:
    """Return outcome and reason of each trial, the calibration first."""
    return [(trial["outcome"], trial["reason"]) for trial in json.loads(output)["trials"]]


def trials_in(store: str) -> int:
    """Return the number of trials in a store, the calibration included."""
    if not Path(store).exists():
        return 0
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM trial").fetchone()[0])
        except sqlite3.OperationalError:  # no tables yet
            return 0


def start(*words: str) -> subprocess.Popen[str]:
    argv = on_laptop(*words)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*argv: str, stdin: str = "") -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, input=stdin, timeout=20).stdout


def _without_times(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "valid_lft" not in line)


def set_up(folder: Path, programs: Sequence[str] = INSTALLED) -> Rig:
    """Set up a rig. Nothing of it is in the machine's own network."""
    for name in (ROUTER, LAPTOP):
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        _quiet(name)
    for near, far, network in (("nic0", "lan0", LAN), ("nic1", "wan0", WAN)):
        run("ip", "-n", LAPTOP, "link", "add", near, "type", "veth", "peer", "name", far, "netns", ROUTER)
        for name, device, last in ((LAPTOP, near, 2), (ROUTER, far, 1)):
            run("ip", "-n", name, "addr", "add", f"{network}.{last}/24", "dev", device)
            run("ip", "-n", name, "link", "set", device, "up")
            run("ip", "netns", "exec", name, "ethtool", "-K", device, "tx", "off")
    run("ip", "-n", ROUTER, "route", "add", "default", "via", f"{WAN}.2")
    run("ip", "-n", LAPTOP, "addr", "add", "10.5.5.5/24", "dev", "nic0")
    run("ip", "-n", LAPTOP, "route", "add", "10.77.0.0/16", "via", f"{LAN}.1", "metric", "50")
    _programs(folder, programs)
    _keys(folder)
    forwards = run("ip", "netns", "exec", ROUTER, "cat", "/proc/sys/net/ipv4/ip_forward").strip()
    return Rig(folder, _dropbear(folder, ROUTER, f"{LAN}.1", BUSYBOX_ONLY), forwards)


@contextmanager
def other_laptop(rig: Rig) -> Iterator[None]:
    """Join the router's WAN to another laptop while the block runs: a whole Debian with a /tmp of its own."""
    run("ip", "netns", "add", OTHER)
    run("ip", "-n", OTHER, "link", "set", "lo", "up")
    _quiet(OTHER)
    run("ip", "-n", LAPTOP, "link", "set", "nic1", "netns", OTHER)
    run("ip", "-n", LAPTOP, "link", "add", "mgmt0", "type", "veth", "peer", "name", "mgmt0", "netns", OTHER)
    for name, device, address in (
        (OTHER, "nic1", f"{WAN}.2/24"),
        (LAPTOP, "mgmt0", f"{BESIDE}.2/24"),
        (OTHER, "mgmt0", f"{BESIDE}.1/24"),
    ):
        run("ip", "-n", name, "addr", "add", address, "dev", device)
        run("ip", "-n", name, "link", "set", device, "up")
    server = _dropbear(rig.folder, OTHER, f"{BESIDE}.1", "")
    try:
        yield
    finally:
        server.kill()
        server.wait()
        end_all_of(OTHER)
        run("ip", "-n", LAPTOP, "link", "del", "mgmt0")  # now: with the namespace, it would go some time later
        run("ip", "-n", OTHER, "link", "set", "nic1", "netns", LAPTOP)
        run("ip", "-n", LAPTOP, "addr", "add", f"{WAN}.2/24", "dev", "nic1")
        run("ip", "-n", LAPTOP, "link", "set", "nic1", "up")
        run("ip", "netns", "del", OTHER)


@contextmanager
def gateway(rig: Rig) -> Iterator[None]:
    """Make the other laptop a gateway between the router's WAN and a third card of the laptop while the block runs."""
    with other_laptop(rig):
        run("ip", "-n", LAPTOP, "link", "add", "nic2", "type", "veth", "peer", "name", "lan2", "netns", OTHER)
        for name, device, last in ((LAPTOP, "nic2", 2), (OTHER, "lan2", 1)):
            run("ip", "-n", name, "addr", "add", f"{BEHIND}.{last}/24", "dev", device)
            run("ip", "-n", name, "link", "set", device, "up")
            run("ip", "netns", "exec", name, "ethtool", "-K", device, "tx", "off")
        try:
            yield
        finally:
            run("ip", "-n", OTHER, "link", "del", "lan2")


def _quiet(name: str) -> None:
    for where in ("all", "default"):
        run("ip", "netns", "exec", name, "sysctl", "-q", "-w", f"net.ipv6.conf.{where}.disable_ipv6=1")


def _programs(folder: Path, programs: Sequence[str]) -> None:
    """Make a folder with BusyBox, its applets and the programs that are installed on this router."""
    place = folder / "bin"
    place.mkdir(parents=True)
    busybox = shutil.copy(shutil.which("busybox") or "busybox", place / "busybox")
    for applet in run(str(busybox), "--list").split():
        if applet != "busybox":
            (place / applet).symlink_to("busybox")
    for program in programs:
        found = shutil.which(program)
        if found is None:
            raise AssertionError(f"the test needs {program}: scripts/install-debian --dev")
        (place / program).unlink(missing_ok=True)
        shutil.copy(found, place / program)


def _keys(folder: Path) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id"))
    home = folder / "root" / ".ssh"
    home.mkdir(parents=True, mode=0o700)
    host_key = str(folder / "root" / "hostkey")
    run("dropbearkey", "-t", "ed25519", "-f", host_key)
    public = run("dropbearkey", "-y", "-f", host_key).splitlines()
    key = next(line for line in public if line.startswith("ssh-ed25519")).split()
    (folder / "known_hosts").write_text(f"{LAN}.1,{BESIDE}.1 {key[0]} {key[1]}\n")
    home.parent.chmod(0o700)
    shutil.copy(folder / "id.pub", home / "authorized_keys")
    (home / "authorized_keys").chmod(0o600)
    (folder / "passwd").write_text("root:x:0:0:root:/root:/bin/ash\n")
    (folder / "shells").write_text("/bin/ash\n")
    wrapper = folder / "laptop" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    wrapper.chmod(0o755)
    (folder / "ssh_config").write_text(
        f"Host *\n  IdentityFile {folder}/id\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n"
    )


BUSYBOX_ONLY = """
    mount --bind "$folder/passwd" /etc/passwd
    mount --bind "$folder/shells" /etc/shells
    mount --bind "$folder/bin" /usr/sbin
    mount --bind "$folder/bin" /usr/bin
"""


def _dropbear(folder: Path, namespace: str, address: str, mounts: str) -> subprocess.Popen[bytes]:
    script = f"""
        folder={folder}
        set -e
        mount --make-rprivate /
        mount --bind {folder}/root /root
        {mounts}
        mount -t tmpfs -o mode=755 tmpfs /usr/local/bin
        mount -t tmpfs -o size={TMP_SIZE},mode=1777 tmpfs /tmp
        mount -t tmpfs -o mode=755 tmpfs /run
        exec /usr/sbin/dropbear -F -E -r /root/hostkey -p {address}:22
    """
    with (folder / f"dropbear-{namespace}.log").open("wb") as log:
        # fmt: off
        process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{namespace}", "unshare", "--mount", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )
        # fmt: on
    deadline = time.monotonic() + START_LIMIT_S
    while ":0016 " not in run("ip", "netns", "exec", namespace, "cat", "/proc/net/tcp"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError((folder / f"dropbear-{namespace}.log").read_text())
        time.sleep(0.02)
    return process
