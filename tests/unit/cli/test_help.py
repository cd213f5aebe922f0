"""`tunnelbench --help` is quick, because it imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from tunnelbench import cli
from tunnelbench.host.signals import AskedToEnd
from tunnelbench.model.errors import CannotHere, ExitCode, WrongInput

BUDGET_S = 0.150
"""For `--help` on an idle machine. Printed, not asserted: a busy one says nothing of the code."""

HEAVY = {"pydantic", "rich", "sqlalchemy", "sqlite3", "tree_sitter", "tree_sitter_toml", "tomli_w"}

HELP_THEN_MODULES = """
import sys
from tunnelbench.cli import main
main(["--help"], standalone_mode=False)
print(*sorted(sys.modules), sep="\\n", file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    result = subprocess.run([sys.executable, "-c", HELP_THEN_MODULES], capture_output=True, text=True, check=True)
    modules = set(result.stderr.split())
    assert "click" in modules
    assert modules & HEAVY == set()
    assert {name for name in modules if name.startswith("tunnelbench.cli.")} == {
        "tunnelbench.cli.help_format",
        "tunnelbench.cli.stderr_messages",
    }


def test_help_names_every_verb_and_its_time_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.perf_counter()
    command = [sys.executable, "-c", "from tunnelbench.cli import main; main(['--help'])"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    taken_s = time.perf_counter() - started
    with capsys.disabled():
        print(f"\ntunnelbench --help took {taken_s * 1000:.0f} ms, budget {BUDGET_S * 1000:.0f} ms")
    for name, verb in cli.main.commands.items():
        assert f"  {name} " in result.stdout
        assert verb.short_help is not None
        assert verb.short_help in result.stdout


@pytest.mark.parametrize("name", sorted(cli.main.commands))
def test_every_verb_is_there_and_states_the_exit_codes(name: str) -> None:
    result = CliRunner().invoke(cli.main, [name, "--help"])
    assert result.exception is None
    assert result.exit_code == ExitCode.DONE
    assert f"main {name}" in result.stdout
    assert all(f"{code.value} " in result.stdout.split("Exit status: ")[1] for code in ExitCode)
    assert CliRunner().invoke(cli.main, ["help", name]).stdout == result.stdout


@pytest.mark.parametrize("columns", [50, 64, 80, 100])
@pytest.mark.parametrize(
    ("words", "command"),
    [((), "sudo tunnelbench run"), (("compare",), "(tunnelbench list references)"),
     (("completion",), "tunnelbench completion fish | source"),
     (("completion",), 'eval "$(tunnelbench completion bash)"'),
     (("import",), "`tunnelbench export`")],
)  # fmt: skip
def test_no_command_in_a_help_text_is_folded(columns: int, words: tuple[str, ...], command: str) -> None:
    text = CliRunner().invoke(cli.main, [*words, "--help"], env={"COLUMNS": str(columns)}).stdout
    assert command in text
    assert "\N{NO-BREAK SPACE}" not in text


def test_help_without_a_verb_is_the_list_of_verbs() -> None:
    assert CliRunner().invoke(cli.main, ["help"]).stdout == CliRunner().invoke(cli.main, ["--help"]).stdout
    wrong = CliRunner().invoke(cli.main, ["help", "dance"])
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (2, 'tunnelbench: there is no verb "dance"')


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_has_a_short_option(option: str) -> None:
    assert CliRunner().invoke(cli.main, [option]).stdout.startswith("tunnelbench 0.")


@pytest.mark.parametrize(
    ("raised", "exit_code", "stderr"),
    [
        (WrongInput("no such plan: quik", hint="see tunnelbench list plans"), 2,
         "tunnelbench: no such plan: quik\nhint: see tunnelbench list plans\n"),
        (CannotHere("openvpn is missing"), 3, "tunnelbench: openvpn is missing\n"),
        (AskedToEnd(), 130, "tunnelbench: interrupted\n"),
    ],
)  # fmt: skip
def test_a_user_error_is_a_sentence_a_hint_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException, exit_code: int, stderr: str
) -> None:
    @click.command()
    def command() -> None:
        raise raised

    monkeypatch.setattr(cli.Verb, "load", lambda _self: command)
    result = CliRunner().invoke(cli.main, ["run"])
    assert (result.exit_code, result.stderr) == (exit_code, stderr)


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def command() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli.Verb, "load", lambda _self: command)
    assert isinstance(CliRunner().invoke(cli.main, ["run"]).exception, ZeroDivisionError)


HOSTILE_TEXTS = """
import logging, sys, warnings
from tunnelbench import cli
cli.listen_to_signals()
cli.report_warnings()
logging.getLogger("of.a.library").warning("\\x1b]0;owned\\x07")
warnings.warn("\\x1b]0;owned\\x07")
raise KeyError("k") from ValueError("\\x1b]0;owned\\x07")
"""


def test_no_traceback_and_no_warning_of_a_library_controls_the_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", HOSTILE_TEXTS], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count(r"\x1b]0;owned\x07") >= 3
    assert "Traceback" in done.stderr
    assert "\x1b" not in done.stderr


def test_sigterm_unwinds_and_exits_with_143() -> None:
    script = """
import os, signal, sys, click
from tunnelbench import cli
from tunnelbench.host.signals import AskedToEnd

@click.command()
def command():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        print("taken down")

cli.Verb.load = lambda self: command
sys.argv[1:] = ["run"]
cli.main()
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (ExitCode.TERMINATED, "taken down\n")
