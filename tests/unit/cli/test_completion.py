"""The shell completes verbs, options, plans, testbeds, runs and tunnels; manual pages come from the help texts."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest
from click.shell_completion import ShellComplete
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import RUN_ID, CommandLine, keep

from tunnelbench import cli
from tunnelbench.cli import PROGRAM
from tunnelbench.cli.completion import SHELLS, VARIABLE
from tunnelbench.model.result import TrialRecord
from tunnelbench.store import migrations, schema
from tunnelbench.store.store import Store


def completed(*words: str) -> list[str]:
    """Return what the shell offers for the last word."""
    *known, start = words
    return [item.value for item in ShellComplete(cli.main, {}, PROGRAM, VARIABLE).get_completions(known, start)]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("do",), ["doctor"]),
        (("report", "--al"), ["--allow-plaintext"]),
        (("run", "qu"), ["quick"]),
        (("run", "--on", "mal"), ["malta", "malta-road-warrior"]),
        (("doctor", "wr"), ["wr841n"]),
        (("doctor", "--on", "netns-r"), ["netns-road-warrior"]),
        (("report", "202503140"), []),
        (("report", "20250314"), [RUN_ID]),
        (("run", "--resume", "l"), ["last"]),
        (("compare", "wr841"), ["wr841n-2014"]),
        (("compare", "last#open"), ["last#openvpn"]),
        (("show", "wireguard-g"), ["wireguard-go"]),
        (("completion", "f"), ["fish"]),
    ],
)
def test_the_shell_offers_names(store: Path, words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_without_a_store_no_run_is_offered(home: Path) -> None:
    assert completed("report", "") == ["last"]
    assert not home.exists()


def renamed(record: TrialRecord, name: str) -> TrialRecord:
    """Return the trial with another name of its tunnel, if the tunnel is a vxlan."""
    tunnel = record.spec.tunnel
    if tunnel.kind != "vxlan":
        return record
    return replace(record, spec=replace(record.spec, tunnel=replace(tunnel, name=name)))


@pytest.mark.parametrize("name", ["x;touch planted", "x$(touch planted)", "x`touch planted`"])
def test_bash_does_not_run_a_tunnel_name_that_it_completes(type_in: CommandLine, home: Path, name: str) -> None:
    keep(home, make_run(), tuple(renamed(record, name) for record in make_records(1)))
    here = home.parent
    program = here / "bin" / PROGRAM
    program.parent.mkdir()
    code = shlex.quote(f"from tunnelbench.cli import main; main(prog_name={PROGRAM!r})")
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {code} "$@"\n')
    program.chmod(0o700)
    script = type_in("completion", "bash").stdout
    script += f"""
COMP_WORDS=({PROGRAM} compare 'last#') COMP_CWORD=2
_{PROGRAM}_completion {PROGRAM}
printf '%s\\n' "${{COMPREPLY[@]}}"
cd {shlex.quote(str(here))}
for reply in "${{COMPREPLY[@]}}"; do
    eval ": $reply"
done
"""
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert not (here / "planted").exists()
    assert "last#vxlan" in done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("words", [("report", ""), ("compare", "last#")])
def test_completion_does_not_upgrade_an_older_store(
    store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    upgraded: list[object] = []
    monkeypatch.setattr(schema, "STORE_FORMAT", schema.STORE_FORMAT + 1)
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, upgraded.append))
    assert completed(*words) == ["last"][: words[1] == ""]
    assert upgraded == []
    assert capfd.readouterr() == ("", "")


def test_completion_marks_no_run_as_killed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.cli.common_options.is_server", lambda _location: True)
    marked: list[str] = []

    def mark(_store: Store, ended_at: str) -> list[str]:
        marked.append(ended_at)
        return []

    monkeypatch.setattr(Store, "mark_abandoned", mark)
    assert RUN_ID in completed("report", "")
    assert "last#vxlan" in completed("compare", "last#")
    assert marked == []


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_that_it_can_read(type_in: CommandLine, shell: str, tmp_path: Path) -> None:
    text = type_in("completion", shell).stdout
    assert VARIABLE in text
    if program := which(shell):
        script = tmp_path / "script"
        script.write_text(text)
        subprocess.run([program, "-n", script], check=True)


def test_each_verb_has_a_manual_page(type_in: CommandLine, tmp_path: Path) -> None:
    assert type_in("man", "-o", tmp_path).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "tunnelbench.1",
        *(f"tunnelbench-{name}.1" for name in cli.main.commands),
    }
    assert all(".B \\-h, \\-\\-help\n" in path.read_text() for path in tmp_path.iterdir())
    page = (tmp_path / "tunnelbench-report.1").read_text()
    assert ".B \\-\\-allow\\-plaintext\n" in page
    assert ".B [RUN]" not in page, "an argument is no option"
    if groff := which("groff"):
        for path in tmp_path.iterdir():
            done = subprocess.run([groff, "-ww", "-man", "-Tutf8", "-P-c", path], capture_output=True, check=True)
            assert done.stderr == b""
            assert b"tunnelbench" in done.stdout
