"""What /proc says of CPUs, processes and the network; parsers of text, so that any host can bring it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTimes:
    """One CPU's line of /proc/stat [s since boot] (Documentation/filesystems/proc.rst)."""

    user_s: float
    """user and nice"""
    system_s: float
    idle_s: float
    """idle and iowait"""
    softirq_s: float
    """irq and softirq"""
    steal_s: float

    def __sub__(self, earlier: CpuTimes) -> CpuTimes:
        return CpuTimes(
            self.user_s - earlier.user_s,
            self.system_s - earlier.system_s,
            self.idle_s - earlier.idle_s,
            self.softirq_s - earlier.softirq_s,
            self.steal_s - earlier.steal_s,
        )


def parse_stat(text: str) -> dict[int, CpuTimes]:
    """/proc/stat as CPU number -> times."""
    times = {}
    for line in text.splitlines():
        label, *fields = line.split()
        if label.startswith("cpu") and label != "cpu":
            user, nice, system, idle, iowait, irq, softirq, steal = (int(field) * TICK_S for field in fields[:8])
            times[int(label[3:])] = CpuTimes(user + nice, system, idle + iowait, irq + softirq, steal)
    return times


def parse_snmp(text: str) -> dict[str, int]:
    """/proc/net/snmp (and netstat) as `Ip.ForwDatagrams` -> count."""
    counters = {}
    lines = [line.split() for line in text.splitlines()]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        section = names[0].rstrip(":")
        counters.update({f"{section}.{name}": int(value) for name, value in zip(names[1:], values[1:], strict=True)})
    return counters


def parse_cpu_list(text: str) -> set[int]:
    """The kernel's list format, such as `0-3,8`, as CPU numbers."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


@dataclass(frozen=True)
class DeviceCounters:
    """One device's line of /proc/net/dev."""

    rx_bytes: int
    rx_packets: int
    rx_dropped: int
    tx_bytes: int
    tx_packets: int
    tx_dropped: int


def parse_net_dev(text: str) -> dict[str, DeviceCounters]:
    """/proc/net/dev as device -> counters (errors count as drops)."""
    devices = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        rx_bytes, rx_packets, rx_errors, rx_dropped, *_ = received = list(map(int, rest.split()))
        tx_bytes, tx_packets, tx_errors, tx_dropped = received[8:12]
        devices[name.strip()] = DeviceCounters(
            rx_bytes, rx_packets, rx_errors + rx_dropped, tx_bytes, tx_packets, tx_errors + tx_dropped
        )
    return devices


def thread_cpu_s(pids: Iterable[int]) -> tuple[float, str]:
    """CPU time of processes of this machine, all threads, and the method: `schedstat` [ns] or `ticks` [10 ms].

    A process that has ended meanwhile counts 0: its caller sees that it is gone.
    """
    method = "schedstat" if Path("/proc/self/schedstat").exists() else "ticks"
    total_s = 0.0
    for pid in pids:
        try:
            if method == "schedstat":
                threads = Path(f"/proc/{pid}/task").iterdir()
                total_s += sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
            else:
                total_s += _own_cpu_s(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total_s, method


def with_children(pid: int) -> list[int]:
    """A process of this machine and the living children that it and they have forked (proc_pid_task(5), `children`).

    A server may have a process a session, and the session does the work. By itself where the kernel does not tell.
    """
    try:
        forked = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return [pid]
    return [pid, *(each for child in forked for each in with_children(int(child)))]


def resident_bytes(pid: int | str) -> int | None:
    """Resident memory of a process of this machine, or of `self` (proc_pid_statm(5)); None: it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return None


PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessCpu:
    """CPU time of one process [s] and where it ran last."""

    parent: int
    own_s: float
    children_s: float
    """Of its children that have ended and were waited for."""
    cpu: int
    name: str


def all_processes() -> dict[int, ProcessCpu]:
    """Every process of this machine by pid (proc_pid_stat(5))."""
    processes = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                # The kernel cuts a name at 15 bytes, be it within a character.
                text = Path(entry.path, "stat").read_text(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            fields = _fields(text)
            processes[int(entry.name)] = ProcessCpu(
                parent=int(fields[1]),
                own_s=_own_cpu_s(text),
                children_s=(int(fields[13]) + int(fields[14])) * TICK_S,
                cpu=int(fields[36]),
                name=text[text.index("(") + 1 : text.rindex(")")],
            )
    return processes


def descendants(processes: Mapping[int, ProcessCpu], root: int) -> set[int]:
    """`root` and every process below it."""
    family = {root}
    while more := {pid for pid, process in processes.items() if process.parent in family} - family:
        family |= more
    return family


def foreign_cpu_s(
    before: Mapping[int, ProcessCpu], after: Mapping[int, ProcessCpu], controller: int, cpus: Iterable[int]
) -> dict[str, float]:
    """CPU seconds that processes other than ours used between two readings on any of `cpus`, by name.

    Ours is the controller and all below it. Kernel threads are left out: ksoftirqd works for the router. A process
    that began and ended in between is found in its parent's account of waited-for children; what one that ended had
    used before the first reading, itself and all below it, is taken off.
    """
    wanted = set(cpus)
    ours = descendants(before, controller) | descendants(after, controller)
    gone: dict[int, list[int]] = {}
    for pid, process in before.items():
        if pid not in after:
            gone.setdefault(process.parent, []).append(pid)

    def earlier_s_of_gone_children(parent: int) -> float:
        ended = [(before[pid], pid) for pid in gone.get(parent, ())]
        return sum(child.own_s + child.children_s + earlier_s_of_gone_children(pid) for child, pid in ended)

    used: dict[str, float] = {}
    for pid, process in after.items():
        earlier = before.get(pid)
        cpus_seen = {process.cpu} | ({earlier.cpu} if earlier else set())
        if pid in ours or KTHREADD in (pid, process.parent) or not cpus_seen & wanted:
            continue
        own_s = process.own_s - (earlier.own_s if earlier else 0.0)
        children_s = process.children_s - (earlier.children_s if earlier else 0.0)
        spent_s = own_s + max(0.0, children_s - earlier_s_of_gone_children(pid))
        if spent_s > 0:
            used[process.name] = used.get(process.name, 0.0) + spent_s
    return used


KTHREADD = 2
"""The parent of all kernel threads."""


def _fields(stat_text: str) -> list[str]:
    """Fields of /proc/PID/stat after the name, which may hold blanks and brackets; [0] is the state."""
    return stat_text[stat_text.rindex(")") + 2 :].split()


def _own_cpu_s(stat_text: str) -> float:
    fields = _fields(stat_text)
    return (int(fields[11]) + int(fields[12])) * TICK_S
