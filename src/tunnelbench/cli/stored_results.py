"""The results of the run that is measured now: in the store, and in a recovery file if the store is lost."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tunnelbench.cli.stderr_messages import report_error, say
from tunnelbench.host.signals import AskedToEnd, undisturbed
from tunnelbench.measure.clock_check import now
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import CannotHere, KeptForDebugging, StoreAway, StoreAwayAtEnd, StoreLost, UserError
from tunnelbench.model.result import RESUME_HINT, RunRecord, TrialRecord
from tunnelbench.model.text import are, counted
from tunnelbench.report.exchange import export
from tunnelbench.store.soaks import SoakTables
from tunnelbench.store.store import Store


@dataclass
class StoredResults:
    """The results of one run in a store, with a copy of the records, without the output of programs, in memory.

    A context manager: leaving it stores how the run ended, and checks that the store has all trials.
    """

    store: Store
    run: RunRecord
    trials: list[TrialRecord] = field(default_factory=list)
    speeds: list[CipherSpeed] = field(default_factory=list)
    stored: int = field(init=False)
    """Number of trials that the store has acknowledged."""

    def __post_init__(self) -> None:
        self.stored = len(self.trials)

    @property
    def soaks(self) -> SoakTables:
        return self.store.soaks(self.run.run_id)

    def add_trial(self, record: TrialRecord) -> None:
        proof = replace(record.proof, raw={}) if record.proof else None
        self.trials.append(replace(record, raw={}, proof=proof))  # before the store fails
        self.store.add_trial(self.run.run_id, record)
        self.stored += 1

    def add_cipher_speed(self, speed: CipherSpeed) -> None:
        self.speeds.append(speed)
        self.store.add_cipher_speed(self.run.run_id, speed)

    def __enter__(self) -> Self:
        return self

    @undisturbed
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Store how the run ended. If the store has lost results, raise StoreLost that names the recovery file."""
        is_asked = isinstance(error, AskedToEnd)
        try:
            self._end("done" if error is None else "interrupted" if is_asked else "failed", is_urgent=is_asked)
            if isinstance(error, StoreLost):
                raise error
        except StoreLost as lost:
            rescued = self._rescued(lost)
            if not isinstance(error, KeptForDebugging):
                raise rescued from None
            report_error(rescued)  # the testbed is kept all the same

    def _end(self, status: str, *, is_urgent: bool) -> None:
        """Store how the run ended. A failure to store it must not hide why the run ended.

        Raises StoreLost if the store does not have all trials, or if it can be neither written nor read.
        """
        run_id = self.run.run_id
        failed: UserError | ValueError | None = None
        try:
            self.store.end_run(run_id, status, now())
        except StoreLost:
            raise
        except (UserError, ValueError) as error:  # ValueError: the store does not have the run
            failed = error
        unread: CannotHere | None = None
        try:
            self.store.require_kept(run_id, self.stored, is_urgent=is_urgent)
        except StoreLost:
            raise
        except CannotHere as error:
            unread = error
        if isinstance(failed, UserError) and status != "done":
            say(f"tunnelbench: {failed.message}")
            say(f"hint: the store shows run {run_id} as running; tunnelbench run --resume {run_id} corrects that")
        elif failed and not unread:
            raise failed
        if failed and unread:
            kind = StoreAwayAtEnd if isinstance(unread, StoreAway) else StoreLost
            raise kind(unread.message, unread.hint)

    def _rescued(self, error: StoreLost) -> StoreLost:
        """Write the records to a recovery file, and return the error with the name of the file.

        The file is made in the folder of the store, or in the current one, or in /var/tmp. It is as from
        `tunnelbench export`: the series of soaks are not in it.
        """
        if not self.trials:
            return error
        run = replace(self.run, status="failed", ended_at=now(), trials_recorded=len(self.trials))
        content = export(run, self.trials, self.speeds).text.encode()
        for folder in (Path(self.store.name).parent, Path(), Path("/var/tmp")):  # noqa: S108 # O_EXCL
            with suppress(OSError):  # also if the current folder was deleted, together with the store in it
                path = folder.absolute() / f"tunnelbench-{run.run_id}.json"
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                number = len(self.trials)
                what = f"{counted(number, 'trial')} {are(number)}"
                return type(error)(
                    f"{error.message}; the run has ended, and its {what} in {path}",
                    f"tunnelbench import {path} stores them; {error.hint}",
                )
        return type(error)(f"{error.message}; a recovery file could not be written", error.hint)


def say_what_is_kept(run_id: str, done: int, store: Store, error: BaseException) -> None:
    """Print, after a run that ended early, which results are stored, how to show them and how to resume."""
    kept = [f"{counted(done, 'trial')} {are(done)}"] if done else []
    if has_soak(store, run_id):
        kept.append("the measured part of a soak is")
    if not kept:
        return
    ended = "interrupted" if isinstance(error, AskedToEnd) else "ended early"
    say(f"tunnelbench: run {run_id} {ended}; {' and '.join(kept)} kept in {store.name}")
    say(f"hint: tunnelbench report {run_id} shows them")
    say(f"{RESUME_HINT} {run_id} measures the missing trials")


def has_soak(store: Store, run_id: str) -> bool:
    """Return True if the store has a part of a soak. An error of the store must not hide why the run ended."""
    try:
        return bool(store.soaks(run_id).all())
    except UserError:
        return False
