"""Results reach pipes, files and terminals as each can take them."""

from __future__ import annotations

import errno
import logging
import os
import pty
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import CommandLine, keep

from tunnelbench.cli import main, report_warnings
from tunnelbench.cli.common_options import duration_text, emit, emit_long, link_text
from tunnelbench.cli.layout import verbatim
from tunnelbench.cli.report import write_sheet
from tunnelbench.host.command import CommandFailed
from tunnelbench.model.testbed import Link
from tunnelbench.report.sheet import Sheet
from tunnelbench.report.text import UNFOLDED_WIDTH

TUNNELBENCH = [sys.executable, "-c", "from tunnelbench.cli import main; main(prog_name='tunnelbench')"]


def environment(**changes: str) -> dict[str, str]:
    unwanted = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {**kept, "TERM": "xterm", "PAGER": "cat", **changes}


def on_terminal(*words: str, **changes: str) -> str:
    """Return what a verb writes to a terminal of 80 columns."""
    master, slave = pty.openpty()
    with subprocess.Popen([*TUNNELBENCH, *words], stdout=slave, env=environment(**changes)) as process:
        os.close(slave)
        written = b""
        try:
            while chunk := os.read(master, 65536):
                written += chunk
        except OSError:  # the other end is closed
            pass
        process.wait()
    os.close(master)
    return written.decode()


@pytest.mark.parametrize(
    "words", [("show", "last"), ("show", "last", "--json"), ("report", "last", "--json"), ("show", "wr841n")]
)
def test_a_reader_that_closes_the_pipe_gets_no_traceback(store: Path, words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    with subprocess.Popen([*TUNNELBENCH, *words], stdout=write, stderr=subprocess.PIPE, env=environment()) as process:
        os.close(write)
        assert os.read(read, 10)
        os.close(read)
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_a_check_keeps_its_exit_code_when_nobody_reads(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [*TUNNELBENCH, "check", str(tmp_path / "none.toml")]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment(), check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (1, b"")


@pytest.mark.parametrize("words", ["show last", "--help", "run --help", "--version", "list runs", "check quick"])
def test_a_full_disk_is_a_sentence(words: str, store: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*TUNNELBENCH, *words.split()], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (
        3,
        b"tunnelbench: the output cannot be written: No space left on device\n",
    )


def test_what_an_encoding_lacks_is_a_question_mark(store: Path) -> None:
    command = [*TUNNELBENCH, "report", "last"]
    result = subprocess.run(command, capture_output=True, env=environment(PYTHONIOENCODING="ascii"), check=True)
    assert b"? 226" in result.stdout, "the sign of a lower bound"


def test_colour_is_for_terminals_that_want_it(store: Path) -> None:
    assert "\x1b[1m" in on_terminal("report", "last")
    assert "\x1b[32m" in on_terminal("list", "runs")
    for verb in (("report", "last"), ("list", "runs")):
        assert "\x1b" not in on_terminal(*verb, NO_COLOR="1")
        assert "\x1b" not in on_terminal(*verb, TERM="dumb")
        piped = subprocess.run([*TUNNELBENCH, *verb], capture_output=True, env=environment(), check=True)
        assert b"\x1b" not in piped.stdout


@pytest.mark.parametrize("columns", [0, 1, 5, 12, 10**12])
@pytest.mark.parametrize("words", ["report", "report --full", "compare last last", "show last", "list runs"])
def test_any_width_of_the_terminal_gives_a_result(columns: int, words: str, store: Path, type_in: CommandLine) -> None:
    done = type_in(*words.split(), columns=columns)
    assert (done.exit_code, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= UNFOLDED_WIDTH


@pytest.mark.parametrize(
    "words", ["report --store", "list runs --store", "show last --store", "compare last last --store"]
)
def test_an_empty_name_of_a_store_is_refused(words: str, store: Path, type_in: CommandLine) -> None:
    done = type_in(*words.split(), "")
    assert done.exit_code == 2
    assert "--store: the name is empty" in done.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("run", ""), "PLAN"),
        (("run", "quick", "--on", ""), "--on"),
        (("run", "--router", ""), "--router"),
        (("run", "--router", "root@192.0.2.1", "--save", ""), "--save"),
        (("check", "--on", "", "a.toml"), "--on"),
        (("doctor", "--on", ""), "--on"),
        (("clean", "--on", ""), "--on"),
    ],
)
def test_an_empty_name_of_a_plan_or_a_testbed_stands_for_no_default(
    words: tuple[str, ...], name: str, type_in: CommandLine
) -> None:
    done = type_in(*words)
    assert done.exit_code == 2
    assert f"{name}: the name is empty" in done.stderr


@pytest.mark.parametrize(
    "words", ["report last -o", "report last --format html -o", "compare last last -o", "export -o"]
)
def test_an_empty_name_of_an_output_is_refused(words: str, store: Path, type_in: CommandLine) -> None:
    done = type_in(*words.split(), "")
    assert done.exit_code == 2
    assert "-o: the name is empty" in done.stderr


def test_an_empty_name_of_a_run_is_refused(tmp_path: Path, type_in: CommandLine) -> None:
    path = tmp_path / "results.sqlite"
    keep(path, make_run(), make_records())
    done = type_in("report", "", "--store", path)
    assert done.exit_code == 2
    assert "RUN: the name is empty" in done.stderr


def test_a_thread_that_cannot_be_started_is_reported(
    store: Path, type_in: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("tunnelbench.cli.list.open_store", lambda *_, **__: threading.Thread().start())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = type_in("list", "runs")
    assert done.exit_code == 3
    assert done.stderr.startswith("tunnelbench: no thread can be started\nhint: ")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "there is not enough memory"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "the system has refused a resource: Cannot allocate memory"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "the system has refused a resource: Too many open files"),
        (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), "the system has refused a resource: File too large"),
    ],
    ids=str,
)
def test_a_resource_that_the_system_refuses_is_reported(
    error: Exception, message: str, store: Path, type_in: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("tunnelbench.cli.list.open_store", refuse)
    done = type_in("list", "runs")
    assert done.exit_code == 3
    assert done.stderr.startswith(f"tunnelbench: {message}\nhint: ")


@pytest.fixture
def pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Path of a pager that writes its arguments and the number of its lines of input into the file `paged`."""
    program = tmp_path / "my pager"
    program.write_text(f'#!/bin/sh\n{{ printf "<%s>" "$@"; wc -l; }} >{shlex.quote(str(tmp_path / "paged"))}\n')
    program.chmod(0o700)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("tunnelbench.cli.common_options.is_interactive", lambda: True)
    return shlex.quote(str(program))


def test_the_options_of_the_pager_are_passed(pager: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", f"{pager} -S '-P a b'")
    emit_long("line\n" * 500)
    assert (tmp_path / "paged").read_text() == "<-S><-P a b>500\n"


def test_a_pager_with_an_open_quote_is_not_started(
    pager: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", f"{pager} '")
    emit_long("line\n" * 500)
    assert capsys.readouterr().out == "line\n" * 500


def test_a_long_sheet_goes_through_the_pager_as_text_only(
    pager: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", pager)
    sheet = Sheet(title="t", facts=(), cautions=(), header=("a",), rows=(("1",),) * 500)
    write_sheet(sheet, "markdown", None)
    assert capsys.readouterr().out.count("\n") > 500
    assert not (tmp_path / "paged").exists()
    write_sheet(sheet, "terminal", None)
    assert capsys.readouterr().out == ""
    assert (tmp_path / "paged").exists()


@pytest.mark.parametrize(
    ("words", "variables", "has_colour"),
    [
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        (["--color", "auto"], {"FORCE_COLOR": "1"}, True),
    ],
)
def test_colour_in_a_pipe_can_be_forced(
    store: Path, words: list[str], variables: dict[str, str], has_colour: bool
) -> None:
    command = [*TUNNELBENCH, "report", *words]
    piped = subprocess.run(command, capture_output=True, env=environment(**variables), check=True)
    assert (b"\x1b[" in piped.stdout) == has_colour


def test_in_a_pipe_no_line_is_folded() -> None:
    piped = subprocess.run([*TUNNELBENCH, "show", "openvpn"], capture_output=True, env=environment(), check=True)
    assert b"digest of the data channel; AEAD ciphers (GCM, Poly1305) need none\n" in piped.stdout
    assert max(map(len, on_terminal("show", "openvpn", NO_COLOR="1").splitlines())) <= 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89.4, "89 s"), (90, "2 min"), (3599, "1 h 0 min"), (8940, "2 h 29 min"), (864_000, "240 h 0 min")],
)
def test_a_duration_is_printed_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (Link(), "as fast as the machine"),
        (Link(rate_out_mbps=100, rate_in_mbps=100), "100 Mbit/s"),
        (Link(rate_out_mbps=1.5, rate_in_mbps=16), "1.5 Mbit/s out, 16 Mbit/s in"),
        (Link(mtu_bytes=9000), "as fast as the machine, MTU of 9000 bytes"),
        (Link(rate_in_mbps=16, delay_ms=5), "any rate out, 16 Mbit/s in, 5 ms on each cable"),
    ],
)
def test_a_link_is_described_in_words(link: Link, text: str) -> None:
    assert link_text(link) == text


def test_what_a_program_says_keeps_its_lines_and_loses_its_escape_sequences() -> None:
    assert verbatim("a\n\n\tb\x1b[31m\r\n\x07c") == "  a\n\n          b\\x1b[31m\n  \\x07c\n"


HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b2Jend\rover"
ESCAPED = r"\x1b]0;title\x07\x1b[2J\x9b2Jend\rover"


def test_a_result_keeps_its_colours_and_lines_and_no_other_control_character(capfd: pytest.CaptureFixture[str]) -> None:
    emit(f"\x1b[1;31mred\x1b[0m\tcell\r\n{HOSTILE}\n")
    assert capfd.readouterr().out == f"\x1b[1;31mred\x1b[0m\tcell\r\n{ESCAPED}\n"


def test_what_a_failed_command_printed_cannot_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CommandFailed(["ssh", HOSTILE], "ended with status 1", f"error: {HOSTILE}")

    monkeypatch.setattr("tunnelbench.cli.list.open_store", fail)
    done = CliRunner().invoke(main, ["list", "runs", "--store", "/dev/null"])
    assert "\x1b" not in done.output
    assert ESCAPED in done.output


def test_the_owner_of_a_lease_cannot_control_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("tunnelbench")
    before = list(logger.handlers)
    logger.handlers.clear()
    try:
        report_warnings()
        logging.getLogger("tunnelbench.lease").warning("undoing the changes of %s", HOSTILE)
    finally:
        logger.handlers[:] = before
    assert capfd.readouterr().err == f"tunnelbench: undoing the changes of {ESCAPED}\n"
