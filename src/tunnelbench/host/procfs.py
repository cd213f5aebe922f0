"""CPUs, processes and the network in /proc. Most functions parse text, which may come from any host."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.parsing import count, parsing, whole

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTimes:
    """Times of one CPU in /proc/stat [s since boot] (Documentation/filesystems/proc.rst)."""

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


@parsing("/proc/stat")
def parse_stat(text: str) -> dict[int, CpuTimes]:
    """Parse /proc/stat into the times of each CPU, by its number."""
    times = {}
    for line in text.splitlines():
        label, *fields = line.split() or [""]
        if label.startswith("cpu") and label != "cpu":
            user, nice, system, idle, iowait, irq, softirq, steal = (count(field) * TICK_S for field in fields[:8])
            times[count(label[3:])] = CpuTimes(user + nice, system, idle + iowait, irq + softirq, steal)
    return times


@parsing("/proc/net/snmp")
def parse_snmp(text: str) -> dict[str, int]:
    """Parse /proc/net/snmp or /proc/net/netstat into counters by names such as `Ip.ForwDatagrams`."""
    counters = {}
    lines = [line.split() for line in text.splitlines()]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        section = names[0].rstrip(":")
        counters.update({f"{section}.{name}": whole(value) for name, value in zip(names[1:], values[1:], strict=True)})
    return counters


@parsing("/proc/net/snmp6")
def parse_snmp6(text: str) -> dict[str, int]:
    """Parse /proc/net/snmp6 into counters by names such as `Ip6.OutForwDatagrams`, as those of `parse_snmp`."""
    counters = {}
    for line in text.splitlines():
        name, value = line.split()
        section, six, rest = name.partition("6")
        counters[f"{section}{six}.{rest}"] = count(value)
    return counters


def parse_cpu_list(text: str) -> set[int]:
    """Parse the kernel's list of CPUs, such as `0-3,8`, into CPU numbers."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def parse_cpu_mask(text: str) -> set[int]:
    """Parse a mask of CPUs as the kernel prints it, such as `00000001,80000000`, into CPU numbers."""
    mask = int(text.strip().replace(",", ""), 16)
    return {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1}


def allowed_cpus(pids: Iterable[int]) -> set[int]:
    """Return the CPUs on which any thread of some processes of this machine may run; one that has ended has none."""
    cpus: set[int] = set()
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                cpus |= os.sched_getaffinity(int(thread.name))
    return cpus


@dataclass(frozen=True)
class DeviceCounters:
    """Counters of one device in /proc/net/dev."""

    rx_bytes: int
    rx_packets: int
    rx_dropped: int
    tx_bytes: int
    tx_packets: int
    tx_dropped: int


@parsing("/proc/net/softnet_stat")
def parse_softnet(text: str, cpus: Collection[int]) -> int:
    """Return the number of packets that some CPUs have processed since the start, from /proc/net/softnet_stat.

    Each line is a CPU: hexadecimal numbers, the first of them the packets (net/core/net-procfs.c). Since Linux 5.10 the
    thirteenth is the number of the CPU; before, the lines were in the order of the CPUs.
    """
    rows = [[int(word, 16) for word in line.split()] for line in text.splitlines()]
    numbered = [(row[12] if len(row) > 12 else place, row[0]) for place, row in enumerate(rows)]
    return sum(packets for cpu, packets in numbered if cpu in cpus)


@parsing("/proc/net/dev")
def parse_net_dev(text: str) -> dict[str, DeviceCounters]:
    """Parse /proc/net/dev into the counters of each device; errors count as drops."""
    devices = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        rx_bytes, rx_packets, rx_errors, rx_dropped, *_ = received = list(map(count, rest.split()))
        tx_bytes, tx_packets, tx_errors, tx_dropped = received[8:12]
        devices[name.strip()] = DeviceCounters(
            rx_bytes, rx_packets, rx_errors + rx_dropped, tx_bytes, tx_packets, tx_errors + tx_dropped
        )
    return devices


def thread_cpu_s(pids: Iterable[int]) -> tuple[float, str]:
    """Return the CPU time of processes of this machine with all their threads [s], and the method.

    The method is `schedstat` (resolution 1 ns) or `ticks` (10 ms). A process that has ended counts 0; the caller sees
    that it has ended.
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
    """Return a process of this machine and all its living descendants (proc_pid_task(5), `children`).

    Some servers start a process for each session, and that process does the work. If the kernel does not list children,
    the result is the process alone.
    """
    try:
        forked = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return [pid]
    return [pid, *(each for child in forked for each in with_children(int(child)))]


def resident_bytes(pid: int | str) -> int | None:
    """Return the resident memory of a process of this machine, or of `self` (proc_pid_statm(5)); None: it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return None


def anonymous_bytes(status: str) -> int | None:
    """Return the resident memory of a process without that of files, from its `status` [bytes].

    That is `RssAnon` of proc_pid_status(5); None: the kernel, or a process that has ended, does not state it.
    """
    found = re.search(r"^RssAnon:[ \t]+(\d{1,12}) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessCpu:
    """CPU time of one process [s], and the CPU on which it ran last."""

    parent: int
    own_s: float
    children_s: float
    """CPU time of its children that have ended and were waited for [s]."""
    cpu: int
    name: str
    user_s: float = 0.0
    """Part of `own_s` in user mode [s]."""
    children_user_s: float = 0.0
    """Part of `children_s` in user mode [s]."""


def all_processes() -> dict[int, ProcessCpu]:
    """Return every process of this machine by its number (proc_pid_stat(5))."""
    processes = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                # The kernel cuts a name after 15 bytes, even within a character.
                text = Path(entry.path, "stat").read_text(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            fields = stat_fields(text)
            processes[int(entry.name)] = ProcessCpu(
                parent=int(fields[1]),
                own_s=_own_cpu_s(text),
                children_s=(int(fields[13]) + int(fields[14])) * TICK_S,
                cpu=int(fields[36]),
                name=text[text.index("(") + 1 : text.rindex(")")],
                user_s=int(fields[11]) * TICK_S,
                children_user_s=int(fields[13]) * TICK_S,
            )
    return processes


def descendants(processes: Mapping[int, ProcessCpu], root: int) -> set[int]:
    """Return `root` and all its descendants."""
    family = {root}
    while more := {pid for pid, process in processes.items() if process.parent in family} - family:
        family |= more
    return family


def foreign_cpu_s(
    before: Mapping[int, ProcessCpu],
    after: Mapping[int, ProcessCpu],
    controller: int,
    cpus: Iterable[int],
    networks: Mapping[int, str] | None = None,
) -> dict[str, float]:
    """Return the CPU time of background processes between two readings on any of `cpus` [s], by process name.

    The result has the CPU time of child processes that have ended under the name `ended children of NAME`, where NAME
    is their parent. `networks` has the names of network namespaces by their inode: the name of a process in one of them
    is followed by that of the namespace and by the process's sockets.

    A background process is neither the controller nor one of its descendants. Kernel threads are left out: ksoftirqd
    works for the router. The time of a process that started and ended between the readings is in its parent's time of
    waited-for children; the time that an ended process and its descendants had used before the first reading is
    subtracted.
    """
    wanted = set(cpus)
    ours = descendants(before, controller) | descendants(after, controller)
    gone: dict[int, list[int]] = {}
    for pid, process in before.items():
        if pid not in after:
            gone.setdefault(process.parent, []).append(pid)

    def earlier_s_of_gone_children(parent: int) -> float:
        total_s, waiting = 0.0, [parent]
        while waiting:  # a loop: any user can start a longer chain of processes than Python calls functions
            children = gone.get(waiting.pop(), ())
            total_s += sum(before[pid].own_s + before[pid].children_s for pid in children)
            waiting += children
        return total_s

    used: dict[str, float] = {}
    for pid, process in after.items():
        earlier = before.get(pid)
        cpus_seen = {process.cpu} | ({earlier.cpu} if earlier else set())
        if pid in ours or KTHREADD in (pid, process.parent) or not cpus_seen & wanted:
            continue
        own_s = process.own_s - (earlier.own_s if earlier else 0.0)
        children_s = process.children_s - (earlier.children_s if earlier else 0.0)
        children_s = max(0.0, children_s - earlier_s_of_gone_children(pid))
        own_name = process.name
        if own_s > 0 and networks and (network := networks.get(_inode(f"/proc/{pid}/ns/net"))):
            own_name = f"{process.name} in the {network}'s network{_sockets(pid)}"
        for name, spent_s in ((own_name, own_s), (f"ended children of {process.name}", children_s)):
            if spent_s > 0:
                used[name] = used.get(name, 0.0) + spent_s
    return used


def _inode(path: str) -> int:
    try:
        return Path(path).stat().st_ino
    except OSError:
        return 0


def open_files(pid: int) -> dict[int, str]:
    """Return what each descriptor of a process of this machine is, such as `socket:[4711]`; empty if it has ended.

    Raises OSError if this is not allowed.
    """
    found = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it was closed
                found[int(entry.name)] = str(entry.readlink())
    return found


LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp (TCP_LISTEN in include/net/tcp_states.h)."""


def tcp_sockets(pid: int) -> dict[str, bool]:
    """Return whether each TCP socket in the network namespace of a process listens, by the names of `open_files`.

    Sockets that have neither a connection nor a port are left out. Empty if the process has ended.
    """
    found = {}
    for protocol in ("tcp", "tcp6"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update({name: fields[3] == LISTENS for name, fields in _listed_sockets(pid, protocol)})
    return found


def _listed_sockets(pid: int, protocol: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each socket that the kernel lists in /proc/PID/net: its name in `open_files`, and the fields of its line.

    Raises OSError if the process has ended.
    """
    for line in Path(f"/proc/{pid}/net/{protocol}").read_text().splitlines()[1:]:
        fields = line.split()
        yield f"socket:[{fields[9]}]", fields


def _sockets(pid: int) -> str:
    """Return the bound sockets of a process of this machine, as ` with udp port 655`; empty if it has none."""
    found = set()
    with suppress(OSError):  # it has ended
        held = set(open_files(pid).values())
        for protocol in ("udp", "tcp"):
            for name, fields in _listed_sockets(pid, protocol):
                if name in held:
                    found.add(f"{protocol} port {int(fields[1].rpartition(':')[2], 16)}")
    return f" with {', '.join(sorted(found))}" if found else ""


def hidden_user_s(
    before: Mapping[int, ProcessCpu], after: Mapping[int, ProcessCpu], user_s: float, cpus: Iterable[int]
) -> float:
    """Return the time in user mode on some CPUs that belongs to no process in /proc [s].

    `user_s` is their time in user mode by /proc/stat, which counts the processes of other PID namespaces, too. The
    whole CPU time of a process that was on one of these CPUs at the first or the last reading is subtracted, and so is
    that of all children that have ended: the result is a lower bound, except for the error of clock ticks.
    """
    wanted = set(cpus)
    for pid, process in after.items():
        earlier = before.get(pid)
        if {process.cpu, earlier.cpu if earlier else process.cpu} & wanted:
            user_s -= process.user_s - (earlier.user_s if earlier else 0.0)
        user_s -= max(0.0, process.children_user_s - (earlier.children_user_s if earlier else 0.0))
    return max(0.0, user_s)


KTHREADD = 2
"""Process number of the parent of all kernel threads."""


def stat_fields(stat_text: str) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may hold blanks and brackets; [0] is the state."""
    return stat_text[stat_text.rindex(")") + 2 :].split()


def _own_cpu_s(stat_text: str) -> float:
    fields = stat_fields(stat_text)
    return (int(fields[11]) + int(fields[12])) * TICK_S
