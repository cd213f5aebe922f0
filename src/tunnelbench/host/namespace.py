"""Network namespaces of this machine as hosts. Their names contain the run's mark, so that `clean` finds them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tunnelbench.host.command import DEFAULT_TIMEOUT_S, last_lines, run_command
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.model.errors import CannotHere

NAMESPACES = Path("/run/netns")
"""Folder in which `ip netns` gives names to namespaces."""

NAMESPACE_PREFIX = "tb-"
"""Each namespace of a run is called tb-MARK-ROLE. MARK is the end of the run's id."""

ROLES = ("client", "router", "gateway", "server", "cable-lan", "cable-wan", "scratch")

ANCHOR = ("sleep", "infinity")
"""Command of the process that stays in a namespace."""

ANCHOR_END_LIMIT_S = 0.2
"""Longest time from the loss of an anchor's files to its status [s]."""

PROCESS_END_LIMIT_S = 2.0
"""Longest wait for processes that were killed to disappear [s]."""

SYSCTLS = {
    "1": (
        # IPv6 is not in use: its neighbour discovery would only add noise to the WAN's counters.
        "/proc/sys/net/ipv6/conf/all/disable_ipv6",
        "/proc/sys/net/ipv6/conf/default/disable_ipv6",
        # Metrics that TCP saves in one trial (ssthresh, RTT) must not change the next.
        "/proc/sys/net/ipv4/tcp_no_metrics_save",
    ),
    "0": (
        # Tunnels are routed one way and measured both ways: a strict check of the return path is not under test.
        "/proc/sys/net/ipv4/conf/all/rp_filter",
        "/proc/sys/net/ipv4/conf/default/rp_filter",
    ),
    # A namespace takes over the machine's limits of TCP's buffers; small ones would limit the testers. These are the
    # kernel's own on a machine with enough memory (Documentation/networking/ip-sysctl.rst).
    "4096 131072 6291456": ("/proc/sys/net/ipv4/tcp_rmem",),
    "4096 16384 4194304": ("/proc/sys/net/ipv4/tcp_wmem",),
}
"""Settings of each namespace, by their value."""


class NamespaceHost(Host):
    """A network namespace of this machine."""

    machine = THIS_MACHINE

    def __init__(self, name: str, folder: Path, cpus: Sequence[int], namespace: str) -> None:
        super().__init__(name, folder, cpus)
        self.namespace = namespace
        self.shell_command = f"ip netns exec {namespace} sh"
        self.realtime_priority = 0
        """Real-time priority of the programs that are started here; 0: they have the normal class."""
        self._anchor: Daemon | None = None

    def create(self) -> None:
        """Make the namespace and the host's folder; `close` removes the namespace."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        run_command(["ip", "netns", "add", self.namespace])
        for value, paths in SYSCTLS.items():
            # A kernel without IPv6 has none of its settings.
            self.run(["tee", *(path for path in paths if Path(path).exists())], stdin=value)
        self.ip("link", "set", "lo", "up")
        self._start_anchor()

    def close(self) -> None:
        if self._anchor is not None:
            self._anchor.stop()
            self._anchor = None
        remove_namespace(self.namespace)

    def _start_anchor(self) -> None:
        """Start a process that sleeps in the namespace: the kernel shows the namespace's network under /proc/PID."""
        anchor = self.start(ANCHOR)
        deadline = time.monotonic() + DEFAULT_TIMEOUT_S
        while not self._is_inside(anchor):
            if not anchor.is_running or time.monotonic() > deadline:
                raise CannotHere(f"no process can be started in namespace {self.namespace}: {anchor.last_lines()}")
            time.sleep(0.001)
        self._anchor = anchor

    def _is_inside(self, anchor: Daemon) -> bool:
        """Return True if the anchor has entered the namespace, sees the namespace's /sys, and has not ended."""
        process = Path(f"/proc/{anchor.pid}")
        try:
            # `ip netns exec` enters the namespace, then mounts its /sys, then becomes the other program.
            is_ready = (process / "comm").read_text() == f"{ANCHOR[0]}\n"
            return is_ready and (process / "ns/net").samefile(NAMESPACES / self.namespace)
        except OSError:
            return False

    def read(self, *paths: str) -> str:
        if self._anchor is None:
            return super().read(*paths)
        if not self._anchor.is_running:  # somebody, or the kernel for want of memory, has killed it
            self._start_anchor()
        try:
            return self._read_inside(self._anchor, *paths)
        except OSError:
            # The files of a process that ends are gone shortly before its parent can read its status.
            if not self._anchor.wait(ANCHOR_END_LIMIT_S):
                raise
            return self.read(*paths)

    @staticmethod
    def _read_inside(anchor: Daemon, *paths: str) -> str:
        """Read files of the namespace without starting a process, which would cost the CPUs during a trial."""
        process = f"/proc/{anchor.pid}"
        inside = [
            f"{process}/root{path}" if path.startswith("/sys/") else path.replace("/proc/net/", f"{process}/net/")
            for path in paths
        ]
        return "".join(Path(path).read_text() for path in inside)

    def command(self, argv: Sequence[str]) -> list[str]:
        if argv[0] == "ip":
            return ["ip", "-n", self.namespace, *argv[1:]]  # no exec and no mount: half the time
        cpu_list = ",".join(map(str, self.cpus))
        first = ["chrt", "--fifo", str(self.realtime_priority)] if self.realtime_priority else []
        return ["ip", "netns", "exec", self.namespace, "taskset", "-c", cpu_list, *first, *argv]


def namespace_name(mark: str, role: str) -> str:
    """Return the name of the namespace for a role in the run with that mark."""
    return f"{NAMESPACE_PREFIX}{mark}-{role}"


def left_namespaces(mark: str) -> list[str]:
    """List the namespaces of a run that exist."""
    names = sorted(namespace_name(mark, role) for role in ROLES)
    return [name for name in names if os.path.lexists(NAMESPACES / name)]


def remove_namespace(name: str) -> list[int]:
    """Kill every process in a namespace and remove it with all its devices; returns the process numbers.

    Does nothing if there is no such namespace. Raises CannotHere if it cannot be removed, or if this process is in it,
    as in a shell that `ip netns exec` has opened there: it would kill itself.
    """
    path = NAMESPACES / name
    if _is_own(path):
        raise CannotHere(
            f"namespace {name} stays, because this program was started in it",
            "leave the shell in it with `exit`, then start tunnelbench clean",
        )
    listed = run_command(["ip", "netns", "pids", name], check=False)
    if listed.returncode != 0 and not os.path.lexists(path):
        return []
    pids = [int(pid) for pid in listed.stdout.split()]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Deleting only unlinks the name: the kernel removes the devices when the last process has left.
    deadline = time.monotonic() + PROCESS_END_LIMIT_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.005)
    deleted = run_command(["ip", "netns", "del", name], check=False)
    if os.path.lexists(path):
        raise CannotHere(
            f"namespace {name} cannot be removed: {last_lines(deleted.stderr)}",
            "tunnelbench clean removes it when the cause is gone",
        )
    return pids


def _is_own(path: Path) -> bool:
    """Return True if a namespace is that of this process."""
    try:
        return path.samefile("/proc/self/ns/net")
    except OSError:
        return False
