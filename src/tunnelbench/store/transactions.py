"""Reads and writes of a store, each in one transaction, with retries and with errors that name the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, NoReturn

from pydantic import ValidationError
from sqlalchemy import Connection, Engine, Select
from sqlalchemy.exc import DBAPIError, PendingRollbackError

from tunnelbench.model.errors import StoreAway, StoreLost
from tunnelbench.store.checksum import CHECKSUM_COLUMN, is_intact
from tunnelbench.store.database import Database

RETRY_INTERVAL_S = 0.5
"""Time between two attempts to reach a server that is away [s]."""
ANSWER_S = 15.0
"""Longest time of one transaction [s]; SQLite may wait for a file lock, a server for its disk."""
SIGNAL_INTERVAL_S = 0.1
"""Longest delay between a signal and its handling in the main thread [s]."""

Work = Callable[[Connection, bool], None]
"""The statements of one write. The second argument is True if an earlier attempt may have been committed."""


class Transactions:
    """The connections to one store."""

    def __init__(self, engine: Engine, database: Database) -> None:
        self.engine = engine
        self.database = database

    def write(self, work: Work, patience_s: float | None = None, answer_s: float = ANSWER_S) -> None:
        """Run `work` in one transaction; if the database is unreachable or locked, repeat it for up to `patience_s`.

        If a server disconnects during a commit, the commit may have succeeded: `work` gets True then, and must check.
        Raises WrongInput or CannotHere, also after `answer_s` without an answer, and StoreLost if the store is gone.
        """
        give_up_s = time.monotonic() + (self.database.patience_s if patience_s is None else patience_s)
        is_repeated = False

        def attempt() -> None:
            with self.engine.execution_options(**self.database.writing_options).begin() as connection:
                work(connection, is_repeated)
            self.database.require_there()

        with self.database.explained():
            while True:
                try:
                    return within(answer_s, attempt)
                except TimeoutError:
                    raise StoreAway(
                        f"{self.database.name}: no answer for {answer_s:.0f} s",
                        hint="look for a process that locks the database, or for a server that hangs",
                    ) from None
                except PendingRollbackError:  # the connection broke while a savepoint was rolled back
                    if time.monotonic() > give_up_s:
                        raise
                except DBAPIError as error:
                    if time.monotonic() > give_up_s or not self.database.is_away(error):
                        raise
                is_repeated = True
                time.sleep(RETRY_INTERVAL_S)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection whose reads all see the store at one moment. Raises WrongInput or CannotHere."""
        options = self.database.reading_options
        try:
            with self.database.explained(), self.engine.connect().execution_options(**options) as connection:
                yield connection
        except ValidationError as error:
            self.report_damage(f"{error.title}: {error.errors()[0]['msg']}")

    def require_intact(self, row: Mapping[Any, Any], what: str) -> None:
        """Raise StoreLost if a row does not match its checksum; `what` names its content."""
        if not is_intact(row):
            self.report_damage(f"{what} is not what was stored")

    def report_damage(self, what: str) -> NoReturn:
        """Raise StoreLost: the store is damaged."""
        raise StoreLost(
            f"{self.database.name}: the store is damaged: {what}",
            hint="move it away, and copy the runs that can be read to a new one",
        )


def is_stored(connection: Connection, stored: Select[Any], row: Mapping[str, Any]) -> bool:
    """Return True if `stored`, a query for one checksum, gives the checksum of `row`."""
    return bool(connection.scalar(stored) == row[CHECKSUM_COLUMN])


def within(seconds: float, work: Callable[[], None]) -> None:
    """Run `work` in a thread, so that the main thread handles signals meanwhile. Raises TimeoutError.

    SQLite waits for a lock, and a driver for its server, without running Python's signal handlers.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 # the caller's thread raises it
            failed.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    end_s = time.monotonic() + seconds
    while thread.is_alive():
        thread.join(SIGNAL_INTERVAL_S)
        if thread.is_alive() and time.monotonic() > end_s:
            raise TimeoutError
    if failed:
        raise failed[0]
