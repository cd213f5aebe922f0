"""Stores runs with their trials, cipher speeds and soaks, and reads them back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, Table, case, func, insert, literal, select, tuple_
from sqlalchemy.exc import IntegrityError

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import StoreAway, StoreLost, WrongInput
from tunnelbench.model.plan import CALIBRATION_KIND
from tunnelbench.model.result import IMPORTED, RUNNING, Outcome, RunRecord, TrialRecord, TunnelProof, Verdict
from tunnelbench.model.text import are, counted, printable
from tunnelbench.store import migrations, rows
from tunnelbench.store.checksum import change_row
from tunnelbench.store.database import Database, database_of
from tunnelbench.store.progress import ProgressTable
from tunnelbench.store.schema import cipher_speed, proof, run, trial, trial_raw
from tunnelbench.store.soaks import SoakTables
from tunnelbench.store.transactions import ANSWER_S, Transactions, is_stored, within

VALID_RUN_ID = re.compile(r"\w[\w.-]{0,99}")
"""Ids of runs that the store accepts: they become names of files and folders, which root makes, cleans and deletes."""

LAST = "last"
"""The reference to the newest run."""
LOCK_WAIT_S = 10.0
"""Longest wait for another process that writes [s]; a commit takes milliseconds."""
LONGEST_SHOWN_ID = 100
NAMED_IN_HINT = 10
"""Largest number of runs that a hint names."""
WHOLE_ANSWER_S = 60.0
"""Longest time of a transaction that stores a whole run [s]."""
END_PATIENCE_S, END_ANSWER_S = 1.0, 2.0
"""Limits for storing the end of a run [s]: shorter, because a user who pressed Ctrl-C waits."""


class Store:
    """All results, in a file or on a database server. A context manager: leaving it closes the store.

    Every method raises WrongInput or CannotHere if the file or the server fails; the message names it.
    """

    def __init__(self, engine: Engine, database: Database) -> None:
        self._transactions = Transactions(engine, database)
        self._database = database
        self.name = database.name
        """Path, or URL without its password."""
        self.change = ""
        """Sentence about the upgrade that opening the store made; empty if there was none."""

    @classmethod
    def open(
        cls, path_or_url: Path | str, *, create: bool = True, upgrades: bool = True, lock_wait_s: float = LOCK_WAIT_S
    ) -> Self:
        """Open the store at a path or a database URL, and upgrade it to this version's format.

        With `create`, make a missing store; without it, a missing store is WrongInput. A store of a newer format, and a
        file that is not a store, raise WrongInput and are not changed. Without `upgrades`, an older format does, too.
        """
        database = database_of(path_or_url)
        store = cls(database.open(create=create, lock_wait_s=lock_wait_s), database)
        try:
            with database.explained():
                if upgrades:
                    store.change = migrations.bring_up_to_date(store._transactions.engine, database)
                else:
                    migrations.require_up_to_date(store._transactions.engine, database)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        self._transactions.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Writing: what a method has stored survives a crash of the process and of the machine

    def begin_run(self, record: RunRecord) -> None:
        """Store a run that starts. Raises ValueError if the id is taken."""
        self.add_run(record, (), ())

    def add_run(self, record: RunRecord, trials: Sequence[TrialRecord], speeds: Sequence[CipherSpeed]) -> None:
        """Store a whole run in one transaction. Raises ValueError if the id is taken, or a trial occurs twice."""
        run_id = record.run_id
        run_row = rows.run_row(record, len(trials), len(speeds))
        proofs = [rows.proof_row(each.proof) for each in trials if each.proof]
        several = {
            trial: [rows.trial_row(run_id, each) for each in trials],
            trial_raw: [rows.raw_row(run_id, each) for each in trials],
            cipher_speed: [rows.cipher_speed_row(run_id, *each) for each in enumerate(speeds, start=1)],
        }

        def work(connection: Connection, is_repeated: bool) -> None:
            if is_repeated and is_stored(connection, select(run.c.checksum).where(run.c.run_id == run_id), run_row):
                return
            connection.execute(insert(run).values(run_row))
            for row in {str(row["sha256"]): row for row in proofs}.values():
                _add_proof(connection, row)
            for table, own in several.items():
                if own:
                    connection.execute(insert(table), own)

        try:
            self._transactions.write(work, answer_s=WHOLE_ANSWER_S if trials else ANSWER_S)
        except IntegrityError as error:
            raise ValueError(f"a run {run_id} is stored already, or a trial is in it twice") from error

    def add_trial(self, run_id: str, record: TrialRecord) -> None:
        """Store a trial that has ended. Raises ValueError if its run is not stored, or its sequence number is taken."""
        sequence = record.spec.sequence
        row, raw_row = rows.trial_row(run_id, record), rows.raw_row(run_id, record)
        stored = select(trial.c.checksum).where(trial.c.run_id == run_id, trial.c.sequence == sequence)

        def work(connection: Connection, is_repeated: bool) -> None:
            if is_repeated and is_stored(connection, stored, row):
                return  # the server committed it and then went away
            if record.proof:
                _add_proof(connection, rows.proof_row(record.proof))
            connection.execute(insert(trial).values(row))
            connection.execute(insert(trial_raw).values(raw_row))
            _change_run(connection, run_id, lambda before: {"trials_recorded": before["trials_recorded"] + 1})

        try:
            self._transactions.write(work)
        except IntegrityError as error:
            raise ValueError(f"trial {sequence} of run {run_id} is stored already, or there is no such run") from error

    def add_cipher_speed(self, run_id: str, found: CipherSpeed) -> None:
        """Store the speed of a cipher. Raises ValueError if its run is not stored, or the speed is already stored."""
        own = select(cipher_speed).where(cipher_speed.c.run_id == run_id)

        def work(connection: Connection, is_repeated: bool) -> None:
            if is_repeated and found in [rows.cipher_speed(row) for row in connection.execute(own).mappings()]:
                return
            place = (connection.scalar(select(run.c.speeds_recorded).where(run.c.run_id == run_id)) or 0) + 1
            connection.execute(insert(cipher_speed).values(rows.cipher_speed_row(run_id, place, found)))
            _change_run(connection, run_id, lambda _: {"speeds_recorded": place})

        try:
            self._transactions.write(work)
        except IntegrityError as error:
            what = f"the speed of {found.algorithm} in run {run_id}"
            raise ValueError(f"{what} is stored already, or there is no such run") from error

    def soaks(self, run_id: str) -> SoakTables:
        """Return the soaks of a run, to read and write them chunk by chunk."""
        return SoakTables(run_id, self._transactions)

    def progress(self, run_id: str) -> ProgressTable:
        """Return the progress of a run, to publish and to read it."""
        return ProgressTable(run_id, self._transactions)

    def end_run(self, run_id: str, status: str, ended_at: str) -> None:
        """Store how and when a run ended. Raises ValueError if the run is not stored."""
        patience_s = min(END_PATIENCE_S, self._database.patience_s)
        self._set_status(run_id, status, ended_at, patience_s, END_ANSWER_S)

    def resume_run(self, run_id: str) -> None:
        """Store that a run continues. Raises ValueError if the run is not stored."""
        self._set_status(run_id, RUNNING, None, self._database.patience_s, ANSWER_S)

    def mark_abandoned(self, ended_at: str) -> list[str]:
        """Mark runs as killed if no process holds their lock any more; return their ids."""
        running = select(run.c.run_id, run.c.started_at).where(run.c.status == RUNNING)
        with self._transactions.reading() as connection:
            found = [(row.run_id, row.started_at) for row in connection.execute(running)]
        killed: list[str] = []

        def work(connection: Connection, _is_repeated: bool) -> None:
            killed[:] = [each for each, start in found if self._database.is_abandoned(connection, each, start)]
            for run_id in killed:
                _change_run(connection, run_id, lambda _: {"status": "killed", "ended_at": ended_at})

        if found:
            self._transactions.write(work, END_PATIENCE_S, END_ANSWER_S)
        return killed

    def require_kept(self, run_id: str, trials: int, *, is_urgent: bool = False) -> None:
        """Raise StoreLost if the store does not give back a run with at least so many trials.

        It reads over new connections: those that have written keep pages in memory, and do not notice that another
        program has overwritten the file. Raises CannotHere if the store cannot be read now.
        """
        self._transactions.engine.dispose()

        def read() -> None:
            try:
                self.run(run_id)
            except WrongInput:
                hint = "restore the store from a copy, or name another one"
                raise StoreLost(f"{self.name}: run {run_id} is not in the store any more", hint) from None
            found = len(self.trials(run_id, with_raw=not is_urgent))
            if found < trials:
                self._transactions.report_damage(
                    f"run {run_id} had {counted(trials, 'trial')}, and {found} {are(found)} there"
                )

        answer_s = END_ANSWER_S if is_urgent else WHOLE_ANSWER_S
        try:
            within(answer_s, read)
        except TimeoutError:
            raise StoreAway(f"{self.name}: no answer for {answer_s:.0f} s") from None

    # Reading

    def runs(
        self, *, newest: int | None = None, only: Collection[str] | None = None, testbed: str | None = None
    ) -> list[RunRecord]:
        """Return all runs, the newest first; or the `newest` ones, those with the ids in `only`, those of a testbed."""
        wanted, of_runs = _newest_first(), select(func.count()).select_from(trial)
        if only is not None:
            wanted = wanted.where(run.c.run_id.in_(only))
        if testbed is not None:
            wanted = wanted.where(run.c.testbed_name == testbed)
        wanted = wanted.limit(newest)
        with self._transactions.reading() as connection:
            found = [self._run_record(row) for row in connection.execute(wanted).mappings()]
            if newest is not None or only is not None or testbed is not None:
                of_runs = of_runs.where(trial.c.run_id.in_([record.run_id for record in found]))
            stored = connection.scalar(of_runs)
            if stored != sum(record.trials_recorded for record in found):
                self._transactions.report_damage(
                    f"it holds {counted(stored or 0, 'trial')}, not as many as its runs have recorded"
                )
            return found

    def newest_runs(
        self,
        count: int,
        *,
        before: str | None = None,
        status: str | None = None,
        only: Collection[str] | None = None,
    ) -> list[RunRecord]:
        """Return at most `count` runs, the newest first, without a look at all others.

        `before` is the id of a run: those that began earlier. `status` and `only`, which has ids, choose others.
        """
        wanted = _newest_first().limit(count)
        if before is not None:
            begun = select(run.c.started_at).where(run.c.run_id == before).scalar_subquery()
            wanted = wanted.where(tuple_(run.c.started_at, run.c.run_id) < tuple_(begun, literal(before)))
        if status is not None:
            wanted = wanted.where(run.c.status == status)
        if only is not None:
            wanted = wanted.where(run.c.run_id.in_(only))
        with self._transactions.reading() as connection:
            return [self._run_record(row) for row in connection.execute(wanted).mappings()]

    def count_runs(self) -> int:
        """Return the number of runs."""
        with self._transactions.reading() as connection:
            return connection.scalar(select(func.count()).select_from(run)) or 0

    def run(self, reference: str) -> RunRecord:
        """Return the run that an id, the beginning of an id, or `last` refers to, which is the last run that ended.

        Raises WrongInput if that is no run, or several.
        """
        with self._transactions.reading() as connection:
            run_id = _referred_run(connection, reference)
            return self._run_record(connection.execute(select(run).where(run.c.run_id == run_id)).mappings().one())

    def trials(
        self, run_id: str, *, with_raw: bool | Collection[str] = True, only: Collection[int] | None = None
    ) -> list[TrialRecord]:
        """Return a run's trials in the order in which they ran; without `with_raw`, without the output of programs.

        If `with_raw` has keys, the trials have only these parts of the raw results, which take little memory, and their
        proofs have none. `only` has the sequence numbers of the trials to return; None: all.
        """
        wanted = _of_run(select(trial), trial, run_id, only).order_by(trial.c.sequence)
        damage = self._transactions.report_damage
        with self._transactions.reading() as connection:
            expected = connection.scalar(select(run.c.trials_recorded).where(run.c.run_id == run_id)) or 0
            proofs = self._proofs(connection, run_id, only, with_raw=with_raw is True)
            raw = self._raw(connection, run_id, only, None if with_raw is True else with_raw) if with_raw else {}
            records = []
            names = trial.c.keys()
            for values in connection.execute(wanted):
                row = dict(zip(names, values, strict=True))
                place = f"trial {row['sequence']} of run {run_id}"
                self._transactions.require_intact(row, place)
                if row["proof_sha256"] is not None and row["proof_sha256"] not in proofs:
                    damage(f"the proof of {place} is missing")
                records.append(rows.trial_record(row, proofs.get(row["proof_sha256"]), raw.get(row["sequence"], {})))
        if only is None:
            self._require_count(run_id, expected, len(records))
        if with_raw and len(raw) != len(records):
            lost = counted(len(records) - len(raw), "trial")
            damage(f"the output of programs in {lost} of run {run_id} is missing")
        return records

    def full_speed_trials(
        self, run_ids: Collection[str], tunnel_kind: str | None = None
    ) -> dict[str, list[TrialRecord]]:
        """Return, by run, the trials of TCP at full speed that count, of the largest payload that the run has of them.

        Calibrations are left out, and so are the proofs and raw results. Three queries read any number of runs.
        """
        of_runs = trial.c.run_id.in_(run_ids)
        has_figure = (
            trial.c.tcp.is_not(None) & (trial.c.outcome == Outcome.MEASURED) & (trial.c.verdict != Verdict.VOID)
        )
        is_wanted = of_runs & has_figure & (trial.c.load == "") & (trial.c.tunnel_kind != CALIBRATION_KIND)
        largest = select(trial.c.run_id, func.max(trial.c.payload_bytes).label("bytes")).where(is_wanted)
        largest_of_run = largest.group_by(trial.c.run_id).subquery()
        is_largest = (trial.c.run_id == largest_of_run.c.run_id) & (trial.c.payload_bytes == largest_of_run.c.bytes)
        wanted = select(trial).join(largest_of_run, is_largest).where(is_wanted).order_by(trial.c.sequence)
        if tunnel_kind is not None:
            wanted = wanted.where(trial.c.tunnel_kind == tunnel_kind)
        recorded = select(run.c.run_id, run.c.trials_recorded).where(run.c.run_id.in_(run_ids))
        counts = select(trial.c.run_id, func.count()).where(of_runs).group_by(trial.c.run_id)
        found: dict[str, list[TrialRecord]] = {run_id: [] for run_id in run_ids}
        with self._transactions.reading() as connection:
            there = {row[0]: row[1] for row in connection.execute(counts)}
            for run_id, expected in connection.execute(recorded):
                self._require_count(run_id, expected, there.get(run_id, 0))
            for row in connection.execute(wanted).mappings():
                self._transactions.require_intact(row, f"trial {row['sequence']} of run {row['run_id']}")
                found[row["run_id"]].append(rows.trial_record(row, None, {}))
        return found

    def _require_count(self, run_id: str, expected: int, there: int) -> None:
        """Raise StoreLost if the number of trials of a run is not the number that was recorded."""
        if there != expected:
            self._transactions.report_damage(
                f"run {run_id} has recorded {counted(expected, 'trial')}, and {there} {are(there)} there"
            )

    def cipher_speeds(self, run_id: str) -> list[CipherSpeed]:
        """Return a run's cipher speeds in the order in which they were measured."""
        wanted = select(cipher_speed).where(cipher_speed.c.run_id == run_id).order_by(cipher_speed.c.place)
        with self._transactions.reading() as connection:
            expected = connection.scalar(select(run.c.speeds_recorded).where(run.c.run_id == run_id)) or 0
            found = []
            for row in connection.execute(wanted).mappings():
                self._transactions.require_intact(row, f"the speed of {row['algorithm']} in run {run_id}")
                found.append(rows.cipher_speed(row))
        if len(found) != expected:
            self._transactions.report_damage(
                f"run {run_id} has recorded {expected} speeds of ciphers, and the store has {len(found)} of them"
            )
        return found

    def _raw(
        self, connection: Connection, run_id: str, only: Collection[int] | None, parts: Collection[str] | None
    ) -> dict[int, Mapping[str, Any]]:
        """Return these parts of the raw results of a run's trials, by sequence number; None: all parts."""
        found = {}
        for row in connection.execute(_of_run(select(trial_raw), trial_raw, run_id, only)).mappings():
            what = f"the output of programs in trial {row['sequence']} of run {run_id}"
            self._transactions.require_intact(row, what)
            every = rows.raw_results(row)
            found[row["sequence"]] = every if parts is None else {key: every[key] for key in parts if key in every}
        return found

    def _proofs(
        self, connection: Connection, run_id: str, only: Collection[int] | None, *, with_raw: bool
    ) -> dict[str, TunnelProof]:
        """Return the proofs of a run's trials by their SHA-256; trials with one proof share one object."""
        used = _of_run(select(trial.c.proof_sha256), trial, run_id, only)
        found = {}
        for row in connection.execute(select(proof).where(proof.c.sha256.in_(used))).mappings():
            if rows.proof_address(row["proof"], row["raw"]) != row["sha256"]:
                self._transactions.report_damage(f"a proof of run {run_id} is not what was stored")
            found[row["sha256"]] = rows.proof_record(row, with_raw=with_raw)
        return found

    def _run_record(self, row: Mapping[Any, Any]) -> RunRecord:
        self._transactions.require_intact(row, f"run {row['run_id']}")
        if not VALID_RUN_ID.fullmatch(row["run_id"]):
            self._transactions.report_damage(f"no run has the id {printable(row['run_id'][:LONGEST_SHOWN_ID])}")
        return rows.run_record(row)

    def _set_status(self, run_id: str, status: str, ended_at: str | None, patience_s: float, answer_s: float) -> None:
        def work(connection: Connection, _is_repeated: bool) -> None:
            if not _change_run(connection, run_id, lambda _: {"status": status, "ended_at": ended_at}):
                raise ValueError(f"there is no run {run_id}")

        self._transactions.write(work, patience_s, answer_s)

    @contextmanager
    def holding(self, run_id: str) -> Iterator[None]:
        """Lock a run while the block measures it. Raises CannotHere if another process measures it."""
        with self._database.explained():
            unlock = self._database.hold(self._transactions.engine, run_id)
        try:
            yield
        finally:
            unlock()


def _of_run(rows: Select[Any], table: Table, run_id: str, only: Collection[int] | None) -> Select[Any]:
    """Restrict a query to a run and, unless `only` is None, to the trials with these sequence numbers."""
    of_run = rows.where(table.c.run_id == run_id)
    return of_run if only is None else of_run.where(table.c.sequence.in_(only))


def _newest_first() -> Select[Any]:
    return select(run).order_by(run.c.started_at.desc(), run.c.run_id.desc())


def _change_run(connection: Connection, run_id: str, change: Callable[[Mapping[Any, Any]], Mapping[str, Any]]) -> bool:
    """Change columns of a run; return False if there is no such run."""
    return change_row(connection, run, run.c.run_id == run_id, change)


def _referred_run(connection: Connection, reference: str) -> str:
    """Return the id that a reference means. Raises WrongInput.

    The database compares the ids: each job of a worker looks for its run, in a store of many thousand runs.
    """
    if not reference:
        raise WrongInput("the name of the run is empty", hint=f"write {LAST}, or an id from tunnelbench list runs")
    ids = _newest_first().with_only_columns(run.c.run_id)
    found: str | None = None
    matching, count = list[str](), 0
    if reference == LAST:  # of this machine, and not one that another process is measuring, if there is one
        wanted_last = case((run.c.status == IMPORTED, 2), (run.c.status == RUNNING, 1), else_=0)
        newest = ids.order_by(None).order_by(wanted_last, run.c.started_at.desc(), run.c.run_id.desc())
        found = connection.scalar(newest.limit(1))
    elif not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in reference):  # PostgreSQL takes no such text
        found = connection.scalar(ids.where(run.c.run_id == reference))
        if found is None:
            begins = func.substr(run.c.run_id, 1, len(reference)) == reference
            matching, count = _first_ids(connection, ids.where(begins))
    if found is not None:
        return found
    if count == 1:
        return matching[0]
    if count:
        hint = f"which one: {_listed(matching, count)}"
        raise WrongInput(f"{count} runs begin with {reference!r}", hint=hint)
    known, count = _first_ids(connection, ids)
    if not known:
        raise WrongInput("there are no runs yet", hint="measure: tunnelbench run")
    raise WrongInput(f"there is no run {reference!r}", hint=f"runs: {LAST}, {_listed(known, count)}")


def _first_ids(connection: Connection, ids: Select[tuple[str]]) -> tuple[list[str], int]:
    """Return the first ids that a query finds, at most NAMED_IN_HINT, and the number of all of them."""
    count = connection.scalar(select(func.count()).select_from(ids.order_by(None).subquery())) or 0
    return list(connection.scalars(ids.limit(NAMED_IN_HINT))) if count else [], count


def _listed(ids: Sequence[str], count: int) -> str:
    """Return the first of `count` ids as words."""
    more = count - len(ids)
    return ", ".join(ids) + (f" and {more} more" if more > 0 else "")


def _add_proof(connection: Connection, row: rows.DatabaseRow) -> None:
    """Store a proof unless it is stored: trials and runs share proofs."""
    try:
        with connection.begin_nested():  # two processes may store the same proof at the same time
            connection.execute(insert(proof).values(row))
    except IntegrityError:
        pass
