"""Namespaces in a row, joined by veth pairs without offloads, and what is counted in them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.testbed.merging import polling_threads

SENDER_CPU = 0
RECEIVER_CPU = 1
LONGEST_S = 20.0
"""Longest time that a program may take to end [s]."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
TARGET = "10.199.9.2"
"""Address of the receiver."""


def run(*command: str) -> str:
    """Run a command and return its output. Raises CalledProcessError if it fails."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Finished:
    """A program that has ended."""

    output: str
    cpu_s: float
    """User and system time of the program and its children [s]."""


class Running:
    """A program that runs in a namespace on one CPU. `quiet` discards its output."""

    def __init__(self, namespace: str, cpu: int, command: Sequence[str], quiet: bool) -> None:
        whole = ("ip", "netns", "exec", namespace, "taskset", "-c", str(cpu), *command)
        output = subprocess.DEVNULL if quiet else subprocess.PIPE
        self.process = subprocess.Popen(
            whole, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def line(self) -> str:
        """Return the next line of output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def finish(self, kill_with: int | None = None, close_input: bool = True) -> Finished:
        """Wait for the end, after a signal if one is given. The program is killed after LONGEST_S."""
        # The signal goes to the whole process group, as from a terminal: trafgen sends from a child. Popen.send_signal
        # polls first, and the CPU time of a program that has ended would be lost.
        if kill_with is not None:
            os.killpg(self.process.pid, kill_with)
        if close_input and self.process.stdin is not None:
            self.process.stdin.close()
        killer = threading.Timer(LONGEST_S, os.killpg, (self.process.pid, signal.SIGKILL))
        killer.start()
        output = ""
        if self.process.stdout is not None:
            output = self.process.stdout.read()
            self.process.stdout.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        killer.cancel()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Finished(output, usage.ru_utime + usage.ru_stime)


@dataclass(frozen=True)
class Lab:
    """A sender and a receiver with routers between them."""

    sender: str
    receiver: str
    sender_device: str
    source: str
    """Address of the sender."""
    middle: str
    """Namespace of the first router, or of the receiver if there is no router."""
    gateway_mac: str
    """MAC address of the sender's next hop."""
    merging_threads: tuple[int, ...] = ()
    """Kernel threads that merge the packets which arrive at the receiver."""

    def start(self, end: str, cpu: int, *command: str, quiet: bool = False) -> Running:
        """Start a program at an end."""
        return Running(end, cpu, command, quiet)

    def merging_cpu_s(self) -> float:
        """Return the CPU time of the threads that merge packets so far [s]."""
        texts = (Path(f"/proc/{thread}/schedstat").read_text() for thread in self.merging_threads)
        return sum(int(text.split()[0]) for text in texts) / 1e9

    def datagrams(self) -> int:
        """Return the number of UDP datagrams that sockets of the receiver have received."""
        text = run("ip", "netns", "exec", self.receiver, "cat", "/proc/net/snmp")
        names, values = [line.split()[1:] for line in text.splitlines() if line.startswith("Udp:")]
        return int(values[names.index("InDatagrams")])


def _join(left: str, right: str, number: int, *, offloads: bool) -> None:
    """Join two namespaces by a veth pair: .1 on the left, .2 on the right of 10.199.<number>.0/24.

    `offloads` leaves those on that are on by default: bursts of packets cross the pair in one piece.
    """
    left_device, right_device = f"l{number}", f"r{number}"
    run("ip", "link", "add", left_device, "netns", left, "type", "veth", "peer", "name", right_device, "netns", right)
    for namespace, device, host in ((left, left_device, 1), (right, right_device, 2)):
        inside = ("ip", "netns", "exec", namespace)
        if not offloads:
            run(*inside, "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off", "tx", "off")
        run(*inside, "ip", "address", "add", f"10.199.{number}.{host}/24", "dev", device)
        run(*inside, "ip", "link", "set", device, "up")


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _remove(name: str) -> None:
    """Kill the processes of a namespace and delete it."""
    for process in run("ip", "netns", "pids", name).split():
        os.kill(int(process), signal.SIGKILL)
    run("ip", "netns", "delete", name)


def _merge(receiver: str) -> tuple[int, ...]:
    """Let the receiver's device merge packets (GRO), on the receiver's CPU and not on the sender's."""
    before = polling_threads("r9")
    inside = ("ip", "netns", "exec", receiver)
    run(*inside, "ethtool", "-K", "r9", "gro", "on")
    run(*inside, "sh", "-c", "echo 1 > /sys/class/net/r9/threaded")
    threads = tuple(polling_threads("r9") - before)
    for thread in threads:
        os.sched_setaffinity(thread, {RECEIVER_CPU})
    return threads


@contextmanager
def lab(hops: int, *, merges: bool = False, offloads: bool = False) -> Iterator[Lab]:
    """Set up `hops` links in a row, and remove everything at the end of the block.

    With `merges`, the receiver's device merges packets for sockets that ask for it. With `offloads`, all devices have
    the offloads that are on by default.
    """
    kind = "merging" if merges else "offloads" if offloads else "plain"
    names = [f"tbbench{os.getpid()}-{kind}-{index}" for index in range(hops + 1)]
    # The last link is 10.199.9.0/24: the receiver has the same address with any number of hops.
    numbers = [*range(1, hops), 9]
    with ExitStack() as stack:
        for number in SIGNALS:
            stack.callback(signal.signal, number, signal.getsignal(number))
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(_remove, name)
            stack.callback(_ignore_signals)  # called first: a second Ctrl-C must not interrupt the removal
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "netns", "exec", name, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        for number, left, right in zip(numbers, names, names[1:], strict=False):
            _join(left, right, number, offloads=offloads)
        for place, name in enumerate(names):
            for other, number in enumerate(numbers):
                if other > place:
                    run("ip", "-n", name, "route", "add", f"10.199.{number}.0/24", "via", f"10.199.{numbers[place]}.2")
                elif other < place - 1:
                    via = f"10.199.{numbers[place - 1]}.1"
                    run("ip", "-n", name, "route", "add", f"10.199.{number}.0/24", "via", via)
        run("ip", "netns", "exec", names[0], "ping", "-c", "3", "-i", "0.2", "-w", "5", TARGET)
        next_hop = run("ip", "netns", "exec", names[1], "cat", f"/sys/class/net/r{numbers[0]}/address").strip()
        source = f"10.199.{numbers[0]}.1"
        threads = _merge(names[-1]) if merges else ()
        yield Lab(names[0], names[-1], f"l{numbers[0]}", source, names[1], next_hop, threads)


def wait_for_udp(namespace: str, port: int, timeout_s: float = 5.0) -> None:
    """Wait until a program listens on a UDP port. Raises TimeoutError after `timeout_s`."""
    end_s = time.monotonic() + timeout_s
    while f":{port} " not in run("ip", "netns", "exec", namespace, "ss", "-Hlun") + " ":
        if time.monotonic() > end_s:
            raise TimeoutError(f"no program listens on UDP port {port}")
        time.sleep(0.05)


def wait_for_tcp(namespace: str, port: int, timeout_s: float = 5.0) -> None:
    """Wait until a program listens on a TCP port. Raises TimeoutError after `timeout_s`."""
    end_s = time.monotonic() + timeout_s
    while f":{port} " not in run("ip", "netns", "exec", namespace, "ss", "-Hltn") + " ":
        if time.monotonic() > end_s:
            raise TimeoutError(f"no program listens on TCP port {port}")
        time.sleep(0.05)


def engine_path() -> str:
    """Return the path of the engine that `cargo build --release` makes."""
    return str(Path(__file__).parents[1] / "target" / "release" / "tunnelbench-engine")
