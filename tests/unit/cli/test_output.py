"""Results reach pipes, files and terminals as each can take them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tunnelbench.cli.drawing import verbatim
from tunnelbench.cli.output import duration_text, link_text
from tunnelbench.model.testbed import Link

TUNNELBENCH = [sys.executable, "-c", "from tunnelbench.cli import main; main(prog_name='tunnelbench')"]


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    return {**kept, "TERM": "xterm", **changes}


def on_terminal(*words: str, **changes: str) -> str:
    """What a verb writes to a terminal of 80 columns."""
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


def test_a_full_disk_is_a_sentence(store: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*TUNNELBENCH, "show", "last"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (
        3,
        b"tunnelbench: the output cannot be written: No space left on device\n",
    )


def test_what_an_encoding_lacks_is_a_question_mark(store: Path) -> None:
    command = [*TUNNELBENCH, "report", "last"]
    result = subprocess.run(command, capture_output=True, env=environment(PYTHONIOENCODING="ascii"), check=True)
    assert b"????" in result.stdout


def test_colour_is_for_terminals_that_want_it(store: Path) -> None:
    assert "\x1b[1m" in on_terminal("report", "last")
    assert "\x1b[32m" in on_terminal("list", "runs")
    for verb in (("report", "last"), ("list", "runs")):
        assert "\x1b" not in on_terminal(*verb, NO_COLOR="1")
        assert "\x1b" not in on_terminal(*verb, TERM="dumb")
        piped = subprocess.run([*TUNNELBENCH, *verb], capture_output=True, env=environment(), check=True)
        assert b"\x1b" not in piped.stdout


def test_in_a_pipe_no_line_is_folded() -> None:
    piped = subprocess.run([*TUNNELBENCH, "show", "openvpn"], capture_output=True, env=environment(), check=True)
    assert b"digest of the data channel; AEAD ciphers (GCM, Poly1305) have none beside them\n" in piped.stdout
    assert max(map(len, on_terminal("show", "openvpn", NO_COLOR="1").splitlines())) <= 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89.4, "89 s"), (90, "2 min"), (3599, "1 h 0 min"), (8940, "2 h 29 min"), (864_000, "240 h 0 min")],
)
def test_a_duration_is_told_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (Link(), "as fast as the machine"),
        (Link(rate_out_mbps=100, rate_in_mbps=100), "100 Mbit/s"),
        (Link(rate_out_mbps=1.5, rate_in_mbps=16), "1.5 Mbit/s out, 16 Mbit/s in"),
        (Link(rate_in_mbps=16, delay_ms=5), "any rate out, 16 Mbit/s in, 5 ms on each cable"),
    ],
)
def test_a_link_is_told_in_words(link: Link, text: str) -> None:
    assert link_text(link) == text


def test_what_a_program_says_keeps_its_lines_and_loses_its_escape_sequences() -> None:
    assert verbatim("a\n\n\tb\x1b[31m\r\n\x07c", 2) == "  a\n\n          b\\x1b[31m\n  \\x07c\n"
