"""The store of a team, on a real PostgreSQL: the same records, several writers, a server that restarts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import pytest
from sqlalchemy import Connection, NullPool, create_engine, make_url, text
from tests.postgresql import Cluster, server
from tests.unit.builders import make_proof, make_records, make_run, make_spec, make_trial
from tests.unit.store.test_format import add_operator, fail, name_operator

from tunnelbench.model.errors import CannotHere, StoreLost, WrongInput
from tunnelbench.store import migrations, schema
from tunnelbench.store.postgresql import Server
from tunnelbench.store.store import Store

__all__ = ["server"]

ENDED_AT = "2025-03-14T10:00:00+00:00"


def marked_soon(store: Store) -> list[str]:
    """Return the runs that are marked as abandoned, as soon as the server has noticed the end of a connection."""
    deadline = time.monotonic() + 60
    while not (marked := store.mark_abandoned(ENDED_AT)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return marked


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """A second connection, which commits its changes at the end."""
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
from tunnelbench.store.store import Store
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
        transactions = store._transactions
        engine = transactions.engine
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

        monkeypatch.setattr(transactions, "engine", AnswerLost())
        store.add_trial("a", make_trial(make_spec(1)))
        monkeypatch.setattr(transactions, "engine", engine)
        assert next(lost, "none left") == "none left"
        assert len(store.trials("a")) == 1


def test_a_server_that_stays_away_is_reported_after_a_bounded_wait(
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
        assert "check that the server is up" in caught.value.hint
        store.add_trial("a", make_trial(make_spec(1)))


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DROP TABLE trial_raw", 'relation "trial_raw" does not exist'),
        ("TRUNCATE run CASCADE", "run a is not in the store any more"),
        ("DELETE FROM trial_raw", "the store is damaged: the output of programs in 2 trials of run a is missing"),
    ],
)
def test_a_server_that_has_lost_trials_is_reported_as_lost(url: str, statement: str, why: str) -> None:
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        for record in make_records()[:2]:
            store.add_trial("a", record)
        store.require_kept("a", 2)
        with connected(url) as other:
            other.execute(text(statement))
        with pytest.raises(StoreLost) as caught:
            store.require_kept("a", 2)
    assert why in caught.value.message


@pytest.mark.parametrize(
    "place",
    ["me:secret@/nowhere?", "me@/nowhere?password=secret&", "/nowhere?PASSWORD=secret&", "/x?sslpassword=secret&"],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(server: Cluster, place: str) -> None:
    with pytest.raises(WrongInput, match="the URL has a password") as caught:
        Store.open(f"postgresql://{place}host={server.folder}")
    assert "secret" not in caught.value.message + caught.value.hint
    assert "service file of libpq" in caught.value.hint


def test_a_user_without_rights_gets_the_right_to_ask_for(server: Cluster, url: str) -> None:
    with connected(url) as connection:
        connection.execute(text("DROP ROLE IF EXISTS guest"))
        connection.execute(text("CREATE ROLE guest LOGIN"))
    with pytest.raises(CannotHere, match="permission denied") as caught:
        Store.open(url.replace("postgres@", "guest@"))
    assert "GRANT" in caught.value.hint


def test_an_older_format_is_upgraded_in_one_transaction(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(url).close()
    first = schema.STORE_FORMAT
    monkeypatch.setattr(schema, "STORE_FORMAT", first + 2)
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, add_operator, fail))
    with pytest.raises(RuntimeError, match="a bug in an upgrade"):
        Store.open(url)
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES[:-1], name_operator))
    with Store.open(url) as store:
        assert f"upgraded from format {first} to {first + 2}" in store.change
        assert store.runs() == []
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


CONTROLLER = """
import sys, time
from tests.unit.builders import make_run
from tunnelbench.store.store import Store
with Store.open(sys.argv[1]) as store, store.holding("a"):
    started_at = "2125-03-14T10:00:00+00:00"  # after the start of the server
    store.begin_run(make_run(run_id="a", started_at=started_at, status="running", ended_at=None))
    print("measuring", flush=True)
    time.sleep(600)
"""


def test_a_run_is_marked_when_its_controller_was_killed_and_not_before(url: str) -> None:
    argv = [sys.executable, "-c", CONTROLLER, url]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as controller, Store.open(url) as store:
        assert controller.stdout is not None
        assert controller.stdout.readline() == "measuring\n"
        assert store.mark_abandoned(ENDED_AT) == []
        assert store.run("a").status == "running"
        controller.kill()
        controller.wait()
        assert marked_soon(store) == ["a"]
        assert (store.run("a").status, store.run("a").ended_at) == ("killed", ENDED_AT)
        assert store.mark_abandoned(ENDED_AT) == []
        with store.holding("a"):
            store.resume_run("a")
            assert store.mark_abandoned(ENDED_AT) == []


def test_a_run_keeps_its_lock_over_a_restart_of_the_server(
    server: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(url) as store, Store.open(url) as other:
        with store.holding("a"):
            store.begin_run(make_run(run_id="a", status="running", ended_at=None))
            server.stop()
            server.start()
            assert other.mark_abandoned(ENDED_AT) == [], "its controller has not written since"
            store.add_trial("a", make_trial(make_spec(1)))
            monkeypatch.setattr("tunnelbench.store.postgresql.RETAKE_LIMIT_S", 0)
            assert other.mark_abandoned(ENDED_AT) == []
            with pytest.raises(CannotHere, match="run a is being measured by another"), other.holding("a"):
                pass
        assert marked_soon(other) == ["a"]


def test_a_run_that_another_process_took_over_after_a_restart_ends(server: Cluster, url: str) -> None:
    with Store.open(url) as store, Store.open(url) as other, store.holding("a"):
        store.begin_run(make_run(run_id="a", status="running", ended_at=None))
        server.stop()
        server.start()
        with other.holding("a"), pytest.raises(CannotHere, match="run a is being measured by another"):
            store.add_trial("a", make_trial(make_spec(1)))


def test_a_server_that_hangs_is_reported_and_signals_are_handled(
    server: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.store.store.END_ANSWER_S", 0.5)
    threads = threading.active_count()
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        with server.frozen(), pytest.raises(CannotHere, match="no answer"):
            store.end_run("a", "interrupted", "2025-03-14T00:00:00+00:00")
        while threading.active_count() > threads:  # the write that timed out is answered now
            time.sleep(0.01)
    with Store.open(url) as store:
        assert store.runs()


@pytest.mark.timeout(60)
def test_a_server_that_hangs_while_it_is_read_is_reported(
    server: Cluster, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        monkeypatch.setattr("tunnelbench.store.postgresql.STATEMENT_LIMIT_S", 0.5)
        with server.frozen(), pytest.raises(CannotHere) as caught:
            store.runs()
        assert caught.value.message.startswith(store.name)
        monkeypatch.undo()
        assert store.runs()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE run ALTER started_at TYPE timestamptz USING now()",
        "ALTER TABLE run ALTER host_facts TYPE json USING '{}'",
        "ALTER TABLE trial DROP CONSTRAINT trial_pkey CASCADE; ALTER TABLE trial ALTER sequence TYPE text",
        "ALTER TABLE run ALTER trials_recorded TYPE numeric USING 'NaN'",
        "ALTER TABLE run DROP CONSTRAINT run_pkey CASCADE; ALTER TABLE run ALTER run_id TYPE int[] USING '{1}'",
    ],
)
def test_tables_of_other_types_are_no_store(url: str, statement: str) -> None:
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        store.add_trial("a", make_trial(make_spec(1)))
        with connected(url) as other:
            other.execute(text(statement))

        def use() -> None:
            for run in store.runs():
                store.trials(run.run_id)
            store.add_trial("a", make_trial(make_spec(2)))

        with pytest.raises(CannotHere) as caught:
            use()
        assert caught.value.message.startswith(store.name)


def test_a_message_of_a_server_is_quoted_without_control_characters(url: str) -> None:
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        function = (
            "CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE '%', E'\\x1b]0;owned\\x07'; END $$"
        )
        with connected(url) as other:
            other.exec_driver_sql(function.replace("%", "%%"))
            other.execute(text("ALTER TABLE run RENAME TO kept"))
            other.execute(text("CREATE VIEW run AS SELECT *, f() FROM kept"))
        with pytest.raises(CannotHere) as caught:
            store.run("a")
        assert "\x1b" not in caught.value.message


@pytest.mark.timeout(60)
def test_a_table_that_another_session_locks_is_reported_after_a_bounded_wait(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tunnelbench.store.postgresql.TABLE_LOCK_WAIT_S", 0.2)
    with Store.open(url) as store:
        store.begin_run(make_run(run_id="a"))
        for use in (store.runs, lambda: store.end_run("a", "done", ENDED_AT)):
            with connected(url) as other:
                other.execute(text("LOCK TABLE run IN ACCESS EXCLUSIVE MODE"))
                with pytest.raises(CannotHere, match="lock timeout") as caught:
                    use()
            assert caught.value.hint.startswith("another session has locked a table")
        store.end_run("a", "done", ENDED_AT)
        assert store.run("a").status == "done"


def test_a_password_in_a_text_that_is_no_url_is_not_repeated() -> None:
    with pytest.raises(WrongInput) as wrong:
        Store.open("post gres://me:secret@host/results")
    assert "secret" not in wrong.value.message + wrong.value.hint


def test_a_server_that_is_no_postgresql_is_a_users_error() -> None:
    message = "Could not determine version from string '\x1b[2J'"  # of SQLAlchemy
    with (
        pytest.raises(CannotHere, match="the server is no PostgreSQL"),
        Server(make_url("postgresql://u@h/n")).explained(),
    ):
        raise AssertionError(message)
    with pytest.raises(AssertionError, match="a bug"), Server(make_url("postgresql://u@h/n")).explained():
        raise AssertionError("a bug")


@contextmanager
def cut_off(store: Store) -> Iterator[None]:
    """A network that breaks the connection of the run's lock; the server does not notice, and keeps its session."""
    lock = cast("Server", store._transactions.database)._run_lock
    assert lock is not None
    assert lock._connection is not None
    number = lock._connection.connection.driver_connection.fileno()  # type: ignore[union-attr]
    kept, (broken, other_end) = os.dup(number), socket.socketpair()
    with broken, other_end:
        other_end.close()
        os.dup2(broken.fileno(), number)
    try:
        yield
    finally:
        os.close(kept)


def test_a_run_keeps_its_lock_if_the_network_breaks_and_the_server_does_not_notice(url: str) -> None:
    with Store.open(url) as store, Store.open(url) as other, store.holding("a"):
        store.begin_run(make_run(run_id="a", status="running", ended_at=None))
        with cut_off(store):
            store.add_trial("a", make_trial(make_spec(1)))
            assert other.mark_abandoned(ENDED_AT) == []
            with pytest.raises(CannotHere, match="run a is being measured by another"), other.holding("a"):
                pass
        assert len(other.trials("a")) == 1
