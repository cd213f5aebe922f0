"""`tunnelbench list` says what there is."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.builders import make_records, make_run
from tests.unit.cli.conftest import RUN_ID, CommandLine, keep
from tests.unit.report.hostile import hostile_run

from tunnelbench.store.store import Store
from tunnelbench.tunnel import PLANNED, adapters

RECORDED, PLANNED_TRIALS = len(make_records()), make_run().trials_planned


def as_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def row(text: str, name: str) -> list[str]:
    """The words of the line that begins with a name."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


def test_plans_have_a_title_a_number_of_trials_and_a_time(type_in: CommandLine) -> None:
    result = type_in("list", "plans", columns=120)
    assert row(result.stdout, "quick")[1:9] == ["112", "5", "min", "20", "min", "A", "first", "look"]
    assert row(result.stdout, "wr841n")[1:6] == ["148", "27", "min", "46", "min"]
    assert row(result.stdout, "soak")[1:5] == ["4", "16", "min", "-"]


def test_testbeds_have_their_link(type_in: CommandLine) -> None:
    result = type_in("list", "testbeds", columns=120)
    assert " ".join(row(result.stdout, "netns")).startswith("netns netns as fast as the machine Three")
    assert row(result.stdout, "netns-100m")[2:4] == ["100", "Mbit/s"]


def test_references_have_their_date_and_class(type_in: CommandLine, home: Path) -> None:
    text = type_in("list", "references", columns=160).stdout
    assert row(text, "wr841n-2014")[1:3] == ["48", "2014-06-08"]
    found = {each["name"]: each for each in json.loads(type_in("list", "references", "--json").stdout)}
    assert found["wireguard-by-device"]["comparability"]["comparable"] == "no"
    assert found["wr841n-2014"]["comparability"]["comparable"] == "yes"


def test_tunnels_are_all_there_with_those_that_have_no_adapter(type_in: CommandLine) -> None:
    found = {each["kind"]: each for each in json.loads(type_in("list", "tunnels", "--json").stdout)}
    assert found.keys() == adapters().keys() | PLANNED.keys()
    assert {found[kind]["available"] for kind in PLANNED} == {"no adapter yet"}
    assert found["none"]["available"] == "yes"


def test_a_tunnel_whose_program_is_missing_names_the_program(
    type_in: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    text = type_in("list", "tunnels", columns=160).stdout
    assert row(text, "tinc")[1] == "no"
    assert "the program tincd: missing" in text
    assert "apt-get" not in text, "a column may fold the command; `show` prints it on a line of its own"


def test_without_root_the_kernel_s_tunnels_are_unknown(type_in: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch)
    text = type_in("list", "tunnels", columns=120).stdout
    assert row(text, "vxlan")[1] == "unknown"
    assert "the kernel's vxlan: unknown (only root can test this)" in text


def test_runs_come_newest_first(type_in: CommandLine, store: Path) -> None:
    lines = type_in("list", "runs").stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        [RUN_ID, "2025-03-14", "09:26", "done", f"{RECORDED}/{PLANNED_TRIALS}", "quick", "netns"],
        ["20250301-101112-early", "2025-03-01", "10:11", "interrupted", f"2/{PLANNED_TRIALS}", "wr841n", "netns"],
    ]


def test_the_newest_runs_are_listed_and_the_number_of_older_ones(type_in: CommandLine, store: Path) -> None:
    with Store.open(store) as made:
        for day in range(1, 4):
            made.begin_run(
                make_run(run_id=f"run-{day}", started_at=f"2027-01-0{day}T00:00:00+00:00", trials_recorded=0)
            )
        count = made.count_runs()
    found = type_in("list", "runs", "--newest", "2")
    assert [line.split()[0] for line in found.stdout.splitlines()[1:]] == ["run-3", "run-2"]
    assert f"and {count - 2} older runs: add --newest {count}" in found.stderr


def test_runs_of_another_store_are_listed(type_in: CommandLine, store: Path, tmp_path: Path) -> None:
    elsewhere = store.rename(tmp_path / "elsewhere.sqlite")
    (entry, _) = json.loads(type_in("list", "runs", "--json", "--store", elsewhere).stdout)
    assert (entry["run_id"], entry["trials_recorded"], entry["trials_planned"]) == (RUN_ID, RECORDED, PLANNED_TRIALS)


def test_without_a_store_there_are_no_runs_yet_and_none_is_made(type_in: CommandLine, home: Path) -> None:
    result = type_in("list", "runs")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "There are no runs yet. Measure: tunnelbench run\n"
    assert type_in("list", "runs", "--json").stdout == "[]\n"
    assert not home.parent.exists()


def test_a_file_that_is_no_store_is_named(type_in: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database " * 100)
    result = type_in("list", "runs", "--store", tmp_path / "text")
    assert result.exit_code == 2
    assert "not a store of TunnelBench" in result.stderr


def test_an_unknown_noun_lists_the_known_ones(type_in: CommandLine) -> None:
    result = type_in("list", "routers\x1b[31m")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'plans', 'testbeds', 'tunnels', 'references', 'runs'" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(type_in: CommandLine, store: Path, columns: int) -> None:
    for noun in ("plans", "testbeds", "tunnels", "references", "runs"):
        assert max(map(len, type_in("list", noun, columns=columns).stdout.splitlines())) <= columns


def test_a_hostile_run_is_one_harmless_line(type_in: CommandLine, home: Path) -> None:
    run, records = hostile_run()
    keep(home, replace(run, run_id="hostile"), records)  # a store refuses ids that are no names of files
    text = type_in("list", "runs", columns=100_000).stdout
    assert len(text.splitlines()) == 2
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("verb", [("list", "runs"), ("show", "last"), ("report", "last")])
def test_a_store_in_the_home_of_an_unknown_user_is_a_users_error(type_in: CommandLine, verb: tuple[str, str]) -> None:
    result = type_in(*verb, "--store", "~no-such-user/results.sqlite")
    assert result.exit_code == 2
    assert "~no-such-user/results.sqlite" in result.stderr
