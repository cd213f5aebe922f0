"""Reads an exported run from a file that may come from anybody. Every value is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from pydantic import ValidationError

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import IMPORTED, RunRecord, TrialRecord
from tunnelbench.model.text import counted, printable
from tunnelbench.plan.check import error_words
from tunnelbench.report.document import Document, compose
from tunnelbench.report.exchange.file import CHECKSUM, FORMAT, FORMAT_NUMBER, ExportedFile, FileTrial, checksum
from tunnelbench.report.exchange.json_object import json_object
from tunnelbench.report.exchange.plausibility import doubtful_figures, impossible_figure
from tunnelbench.report.text import one_line

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""Earliest accepted time: a machine without a battery-backed clock begins at 1970."""

_WORDS = {
    "unexpected_keyword_argument": "is not a field of an exported run",
    "extra_forbidden": "is not a field of an exported run",
    "missing_argument": "is missing",
    "dataclass_type": "must be an object",
    "dataclass_exact_type": "must be an object",
}
"""Messages for errors that plans do not have, by pydantic's name of the error."""

EXPORT_HINT = "ask for the file again: tunnelbench export RUN -o FILE"


@dataclass(frozen=True)
class Imported:
    """A run from a file, ready to be stored."""

    document: Document
    """Content of the reports of the run."""
    original_id: str
    """Id of the run where it was measured."""
    written_by: str
    """The version of TunnelBench that the file says it was written by."""
    stripped: Mapping[str, int]
    doubtful: tuple[str, ...]
    """Figures that break a rule of the audit, in sentences."""
    original_status: str = ""
    """Status of the run where it was measured, as in `RunRecord`; empty if it did not come from a file."""
    own_notes: tuple[str, ...] = ()
    """Notes that the run has where it was measured; those of `run` say in addition that it was imported."""

    @property
    def run(self) -> RunRecord:
        return self.document.run

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        return self.document.records

    @property
    def speeds(self) -> tuple[CipherSpeed, ...]:
        return self.document.speeds


def read(content: bytes) -> Imported:
    """Return the run in a file. Raises WrongInput if it is no such file, was changed or is impossible."""
    whole = json_object(content, EXPORT_HINT)
    _require_kind(whole)
    if whole.get(CHECKSUM) != checksum(whole):
        raise WrongInput("its checksum does not match: it was cut off, or changed after it was written", EXPORT_HINT)
    del whole  # it takes several times the memory of the file
    try:
        file = ExportedFile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])[:200]
        words = _WORDS.get(first["type"]) or error_words(first)
        _refuse(f"{place}: {words}" if place else words)
    records = _records(file)
    speeds = file.cipher_speeds
    _require_times(file.run, records)
    if found := impossible_figure(file.run, records, speeds):
        _refuse(found)
    run = replace(
        file.run,
        run_id=f"imported-{file.checksum[:12]}",
        status=IMPORTED,
        trials_recorded=len(records),
        speeds_recorded=len(speeds) or None,
    )
    try:
        document = compose(run, records, speeds=speeds)
        doubtful = doubtful_figures(records, document.rows)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # This is no bug of the report, which can always be made from measured figures.
        _refuse(f"no report can be made of its figures: {error}")
    notes = tuple(_notes(file, doubtful))
    marked = replace(
        document,
        run=replace(run, notes=(*notes, *run.notes)),
        cautions=(*(one_line(note) for note in notes), *document.cautions),
    )
    return Imported(
        document=marked,
        original_id=file.run.run_id,
        written_by=file.written_by,
        stripped=file.stripped,
        doubtful=doubtful,
        original_status=file.run.status,
        own_notes=file.run.notes,
    )


def _notes(file: ExportedFile, doubtful: Sequence[str]) -> list[str]:
    was = f"; it was {file.run.status} there" if file.run.status not in {"done", IMPORTED} else ""
    written = f"TunnelBench {file.written_by}" if file.written_by else "an unknown version of TunnelBench"
    origin = (
        f"Imported: run {file.run.run_id}, from a file that says it was written by {written}. It is unknown who "
        f"measured it and whether it was changed before the file was written{was}."
    )
    notes = [origin]
    if doubtful:
        notes.append(f"{counted(len(doubtful), 'figure')} broke a rule of the audit: {'; '.join(doubtful[:3])}.")
    return notes


def _require_kind(whole: Mapping[str, Any]) -> None:
    if whole.get("format") != FORMAT:
        raise WrongInput(f"it is JSON, but not an exported run: its format is not {FORMAT}", EXPORT_HINT)
    number = whole.get("format_number")
    if isinstance(number, int) and not isinstance(number, bool) and number > FORMAT_NUMBER:
        message = f"it has format {number}; this version reads format {FORMAT_NUMBER}"
        raise WrongInput(message, "import it with a newer TunnelBench")


def _records(file: ExportedFile) -> tuple[TrialRecord, ...]:
    if len({trial.spec.sequence for trial in file.trials}) != len(file.trials):
        _refuse("two trials have the same sequence number")
    if len({speed.key for speed in file.cipher_speeds}) != len(file.cipher_speeds):
        _refuse("it contains the speed of a cipher twice")
    return tuple(_record(trial, file) for trial in sorted(file.trials, key=lambda trial: trial.spec.sequence))


def _record(trial: FileTrial, file: ExportedFile) -> TrialRecord:
    if trial.proof is not None and trial.proof >= len(file.proofs):
        _refuse(f"trial {trial.spec.sequence} names proof {trial.proof}, which does not exist")
    if trial.tcp is not None and trial.udp is not None:
        _refuse(f"trial {trial.spec.sequence} has figures of TCP and of UDP")
    return TrialRecord(
        spec=trial.spec,
        outcome=trial.outcome,
        reason=trial.reason,
        started_at=trial.started_at,
        ended_at=trial.ended_at,
        checks=trial.checks,
        measurement=trial.tcp or trial.udp,
        waited_for_quiet_s=trial.waited_for_quiet_s,
        proof=None if trial.proof is None else file.proofs[trial.proof],
    )


def _require_times(run: RunRecord, records: Sequence[TrialRecord]) -> None:
    """Raise WrongInput if a start or end of the run or a trial is not a valid time, before 1970 or after tomorrow."""
    named = [("the run", run)] + [(f"trial {each.spec.sequence}", each) for each in records]
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for what, each in named:
        for what_time, text in (("start", each.started_at), ("end", each.ended_at)):
            if text is None:
                continue  # the run was killed
            try:
                time = datetime.fromisoformat(text)
                is_time = time.tzinfo is not None and EARLIEST <= time <= tomorrow
            except (ValueError, OverflowError):
                is_time = False
            if not is_time:
                _refuse(f"{what} has no valid time of its {what_time}: {text[:60]!r}")


def _refuse(why: str) -> NoReturn:
    raise WrongInput(f"it is not a valid run: {printable(why)[:500]}", EXPORT_HINT)
