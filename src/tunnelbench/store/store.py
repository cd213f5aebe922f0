"""Runs and trials, kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from sqlalchemy import Connection, Engine, Select, exists, func, insert, literal, make_url, select, update
from sqlalchemy.exc import ArgumentError, IntegrityError

from tunnelbench.model.errors import CannotHere, WrongInput
from tunnelbench.model.result import RunRecord, TrialRecord, TunnelProof
from tunnelbench.store import rows, server, sqlite
from tunnelbench.store.schema import proof, run, trial, trial_raw
from tunnelbench.store.upgrade import bring_up_to_date

LAST = "last"
"""The reference that means the latest run."""
LOCK_WAIT_S = 10.0
"""How long another process may write before we give up; a commit takes milliseconds."""
NAMED_IN_HINT = 10
"""How many of the known runs a hint names."""

Explained = Callable[[], AbstractContextManager[None]]


class Store:
    """All results, in a file or on a database server. A context manager: leaving it closes the store.

    What is wrong with the file or the server is told as WrongInput or CannotHere, which name it.
    """

    def __init__(self, engine: Engine, name: str, explained: Explained) -> None:
        self._engine = engine
        self._explained = explained
        self.name = name
        """Its path, or its URL without the password."""

    @classmethod
    def open(cls, path_or_url: Path | str, *, create: bool = True, lock_wait_s: float = LOCK_WAIT_S) -> Self:
        """The store at a path or a database URL, brought to this version's format.

        `create`: make it where it is missing, else WrongInput. A store of a newer format, and a file that is no store,
        are refused untouched.
        """
        store = cls(*_engine(path_or_url, create, lock_wait_s))
        try:
            with store._explained():
                bring_up_to_date(store._engine, store.name)
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
        try:
            with self._writing() as connection:
                connection.execute(insert(run).values(rows.run_row(record)))
        except IntegrityError as error:
            raise ValueError(f"a run {record.run_id} is stored already") from error

    def add_trial(self, run_id: str, record: TrialRecord) -> None:
        """Keep a trial that has ended. ValueError where its run is not kept, or its place in the run is taken."""
        try:
            with self._writing() as connection:
                proof_sha256 = _keep_proof(connection, record.proof) if record.proof else None
                connection.execute(insert(trial).values(rows.trial_row(run_id, record, proof_sha256)))
                connection.execute(insert(trial_raw).values(rows.raw_row(run_id, record)))
        except IntegrityError as error:
            place = f"trial {record.spec.sequence} of run {run_id}"
            raise ValueError(f"{place} is stored already, or there is no such run") from error

    def end_run(self, run_id: str, status: str, ended_at: str) -> None:
        """Note how and when a run ended. ValueError where it is not kept."""
        self._set_status(run_id, status, ended_at)

    def resume_run(self, run_id: str) -> None:
        """Note that a run goes on. ValueError where it is not kept."""
        self._set_status(run_id, "running", None)

    # Reading

    def runs(self) -> list[RunRecord]:
        """All runs, the newest first."""
        with self._reading() as connection:
            return [rows.run_record(row) for row in connection.execute(_runs()).mappings()]

    def run(self, reference: str) -> RunRecord:
        """The run meant by `last`, by an id or by the beginning of one; WrongInput where that is none or several."""
        with self._reading() as connection:
            newest_first = select(run.c.run_id).order_by(run.c.started_at.desc(), run.c.run_id.desc())
            run_id = _meant(reference, list(connection.scalars(newest_first)))
            return rows.run_record(connection.execute(_runs().where(run.c.run_id == run_id)).mappings().one())

    def trials(self, run_id: str, *, with_raw: bool = True) -> list[TrialRecord]:
        """A run's trials in the order in which they ran; without raw, what programs printed is not read."""
        wanted = select(trial).where(trial.c.run_id == run_id).order_by(trial.c.sequence)
        with self._reading() as connection:
            proofs = _proofs(connection, run_id, with_raw=with_raw)
            raw = _raw(connection, run_id) if with_raw else {}
            return [
                rows.trial_record(row, proofs.get(row["proof_sha256"]), raw.get(row["sequence"]))
                for row in connection.execute(wanted).mappings()
            ]

    def _set_status(self, run_id: str, status: str, ended_at: str | None) -> None:
        with self._writing() as connection:
            changed = update(run).where(run.c.run_id == run_id).values(status=status, ended_at=ended_at)
            if connection.execute(changed).rowcount == 0:
                raise ValueError(f"there is no run {run_id}")

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._explained(), self._engine.execution_options(**{sqlite.WRITES: True}).begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._explained(), self._engine.connect() as connection:
                yield connection
        except ValidationError as error:
            where = error.errors()[0]
            raise CannotHere(
                f"{self.name}: the store is damaged: {error.title}: {where['msg']}",
                hint="move it away, and copy the runs that can be read to a new one",
            ) from error


def _engine(path_or_url: Path | str, create: bool, lock_wait_s: float) -> tuple[Engine, str, Explained]:
    path = path_or_url
    if isinstance(path_or_url, str) and "://" in path_or_url:
        try:
            url = make_url(path_or_url)
        except ArgumentError as error:
            raise WrongInput(
                f"{path_or_url}: not a database URL", hint="postgresql+psycopg://USER@HOST/NAME"
            ) from error
        if url.get_backend_name() != "sqlite":
            return server.open_server(url), str(url), partial(server.explained, url)
        path = url.database or ""
    path = Path(path).expanduser()
    engine = sqlite.open_file(path, create=create, lock_wait_s=lock_wait_s)
    return engine, str(path), partial(sqlite.explained, path)


def _runs() -> Select[Any]:
    recorded = select(func.count()).select_from(trial).where(trial.c.run_id == run.c.run_id).scalar_subquery()
    return select(run, recorded.label("trials_recorded")).order_by(run.c.started_at.desc(), run.c.run_id.desc())


def _meant(reference: str, known: list[str]) -> str:
    """The one of the known ids, newest first, that a reference means."""
    if not known:
        raise WrongInput("there are no runs yet", hint="measure: tunnelbench run")
    if reference == LAST:
        return known[0]
    matching = [reference] if reference in known else [each for each in known if each.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    listed = ", ".join((matching or known)[:NAMED_IN_HINT])
    more = len(matching or known) - NAMED_IN_HINT
    also = f" and {more} more" if more > 0 else ""
    if matching:
        raise WrongInput(f"{len(matching)} runs begin with {reference!r}", hint=f"which one: {listed}{also}")
    raise WrongInput(f"there is no run {reference!r}", hint=f"runs: {LAST}, {listed}{also}")


def _keep_proof(connection: Connection, found: TunnelProof) -> str:
    """The address of a proof, which is stored once however many trials share it."""
    row = rows.proof_row(found)
    address = str(row["sha256"])
    new = select(*(literal(row[column.name]) for column in proof.columns)).where(
        ~exists().where(proof.c.sha256 == address)
    )
    connection.execute(insert(proof).from_select(list(proof.columns), new))
    return address


def _raw(connection: Connection, run_id: str) -> dict[int, str]:
    """What programs printed in a run's trials, as JSON, by the trial's place."""
    wanted = select(trial_raw.c.sequence, trial_raw.c.raw).where(trial_raw.c.run_id == run_id)
    return dict(connection.execute(wanted).all())


def _proofs(connection: Connection, run_id: str, *, with_raw: bool) -> dict[str, TunnelProof]:
    """The proofs of a run's trials by address: trials that shared one share it again."""
    columns = proof.columns if with_raw else [proof.c.sha256, proof.c.proof]
    used = select(trial.c.proof_sha256).where(trial.c.run_id == run_id)
    found = connection.execute(select(*columns).where(proof.c.sha256.in_(used))).mappings()
    return {row["sha256"]: rows.proof_record(row) for row in found}
