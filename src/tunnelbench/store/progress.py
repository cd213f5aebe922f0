"""Publishes and reads the progress of a run. Its row is no result: it may be lost, and waits for nothing."""

from __future__ import annotations

from sqlalchemy import Connection, func, insert, select, update

from tunnelbench.model.progress import RunProgress
from tunnelbench.store import rows
from tunnelbench.store.checksum import is_intact
from tunnelbench.store.schema import progress, run, soak_part, trial
from tunnelbench.store.transactions import Transactions

CHUNKS = 12
"""Number of chunks of a soak, about a minute, after which it counts as changed."""


class ProgressTable:
    """The progress of one run."""

    def __init__(self, run_id: str, transactions: Transactions) -> None:
        self.run_id = run_id
        self._transactions = transactions
        self._connection: Connection | None = None

    def read(self) -> RunProgress | None:
        """Return the progress that was published last; None if there is none. Raises WrongInput or CannotHere."""
        with self._transactions.reading() as connection:
            found = select(progress).where(progress.c.run_id == self.run_id)
            row = connection.execute(found).mappings().one_or_none()
            if row is None:
                return None
            if not is_intact(row):
                self._transactions.report_damage(f"the progress of run {self.run_id} is not what was stored")
            return rows.run_progress(row)

    def latest_trials(self, count: int) -> list[int]:
        """Return the sequence numbers of the trials that ended last, the newest first."""
        wanted = select(trial.c.sequence).where(trial.c.run_id == self.run_id)
        wanted = wanted.order_by(trial.c.ended_at.desc(), trial.c.sequence.desc()).limit(count)
        with self._transactions.reading() as connection:
            return list(connection.scalars(wanted))

    def version(self) -> str:
        """Return a text that is another one after the results of the run have changed; empty if there is no run."""
        with self._transactions.reading() as connection:
            own = connection.scalar(select(run.c.checksum).where(run.c.run_id == self.run_id))
            chunks = connection.scalar(
                select(func.sum(soak_part.c.chunks_recorded)).where(soak_part.c.run_id == self.run_id)
            )
        return f"{own} {int(chunks or 0) // CHUNKS}" if own else ""

    def publish(self, found: RunProgress) -> None:
        """Store the progress in place of the last one, over a connection of its own.

        It does not wait for the disk or for another writer, and is not repeated. Any error of the database may be
        raised; the next call then connects again.
        """
        row = rows.progress_row(self.run_id, found)
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.begin():
                changed = self._connection.execute(
                    update(progress).where(progress.c.run_id == self.run_id).values(row)
                ).rowcount
                if not changed:
                    self._connection.execute(insert(progress).values(row))
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Connection:
        """Return a connection that does not go back to the pool, because its commits may be lost."""
        database = self._transactions.database
        connection = self._transactions.engine.execution_options(**database.writing_options).connect()
        self._connection = connection
        connection.detach()
        driver = connection.connection.driver_connection
        if driver is not None:
            for statement in database.careless:
                driver.execute(statement)
            driver.commit()
        return connection

    def close(self) -> None:
        """Close the connection; a second call has no effect."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
