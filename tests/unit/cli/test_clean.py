"""`clean` and the store: runs that were killed are marked, those of others are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.postgresql import cluster
from tests.unit.builders import make_run

from tunnelbench.cli.clean import clean_run, mark_as_killed, store_of
from tunnelbench.store import Store


def statuses(place: str) -> dict[str, str]:
    with Store.open(place) as store:
        return {run.run_id: run.status for run in store.runs()}


def begin(place: str, *run_ids: str) -> None:
    with Store.open(place) as store:
        for run_id in run_ids:
            store.begin_run(make_run(run_id=run_id, status="running", ended_at=None))


def test_runs_under_way_in_a_file_were_killed_for_nobody_else_measures_here(tmp_path: Path) -> None:
    place = str(tmp_path / "results.sqlite")
    begin(place, "a", "b")
    with Store.open(place) as store:
        store.end_run("b", "done", "2025-03-14T10:00:00+00:00")
    assert mark_as_killed(place, []) == ["a"]
    assert statuses(place) == {"a": "killed", "b": "done"}
    assert mark_as_killed(place, []) == []


def test_on_a_server_only_runs_that_were_left_here_are_marked() -> None:
    with cluster() as server:
        url = server.new_database()
        begin(url, "a", "b")
        assert mark_as_killed(url, ["a"]) == ["a"]
        assert statuses(url) == {"a": "killed", "b": "running"}


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    place = tmp_path / "results.sqlite"
    assert mark_as_killed(str(place), ["a"]) == []
    assert not place.exists()


def test_a_folder_is_emptied_but_for_the_name_of_its_store_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.cli.clean.RUN_FOLDER", tmp_path / "run")
    folder, elsewhere = tmp_path / "run" / "20250314-092653-abcdef", tmp_path / "elsewhere"
    (folder / "router").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("somebody's")
    (folder / "router" / "key").write_text("secret")
    (folder / "router" / "link").symlink_to(elsewhere)
    (folder / "link").symlink_to(elsewhere)
    (folder / "store").write_text("/somewhere/results.sqlite")
    assert store_of(folder.name) == "/somewhere/results.sqlite"
    assert store_of("20250314-092653-000000") == ""
    (said,) = clean_run(folder.name)
    assert "with its keys and configurations" in said
    assert [entry.name for entry in folder.iterdir()] == ["store"]
    assert (elsewhere / "precious").read_text() == "somebody's"
