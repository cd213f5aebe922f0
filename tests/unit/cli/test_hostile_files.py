"""Files that a user names and that are no plain files: each verb answers at once with a sentence."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import CommandLine

from tunnelbench.cli.report import write_whole
from tunnelbench.store.checksum import CHECKSUM_COLUMN, checksum
from tunnelbench.store.store import Store


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


def forge(path: Path, table: str, column: str, value: Any) -> None:
    """Change a column of a store, with a checksum that agrees; a value that is a dict changes keys of a JSON text."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(f"SELECT rowid AS place, * FROM {table} WHERE {column} IS NOT NULL")  # noqa: S608
        for row in map(dict, found.fetchall()):
            place = row.pop("place")
            row[column] = json.dumps(json.loads(row[column]) | value) if isinstance(value, dict) else value
            row[CHECKSUM_COLUMN] = checksum(row)
            changes = ", ".join(f"{name} = ?" for name in row)
            connection.execute(f"UPDATE {table} SET {changes} WHERE rowid = ?", [*row.values(), place])  # noqa: S608


FORGED: dict[str, tuple[str, str, Any]] = {
    "a direction that does not exist": ("trial", "direction", "sideways"),
    "a word as the number of a round": ("trial", "round", "last"),
    "a duration that is no number": ("trial", "tcp", {"duration_s": float("nan")}),
    "a number of CPUs with 5000 digits": ("run", "host_facts", {"cpus": "9" * 5000}),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_store_of_another_person_with_impossible_values_is_a_sentence(
    type_in: CommandLine, tmp_path: Path, change: tuple[str, str, Any]
) -> None:
    path, records = tmp_path / "theirs.sqlite", make_records(1)
    with Store.open(path) as store:
        store.add_run(make_run(trials_planned=len(records)), records, ())
    forge(path, *change)
    for words in (["report"], ["show", "last"], ["compare", "last", "last"], ["export"], ["list", "runs"]):
        done = type_in(*words, "--store", path)
        assert done.exit_code in {0, 3}, (words, done.exception)
        if done.exit_code:
            assert "the store that --store names holds values that no run has" in done.stderr
    assert type_in("report", "--store", path).exit_code == 3


def test_an_error_in_the_own_store_stays_a_bug(
    type_in: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with Store.open(tmp_path / "tunnelbench" / "results.sqlite") as store:
        store.add_run(make_run(host_facts={"cpus": "9" * 5000}), (), ())
    assert isinstance(type_in("report").exception, ValueError)
