"""The stored format: older ones are brought up to date, newer ones are left alone, another database takes the same."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.soak_builders import sample_soak
from tests.unit.store.make_sample import SAMPLES, TUNNELS, put_soak

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.result import (
    Check,
    CpuInterval,
    CpuUsage,
    Interval,
    Outcome,
    PathCounters,
    Ping,
    TcpMeasurement,
    TrialRecord,
    TunnelProof,
    Window,
)
from tunnelbench.model.search import Classification, SearchPoint, SearchRun
from tunnelbench.model.soak import Soak, SoakChunk, SoakEvent, SoakPart, SoakReading
from tunnelbench.model.udp import Burst, Delays, UdpCounts, UdpInterval, UdpMeasurement
from tunnelbench.store import Store, migrations, schema, upgrade


def history(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    numbers = [number for (number,) in connection.execute("SELECT number FROM format ORDER BY number")]
    connection.close()
    return numbers


def test_there_is_a_way_up_from_each_older_format() -> None:
    assert len(migrations.MIGRATIONS) == schema.FORMAT - 1


def test_there_is_a_sample_of_each_format() -> None:
    assert sorted(path.name for path in SAMPLES.iterdir()) == [
        f"format-{number}.sqlite" for number in range(1, schema.FORMAT + 1)
    ]


@pytest.mark.parametrize("number", range(1, schema.FORMAT + 1))
def test_a_store_of_each_format_still_opens(tmp_path: Path, number: int) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{number}.sqlite", path)
    with Store.open(path) as store:
        run = store.run("last")
        records = store.trials(run.run_id)
    assert (run.run_id, run.status, run.trials_recorded) == ("20250314-092653-quick", "done", 20)
    assert {record.spec.tunnel.name for record in records} == TUNNELS
    assert {record.outcome for record in records} == {Outcome.MEASURED, Outcome.REFUSED, Outcome.UNAVAILABLE}
    first = records[4]
    assert first.tcp is not None
    assert first.proof is not None
    assert round(first.tcp.throughput_bps / 1e6) == 2314
    assert first.proof.versions == {"router.linux": "6.18", "server.linux": "6.18"}
    assert first.raw["ping"] == "100 received"


def test_the_sample_of_this_format_is_what_is_written_now(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{schema.FORMAT}.sqlite", path)
    with Store.open(path) as store:
        assert store.trials("20250314-092653-quick") == sample_records()


def sample_records() -> list[TrialRecord]:
    return [record for record in make_records(rounds=1) if record.spec.tunnel.name in TUNNELS]


def test_the_sample_of_this_format_has_the_speeds_of_ciphers(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{schema.FORMAT}.sqlite", path)
    with Store.open(path) as store:
        assert store.cipher_speeds("20250314-092653-quick") == list(make_speeds())


def test_a_run_of_an_older_format_has_no_speeds_and_can_be_given_some(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / "format-2.sqlite", path)
    with Store.open(path) as store:
        assert store.cipher_speeds("20250314-092653-quick") == []
        for speed in make_speeds():
            store.add_cipher_speed("20250314-092653-quick", speed)
        assert store.cipher_speeds("20250314-092653-quick") == list(make_speeds())


def test_the_sample_of_this_format_has_a_soak(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{schema.FORMAT}.sqlite", path)
    soak, chunks = sample_soak()
    with Store.open(path) as store:
        tables = store.soaks("20250314-092653-quick")
        assert tables.all() == [soak]
        assert list(tables.chunks(soak.spec.sequence)) == chunks


def test_a_run_of_an_older_format_has_no_soaks_and_can_be_given_one(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / "format-4.sqlite", path)
    with Store.open(path) as store:
        assert store.soaks("20250314-092653-quick").all() == []
        put_soak(store, "20250314-092653-quick")
        assert store.soaks("20250314-092653-quick").all() == [sample_soak()[0]]


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


def test_opening_a_store_of_this_format_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{schema.FORMAT}.sqlite", path)
    before = path.read_bytes()
    with Store.open(path) as store:
        store.runs()
    assert path.read_bytes() == before


def test_a_newer_format_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{schema.FORMAT}.sqlite", path)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO format VALUES (99, '9.0', '2031-01-01')")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(WrongInput) as caught:
        Store.open(path)
    assert caught.value.message.startswith(f"{path}: the store has format 99, and this TunnelBench")
    assert "newer" in caught.value.hint
    assert path.read_bytes() == before


def add_column(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE run ADD COLUMN operator TEXT"))


def fail(connection: Connection) -> None:
    connection.execute(text("DROP TABLE trial_raw"))
    raise RuntimeError("a bug in a migration")


def test_an_older_store_is_kept_as_it_was_beside_the_new_one(tmp_path: Path) -> None:
    path, copy = tmp_path / "results.sqlite", tmp_path / "results.format-1.sqlite"
    shutil.copy(SAMPLES / "format-1.sqlite", path)
    with Store.open(path) as store:
        assert store.change == (
            f"{path}: brought from format 1 to {schema.FORMAT}; the store as it was is kept as {copy}"
        )
        [run], [sample_run] = store.runs(), [make_run()]
        assert run == replace(sample_run, trials_recorded=20)
        # The synthetic calibration is another since that sample was made.
        measured = [
            [record for record in own if record.spec.round] for own in (store.trials(run.run_id), sample_records())
        ]
        assert measured[0] == measured[1] != []
    assert history(copy) == [1]
    assert dump(copy) == dump(SAMPLES / "format-1.sqlite")
    assert copy.stat().st_mode & 0o777 == 0o600
    with Store.open(path) as store:
        assert store.change == ""


def dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    lines = list(connection.iterdump())
    connection.close()
    return lines


def test_a_copy_that_is_kept_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    for name in ("results.format-1.sqlite", "results.format-1-2.sqlite"):
        (tmp_path / name).write_text("somebody's")
    shutil.copy(SAMPLES / "format-1.sqlite", path)
    with Store.open(path) as store:
        assert store.change.endswith("results.format-1-3.sqlite")
    assert (tmp_path / "results.format-1.sqlite").read_text() == "somebody's"


def test_without_room_for_the_copy_nothing_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / "format-1.sqlite", path)

    def no_room(path: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", no_room)
        with pytest.raises(CannotHere, match="No space left on device"):
            Store.open(path)
    assert history(path) == [1]
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".partial"] == []


def test_a_migrated_store_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old.sqlite", tmp_path / "new.sqlite"
    shutil.copy(SAMPLES / "format-1.sqlite", old)
    columns = []
    for path in (old, new):
        Store.open(path).close()
        connection = sqlite3.connect(path)
        columns.append(
            {
                name: {(row[1], row[3]) for row in connection.execute(f"PRAGMA table_info({name})")}
                for name in schema.metadata.tables
            }
        )
        connection.close()
    assert columns[0] == columns[1]


def test_an_older_store_is_migrated_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    Store.open(path).close()
    later = schema.FORMAT + 2
    monkeypatch.setattr(schema, "FORMAT", later)
    monkeypatch.setattr(
        migrations,
        "MIGRATIONS",
        (
            *migrations.MIGRATIONS,
            add_column,
            lambda connection: connection.execute(text("UPDATE run SET operator = 'me'")),
        ),
    )
    Store.open(path).close()
    assert history(path) == list(range(schema.FORMAT - 2, later + 1))
    Store.open(path).close()
    assert len(history(path)) == 3


def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    shutil.copy(SAMPLES / f"format-{schema.FORMAT}.sqlite", path)
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, add_column, fail))
        patched.setattr(schema, "FORMAT", schema.FORMAT + 2)
        with pytest.raises(RuntimeError, match="a bug in a migration"):
            Store.open(path)
    assert history(path) == [schema.FORMAT]
    with Store.open(path) as store:
        assert store.trials("20250314-092653-quick")[0].raw


def test_two_processes_may_make_one_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    look = upgrade._number
    raced: list[bool] = []

    def look_and_lose(connection: Connection, name: str) -> int | None:
        found = look(connection, name)
        if not raced:
            raced.append(True)
            Store.open(path).close()
        return found

    monkeypatch.setattr(upgrade, "_number", look_and_lose)
    with Store.open(path) as store:
        assert store.runs() == []
    assert history(path) == [schema.FORMAT]


def test_a_store_that_is_being_made_is_locked_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.sqlite"
    look = upgrade._number
    looks: list[None] = []

    def look_and_disturb(connection: Connection, name: str) -> int | None:
        looks.append(None)
        if len(looks) == 2:
            monkeypatch.setattr(upgrade, "_number", look)
            with pytest.raises(CannotHere, match="another process"):
                Store.open(path, lock_wait_s=0.01)
        return look(connection, name)

    monkeypatch.setattr(upgrade, "_number", look_and_disturb)
    Store.open(path).close()
    assert (len(looks), history(path)) == (2, [schema.FORMAT])
