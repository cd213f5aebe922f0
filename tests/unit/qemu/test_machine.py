"""The command line of QEMU, and the CPU time of its threads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tunnelbench.host.autogroup import HIGHEST_NICE, LOWEST_NICE
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.realtime import threads_of
from tunnelbench.qemu.boards import BOARDS, MALTA, VIRT_ARM64, X86_64_PC, Board
from tunnelbench.qemu.image import Image
from tunnelbench.qemu.machine import (
    AUTOGROUPS,
    CPU_PRIORITY,
    DEVICES_NICE,
    OTHER_PRIORITY,
    Boot,
    Nic,
    VirtualMachine,
    cable,
    can_run_first,
    left_machines,
    read_threads,
    reserved_port,
    run_devices_second,
    run_first,
)

ROOT = Path(__file__).parents[3]
IMAGE = Image(Path("/cache/malta"), "6.1.0-1", ("linux-image-6.1.0-1 6.1",))
NICS = (Nic("lan", "198.18.1.1/24", 7, 1), Nic("wan", "198.18.2.1/24", 8, 2, is_tap=False))


def argv(board: Board = MALTA, *, on_terminal: bool = False) -> list[str]:
    return Boot(board, IMAGE, Path("/run/initramfs"), "abc123-router", 2222, NICS).command(on_terminal=on_terminal)


def test_every_network_device_is_without_what_merges_packets() -> None:
    devices = [word for word in argv() if word.startswith("virtio-net-pci")]
    assert len(devices) == 3
    for device in devices:
        settings = dict(part.partition("=")[::2] for part in device.split(",")[1:])
        assert {settings[name] for name in ("csum", "gso", "guest_csum", "guest_tso4", "mrg_rxbuf")} == {"off"}


@pytest.mark.parametrize(
    ("mtu_bytes", "setting"), [(1500, "mrg_rxbuf=off"), (1501, "mrg_rxbuf=on"), (9000, "mrg_rxbuf=on")]
)
def test_a_device_receives_frames_as_large_as_its_mtu(mtu_bytes: int, setting: str) -> None:
    assert Nic("lan", "198.18.1.1/24", 7, 1, mtu_bytes=mtu_bytes).device().endswith(f",{setting}")


def test_taps_and_cables_are_handed_over_by_their_descriptors() -> None:
    words = argv()
    assert "tap,id=lan,fd=7" in words
    assert "dgram,id=wan,local.type=fd,local.str=8" in words


def test_what_is_sent_into_a_cable_comes_out_at_its_other_end_as_it_was_cut() -> None:
    near, far = cable()
    try:
        for frame in (b"one frame", b"and another"):
            os.write(near, frame)
        assert [os.read(far, 2048), os.read(far, 2048)] == [b"one frame", b"and another"]
    finally:
        os.close(near)
        os.close(far)


def test_only_this_machine_reaches_its_ssh_server_and_it_reaches_nobody() -> None:
    (management,) = [word for word in argv() if word.startswith("user,")]
    assert "restrict=on" in management
    assert "hostfwd=tcp:127.0.0.1:2222-:22" in management


def test_a_malta_gets_the_setting_of_its_interrupts_and_a_pc_does_not() -> None:
    line = argv()[argv().index("-append") + 1].split()
    assert {"tunnelbench.level", "ieee754=relaxed"} <= set(line)
    of_pc = argv(X86_64_PC)
    assert "tunnelbench.level" not in of_pc[of_pc.index("-append") + 1]


def test_each_board_has_its_own_console() -> None:
    assert "console=ttyS0" in argv(MALTA)[argv(MALTA).index("-append") + 1].split()
    assert "console=ttyAMA0" in argv(VIRT_ARM64)[argv(VIRT_ARM64).index("-append") + 1].split()


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_the_packages_of_each_board_are_installed_and_documented(board: Board) -> None:
    assert board.package in (ROOT / "scripts" / "install-debian").read_text()
    assert board.package in (ROOT / "docs" / "install.md").read_text()
    assert board.package in (ROOT / "docs" / "virtual-router.md").read_text()


def test_a_shell_is_only_on_a_console_that_is_a_terminal() -> None:
    assert "tunnelbench.shell" not in " ".join(argv())
    assert "tunnelbench.shell" in " ".join(argv(on_terminal=True))


def test_the_work_of_a_thread_is_seen_from_outside() -> None:
    is_over = threading.Event()
    before = read_threads(os.getpid())
    spinning = threading.Thread(target=lambda: all(iter(lambda: not is_over.is_set(), False)))
    spinning.start()
    time.sleep(0.4)
    after = read_threads(os.getpid())
    is_over.set()
    spinning.join()
    assert after.clock_s >= before.clock_s + 0.4
    assert after.busy_s > before.busy_s + 0.02  # on a machine that others use
    assert (after.instructions, after.lag_s) == (None, None)


def test_no_machine_of_a_run_is_left_where_none_was_started() -> None:
    assert left_machines("abc123") == []


def test_a_machine_is_known_by_the_mark_of_its_run() -> None:
    named = ["-name", "tunnelbench-0f0f0f-router,debug-threads=on"]
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)", *named]) as process:
        deadline = time.monotonic() + 5
        while not (found := left_machines("0f0f0f")) and time.monotonic() < deadline:
            time.sleep(0.01)  # a program that has just begun has no command line for a moment
        assert found == [process.pid]
        assert left_machines("f0f0f0") == []
        process.kill()


def test_a_machine_that_goes_first_has_the_highest_nice_value_for_its_session_too() -> None:
    with subprocess.Popen(["sleep", "30"], start_new_session=True) as process:
        try:
            was_done = run_first(process.pid)
            nice = os.getpriority(os.PRIO_PROCESS, process.pid)
            group = Path(f"/proc/{process.pid}/autogroup")
            session = group.read_text().split()[-1] if group.exists() else None
        finally:
            process.kill()
    if os.geteuid() == 0:
        assert was_done
        assert nice == HIGHEST_NICE
        assert session in {None, str(HIGHEST_NICE)}
    assert not run_first(process.pid)  # it has ended, which is no error


def test_a_system_that_refuses_to_run_a_machine_first_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        assert can_run_first()

    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    assert not can_run_first()


def test_a_reserved_port_is_given_to_the_program_that_names_it_and_to_no_other() -> None:
    with reserved_port() as port, socket.socket() as careless, socket.socket() as like_qemu:
        with pytest.raises(OSError, match="in use"):
            careless.bind(("127.0.0.1", port))
        like_qemu.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        like_qemu.bind(("127.0.0.1", port))
        like_qemu.listen()
        with socket.create_connection(("127.0.0.1", port)):
            connection, _ = like_qemu.accept()
            connection.close()


@pytest.mark.parametrize(("has_autogroups", "nice"), [(True, LOWEST_NICE), (False, DEVICES_NICE)])
def test_the_devices_of_a_machine_that_goes_first_come_after_its_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_autogroups: bool, nice: int
) -> None:
    if not AUTOGROUPS.exists():  # this kernel has no autogroups
        nice = DEVICES_NICE
    setting = tmp_path / "sched_autogroup_enabled"
    setting.write_text(f"{has_autogroups:d}\n")
    monkeypatch.setattr("tunnelbench.qemu.machine.AUTOGROUPS", setting)
    program = "import threading; input(); threading.Thread(target=input).start(); print(flush=True)"
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        run_first(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        run_devices_second(process.pid)
        threads = [int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir()]
        nice_of = {thread: os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}
        process.stdin.write(b"\n")
    assert len(nice_of) == 2
    if os.geteuid() == 0:
        assert nice_of.pop(process.pid) == nice
        assert set(nice_of.values()) == {HIGHEST_NICE}
    run_devices_second(process.pid)  # it has ended, which is no error


@pytest.mark.skipif(os.geteuid() != 0, reason="root gives a program a real-time class")
def test_a_machine_in_realtime_has_its_cpu_before_its_devices_until_the_block_ends(tmp_path: Path) -> None:
    program = (
        "import pathlib, threading\n"
        "def run():\n"
        "    pathlib.Path('/proc/thread-self/comm').write_text('CPU 0/TCG')\n"
        "    print('named', flush=True)\n"
        "    input()\n"
        "threading.Thread(target=run).start()\n"
    )
    daemon = Daemon([sys.executable, "-c", program], tmp_path / "log", has_input=True)
    machine = object.__new__(VirtualMachine)
    machine._daemon = daemon
    try:
        assert daemon.wait_for("named", 10)
        with machine.in_realtime() as is_done:
            classes = {name: thread_class(thread) for thread, name in threads_of(daemon.pid).items()}
        after = {thread_class(thread) for thread in threads_of(daemon.pid)}
    finally:
        daemon.kill()
    assert is_done
    assert classes.pop("CPU 0/TCG") == (os.SCHED_FIFO, CPU_PRIORITY)
    assert [*classes.values()] == [(os.SCHED_FIFO, OTHER_PRIORITY)]
    assert after == {(os.SCHED_OTHER, 0)}


def thread_class(thread: int) -> tuple[int, int]:
    """Return the scheduling class of a thread, and its real-time priority."""
    return os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority


def test_a_system_that_refuses_realtime_leaves_the_machine_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    machine = object.__new__(VirtualMachine)
    machine._daemon = Daemon(["sleep", "30"], tmp_path / "log")
    try:
        with machine.in_realtime() as is_done:
            assert not is_done
        assert thread_class(machine._daemon.pid) == (os.SCHED_OTHER, 0)
    finally:
        machine._daemon.kill()
