"""The stored format: older formats are upgraded, newer formats are refused and not changed."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from tests.unit.builders import make_records, make_speeds
from tests.unit.soak_builders import sample_soak
from tests.unit.store.make_sample import SAMPLES, TUNNELS

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.counters import CpuInterval, CpuUsage, PathCounters, Ping, Window
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.result import Check, Interval, Outcome, TcpMeasurement, TunnelProof
from tunnelbench.model.search import Classification, SearchPoint, SearchRun
from tunnelbench.model.soak import Soak, SoakChunk, SoakEvent, SoakPart, SoakReading
from tunnelbench.model.udp import Burst, Delays, UdpCounts, UdpInterval, UdpMeasurement
from tunnelbench.store import migrations, schema
from tunnelbench.store.store import Store

RUN_ID = "20250314-092653-quick"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A copy of the sample of this version's format."""
    return Path(shutil.copy(SAMPLES / f"format-{schema.STORE_FORMAT}.sqlite", tmp_path / "results.sqlite"))


def history(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    numbers = [number for (number,) in connection.execute("SELECT number FROM format ORDER BY number")]
    connection.close()
    return numbers


def test_there_is_an_upgrade_from_each_older_format() -> None:
    assert len(migrations.UPGRADES) == schema.STORE_FORMAT - 1


def test_there_is_a_sample_of_each_format() -> None:
    assert sorted(path.name for path in SAMPLES.iterdir()) == [
        f"format-{number}.sqlite" for number in range(1, schema.STORE_FORMAT + 1)
    ]


@pytest.mark.parametrize("number", range(1, schema.STORE_FORMAT + 1))
def test_a_store_of_each_format_opens(tmp_path: Path, number: int) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{number}.sqlite", path)
    with Store.open(path) as store:
        run = store.run("last")
        records = store.trials(run.run_id)
    assert (run.run_id, run.status, run.trials_recorded) == (RUN_ID, "done", 20)
    assert {record.spec.tunnel.name for record in records} == TUNNELS
    assert {record.outcome for record in records} == {Outcome.MEASURED, Outcome.REFUSED, Outcome.UNAVAILABLE}
    first = records[4]
    assert first.tcp is not None
    assert first.proof is not None
    assert round(first.tcp.throughput_bps / 1e6) == 2314
    assert first.proof.versions == {"router.linux": "6.18", "server.linux": "6.18"}
    assert first.raw["ping"] == "100 received"


def test_the_sample_of_this_format_is_what_is_written_now(path: Path) -> None:
    soak, chunks = sample_soak()
    with Store.open(path) as store:
        assert store.change == ""
        assert store.trials(RUN_ID) == [
            record for record in make_records(rounds=1) if record.spec.tunnel.name in TUNNELS
        ]
        assert store.cipher_speeds(RUN_ID) == list(make_speeds())
        assert store.soaks(RUN_ID).all() == [soak]
        assert list(store.soaks(RUN_ID).chunks(soak.spec.sequence)) == chunks


def test_the_documentation_names_every_table_column_and_field() -> None:
    text = (Path(__file__).parents[3] / "docs" / "data-format.md").read_text()
    columns = {column.name for table in schema.metadata.sorted_tables for column in table.columns}
    of_both = (
        Check,
        CipherSpeed,
        CpuInterval,
        CpuUsage,
        Interval,
        PathCounters,
        Ping,
        TcpMeasurement,
        TunnelProof,
        Window,
    )
    of_soak = (SoakReading, SoakEvent, SoakPart, Soak, SoakChunk)
    of_udp = (Burst, Classification, Delays, SearchPoint, SearchRun, UdpCounts, UdpInterval, UdpMeasurement)
    records: tuple[type[Any], ...] = (*of_both, *of_udp, *of_soak)
    names = {field.name for record in records for field in fields(record)}
    missing = [name for name in {*columns, *schema.metadata.tables, *names} if f"`{name}`" not in text]
    assert missing == []


def test_opening_a_store_of_this_format_changes_no_byte(path: Path) -> None:
    before = path.read_bytes()
    with Store.open(path) as store:
        store.runs()
    assert path.read_bytes() == before


@pytest.mark.parametrize("number", [schema.STORE_FORMAT + 1, 99])
def test_a_newer_format_is_refused_and_not_changed(path: Path, number: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO format VALUES (?, '9.0', '2031-01-01')", (number,))
    connection.close()
    before = path.read_bytes()
    with pytest.raises(WrongInput) as caught:
        Store.open(path)
    assert caught.value.message.startswith(f"{path}: the store has format {number}, but TunnelBench")
    assert "the version of TunnelBench that wrote it" in caught.value.hint
    assert path.read_bytes() == before


def add_operator(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE run ADD COLUMN operator TEXT"))


def name_operator(connection: Connection) -> None:
    connection.execute(text("UPDATE run SET operator = 'me'"))


def fail(connection: Connection) -> None:
    connection.execute(text("DROP TABLE trial_raw"))
    raise RuntimeError("a bug in an upgrade")


def test_an_older_store_is_upgraded_step_by_step_and_keeps_its_runs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = schema.STORE_FORMAT, schema.STORE_FORMAT + 2
    monkeypatch.setattr(schema, "STORE_FORMAT", last)
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, add_operator, name_operator))
    with Store.open(path) as store:
        assert store.change == f"{path}: upgraded from format {first} to {last}"
        assert len(store.trials(RUN_ID)) == store.run("last").trials_recorded == 20
    assert history(path) == list(range(first, last + 1))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT operator FROM run").fetchall() == [("me",)]
    connection.close()
    with Store.open(path) as store:
        assert store.change == ""


def test_a_new_store_needs_no_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "STORE_FORMAT", schema.STORE_FORMAT + 1)
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, fail))
    with Store.open(tmp_path / "results.sqlite") as store:
        assert store.change == ""
    assert history(tmp_path / "results.sqlite") == [schema.STORE_FORMAT]


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, add_operator, fail))
        patched.setattr(schema, "STORE_FORMAT", schema.STORE_FORMAT + 2)
        with pytest.raises(RuntimeError, match="a bug in an upgrade"):
            Store.open(path)
    assert history(path) == [schema.STORE_FORMAT]
    with Store.open(path) as store:
        assert store.trials(RUN_ID)[0].raw


def test_two_processes_may_make_one_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    look = migrations._number
    raced: list[bool] = []

    def look_and_lose(connection: Connection, name: str) -> int | None:
        found = look(connection, name)
        if not raced:
            raced.append(True)
            Store.open(path).close()
        return found

    monkeypatch.setattr(migrations, "_number", look_and_lose)
    with Store.open(path) as store:
        assert store.runs() == []
    assert history(path) == [schema.STORE_FORMAT]


def test_a_store_that_is_being_made_is_locked_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    look = migrations._number
    looks: list[None] = []

    def look_and_disturb(connection: Connection, name: str) -> int | None:
        looks.append(None)
        if len(looks) == 2:
            monkeypatch.setattr(migrations, "_number", look)
            with pytest.raises(CannotHere, match="another process"):
                Store.open(path, lock_wait_s=0.01)
        return look(connection, name)

    monkeypatch.setattr(migrations, "_number", look_and_disturb)
    Store.open(path).close()
    assert (len(looks), history(path)) == (2, [schema.STORE_FORMAT])
