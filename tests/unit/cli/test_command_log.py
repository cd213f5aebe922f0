"""`--log FILE` and `-v` record each command, and the file is opened with care."""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner

from tunnelbench.cli.command_log import is_verbose, log_options, open_log
from tunnelbench.host.command import log, run_command
from tunnelbench.model.errors import CannotHere

TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"


@click.command("measure")
@log_options
def verb() -> None:
    """Start two commands."""
    run_command(["sh", "-c", "cat >/dev/null; exit 3"], stdin="a secret", check=False, host="router")
    run_command(["printf", "two words", "\033[2J\nsecond line"])
    click.echo(is_verbose())


def body(text: str) -> list[str]:
    return re.sub(rf"\d+\.\d{{3}} s, {TIME}", "TIME", text).splitlines()


EXPECTED = [
    "sh -c 'cat >/dev/null; exit 3'  # router: status 3, TIME",
    r"printf 'two words' '\x1b[2J",
    "second line'  # controller: status 0, TIME",
]


def test_the_log_file_is_a_shell_script_with_host_status_and_duration(tmp_path: Path) -> None:
    path = tmp_path / "commands.log"
    for _ in range(2):
        result = CliRunner().invoke(verb, ["--log", str(path)])
        assert (result.exit_code, result.output) == (0, "False\n"), result.stderr
    headings = [line for line in body(path.read_text()) if line.startswith("# tunnelbench")]
    assert all(re.fullmatch(rf"# tunnelbench \S+ \S+, {TIME}", line) for line in headings)
    assert body(path.read_text()) == [headings[0], *EXPECTED, headings[1], *EXPECTED]
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_commands_are_logged_no_longer_than_the_verb_runs(tmp_path: Path) -> None:
    assert not log.isEnabledFor(logging.INFO)
    CliRunner().invoke(verb, ["-v", "--log", str(tmp_path / "log")])
    assert not log.isEnabledFor(logging.INFO)


def test_verbose_prints_the_commands_to_standard_error() -> None:
    result = CliRunner().invoke(verb, ["-v"])
    assert result.stdout == "True\n"
    assert body(result.stderr) == EXPECTED


def test_after_the_verb_nothing_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "commands.log"
    CliRunner().invoke(verb, ["--log", str(path), "-v"])
    size_bytes = path.stat().st_size
    run_command(["true"])
    assert path.stat().st_size == size_bytes
    assert not log.handlers


def test_a_log_on_a_full_disk_ends_and_the_verb_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_log

    def open_on_full_disk(path: Path) -> IO[str]:
        stream = opened(path)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, stream.fileno())
        os.close(full)
        return stream

    monkeypatch.setattr("tunnelbench.cli.command_log.open_log", open_on_full_disk)
    result = CliRunner().invoke(verb, ["--log", str(tmp_path / "commands.log")])
    assert (result.exit_code, result.stdout) == (0, "False\n"), result.stderr
    assert result.stderr.count("cannot be written; it ends here") == 1


def link(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def hard_link(path: Path, elsewhere: Path) -> None:
    path.hardlink_to(elsewhere)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, _: Path) -> None:
    path.mkdir()


def foreign(path: Path, _: Path) -> None:
    path.touch()
    os.chown(path, 65534, 65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="the rules are for root")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (link, "it is a link"),
        (hard_link, "second name"),
        (pipe, "cannot be opened"),
        (foreign, "another user"),
        (folder, "cannot be opened"),
    ],
    ids=["link", "hard link", "pipe", "other user's", "folder"],
)
def test_root_writes_no_log_into_what_another_user_may_control(
    make: Callable[[Path, Path], None], why: str, tmp_path: Path
) -> None:
    path, elsewhere = tmp_path / "commands.log", tmp_path / "precious"
    elsewhere.write_text("precious")
    make(path, elsewhere)
    with pytest.raises(CannotHere, match=why):
        open_log(path)
    assert elsewhere.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="the rule is for root")
def test_root_writes_no_log_into_a_folder_to_which_another_user_has_made_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    (tmp_path / "precious").mkdir()
    (tmp_path / "logs").symlink_to("precious")
    os.chown(tmp_path / "logs", 65534, 65534, follow_symlinks=False)
    with pytest.raises(CannotHere, match="is a link of the user nobody, and this is root"):
        open_log(tmp_path / "logs" / "commands.log")
    assert not list((tmp_path / "precious").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="the file is root's")
def test_a_file_of_the_kernel_without_an_end_is_no_log() -> None:
    with pytest.raises(CannotHere, match="/proc/self/mem cannot be opened"):
        open_log(Path("/proc/self/mem"))


@pytest.mark.parametrize("name", ["run", "doctor", "clean", "list", "show", "testbed build", "testbed shell"])
def test_each_verb_that_starts_commands_can_record_them(name: str) -> None:
    verb_name, *rest = name.split()
    command = import_module(f"tunnelbench.cli.{verb_name}").command
    for word in rest:
        command = command.commands[word]
    assert {"--log", "-v"} <= {option for parameter in command.params for option in parameter.opts}
