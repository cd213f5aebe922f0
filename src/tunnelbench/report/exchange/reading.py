"""Reads a run that others wrote: nothing in it is believed before it was looked at."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

from pydantic import ValidationError

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.text import printable
from tunnelbench.report.document import Document, compose
from tunnelbench.report.exchange.file import CHECKSUM, FORMAT, FORMAT_NUMBER, File, FileTrial, checksum
from tunnelbench.report.exchange.plausible import doubtful_figures, impossible_figure
from tunnelbench.report.text import one_line

LARGEST_BYTES = 64_000_000
"""A run of ten thousand trials takes about half of it."""
DEEPEST = 24
"""Objects and arrays in one another; a file that `export` writes has 8."""
LONGEST_TEXT = 1_000_000
LARGEST_NUMBER = 2**63 - 1
"""What a database holds."""

IMPORTED = "imported"
"""The status of a run that came from a file."""

HINT = "ask for the file again: tunnelbench export RUN -o FILE"


@dataclass(frozen=True)
class Imported:
    """A run from a file, ready to be stored."""

    document: Document
    """What reports say of it."""
    original_id: str
    """Where it was measured."""
    written_by: str
    """The version of TunnelBench that the file says it was written by."""
    stripped: Mapping[str, int]
    doubtful: tuple[str, ...]
    """Figures that the rules of the audit do not believe, in sentences."""

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
    """The run in a file. WrongInput, in a sentence, where it is not such a file, was changed or cannot be true."""
    whole = _object(content)
    _require_kind(whole)
    _require_plain(whole)
    if whole.get(CHECKSUM) != checksum(whole):
        raise WrongInput("its checksum does not match: it was cut off, or changed after it was written", HINT)
    try:
        file = File.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])[:200]
        _refuse(f"{place}: {first['msg']}" if place else first["msg"])
    records = _records(file)
    speeds = file.cipher_speeds
    _require_times(file.run, records)
    if found := impossible_figure(records, speeds):
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
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Not a bug of the report: from what is measured it can always be made.
        _refuse(f"no report can be made of its figures: {error}")
    notes = tuple(_notes(file, doubtful))
    marked = replace(
        document,
        run=replace(run, notes=(*notes, *run.notes)),
        cautions=(*(one_line(note) for note in notes), *document.cautions),
    )
    return Imported(marked, file.run.run_id, file.written_by, file.stripped, doubtful)


def _notes(file: File, doubtful: Sequence[str]) -> list[str]:
    was = f"; it was {file.run.status} there" if file.run.status not in {"done", IMPORTED} else ""
    written = f"TunnelBench {file.written_by}" if file.written_by else "a version of TunnelBench that is not known"
    origin = (
        f"Imported: run {file.run.run_id}, from a file that says it was written by {written}. By whom it was measured, "
        f"and that nothing was changed before the file was written, is not known{was}."
    )
    notes = [origin]
    if doubtful:
        notes.append(f"The audit does not believe {len(doubtful)} of its figures: {'; '.join(doubtful[:3])}.")
    return notes


def _object(content: bytes) -> dict[str, Any]:
    if len(content) > LARGEST_BYTES:
        raise WrongInput(f"it is larger than {LARGEST_BYTES // 1_000_000} MB", HINT)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise WrongInput("it is not UTF-8", HINT) from None
    try:
        whole = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise WrongInput("it is nested too deeply", HINT) from None
    except json.JSONDecodeError as error:
        raise WrongInput(f"it is not JSON: line {error.lineno}: {error.msg}", HINT) from None
    except ValueError as error:  # a number with thousands of digits
        raise WrongInput(f"a number in it is none: {error}", HINT) from None
    if not isinstance(whole, dict):
        raise WrongInput("it is JSON, but no run: not an object", HINT)
    return whole


def _require_kind(whole: Mapping[str, Any]) -> None:
    if whole.get("format") != FORMAT:
        raise WrongInput(f"it is JSON, but no run to be imported: its format is not {FORMAT}", HINT)
    number = whole.get("format_number")
    if isinstance(number, int) and not isinstance(number, bool) and number > FORMAT_NUMBER:
        message = f"it has format {number}; this version reads format {FORMAT_NUMBER}"
        raise WrongInput(message, "import it with a newer TunnelBench")


def _require_plain(whole: Mapping[str, Any]) -> None:
    """No deep nesting, no text or number that no store holds; WrongInput where there is one."""
    level: list[Any] = [whole]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is dict:
                below += value
                below += value.values()
            elif kind is list:
                below += value
            elif kind is str:
                if len(value) > LONGEST_TEXT:
                    raise WrongInput(f"a text in it has more than {LONGEST_TEXT} characters", HINT)
            elif value is not None and not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
                raise WrongInput("a number in it is larger than anything that can be counted", HINT)
        level = below
    if level:
        raise WrongInput("it is nested too deeply", HINT)


def _no_number(name: str) -> NoReturn:
    raise WrongInput(f"a number in it is none: {name}", HINT)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise WrongInput(f"a number in it is too large: {text[:40]}", HINT)
    return value


def _records(file: File) -> tuple[TrialRecord, ...]:
    if len({trial.spec.sequence for trial in file.trials}) != len(file.trials):
        _refuse("two trials have the same place")
    if len({speed.key for speed in file.cipher_speeds}) != len(file.cipher_speeds):
        _refuse("a cipher's speed is in it twice")
    return tuple(_record(trial, file) for trial in sorted(file.trials, key=lambda trial: trial.spec.sequence))


def _record(trial: FileTrial, file: File) -> TrialRecord:
    if trial.proof is not None and trial.proof >= len(file.proofs):
        _refuse(f"trial {trial.spec.sequence} names proof {trial.proof}, which is not there")
    return TrialRecord(
        spec=trial.spec,
        outcome=trial.outcome,
        reason=trial.reason,
        started_at=trial.started_at,
        ended_at=trial.ended_at,
        checks=trial.checks,
        tcp=trial.tcp,
        udp=trial.udp,
        waited_for_quiet_s=trial.waited_for_quiet_s,
        proof=None if trial.proof is None else file.proofs[trial.proof],
    )


def _require_times(run: RunRecord, records: Sequence[TrialRecord]) -> None:
    named = [("the run", run.started_at)] + [(f"trial {each.spec.sequence}", each.started_at) for each in records]
    for what, text in named:
        try:
            has_zone = datetime.fromisoformat(text).tzinfo is not None
        except ValueError:
            has_zone = False
        if not has_zone:
            _refuse(f"{what} began at no time: {text[:60]!r}")


def _refuse(why: str) -> NoReturn:
    raise WrongInput(f"it is not a run as it is measured: {printable(why)[:500]}", HINT)
