"""Runs and trials, kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, NoReturn, Protocol, Self

from pydantic import ValidationError
from sqlalchemy import Connection, Engine, Select, func, insert, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, PendingRollbackError

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.result import RunRecord, TrialRecord, TunnelProof
from tunnelbench.store import rows, upgrade
from tunnelbench.store.change import change_row
from tunnelbench.store.checksum import CHECKSUM, is_intact
from tunnelbench.store.schema import cipher_speed, proof, run, trial, trial_raw
from tunnelbench.store.server import Server
from tunnelbench.store.soaks import SoakTables
from tunnelbench.store.sqlite import WRITES, File

LAST = "last"
"""The reference that means the latest run."""
LOCK_WAIT_S = 10.0
"""How long another process may write before we give up; a commit takes milliseconds."""
IMPORTED = "imported"
"""The status of a run that was measured elsewhere."""
NAMED_IN_HINT = 10
"""How many of the known runs a hint names."""
POLL_S = 0.5
"""Between two looks for a server that went away."""
ANSWER_S = 15.0
"""How long one transaction may take on top: SQLite waits for its lock, a server for its disk."""
WHOLE_ANSWER_S = 60.0
"""The same of a run that is stored whole."""
END_PATIENCE_S, END_ANSWER_S = 1.0, 2.0
"""The same of noting the end of a run: whoever pressed Ctrl-C is waiting, too."""


class Database(upgrade.Database, Protocol):
    """What differs between SQLite and a server."""

    patience_s: float
    """How long a write is made again where the server is away [s]."""
    reading_options: Mapping[str, Any]
    """Of the connections that read: all that one reads must be of one moment."""
    writing_options: Mapping[str, Any]

    def hold(self, engine: Engine, run_id: str) -> Callable[[], None]:
        """Keep others from measuring a run; what is returned lets go. CannotHere where somebody does."""

    def open(self, *, create: bool, lock_wait_s: float) -> Engine:
        """An engine for it."""

    def explained(self) -> AbstractContextManager[None]:
        """What goes wrong within becomes a sentence and a remedy."""

    def is_away(self, error: DBAPIError) -> bool:
        """Whether to try again in a moment."""


class Store:
    """All results, in a file or on a database server. A context manager: leaving it closes the store.

    What is wrong with the file or the server is told as WrongInput or CannotHere, which name it.
    """

    def __init__(self, engine: Engine, database: Database) -> None:
        self._engine = engine
        self._database = database
        self.name = database.name
        """Its path, or its URL without the password."""
        self.change = ""
        """What opening it has changed, in a sentence; empty where it had this version's format."""

    @classmethod
    def open(cls, path_or_url: Path | str, *, create: bool = True, lock_wait_s: float = LOCK_WAIT_S) -> Self:
        """The store at a path or a database URL, brought to this version's format.

        `create`: make it where it is missing, else WrongInput. A store of a newer format, and a file that is no store,
        are refused untouched.
        """
        database = _database(path_or_url)
        store = cls(database.open(create=create, lock_wait_s=lock_wait_s), database)
        try:
            with database.explained():
                store.change = upgrade.bring_up_to_date(store._engine, database)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Writing: what has returned survives a crash of the process and of the machine

    def begin_run(self, record: RunRecord) -> None:
        """Keep a run that starts. ValueError where one of that id is kept already."""
        row = rows.run_row(record)

        def work(connection: Connection, is_repeated: bool) -> None:
            if not (is_repeated and _has(connection, select(run.c.checksum).where(run.c.run_id == record.run_id), row)):
                connection.execute(insert(run).values(row))

        try:
            self._write(work)
        except IntegrityError as error:
            raise ValueError(f"a run {record.run_id} is stored already") from error

    def add_run(self, record: RunRecord, trials: Sequence[TrialRecord], speeds: Sequence[CipherSpeed]) -> None:
        """Keep a run that was measured elsewhere, whole or not at all. ValueError where one of that id is kept."""
        proofs = {str(row["sha256"]): row for each in trials if each.proof for row in [rows.proof_row(each.proof)]}
        counted = {"trials_recorded": len(trials), "speeds_recorded": len(speeds) if speeds else None}
        run_row = rows.sealed({**rows.run_row(record), **counted})
        run_id = record.run_id

        def work(connection: Connection, is_repeated: bool) -> None:
            if is_repeated and _has(connection, select(run.c.checksum).where(run.c.run_id == run_id), run_row):
                return
            connection.execute(insert(run).values(run_row))
            for row in proofs.values():
                _keep_proof(connection, row)
            if trials:
                address = [str(rows.proof_row(each.proof)["sha256"]) if each.proof else None for each in trials]
                of_trials = [rows.trial_row(run_id, *each) for each in zip(trials, address, strict=True)]
                connection.execute(insert(trial), of_trials)
                connection.execute(insert(trial_raw), [rows.raw_row(run_id, each) for each in trials])
            if speeds:
                places = enumerate(speeds, start=1)
                connection.execute(insert(cipher_speed), [rows.cipher_speed_row(run_id, *each) for each in places])

        try:
            self._write(work, answer_s=WHOLE_ANSWER_S)
        except IntegrityError as error:
            raise ValueError(f"a run {run_id} is stored already, or a trial is in it twice") from error

    def add_trial(self, run_id: str, record: TrialRecord) -> None:
        """Keep a trial that has ended. ValueError where its run is not kept, or its place in the run is taken."""
        sequence = record.spec.sequence
        proof_row = rows.proof_row(record.proof) if record.proof else None
        row = rows.trial_row(run_id, record, str(proof_row["sha256"]) if proof_row else None)
        raw_row = rows.raw_row(run_id, record)
        stored = select(trial.c.checksum).where(trial.c.run_id == run_id, trial.c.sequence == sequence)

        def work(connection: Connection, is_repeated: bool) -> None:
            if is_repeated and _has(connection, stored, row):
                return  # committed just before the server went away
            if proof_row:
                _keep_proof(connection, proof_row)
            connection.execute(insert(trial).values(row))
            connection.execute(insert(trial_raw).values(raw_row))
            _change_run(connection, run_id, lambda before: {"trials_recorded": before["trials_recorded"] + 1})

        try:
            self._write(work)
        except IntegrityError as error:
            raise ValueError(f"trial {sequence} of run {run_id} is stored already, or there is no such run") from error

    def add_cipher_speed(self, run_id: str, found: CipherSpeed) -> None:
        """Keep how fast a cipher is. ValueError where its run is not kept, or it is stored already."""
        own = select(cipher_speed).where(cipher_speed.c.run_id == run_id)

        def work(connection: Connection, is_repeated: bool) -> None:
            if is_repeated and found in [rows.cipher_speed(row) for row in connection.execute(own).mappings()]:
                return
            place = connection.scalar(select(run.c.speeds_recorded).where(run.c.run_id == run_id)) or 0
            connection.execute(insert(cipher_speed).values(rows.cipher_speed_row(run_id, place + 1, found)))
            _change_run(connection, run_id, lambda _: {"speeds_recorded": place + 1})

        try:
            self._write(work)
        except IntegrityError as error:
            raise ValueError(
                f"the speed of {found.algorithm} in run {run_id} is stored already, or there is no such run"
            ) from error

    def soaks(self, run_id: str) -> SoakTables:
        """The series of a run's soaks, to be read and written piece by piece."""
        return SoakTables(run_id, self._write, self._reading, self._tell_damage)

    def end_run(self, run_id: str, status: str, ended_at: str) -> None:
        """Note how and when a run ended. ValueError where it is not kept."""
        patience_s = min(END_PATIENCE_S, self._database.patience_s)
        self._set_status(run_id, status, ended_at, patience_s, END_ANSWER_S)

    def resume_run(self, run_id: str) -> None:
        """Note that a run goes on. ValueError where it is not kept."""
        self._set_status(run_id, "running", None, self._database.patience_s, ANSWER_S)

    # Reading

    def runs(self) -> list[RunRecord]:
        """All runs, the newest first."""
        with self._reading() as connection:
            found = [self._run_record(row) for row in connection.execute(_newest_first()).mappings()]
            recorded = connection.scalar(select(func.count()).select_from(trial))
            if recorded != sum(record.trials_recorded for record in found):
                self._tell_damage(f"it holds {recorded} trials, not as many as its runs have recorded")
            return found

    def run(self, reference: str) -> RunRecord:
        """The run meant by `last`, by an id or by the beginning of one; WrongInput where that is none or several."""
        with self._reading() as connection:
            known = connection.execute(_newest_first().with_only_columns(run.c.run_id, run.c.status)).all()
            run_id = _meant(reference, [(row.run_id, row.status) for row in known])
            return self._run_record(connection.execute(select(run).where(run.c.run_id == run_id)).mappings().one())

    def trials(self, run_id: str, *, with_raw: bool = True) -> list[TrialRecord]:
        """A run's trials in the order in which they ran; without raw, what programs printed is not read."""
        wanted = select(trial).where(trial.c.run_id == run_id).order_by(trial.c.sequence)
        with self._reading() as connection:
            expected = connection.scalar(select(run.c.trials_recorded).where(run.c.run_id == run_id)) or 0
            proofs = self._proofs(connection, run_id, with_raw=with_raw)
            raw = self._raw(connection, run_id) if with_raw else {}
            records = []
            for row in connection.execute(wanted).mappings():
                place = f"trial {row['sequence']} of run {run_id}"
                self._require_intact(row, place)
                if row["proof_sha256"] is not None and row["proof_sha256"] not in proofs:
                    self._tell_damage(f"the proof of {place} is missing")
                records.append(rows.trial_record(row, proofs.get(row["proof_sha256"]), raw.get(row["sequence"])))
        if len(records) != expected:
            self._tell_damage(f"run {run_id} has recorded {expected} trials, and {len(records)} are there")
        if with_raw and len(raw) != expected:
            self._tell_damage(f"what was printed in {expected - len(raw)} trials of run {run_id} is missing")
        return records

    def cipher_speeds(self, run_id: str) -> list[CipherSpeed]:
        """A run's speeds of ciphers, in the order in which they were measured."""
        wanted = select(cipher_speed).where(cipher_speed.c.run_id == run_id).order_by(cipher_speed.c.place)
        with self._reading() as connection:
            expected = connection.scalar(select(run.c.speeds_recorded).where(run.c.run_id == run_id)) or 0
            found = []
            for row in connection.execute(wanted).mappings():
                self._require_intact(row, f"the speed of {row['algorithm']} in run {run_id}")
                found.append(rows.cipher_speed(row))
        if len(found) != expected:
            self._tell_damage(f"run {run_id} has recorded {expected} speeds of ciphers, and {len(found)} are there")
        return found

    def _raw(self, connection: Connection, run_id: str) -> dict[int, str]:
        """What programs printed in a run's trials, as JSON, by the trial's place."""
        found = {}
        for row in connection.execute(select(trial_raw).where(trial_raw.c.run_id == run_id)).mappings():
            self._require_intact(row, f"what was printed in trial {row['sequence']} of run {run_id}")
            found[row["sequence"]] = row["raw"]
        return found

    def _proofs(self, connection: Connection, run_id: str, *, with_raw: bool) -> dict[str, TunnelProof]:
        """The proofs of a run's trials by address: trials that shared one share it again."""
        used = select(trial.c.proof_sha256).where(trial.c.run_id == run_id)
        found = {}
        for row in connection.execute(select(proof).where(proof.c.sha256.in_(used))).mappings():
            if rows.proof_address(row["proof"], row["raw"]) != row["sha256"]:
                self._tell_damage(f"a proof of run {run_id} is not what was stored")
            found[row["sha256"]] = rows.proof_record(row, with_raw=with_raw)
        return found

    def _run_record(self, row: Mapping[Any, Any]) -> RunRecord:
        self._require_intact(row, f"run {row['run_id']}")
        return rows.run_record(row)

    def _require_intact(self, row: Mapping[Any, Any], what: str) -> None:
        if not is_intact(row):
            self._tell_damage(f"{what} is not what was stored")

    def _tell_damage(self, what: str) -> NoReturn:
        raise CannotHere(
            f"{self.name}: the store is damaged: {what}",
            hint="move it away, and copy the runs that can be read to a new one",
        )

    def _set_status(self, run_id: str, status: str, ended_at: str | None, patience_s: float, answer_s: float) -> None:
        def work(connection: Connection, _is_repeated: bool) -> None:
            if not _change_run(connection, run_id, lambda _: {"status": status, "ended_at": ended_at}):
                raise ValueError(f"there is no run {run_id}")

        self._write(work, patience_s, answer_s)

    @contextmanager
    def holding(self, run_id: str) -> Iterator[None]:
        """Be the one that measures a run while the block runs; CannotHere where another machine does."""
        with self._database.explained():
            held = self._database.hold(self._engine, run_id)
        try:
            yield
        finally:
            held()

    def _write(
        self, work: Callable[[Connection, bool], None], patience_s: float | None = None, answer_s: float = ANSWER_S
    ) -> None:
        """Do it in one transaction. Where a server goes away, do it again when it is back; `work` is told so: its
        first attempt may have been committed and only the answer lost."""
        patience_s = self._database.patience_s if patience_s is None else patience_s
        give_up_s = time.monotonic() + patience_s
        options = {WRITES: True, **self._database.writing_options}
        is_repeated = False

        def attempt() -> None:
            with self._engine.execution_options(**options).begin() as connection:
                work(connection, is_repeated)

        with self._database.explained():
            while True:
                try:
                    return within(answer_s, attempt)
                except TimeoutError:
                    raise CannotHere(
                        f"{self.name}: no answer for {answer_s:.0f} s",
                        hint="see who holds it, or whether the server hangs",
                    ) from None
                except PendingRollbackError:  # the connection broke while a savepoint was rolled back
                    if time.monotonic() > give_up_s:
                        raise
                except DBAPIError as error:
                    if time.monotonic() > give_up_s or not self._database.is_away(error):
                        raise
                is_repeated = True
                time.sleep(POLL_S)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with (
                self._database.explained(),
                self._engine.connect().execution_options(**self._database.reading_options) as connection,
            ):
                yield connection
        except ValidationError as error:
            where = error.errors()[0]
            self._tell_damage(f"{error.title}: {where['msg']}")


def within(seconds: float, work: Callable[[], None]) -> None:
    """Do it in a thread of its own, so that a request to end is heard meanwhile; TimeoutError where it takes longer.

    SQLite waits for a lock, and a driver for its server, where no signal's handler runs.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 # it is raised where the work was asked for
            failed.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    end_s = time.monotonic() + seconds
    while thread.is_alive():
        thread.join(LISTEN_S)
        if thread.is_alive() and time.monotonic() > end_s:
            raise TimeoutError
    if failed:
        raise failed[0]


LISTEN_S = 0.1


def _database(path_or_url: Path | str) -> Database:
    path = path_or_url
    if isinstance(path_or_url, str) and "://" in path_or_url:
        try:
            url = make_url(path_or_url)
        except (ArgumentError, ValueError) as error:  # what cannot be read may hold a password: it is not repeated
            raise WrongInput("--store: not a database URL", hint="postgresql://USER@HOST/NAME") from error
        if url.get_backend_name() != "sqlite":
            return Server(url)
        path = url.database or ""
    try:
        return File(Path(path).expanduser())
    except RuntimeError as error:
        raise WrongInput(f"{path}: {error}", hint="write the path out") from error


def _newest_first() -> Select[Any]:
    return select(run).order_by(run.c.started_at.desc(), run.c.run_id.desc())


def _has(connection: Connection, stored: Select[Any], row: rows.Row) -> bool:
    """Whether the row that `stored` finds is this one."""
    return bool(connection.scalar(stored) == row[CHECKSUM])


def _change_run(connection: Connection, run_id: str, change: Callable[[Mapping[Any, Any]], Mapping[str, Any]]) -> bool:
    """Change columns of a run; whether there is such a run."""
    return change_row(connection, run, run.c.run_id == run_id, change)


def _meant(reference: str, runs: list[tuple[str, str]]) -> str:
    """The one of the known ids, newest first and each with its run's status, that a reference means."""
    known = [run_id for run_id, _ in runs]
    if not known:
        raise WrongInput("there are no runs yet", hint="measure: tunnelbench run")
    if reference == LAST:  # of one's own, as long as there is one
        return next((run_id for run_id, status in runs if status != IMPORTED), known[0])
    matching = [reference] if reference in known else [each for each in known if each.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    listed = ", ".join((matching or known)[:NAMED_IN_HINT])
    more = len(matching or known) - NAMED_IN_HINT
    also = f" and {more} more" if more > 0 else ""
    if matching:
        raise WrongInput(f"{len(matching)} runs begin with {reference!r}", hint=f"which one: {listed}{also}")
    raise WrongInput(f"there is no run {reference!r}", hint=f"runs: {LAST}, {listed}{also}")


def _keep_proof(connection: Connection, row: rows.Row) -> None:
    """Store a proof once, however many trials and runs share it."""
    try:
        with connection.begin_nested():  # of two that store the same at once, one finds it there
            connection.execute(insert(proof).values(row))
    except IntegrityError:
        pass
