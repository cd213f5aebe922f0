"""Files that a user names and that are no plain files: each verb answers at once with a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli.report import write_whole


@pytest.mark.parametrize(
    "words",
    [["check", "{}"], ["show", "{}"], ["audit", "{}"], ["import", "{}"],
     ["site", "/nowhere/site", "--devices", "{}"], ["run", "{}", "--on", "netns"], ["run", "quick", "--on", "{}"]],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["fifo", "device"])
@pytest.mark.timeout(60)
def test_a_pipe_or_device_in_place_of_a_file_is_refused_at_once(
    type_in: CommandLine, words: list[str], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.toml"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    result = type_in(*(word.format(path) if "{" in word else word for word in words))
    assert result.exit_code == (1 if words[0] == "check" else 2)
    assert "a pipe or a device, not a regular file" in result.output


def test_a_planted_link_in_place_of_the_draft_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (tmp_path / f".table.csv.{os.getpid()}").symlink_to(victim)
    write_whole(tmp_path / "table.csv", "a,b\n")
    assert victim.read_text(encoding="utf-8") == "precious"
    assert (tmp_path / "table.csv").read_text(encoding="utf-8") == "a,b\n"


def test_a_password_with_an_at_sign_is_not_shown(type_in: CommandLine) -> None:
    result = type_in("list", "runs", "--store", "postgresql://bench:half@secret@db.example/bench")
    assert result.exit_code == 2
    assert "the user or the password has an @" in result.stderr
    assert "secret" not in result.output + result.stderr
