"""The store returns what was stored, however the process ends."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.builders import make_proof, make_records, make_run, make_spec, make_speeds, make_trial

from tunnelbench.model.errors import CannotHere, StoreLost, WrongInput
from tunnelbench.model.result import Check, Verdict
from tunnelbench.store.location import default_path
from tunnelbench.store.sqlite import WRITES
from tunnelbench.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as opened:
        yield opened


def add_runs(store: Store, *run_ids: str) -> None:
    """Runs that started one hour after the other."""
    for number, run_id in enumerate(run_ids):
        started = datetime(2025, 3, 14, number, tzinfo=UTC)
        store.begin_run(make_run(run_id=run_id, started_at=started.isoformat(), trials_recorded=0))


def test_a_whole_run_comes_back_as_it_was(store: Store) -> None:
    run, records = make_run(), make_records()
    store.begin_run(run)
    for record in records:
        store.add_trial(run.run_id, record)
    assert store.run(run.run_id) == run
    assert store.trials(run.run_id) == list(records)


def test_a_run_that_has_begun_knows_how_many_trials_it_holds_so_far(store: Store) -> None:
    store.begin_run(make_run(status="running", ended_at=None))
    for record in make_records()[:5]:
        store.add_trial("20250314-092653-quick", record)
    (run,) = store.runs()
    assert (run.status, run.ended_at, run.trials_recorded, run.trials_planned) == ("running", None, 5, 100)


def test_a_run_ends_with_a_status_and_a_time(store: Store) -> None:
    add_runs(store, "a", "b")
    ended_at = (datetime(2025, 3, 14, tzinfo=UTC) + timedelta(minutes=3)).isoformat()
    store.end_run("a", "interrupted", ended_at)
    assert (store.run("a").status, store.run("a").ended_at) == ("interrupted", ended_at)
    assert store.run("b").status == "done"


def test_trials_come_back_in_the_order_in_which_they_ran(store: Store) -> None:
    add_runs(store, "a")
    for sequence in (3, 1, 2):
        store.add_trial("a", make_trial(make_spec(sequence)))
    assert [record.spec.sequence for record in store.trials("a")] == [1, 2, 3]


def test_each_run_has_its_own_trials(store: Store) -> None:
    add_runs(store, "a", "b")
    store.add_trial("a", make_trial(make_spec(1, tunnel="vxlan")))
    store.add_trial("b", make_trial(make_spec(1, tunnel="wireguard-go")))
    assert [record.spec.tunnel.name for record in store.trials("a")] == ["vxlan"]
    assert [run.trials_recorded for run in store.runs()] == [1, 1]


def test_a_trial_is_never_stored_twice(store: Store) -> None:
    add_runs(store, "a")
    store.add_trial("a", make_trial(make_spec(1)))
    with pytest.raises(ValueError, match="trial 1 of run a is stored already"):
        store.add_trial("a", make_trial(make_spec(1, tunnel="vxlan"), proof=make_proof("vxlan")))
    (record,) = store.trials("a")
    assert record.spec.tunnel.name == "none"


def test_a_trial_of_an_unknown_run_is_a_bug_and_leaves_nothing(store: Store) -> None:
    with pytest.raises(ValueError, match="no such run"):
        store.add_trial("nowhere", make_trial(proof=make_proof()))
    assert rows_in(store, "trial") == rows_in(store, "proof") == 0


def test_a_run_is_never_stored_twice(store: Store) -> None:
    add_runs(store, "a")
    with pytest.raises(ValueError, match="a run a is stored already"):
        store.begin_run(make_run(run_id="a"))


def test_only_a_run_that_is_kept_can_end(store: Store) -> None:
    with pytest.raises(ValueError, match="there is no run nowhere"):
        store.end_run("nowhere", "done", "2025-03-14T00:00:00+00:00")


def test_a_proof_that_trials_share_is_stored_once_and_shared_again(store: Store) -> None:
    add_runs(store, "a", "b")
    proof, other = make_proof("vxlan"), make_proof("none")
    for sequence, each in enumerate([proof, proof, make_proof("vxlan"), other, None], start=1):
        store.add_trial("a", make_trial(make_spec(sequence), proof=each))
    store.add_trial("b", make_trial(make_spec(1), proof=proof))
    first, second, third, fourth, fifth = store.trials("a")
    assert first.proof is second.proof is third.proof
    assert (first.proof, fourth.proof, fifth.proof) == (proof, other, None)
    assert store.trials("b")[0].proof == proof
    assert rows_in(store, "proof") == 2


def test_proofs_that_differ_only_in_what_programs_printed_are_two(store: Store) -> None:
    add_runs(store, "a")
    proof = make_proof()
    store.add_trial("a", make_trial(make_spec(1), proof=proof))
    store.add_trial("a", make_trial(make_spec(2), proof=replace(proof, raw={"router.log": "another key"})))
    assert [record.proof and record.proof.raw["router.log"] for record in store.trials("a")] == [
        proof.raw["router.log"],
        "another key",
    ]


def test_without_raw_all_is_read_but_what_programs_printed(store: Store) -> None:
    add_runs(store, "a")
    record = make_trial(proof=make_proof())
    store.add_trial("a", record)
    assert record.proof is not None
    bare = replace(record, raw={}, proof=replace(record.proof, raw={}))
    assert store.trials("a", with_raw=False) == [bare]


def test_the_order_of_versions_is_kept(store: Store) -> None:
    add_runs(store, "a")
    versions = {"router.tinc": "1.0.36", "server.tinc": "1.0.36", "router.openssl": "3.0.19"}
    store.add_trial("a", make_trial(proof=replace(make_proof(), versions=versions)))
    proof = store.trials("a")[0].proof
    assert proof is not None
    assert list(proof.versions) == list(versions)


def test_bytes_that_are_no_text_do_not_lose_a_trial(store: Store) -> None:
    add_runs(store, "a")
    undecoded = b"iperf3: \xff\0".decode(errors="surrogateescape")
    store.add_trial("a", replace(make_trial(), reason=undecoded, raw={"iperf3": undecoded}))
    (record,) = store.trials("a")
    assert record.reason == "iperf3: ?\N{REPLACEMENT CHARACTER}"
    assert record.raw == {"iperf3": "iperf3: ?\0"}


class TestReference:
    def test_runs_are_listed_newest_first_and_last_is_the_newest(self, store: Store) -> None:
        add_runs(store, "c", "a", "b")
        assert [run.run_id for run in store.runs()] == ["b", "a", "c"]
        assert store.run("last").run_id == "b"

    def test_last_is_the_last_run_that_ended(self, store: Store) -> None:
        add_runs(store, "a", "b")
        store.resume_run("b")
        assert store.run("last").run_id == "a"
        store.resume_run("a")
        assert store.run("last").run_id == "b"  # none has ended

    def test_the_beginning_of_an_id_is_enough_where_it_is_the_only_one(self, store: Store) -> None:
        add_runs(store, "20250314-quick", "20250315-quick")
        assert store.run("20250314").run_id == "20250314-quick"

    def test_an_id_that_begins_another_means_itself(self, store: Store) -> None:
        add_runs(store, "run", "run-2")
        assert store.run("run").run_id == "run"

    def test_a_beginning_of_several_names_them(self, store: Store) -> None:
        add_runs(store, "20250314-quick", "20250314-wr841n", "20250315-quick")
        with pytest.raises(WrongInput) as caught:
            store.run("20250314")
        assert caught.value.message == "2 runs begin with '20250314'"
        assert caught.value.hint == "which one: 20250314-wr841n, 20250314-quick"

    @pytest.mark.parametrize("reference", ["nonsense", "%", "_0", "A", "a-quick\0", "\udcff", "é"])
    def test_an_unknown_one_names_the_known_ones(self, store: Store, reference: str) -> None:
        add_runs(store, "a-quick", "b-quick")
        with pytest.raises(WrongInput) as caught:
            store.run(reference)
        assert caught.value.message == f"there is no run {reference!r}"
        assert caught.value.hint == "runs: last, b-quick, a-quick"

    def test_of_many_known_runs_the_newest_are_named(self, store: Store) -> None:
        add_runs(store, *(f"run-{number:02}" for number in range(14)))
        with pytest.raises(WrongInput) as caught:
            store.run("nonsense")
        assert caught.value.hint.endswith("run-05, run-04 and 4 more")

    def test_an_empty_store_says_how_to_get_a_run(self, store: Store) -> None:
        with pytest.raises(WrongInput, match="there are no runs yet") as caught:
            store.run("last")
        assert caught.value.hint == "measure: tunnelbench run"


def test_a_trial_that_was_stored_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        store = Store.open(path)
        add_runs(store, "a")
        store.add_trial("a", make_trial(proof=make_proof()))
        os.write(writable, b"stored")
        signal.pause()
    try:
        assert os.read(readable, 6) == b"stored"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(readable)
        os.close(writable)
    with Store.open(path) as store:
        assert store.trials("a") == [make_trial(proof=make_proof())]


def test_each_commit_is_on_the_disk_before_it_returns(store: Store) -> None:
    with store._transactions.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as writer, Store.open(path, lock_wait_s=0.1) as reader:
        add_runs(writer, "a")
        with writer._transactions.engine.execution_options(**{WRITES: True}).begin() as connection:
            connection.exec_driver_sql("DELETE FROM run")
            assert [run.run_id for run in reader.runs()] == ["a"]
        assert reader.runs() == []


def test_only_the_owner_may_read_results_and_the_directories_made_for_them(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tunnelbench" / "results.sqlite"
    before = tmp_path.stat().st_mode
    with Store.open(path) as store:
        add_runs(store, "a")
        files = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert files == {"results.sqlite": 0o600, "results.sqlite-wal": 0o600, "results.sqlite-shm": 0o600}
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path.parent.parent)] == [0o700, 0o700]
    assert tmp_path.stat().st_mode == before


def test_a_store_that_is_not_to_be_made_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.sqlite"
    with pytest.raises(WrongInput) as caught:
        Store.open(path, create=False)
    assert caught.value.message == f"there are no results yet at {path}"
    assert not path.parent.exists()


def test_a_store_is_also_named_by_a_url(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/results.sqlite") as store:
        add_runs(store, "a")
    with Store.open(str(tmp_path / "results.sqlite"), create=False) as store:
        assert store.run("last").run_id == "a"
        assert store.name == str(tmp_path / "results.sqlite")


@pytest.mark.parametrize(
    ("data_home", "expected"),
    [
        ("/srv/data", "/srv/data/tunnelbench/results.sqlite"),
        ("", "/home/someone/.local/share/tunnelbench/results.sqlite"),
        ("relative/is/ignored", "/home/someone/.local/share/tunnelbench/results.sqlite"),
    ],
)
def test_results_are_kept_where_the_user_keeps_data(
    monkeypatch: pytest.MonkeyPatch, data_home: str, expected: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", data_home)
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_path() == Path(expected)


def rows_in(store: Store, table: str) -> int:
    with store._transactions.engine.connect() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())  # noqa: S608


def test_speeds_of_ciphers_come_back_in_their_order_and_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "results.sqlite") as store:
        store.begin_run(make_run(run_id="a"))
        assert store.cipher_speeds("a") == []
        for speed in reversed(make_speeds()):
            store.add_cipher_speed("a", speed)
        assert store.cipher_speeds("a") == list(reversed(make_speeds()))
        with pytest.raises(ValueError, match="stored already"):
            store.add_cipher_speed("a", make_speeds()[0])
        with pytest.raises(ValueError, match="no such run"):
            store.add_cipher_speed("b", make_speeds()[0])


def test_what_disturbed_a_speed_comes_back_with_it(tmp_path: Path) -> None:
    check = Check("foreign-load", Verdict.DOUBTFUL, "other processes took 7.0% of a CPU", 12)
    speed = replace(make_speeds()[0], bracket_s=6.1, foreign_cpu_s=0.427, waited_for_quiet_s=3.5, checks=(check,))
    with Store.open(tmp_path / "results.sqlite") as store:
        store.begin_run(make_run(run_id="a"))
        store.add_cipher_speed("a", speed)
        assert store.cipher_speeds("a") == [speed]


def test_a_speed_that_is_missing_or_changed_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="a"))
        for speed in make_speeds():
            store.add_cipher_speed("a", speed)
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("DELETE FROM cipher_speed WHERE algorithm = 'bf-cbc'")
        with pytest.raises(CannotHere, match="recorded 3 speeds of ciphers, and the store has 2 of them"):
            store.cipher_speeds("a")
        with connection:  # a row that is not intact is reported before a missing one
            connection.execute("UPDATE cipher_speed SET speed = replace(speed, '800', '900')")
        connection.close()
        with pytest.raises(CannotHere, match="is not what was stored"):
            store.cipher_speeds("a")


def test_only_the_trials_that_are_asked_for_are_read(store: Store) -> None:
    add_runs(store, "a")
    records = [replace(make_trial(make_spec(number)), raw={"ping": f"{number} packets"}) for number in (1, 2, 3)]
    for record in records:
        store.add_trial("a", record)
    assert store.trials("a", only=[2]) == [records[1]]
    assert store.trials("a", only=[]) == []


@pytest.mark.parametrize("run_id", ["../../tmp/theirs", "..", ".", "", "a/b", "-rf", "x" * 101, "a\n"])
def test_a_run_whose_id_is_no_name_of_a_file_is_refused(tmp_path: Path, run_id: str) -> None:
    """The id of a run becomes the name of a folder in which root runs undo commands, and which it deletes."""
    with Store.open(tmp_path / "theirs.sqlite") as store:
        store.begin_run(make_run(run_id=run_id))
        for read in (store.runs, lambda: store.run(run_id or "last")):
            with pytest.raises(CannotHere, match="no run has the id"):
                read()


def test_chosen_runs_are_returned_and_checked_for_lost_trials(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    records = make_records(1)
    with Store.open(path) as store:
        for day, (run_id, testbed) in enumerate((("a", "attic"), ("b", "cellar"), ("c", "attic")), start=1):
            started = f"2026-01-0{day}T00:00:00+00:00"
            store.add_run(make_run(run_id=run_id, started_at=started, testbed_name=testbed), records, ())

        def ids(**chosen: Any) -> list[str]:
            return [run.run_id for run in store.runs(**chosen)]

        assert ids(newest=2) == ["c", "b"]
        assert ids(only=["a", "b", "no such run"]) == ["b", "a"]
        assert ids(testbed="attic", newest=1) == ["c"]
        assert store.count_runs() == 3
        with closing(sqlite3.connect(path)) as connection:
            for table in ("trial_raw", "trial"):
                connection.execute(f"DELETE FROM {table} WHERE run_id = 'a' AND sequence = 1")  # noqa: S608
            connection.commit()
        assert ids(newest=2) == ["c", "b"]
        with pytest.raises(StoreLost):
            ids(only=["a"])
