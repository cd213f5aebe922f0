"""The parsers of /proc: they read text as the kernel prints it, and assign CPU time to processes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.output.samples import sample, samples

from tunnelbench.host import procfs
from tunnelbench.host.parsing import UnexpectedOutput
from tunnelbench.host.procfs import (
    TICK_S,
    CpuTimes,
    DeviceCounters,
    ProcessCpu,
    all_processes,
    allowed_cpus,
    descendants,
    foreign_cpu_s,
    hidden_user_s,
    parse_cpu_list,
    parse_cpu_mask,
    parse_net_dev,
    parse_snmp,
    parse_snmp6,
    parse_softnet,
    parse_stat,
    thread_cpu_s,
    with_children,
)

INIT, KTHREADD, CONTROLLER, BACKGROUND_LOAD = 1, 2, 100, 200
COUNTS = st.integers(min_value=0, max_value=2**64 - 1)


def test_each_cpu_has_its_times_and_the_sum_of_all_is_none_of_them() -> None:
    times = parse_stat(sample("linux-6.18/proc-stat.txt"))
    assert sorted(times) == [0, 1]
    first_line = sample("linux-6.18/proc-stat.txt").splitlines()[1].split()
    assert first_line[0] == "cpu0"
    user, nice, system, idle, iowait, irq, softirq, steal = (int(field) * TICK_S for field in first_line[1:9])
    assert times[0] == CpuTimes(user + nice, system, idle + iowait, irq + softirq, steal)


def test_cpu_numbers_have_gaps_and_several_digits() -> None:
    assert sorted(parse_stat("cpu  1 2 3 4 5 6 7 8 9 10\ncpu3 1 2 3 4 5 6 7 8 9 10\ncpu128 1 2 3 4 5 6 7 8\n")) == [
        3,
        128,
    ]


def test_times_are_in_seconds() -> None:
    ticks_in_a_second = os.sysconf("SC_CLK_TCK")
    line = "cpu0 " + " ".join(str(count * ticks_in_a_second) for count in (1, 2, 3, 4, 5, 6, 7, 8))
    assert parse_stat(line)[0] == CpuTimes(user_s=3, system_s=3, idle_s=9, softirq_s=13, steal_s=8)


@pytest.mark.parametrize(
    ("text", "cpus"), [("0\n", {0}), ("0-3\n", {0, 1, 2, 3}), ("0,32\n", {0, 32}), ("0-1,8,10-11", {0, 1, 8, 10, 11})]
)
def test_the_kernels_lists_of_cpus_are_read(text: str, cpus: set[int]) -> None:
    assert parse_cpu_list(text) == cpus


def test_times_between_two_readings_are_their_difference() -> None:
    assert CpuTimes(5, 4, 3, 2, 1) - CpuTimes(1, 1, 1, 1, 1) == CpuTimes(4, 3, 2, 1, 0)


@pytest.mark.parametrize("name", samples("linux-*/proc-net-snmp.txt"))
def test_ip_statistics_are_found_by_section_and_name(name: str) -> None:
    counters = parse_snmp(sample(name))
    assert counters["Ip.ForwDatagrams"] > 1_000_000  # it was captured on the router after two trials
    assert {"Ip.FragCreates", "Ip.ReasmOKs", "Icmp.InEchoReps", "Udp.RcvbufErrors"} <= set(counters)
    assert counters["Tcp.MaxConn"] == -1


@pytest.mark.parametrize("name", samples("linux-*/proc-net-netstat.txt"))
def test_netstat_has_the_shape_of_snmp(name: str) -> None:
    assert "TcpExt.TCPTimeouts" in parse_snmp(sample(name))


@pytest.mark.parametrize("name", samples("linux-*/proc-net-dev.txt"))
def test_devices_are_found_with_their_counters(name: str) -> None:
    devices = parse_net_dev(sample(name))
    assert sorted(devices) == ["lan", "lo", "wan"]
    fields = next(line for line in sample(name).splitlines() if line.strip().startswith("lan:")).split()
    assert devices["lan"].rx_bytes == int(fields[1])
    assert devices["lan"].rx_packets == int(fields[2])
    assert devices["lan"].rx_dropped == int(fields[4])
    assert devices["lan"].tx_packets == int(fields[10])


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_errors_of_a_device_count_as_drops(rx_errors: int, rx_dropped: int, tx_errors: int, tx_dropped: int) -> None:
    # With large counts the kernel leaves no blank behind the colon.
    line = f" tun0:11 12 {rx_errors} {rx_dropped} 0 0 0 0 21 22 {tx_errors} {tx_dropped} 0 0 0 0"
    assert parse_net_dev(f"header\nheader\n{line}\n") == {
        "tun0": DeviceCounters(11, 12, rx_errors + rx_dropped, 21, 22, tx_errors + tx_dropped)
    }


@contextmanager
def running(program: str | Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def seen(pid: int, name: str) -> ProcessCpu:
    """Return the entry of `all_processes` for a process, after the process has become the program of that name."""
    deadline = time.monotonic() + 5
    while (found := all_processes()[pid]).name != name and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_a_captured_line_with_blanks_and_brackets_in_the_name_gives_the_right_fields() -> None:
    line = sample("linux-6.18/proc-pid-stat.txt")
    assert "(a b) (c 1)" in line
    state, _parent, *_ = procfs.stat_fields(line)
    assert state == "S"
    assert procfs._own_cpu_s(line) == 0


@pytest.mark.parametrize("name", ["plain", "a b) (c 1", ") R 1 1 1", "(", "1 (2) 3"])
def test_a_process_may_have_any_name(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    shutil.copy("/bin/sleep", program)
    with running(program, "60") as process:
        found = seen(process.pid, name)
    assert (found.name, found.parent) == (name, os.getpid())


def test_a_name_cut_off_within_a_character_does_not_stop_the_reading(tmp_path: Path) -> None:
    program = tmp_path / ("é" * 9)  # the kernel keeps 15 bytes, which is seven and a half
    shutil.copy("/bin/sleep", program)
    with running(program, "60") as process:
        assert seen(process.pid, "é" * 7 + "\ufffd").name == "é" * 7 + "\ufffd"


def test_a_process_is_seen_on_the_cpu_that_it_runs_on() -> None:
    for cpu in sorted(os.sched_getaffinity(0)):
        with running("taskset", "-c", str(cpu), "sleep", "60") as process:
            assert seen(process.pid, "sleep").cpu == cpu


def test_cpu_time_of_a_process_counts_all_its_threads() -> None:
    script = """
import threading, time
def work():
    while time.thread_time() < 0.1:
        pass
    print(flush=True)
    time.sleep(60)
for _ in range(2):
    threading.Thread(target=work).start()
"""
    with running(sys.executable, "-c", script) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()
        spent_s, method = thread_cpu_s([process.pid])
    assert method in ("schedstat", "ticks")
    assert 0.19 < spent_s < 0.5


def test_a_process_that_is_gone_counts_nothing() -> None:
    with running("/bin/sleep", "60") as process:
        gone = process.pid
    assert thread_cpu_s([gone])[0] == 0


def test_descendants_are_found_over_generations_and_the_root_is_one() -> None:
    processes = {pid: ProcessCpu(parent, 0, 0, 0, "") for pid, parent in {5: 1, 6: 5, 7: 6, 8: 1}.items()}
    assert descendants(processes, 5) == {5, 6, 7}


@dataclass
class Machine:
    """Processes with the kernel's accounting: what a child used is its parent's account when it has been waited for."""

    processes: dict[int, ProcessCpu]
    last_pid: int = 1000
    foreign_s: float = 0.0
    """CPU time that background load really used [s]."""

    @classmethod
    def booted(cls) -> Machine:
        names = {
            INIT: (0, "init"),
            KTHREADD: (0, "kthreadd"),
            CONTROLLER: (INIT, "us"),
            BACKGROUND_LOAD: (INIT, "shell"),
        }
        return cls({pid: ProcessCpu(parent, 1.0, 0.0, 0, name) for pid, (parent, name) in names.items()})

    def fork(self, parent: int) -> int:
        if KTHREADD in self.ancestors(parent):
            parent = KTHREADD  # all kernel threads are its own children
        self.last_pid += 1
        self.processes[self.last_pid] = ProcessCpu(parent, 0.0, 0.0, 0, self.processes[parent].name)
        return self.last_pid

    def run(self, pid: int, seconds: float) -> None:
        process = self.processes[pid]
        self.processes[pid] = replace(process, own_s=process.own_s + seconds)
        if CONTROLLER not in (ancestors := self.ancestors(pid)) and KTHREADD not in ancestors:
            self.foreign_s += seconds

    def end(self, pid: int) -> None:
        """End a process; a process that still has children stays."""
        if pid in (INIT, KTHREADD, CONTROLLER, BACKGROUND_LOAD) or any(
            p.parent == pid for p in self.processes.values()
        ):
            return
        ended = self.processes.pop(pid)
        parent = self.processes[ended.parent]
        children_s = parent.children_s + ended.own_s + ended.children_s
        self.processes[ended.parent] = replace(parent, children_s=children_s)

    def ancestors(self, pid: int) -> list[int]:
        """Return the process itself and its ancestors."""
        return [pid, *self.ancestors(self.processes[pid].parent)] if pid in self.processes else []


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["fork", "run", "end"]), st.integers(0, 99), st.integers(1, 300)), max_size=25
)


def act(machine: Machine, actions: list[tuple[str, int, int]]) -> None:
    for action, which, centiseconds in actions:
        pid = sorted(machine.processes)[which % len(machine.processes)]
        if action == "fork":
            machine.fork(pid)
        elif action == "run":
            machine.run(pid, centiseconds / 100)
        else:
            machine.end(pid)


@settings(deadline=None)
# A child of background load has a child; both have run before the first reading, and end one after the other.
@example([("fork", 3, 1), ("fork", 4, 1), ("run", 5, 200)], [("end", 5, 1), ("end", 4, 1)])
# A child that has waited for one of its own before the first reading ends after it.
@example([("fork", 3, 1), ("fork", 4, 1), ("run", 5, 200), ("run", 4, 100), ("end", 5, 1)], [("end", 4, 1)])
@given(ACTIONS, ACTIONS)
def test_background_load_counts_processes_that_start_or_end_between_readings(
    earlier: list[tuple[str, int, int]], meanwhile: list[tuple[str, int, int]]
) -> None:
    machine = Machine.booted()
    act(machine, earlier)
    before, before_s = dict(machine.processes), machine.foreign_s
    act(machine, meanwhile)
    found = foreign_cpu_s(before, machine.processes, CONTROLLER, [0])
    assert sum(found.values()) == pytest.approx(machine.foreign_s - before_s)


def test_a_child_that_began_and_ended_in_between_is_found_under_its_parents_name() -> None:
    machine = Machine.booted()
    before = dict(machine.processes)
    child = machine.fork(BACKGROUND_LOAD)
    machine.run(child, 0.7)
    machine.end(child)
    assert foreign_cpu_s(before, machine.processes, CONTROLLER, [0]) == {"ended children of shell": pytest.approx(0.7)}


def test_a_long_chain_of_processes_that_ends_is_counted() -> None:
    before = {pid: ProcessCpu(pid - 1, 1.0, 0.0, 0, "link") for pid in range(1001, 6001)}
    before[1000] = ProcessCpu(INIT, 1.0, 0.0, 0, "shell")
    after = {1000: ProcessCpu(INIT, 1.0, 5000.5, 0, "shell")}
    found = foreign_cpu_s(before, after, CONTROLLER, [0])
    assert found == {"ended children of shell": pytest.approx(0.5)}


def test_what_a_child_had_used_before_is_not_counted_when_it_ends() -> None:
    machine = Machine.booted()
    child = machine.fork(BACKGROUND_LOAD)
    machine.run(child, 90.0)
    before = dict(machine.processes)
    machine.run(child, 0.2)
    machine.end(child)
    assert foreign_cpu_s(before, machine.processes, CONTROLLER, [0]) == {"ended children of shell": pytest.approx(0.2)}


def test_a_child_whose_parent_does_not_wait_for_it_makes_nothing_negative() -> None:
    machine = Machine.booted()
    child = machine.fork(BACKGROUND_LOAD)
    machine.run(child, 90.0)
    before = dict(machine.processes)
    del machine.processes[child]  # the parent ignores SIGCHLD: no account has it
    machine.run(BACKGROUND_LOAD, 0.1)
    assert foreign_cpu_s(before, machine.processes, CONTROLLER, [0]) == {"shell": pytest.approx(0.1)}


def test_our_own_family_is_never_foreign_though_it_ends_or_loses_its_parent() -> None:
    machine = Machine.booted()
    helper = machine.fork(CONTROLLER)
    orphan = machine.fork(helper)
    before = dict(machine.processes)
    machine.run(orphan, 5.0)
    machine.processes[orphan] = replace(machine.processes[orphan], parent=INIT)
    machine.end(helper)
    assert foreign_cpu_s(before, machine.processes, CONTROLLER, [0]) == {}


def test_only_processes_seen_on_the_cpus_in_question_count() -> None:
    machine = Machine.booted()
    elsewhere, moved, here = (machine.fork(BACKGROUND_LOAD) for _ in range(3))
    for pid, cpu in ((elsewhere, 3), (moved, 0), (here, 0)):
        machine.processes[pid] = replace(machine.processes[pid], cpu=cpu, name=str(cpu))
    before = dict(machine.processes)
    machine.processes[moved] = replace(machine.processes[moved], cpu=3, name="moved")
    for pid in (elsewhere, moved, here):
        machine.run(pid, 1.0)
    assert foreign_cpu_s(before, machine.processes, CONTROLLER, [0]) == {"moved": 1.0, "0": 1.0}


@pytest.mark.parametrize(
    ("user_s", "cpu", "hidden_s"),
    [(1.5, 0, 0.5), (1.0, 0, 0.0), (0.4, 0, 0.0), (1.5, 3, 1.5)],
    ids=["more-than-seen", "as-seen", "less-than-seen", "seen-elsewhere"],
)
def test_user_time_of_a_cpu_that_no_process_explains_is_hidden(user_s: float, cpu: int, hidden_s: float) -> None:
    before = {7: ProcessCpu(INIT, 5.0, 0.0, cpu, "seen", user_s=4.0)}
    after = {7: ProcessCpu(INIT, 9.0, 0.0, cpu, "seen", user_s=5.0)}
    assert hidden_user_s(before, after, user_s, [0]) == pytest.approx(hidden_s)


def test_children_that_have_ended_anywhere_explain_user_time() -> None:
    before = {7: ProcessCpu(INIT, 5.0, 1.0, 3, "parent", user_s=4.0, children_user_s=1.0)}
    after = {7: ProcessCpu(INIT, 5.0, 3.0, 3, "parent", user_s=4.0, children_user_s=1.6)}
    assert hidden_user_s(before, after, 1.0, [0]) == pytest.approx(0.4)


def test_a_real_busy_stranger_is_found_and_our_own_is_not() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    before = all_processes()
    with running(sys.executable, "-c", burn) as ours:
        ours.wait(30)
        after = all_processes()
    everywhere = range(4096)
    as_ours = sum(foreign_cpu_s(before, after, os.getpid(), everywhere).values())
    as_stranger = foreign_cpu_s(before, after, -1, everywhere)
    own_name = after[os.getpid()].name
    assert as_stranger.get(f"ended children of {own_name}", 0.0) >= 0.25
    assert sum(as_stranger.values()) - as_ours >= 0.25


def test_a_process_in_a_hosts_network_is_named_with_it_and_its_sockets() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        me = ProcessCpu(INIT, 1.0, 0.0, 0, "forwarder")
        network = Path("/proc/self/ns/net").stat().st_ino
        before, after = {os.getpid(): replace(me, own_s=0.0)}, {os.getpid(): me}
        (name,) = foreign_cpu_s(before, after, -1, [0], {network: "router"})
        port = held.getsockname()[1]
    assert name.startswith("forwarder in the router's network with ")
    assert f"udp port {port}" in name
    assert set(foreign_cpu_s(before, after, -1, [0], {1: "router"})) == {"forwarder"}


def test_a_process_is_taken_with_the_children_that_do_its_work() -> None:
    program = "import subprocess, sys; subprocess.run(['sh', '-c', 'echo ready; read line; exit'])"
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        family = with_children(parent.pid)
        parent.communicate("\n")
    assert len(family) == 2
    assert family[0] == parent.pid
    assert with_children(parent.pid) == [parent.pid], "it has ended"


@pytest.mark.parametrize(("text", "cpus"), [("2\n", {1}), ("00000001,80000000\n", {31, 32}), ("0\n", set())])
def test_a_mask_of_cpus_is_read_in_groups(text: str, cpus: set[int]) -> None:
    assert parse_cpu_mask(text) == cpus


def test_the_cpus_of_a_process_are_those_of_all_its_threads() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    with running("taskset", "-c", str(allowed[0]), "sleep", "60") as bound:
        assert seen(bound.pid, "sleep").name == "sleep"
        assert allowed_cpus([bound.pid]) == {allowed[0]}
        assert allowed_cpus([bound.pid, os.getpid()]) == set(allowed)
        bound.kill()
        bound.wait()
        assert allowed_cpus([bound.pid]) == set()


def test_the_packets_of_a_cpu_are_read_by_its_number_or_by_its_line() -> None:
    zeros = " ".join(["00000000"] * 11)
    new = f"00000010 {zeros} 00000001\n00000020 {zeros} 00000003\n"
    assert parse_softnet(new, {3}) == 0x20
    assert parse_softnet(new, {0, 2}) == 0
    old = "00000010 00000000\n00000020 00000000\n"
    assert parse_softnet(old, {1}) == 0x20
    with pytest.raises(UnexpectedOutput, match="softnet_stat"):
        parse_softnet("no number\n", {0})


def test_counters_of_ipv6_are_named_as_those_of_ipv4() -> None:
    text = "Ip6OutForwDatagrams             \t12\nIcmp6InEchos\t3\nUdp6RcvbufErrors   \t4\n"
    assert parse_snmp6(text) == {"Ip6.OutForwDatagrams": 12, "Icmp6.InEchos": 3, "Udp6.RcvbufErrors": 4}
