"""The store of a team, on a real PostgreSQL: the same records, several writers, a server that restarts."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import Connection, MetaData, NullPool, create_engine, event, insert, inspect, select, text
from tests.postgresql import Cluster, cluster
from tests.unit.builders import make_proof, make_records, make_run, make_spec, make_trial
from tests.unit.store.make_sample import SAMPLES

from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.store import Store, schema
from tunnelbench.store.server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A connection beside the store's, its changes committed at the end."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        yield connection


@pytest.fixture
def url(server: Cluster) -> str:
    return server.new_database()


def test_a_whole_run_comes_back_as_it_was(url: str) -> None:
    run, records = make_run(), make_records()
    with Store.open(url) as store:
        store.begin_run(run)
        for record in records:
            store.add_trial(run.run_id, record)
        store.end_run(run.run_id, run.status, str(run.ended_at))
    with Store.open(url, create=False) as store:
        assert store.runs() == [replace(run, trials_recorded=len(records))]
        assert store.trials(run.run_id) == list(records)


def test_what_text_columns_cannot_hold_does_not_lose_a_trial(url: str) -> None:
    hostile = replace(make_trial(make_spec(1)), raw={"ping": "\0 \udcff", "list": ["\0"]})
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a", plan_title="a\0b"))
        store.add_trial("a", hostile)
        assert len(store.trials("a")) == 1


def test_a_trial_and_a_run_are_never_stored_twice(url: str) -> None:
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        store.add_trial("a", make_trial(make_spec(1)))
        with pytest.raises(ValueError, match="stored already"):
            store.add_trial("a", make_trial(make_spec(1)))
        with pytest.raises(ValueError, match="stored already"):
            store.begin_run(make_run(run_id="a"))
        with pytest.raises(ValueError, match="no such run"):
            store.add_trial("b", make_trial(make_spec(1)))
        assert len(store.trials("a")) == 1


WRITER = """
import sys
from tests.unit.builders import make_proof, make_run, make_spec, make_trial
from tunnelbench.store import Store
url, run_id, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Store.open(url) as store:
    store.begin_run(make_run(run_id=run_id))
    for sequence in range(1, trials + 1):
        store.add_trial(run_id, make_trial(make_spec(sequence), proof=make_proof()))
        print(sequence, flush=True)
"""


def writer(url: str, run_id: str, trials: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", WRITER, url, run_id, str(trials)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_several_machines_may_begin_a_store_and_write_at_once(url: str) -> None:
    writers = [writer(url, run_id, 20) for run_id in "abcd"]
    for process in writers:
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0, errors
    with Store.open(url) as store:
        assert {run.run_id: run.trials_recorded for run in store.runs()} == dict.fromkeys("abcd", 20)
        for run_id in "abcd":
            assert [record.spec.sequence for record in store.trials(run_id)] == list(range(1, 21))
    with connected(url) as connection:
        assert connection.scalar(text("SELECT count(*) FROM proof")) == 1


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts_loses_no_acknowledged_trial_and_stores_none_twice(
    server: Cluster, url: str, mode: str
) -> None:
    trials = 400
    with writer(url, "a", trials) as process:
        assert process.stdout is not None
        for restarted_after in (10, 60, 110):
            for line in process.stdout:
                if int(line) >= restarted_after:
                    break
            server.stop(mode)
            server.start()
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    with Store.open(url) as store:
        assert [record.spec.sequence for record in store.trials("a")] == list(range(1, trials + 1))


def test_a_commit_whose_answer_was_lost_is_recognised(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        engine = store._engine
        lost = iter([True])

        class AnswerLost:
            """Commits, and then the connection breaks."""

            def execution_options(self, **options: object) -> AnswerLost:
                return self

            def begin(self) -> AnswerLost:
                self.block = engine.begin()
                return self

            def __enter__(self) -> object:
                return self.block.__enter__()

            def __exit__(self, *error: object) -> None:
                self.block.__exit__(*error)  # type: ignore[arg-type]
                if next(lost, False):
                    with engine.begin() as connection:
                        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

        monkeypatch.setattr(store, "_engine", AnswerLost())
        store.add_trial("a", make_trial(make_spec(1)))
        monkeypatch.setattr(store, "_engine", engine)
        assert next(lost, "none left") == "none left"
        assert len(store.trials("a")) == 1


def test_a_server_that_stays_away_is_told_after_a_bounded_wait(
    server: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "patience_s", 1.0)
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        server.stop()
        try:
            with pytest.raises(CannotHere) as caught:
                store.add_trial("a", make_trial(make_spec(1)))
            with pytest.raises(CannotHere):
                Store.open(url)
        finally:
            server.start()
        assert "is the server up" in caught.value.hint
        store.add_trial("a", make_trial(make_spec(1)))


def test_a_password_is_never_shown(server: Cluster) -> None:
    with pytest.raises(CannotHere) as caught:
        Store.open(f"postgresql://me:secret@/nowhere?host={server.folder}")
    assert "secret" not in caught.value.message + caught.value.hint
    assert "me" in caught.value.message


def test_a_user_without_rights_is_told_which(server: Cluster, url: str) -> None:
    with connected(url) as connection:
        connection.execute(text("DROP ROLE IF EXISTS guest"))
        connection.execute(text("CREATE ROLE guest LOGIN"))
    with pytest.raises(CannotHere, match="permission denied") as caught:
        Store.open(url.replace("postgres@", "guest@"))
    assert "GRANT" in caught.value.hint


def put_sample(url: str, number: int) -> None:
    """The sample of a format, as tables of that format on the server."""
    tables = MetaData()
    # SQLite's names of types are not everybody's.
    event.listen(tables, "column_reflect", lambda _inspector, _table, info: info.update(type=info["type"].as_generic()))
    with connected(f"sqlite:///{SAMPLES}/format-{number}.sqlite") as source, connected(url) as target:
        tables.reflect(source)
        tables.create_all(target)
        for table in tables.sorted_tables:
            target.execute(insert(table), [dict(row) for row in source.execute(select(table)).mappings()])


@pytest.mark.parametrize("number", range(1, schema.FORMAT))
def test_an_older_format_is_brought_up_and_its_tables_are_kept(url: str, number: int) -> None:
    put_sample(url, number)
    with Store.open(url) as store:
        assert f"brought from format {number} to {schema.FORMAT}" in store.change
        assert len(store.trials("20250314-092653-quick")) == 20
    with connected(url) as connection:
        names = set(inspect(connection).get_table_names())
        assert {f"trial_format_{number}", f"run_format_{number}", f"proof_format_{number}"} <= names
        kept = {column["name"] for column in inspect(connection).get_columns(f"run_format_{number}")}
        assert kept < {column["name"] for column in inspect(connection).get_columns("run")}
    with Store.open(url) as store:
        assert store.change == ""


def test_a_newer_format_is_refused(url: str) -> None:
    Store.open(url).close()
    with connected(url) as connection:
        connection.execute(text("INSERT INTO format VALUES (99, '9.0', '2031-01-01')"))
    with pytest.raises(WrongInput, match="the store has format 99"):
        Store.open(url)


def test_a_proof_that_two_runs_share_is_stored_once(url: str) -> None:
    with Store.open(url) as store:
        for run_id in "ab":
            store.begin_run(make_run(run_id=run_id))
            store.add_trial(run_id, make_trial(make_spec(1), proof=make_proof()))
        assert store.trials("a")[0].proof == store.trials("b")[0].proof == make_proof()


def test_who_reads_while_others_write_sees_one_moment(url: str) -> None:
    with writer(url, "a", 150) as process, Store.open(url) as store:
        assert process.stdout is not None
        for line in process.stdout:
            store.runs()
            assert len(store.trials("a")) >= int(line)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_writers_do_without_the_isolation_that_a_server_has_by_default(url: str) -> None:
    with connected(url) as connection:
        name = connection.scalar(text("SELECT current_database()"))
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
    writers = [writer(url, run_id, 10) for run_id in "abc"]
    for process in writers:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


def test_two_machines_cannot_measure_one_run(url: str) -> None:
    with Store.open(url) as one, Store.open(url) as other:
        with one.holding("a"):
            with pytest.raises(CannotHere, match="run a is being measured by another machine"), other.holding("a"):
                pass
            with other.holding("b"):
                pass
        with other.holding("a"):
            pass


def test_tables_of_others_are_not_copied(url: str) -> None:
    put_sample(url, 1)
    with connected(url) as connection:
        connection.execute(text("CREATE TABLE customers (name TEXT)"))
    Store.open(url).close()
    with connected(url) as connection:
        assert "customers_format_1" not in inspect(connection).get_table_names()


def test_a_server_that_hangs_is_told_and_a_request_to_end_is_heard(
    server: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.store.store.END_ANSWER_S", 0.5)
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        with server.frozen(), pytest.raises(CannotHere, match="no answer"):
            store.end_run("a", "interrupted", "2025-03-14T00:00:00+00:00")
        while threading.active_count() > 1:  # what was asked then is answered now
            time.sleep(0.01)
    with Store.open(url) as store:
        assert store.runs()


def test_a_password_in_the_query_is_never_shown(server: Cluster) -> None:
    with pytest.raises(CannotHere) as caught:
        Store.open(f"postgresql:///nowhere?host={server.folder}&user=postgres&password=secret")
    assert "secret" not in caught.value.message + caught.value.hint
    with pytest.raises(WrongInput) as wrong:
        Store.open("post gres://me:secret@host/results")
    assert "secret" not in wrong.value.message + wrong.value.hint
