"""Commands and daemons: how they end, and that nothing of theirs lives on."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tunnelbench.host.command import CommandFailed, Process, page, run_command, start_process
from tunnelbench.host.daemon import Daemon, deaths
from tunnelbench.host.signals import undisturbed
from tunnelbench.model.errors import CannotHere, ExitCode

DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
"""A shell script that does not listen to SIGTERM."""


def is_alive(pid: int) -> bool:
    """Return True if a process runs; a zombie does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def has_ended(pid: int, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def read_pid(path: Path) -> int:
    """Return the number of a process that the process writes into a file."""
    deadline = time.monotonic() + 10
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.01)
    return int(path.read_text())


@pytest.fixture(autouse=True)
def ctrl_c_is_an_exception() -> Iterator[None]:
    """Install Python's own handler of Ctrl-C, because an earlier test may have installed another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "0001-program.log"


@pytest.fixture
def daemons(log_path: Path) -> Iterator[list[Daemon]]:
    """Whatever a test puts in is stopped at its end."""
    started: list[Daemon] = []
    yield started
    for daemon in started:
        daemon.stop()


def test_a_command_gets_its_input_and_gives_its_output_and_its_complaints() -> None:
    completed = run_command(["sh", "-c", "cat; echo oh >&2"], stdin="häm\n")
    assert (completed.stdout, completed.stderr, completed.returncode) == ("häm\n", "oh\n", 0)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800"])
def test_text_that_cannot_be_an_argument_is_refused(text: str) -> None:
    with pytest.raises(CannotHere, match="the program `echo` cannot be started: an argument is not text: "):
        run_command(["echo", text])


def test_output_that_is_no_utf_8_is_still_read() -> None:
    assert run_command(["printf", r"a\377b"]).stdout == "a\ufffdb"


def test_a_failed_command_is_reported_with_its_last_output_ready_to_paste() -> None:
    script = "for n in 1 2 3 4 5; do echo line $n >&2; done; exit 3"
    with pytest.raises(CommandFailed) as caught:
        run_command(["sh", "-c", script])
    assert caught.value.message == f"`sh -c '{script}'` ended with status 3: line 3 / line 4 / line 5"
    assert caught.value.output == "line 1\nline 2\nline 3\nline 4\nline 5\n"
    assert caught.value.exit_code is ExitCode.CANNOT


def test_a_command_that_fails_without_output_is_reported_as_such() -> None:
    with pytest.raises(CommandFailed, match="`false` ended with status 1: no output"):
        run_command(["false"])


def test_a_failure_that_is_expected_is_an_answer() -> None:
    assert run_command(["sh", "-c", "exit 3"], check=False).returncode == 3


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(CannotHere, match="the program `no-such-program` is missing") as caught:
        run_command(["no-such-program", "--help"])
    assert caught.value.hint


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    with pytest.raises(CannotHere, match=f"the program `{program}` cannot be started: Exec format error"):
        run_command([program.as_posix()])
    with pytest.raises(CannotHere, match="the program `true` cannot be started: Argument list too long"):
        run_command(["true", "x" * 3_000_000])


def test_a_command_that_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(CommandFailed, match=r"did not end in 0\.5 s: begun"):
        run_command(["sh", "-c", f"echo begun; sleep 60 & echo $! >{pid_path}; wait"], timeout_s=0.5)
    assert time.monotonic() - started < 10
    assert has_ended(read_pid(pid_path))


def test_a_stray_grandchild_that_holds_the_output_open_holds_nobody_up(tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(CommandFailed, match="did not end"):
        run_command(["sh", "-c", f"setsid sh -c 'echo $$ >{pid_path}; exec sleep 30' & sleep 60"], timeout_s=0.5)
    assert time.monotonic() - started < 10
    os.kill(read_pid(pid_path), signal.SIGKILL)


def test_an_interrupt_takes_the_command_along(tmp_path: Path) -> None:
    pid_path = tmp_path / "pid"

    def interrupt() -> None:
        read_pid(pid_path)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", f"sleep 60 & echo $! >{pid_path}; wait"], timeout_s=30)
    assert has_ended(read_pid(pid_path))


def test_a_ctrl_c_on_the_terminal_does_not_reach_a_command() -> None:
    assert run_command(["ps", "-o", "pgid=", "-p", str(os.getpid())]).stdout.strip() == str(os.getpgrp())
    assert run_command(["sh", "-c", "ps -o pgid= -p $$"]).stdout.strip() != str(os.getpgrp())


def test_commands_are_logged_so_that_a_person_can_paste_them(
    caplog: pytest.LogCaptureFixture, log_path: Path, daemons: list[Daemon]
) -> None:
    with caplog.at_level(logging.INFO, "tunnelbench.command"):
        run_command(["echo", "two words", "$HOME"], stdin="a secret", host="router")
        run_command(["sh", "-c", "exit 3"], check=False)
        with pytest.raises(CommandFailed):
            run_command(["sleep", "60"], timeout_s=0.2)
        with pytest.raises(CannotHere):
            run_command(["no-such-program"])
        daemon = Daemon(["sleep", "60"], log_path, "sleeper", host="server")
        pid = daemon.process.pid
        daemon.kill()
    said = [re.sub(r"\d+\.\d{3} s$", "TIME", record.getMessage()) for record in caplog.records]
    assert said == [
        "echo 'two words' '$HOME'  # router: status 0, TIME",
        "sh -c 'exit 3'  # controller: status 3, TIME",
        "sleep 60  # controller: did not end in 0.2 s, TIME",
        "no-such-program  # controller: did not start, or was interrupted, TIME",
        f"sleep 60 >{log_path} 2>&1 &  # server: process {pid}",
        f"# server: sleeper, process {pid}: signal 9, TIME",
    ]
    assert all(subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0 for line in said)


def test_daemons_that_have_ended_are_named_in_the_order_of_their_deaths(tmp_path: Path, daemons: list[Daemon]) -> None:
    waits_s = {"later": "0.6", "alive": "60", "first": "0.1"}
    daemons += [
        Daemon(["sh", "-c", f"seq 4; sleep {wait_s}"], tmp_path / f"{name}.log", name)
        for name, wait_s in waits_s.items()
    ]
    assert deaths("now", ("router", daemons[1:2]), ("server", ())) == ""
    assert all(daemons[number].wait(10) for number in (0, 2))
    said = deaths("now", ("router", daemons[:2]), ("server", daemons[2:]))
    assert re.fullmatch(
        r"first on the server ended now; last: 2 / 3 / 4; "
        r"later on the router ended 0\.\d\d s later; last: 2 / 3 / 4",
        said,
    )


def test_the_last_lines_of_a_failed_program_cannot_steer_a_terminal() -> None:
    with pytest.raises(CommandFailed) as caught:
        run_command(["sh", "-c", r"printf 'a\n\033[2Jb\n' >&2; exit 1"])
    assert caught.value.message.endswith("status 1: a / \\x1b[2Jb")


def test_what_a_daemon_prints_is_waited_for(log_path: Path, daemons: list[Daemon]) -> None:
    daemon = Daemon(["sh", "-c", "sleep 0.1; echo one; echo two >&2; sleep 60"], log_path)
    daemons.append(daemon)
    assert daemon.wait_for("two", 10)
    assert daemon.is_running
    assert daemon.output() == "one\ntwo\n"
    assert daemon.last_line() == "two"


def test_waiting_for_a_daemon_gives_up_in_time(log_path: Path, daemons: list[Daemon]) -> None:
    daemons.append(Daemon(["sleep", "60"], log_path))
    started = time.monotonic()
    assert not daemons[0].wait_for("never", 0.2)
    assert 0.2 <= time.monotonic() - started < 5
    assert daemons[0].last_line() == "no output"


def test_waiting_for_a_daemon_that_dies_gives_up_at_once(log_path: Path) -> None:
    daemon = Daemon(["sh", "-c", "echo dying; exit 1"], log_path)
    started = time.monotonic()
    assert not daemon.wait_for("never", 30)
    assert time.monotonic() - started < 10
    assert not daemon.is_running
    assert daemon.last_line() == "dying"


def test_the_last_words_of_a_daemon_that_dies_are_heard(log_path: Path) -> None:
    for _ in range(10):
        assert Daemon(["echo", "ready"], log_path).wait_for("ready", 10)


def test_only_the_end_of_a_long_output_is_kept_in_view(log_path: Path) -> None:
    daemon = Daemon(["sh", "-c", "yes | head -c 100000; echo end"], log_path)
    assert daemon.wait(10)
    assert daemon.output(100) == "y\n" * 48 + "end\n"
    assert len(daemon.output()) == 100_004


def test_an_output_of_megabytes_is_read_whole(log_path: Path) -> None:
    daemon = Daemon(["sh", "-c", "echo first; yes | head -c 3000000"], log_path)
    assert daemon.wait(10)
    assert daemon.output() == "first\n" + "y\n" * 1_500_000


@pytest.mark.parametrize(
    ("script", "name"),
    [("kill -KILL $$", "SIGKILL"), ("exit 137", "SIGKILL"), ("exit 3", ""), ("exit 255", ""), ("true", "")],
)
def test_the_signal_that_ended_a_daemon_is_known_by_name(script: str, name: str, log_path: Path) -> None:
    daemon = Daemon(["sh", "-c", script], log_path)
    assert daemon.wait(10)
    assert daemon.killed_by == name


def test_a_daemon_whose_program_is_missing_says_so_in_its_output(log_path: Path) -> None:
    daemon = Daemon(["no-such-program"], log_path)
    assert daemon.wait(10)
    assert "no-such-program" in daemon.last_line()


def test_a_daemon_is_called_by_its_name_or_else_by_its_log(log_path: Path, daemons: list[Daemon]) -> None:
    daemons += [Daemon(["sleep", "60"], log_path), Daemon(["sleep", "60"], log_path, "sleeper")]
    assert [daemon.name for daemon in daemons] == ["0001-program", "sleeper"]


def test_waiting_for_the_end_of_a_daemon_returns_true_if_it_came(log_path: Path, daemons: list[Daemon]) -> None:
    daemons.append(
        Daemon(["sh", "-c", "trap 'echo interrupted; exit' INT; echo ready; while :; do sleep 0.05; done"], log_path)
    )
    assert daemons[0].wait_for("ready", 10)
    assert not daemons[0].wait(0.1)
    daemons[0].interrupt()
    assert daemons[0].wait(10)
    assert daemons[0].last_line() == "interrupted"
    daemons[0].interrupt()  # there is nobody left, which is no error


def test_a_daemon_is_asked_to_end_before_it_is_killed(log_path: Path) -> None:
    daemon = Daemon(["sh", "-c", "trap 'echo farewell; exit' TERM; echo ready; while :; do sleep 0.05; done"], log_path)
    assert daemon.wait_for("ready", 10)
    daemon.stop()
    assert daemon.last_line() == "farewell"


def test_a_daemon_that_is_deaf_to_asking_is_killed(log_path: Path) -> None:
    daemon = Daemon(["sh", "-c", DEAF], log_path)
    assert daemon.wait_for("ready", 10)
    started = time.monotonic()
    daemon.stop()
    assert 1 < time.monotonic() - started < 5
    assert daemon.process.returncode == -signal.SIGKILL


def test_stopping_a_daemon_ends_its_children_too_and_twice_does_no_harm(tmp_path: Path, log_path: Path) -> None:
    pid_path = tmp_path / "pid"
    daemon = Daemon(["sh", "-c", f"(trap '' TERM; sleep 60) & echo $! >{pid_path}; wait"], log_path)
    child = read_pid(pid_path)
    daemon.stop()
    daemon.stop()
    assert has_ended(child)
    assert not daemon.is_running


def test_a_daemon_that_never_stops_printing_is_ended_and_reported(
    log_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("command", "daemon"):
        monkeypatch.setattr(f"tunnelbench.host.{module}.FILE_LIMIT_BYTES", 3_000_000)
    daemon = Daemon(["yes", "some words"], log_path)
    assert daemon.wait(20)
    assert log_path.stat().st_size < 1_000_000_000  # the limit is set once it runs; without it that takes a second
    assert daemon.last_line() == "it was ended because it printed more than 3 MB"


def test_a_daemons_last_line_cannot_steer_a_terminal_or_fill_it(log_path: Path) -> None:
    daemon = Daemon(["printf", "first\\n\\033[2J%01000d", "7"], log_path)
    assert daemon.wait(5)
    assert daemon.last_line().startswith("\\x1b[2J000")
    assert len(daemon.last_line()) < 320


def test_the_output_of_a_daemon_after_a_mark_is_returned(log_path: Path) -> None:
    daemon = Daemon(["sh", "-c", "echo before; read _ || echo after"], log_path)
    assert daemon.wait(5)
    size_bytes = len("before\n")
    assert daemon.log_size_bytes == len("before\nafter\n")
    assert daemon.printed_since(size_bytes) == "after\n"
    assert daemon.printed_since(size_bytes, 3) == "aft"


def test_a_daemon_that_somebody_stopped_is_known(log_path: Path) -> None:
    daemon = Daemon(["sleep", "60"], log_path)
    seen = [daemon.is_stopped]
    daemon.process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while not seen[-1] and time.monotonic() < deadline:
        seen.append(daemon.is_stopped)
    daemon.stop()
    assert (seen[0], seen[-1], daemon.is_stopped) == (False, True, False)


def test_a_daemon_dies_with_its_controller_though_that_is_killed_outright(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from tunnelbench.host.daemon import Daemon
daemon = Daemon(["sleep", "60"], Path(sys.argv[1]))
while Path(f"/proc/{daemon.pid}/comm").read_text() != "sleep\\n":
    time.sleep(0.01)
print(daemon.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "log"], stdout=subprocess.PIPE, text=True
    ) as controller:
        assert controller.stdout is not None
        pid = int(controller.stdout.readline())
        assert is_alive(pid)
        controller.kill()
    assert has_ended(pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_ask_to_end_are_heard_only_after_the_taking_down(number: signal.Signals) -> None:
    heard: list[str] = []
    previous = signal.signal(number, lambda *_: heard.append("signal"))
    try:
        with undisturbed:
            signal.raise_signal(number)
            heard.append("taken down")
        assert heard == ["taken down", "signal"]
        signal.raise_signal(number)
        assert heard == ["taken down", "signal", "signal"]
    finally:
        signal.signal(number, previous)


def test_a_ctrl_c_while_an_error_takes_everything_down_is_heard_after_it() -> None:
    reached = []

    def fail() -> None:
        with undisturbed:
            try:
                raise ValueError("the error")
            finally:
                signal.raise_signal(signal.SIGINT)
                reached.append("taken down")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert reached == ["taken down"]
    assert isinstance(caught.value.__context__, ValueError)


def test_one_taking_down_inside_another_holds_signals_back_until_the_outer_is_done() -> None:
    reached = []

    def take_down() -> None:
        with undisturbed:
            with undisturbed:
                signal.raise_signal(signal.SIGINT)
                reached.append("inner")
            reached.append("outer")

    with pytest.raises(KeyboardInterrupt):
        take_down()
    assert reached == ["inner", "outer"]


def test_a_thread_that_is_not_the_main_one_takes_down_without_touching_signals() -> None:
    before = signal.getsignal(signal.SIGINT)
    inside = []

    def take_down() -> None:
        with undisturbed:
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=take_down)
    thread.start()
    thread.join()
    assert inside == [before]


def test_a_command_that_prints_without_end_is_ended_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.host.command.FILE_LIMIT_BYTES", 3_000_000)
    with pytest.raises(CommandFailed, match="ended with status"):
        run_command(["yes", "some words"], timeout_s=20)


def test_a_number_that_is_a_strangers_by_now_is_not_killed(log_path: Path) -> None:
    daemon = Daemon(["true"], log_path)
    assert daemon.wait(5)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        daemon.process.pid = stranger.pid  # as if the kernel had given it out again
        daemon.stop()
        assert stranger.poll() is None
        stranger.kill()


def test_programs_start_in_the_root_folder(
    tmp_path: Path, log_path: Path, daemons: list[Daemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["pwd", "-P"]).stdout == "/\n"
    daemons.append(Daemon(["pwd", "-P"], log_path))
    assert daemons[0].wait(20)
    assert daemons[0].output() == "/\n"


def test_ctrl_c_in_a_pager_reaches_the_pager_alone(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\nkill -INT $PPID\ncat >{tmp_path}/read\ngrep SigIgn /proc/$$/status >{tmp_path}/end\n")
    pager.chmod(0o700)
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    page([str(pager)], "a line\n", {})
    assert heard == []
    assert (tmp_path / "read").read_text() == "a line\n"
    ignored = int((tmp_path / "end").read_text().split()[1], 16)
    assert not ignored & 1 << (signal.SIGINT - 1), "Ctrl-C ends a pager that does not handle it"
    signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGINT]


LOCK_OF_POPEN = "_waitpid_lock"


class InterruptedLock:
    """A lock, in place of one of Popen, during whose acquisition the signal comes."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.release = lock.release

    def acquire(self, blocking: bool = True) -> bool:
        is_taken = self.lock.acquire(blocking)
        signal.raise_signal(signal.SIGINT)
        return is_taken


@pytest.mark.parametrize("ask", [lambda process: process.poll(), lambda process: process.wait(5)], ids=["poll", "wait"])
def test_a_signal_while_the_status_is_asked_for_does_not_lock_the_process(ask: Callable[[Process], object]) -> None:
    process = start_process(["sleep", "60"])
    lock: threading.Lock = getattr(process, LOCK_OF_POPEN)
    try:
        setattr(process, LOCK_OF_POPEN, InterruptedLock(lock))
        with pytest.raises(KeyboardInterrupt):
            ask(process)
        assert not lock.locked()
    finally:
        setattr(process, LOCK_OF_POPEN, lock)
        process.kill()
        process.wait(5)


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_the_end_of_a_process_is_seen_without_descriptors_of_processes(
    monkeypatch: pytest.MonkeyPatch, has_descriptors: bool
) -> None:
    if not has_descriptors:
        monkeypatch.setattr(os, "pidfd_open", lambda _: os.close(-1))  # OSError, as in kernels before 5.3
    before = len(list(Path("/proc/self/fd").iterdir()))
    process = start_process(["sh", "-c", "sleep 0.2; exit 7"])
    assert process.wait(10) == 7
    with start_process(["sleep", "60"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.02)
        process.kill()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_process_that_has_not_ended_in_time_is_an_error_with_a_later_status() -> None:
    process = start_process(["sleep", "60"])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    process.kill()
    assert process.wait(5) == -signal.SIGKILL
