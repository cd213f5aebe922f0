"""Warnings of a run: every check that is not ok and every trial without a figure, grouped by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.number_format import percent
from tunnelbench.analysis.summary import Row, TrialClass, row_key
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Outcome, TrialRecord, Verdict

LIMIT_RULE = 17

_STANDALONE_NUMBER = re.compile(r"(?<![\w.:-])\d+(?:,\d{3})*(?:\.\d+)?(?![.:-]?\w)")
"""A number that is not part of a name (AES-128-GCM), a version (2.6.14) or a time (10:30)."""


@dataclass(frozen=True)
class TrialWarning:
    """One warning about some trials of one tunnel."""

    trial_class: TrialClass
    check: str
    """Name of the check; empty: the trial has no figure for this reason."""
    rule: int | None
    tunnel: str
    reason: str
    """Reason. If the reasons of the trials differ only in numbers, this text contains the range of each number."""
    trials: tuple[TrialSpec, ...]
    is_every_trial: bool
    """True if the warning applies to all trials of the tunnel."""

    @property
    def where(self) -> str:
        """Trials in words, such as `1448 down, 1448 up (rounds 1-3)`."""
        if self.is_every_trial:
            return "every trial"
        rounds: dict[str, set[int]] = {}
        for spec in self.trials:
            rounds.setdefault(spec.what, set()).add(spec.round)
        places: dict[str, list[str]] = {}
        for place, numbers in rounds.items():
            places.setdefault(_rounds_in_words(numbers), []).append(place)
        return "; ".join(f"{', '.join(group)} ({words})" for words, group in places.items())


def trial_warnings(records: Sequence[TrialRecord], rows: Sequence[Row]) -> tuple[TrialWarning, ...]:
    """Return all warnings by class, from refused to note; within a class in the order of the plan."""
    ordered = sorted(records, key=lambda record: record.spec.sequence)
    found = [(record.spec, *each) for record in ordered for each in _warnings_of(record)]
    for row in rows:
        if reason := _above_limit(row, ordered):
            specs = [record.spec for record in ordered if record.counts and row_key(record.spec) == row.key]
            found += [(spec, TrialClass.DOUBTFUL, "physical-limit", LIMIT_RULE, reason) for spec in specs]
    groups: dict[tuple[TrialClass, str, int | None, str, tuple[str, ...]], list[tuple[TrialSpec, str]]] = {}
    for spec, each, check, rule, reason in found:
        key = (each, check, rule, spec.tunnel.name, tuple(_STANDALONE_NUMBER.split(reason)))
        groups.setdefault(key, []).append((spec, reason))
    trials_of = Counter(record.spec.tunnel.name for record in ordered)
    warnings = []
    for (each, check, rule, tunnel, _), members in groups.items():
        trials = {spec.sequence: spec for spec, _ in members}
        reason = merged([reason for _, reason in members])
        every = len(trials) == trials_of[tunnel]
        warnings.append(TrialWarning(each, check, rule, tunnel, reason, tuple(trials.values()), every))
    return tuple(sorted(warnings, key=lambda warning: _ORDER.index(warning.trial_class)))


_ORDER = (
    TrialClass.REFUSED,
    TrialClass.UNAVAILABLE,
    TrialClass.GIVEN_UP,
    TrialClass.VOID,
    TrialClass.DOUBTFUL,
    TrialClass.NOTE,
)


def merged(reasons: Sequence[str]) -> str:
    """Merge reasons that differ only in numbers: each number that differs becomes `low to high`."""
    columns = zip(*(_STANDALONE_NUMBER.findall(reason) for reason in reasons), strict=True)
    ranges = iter([_range(column) for column in columns])
    return _STANDALONE_NUMBER.sub(lambda _: next(ranges), reasons[0])


def _range(numbers: Iterable[str]) -> str:
    ordered = sorted(numbers, key=lambda number: float(number.replace(",", "")))
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def _warnings_of(record: TrialRecord) -> Iterable[tuple[TrialClass, str, int | None, str]]:
    """Yield class, check name, rule and reason of each check that is not ok; one that proof and trial share only
    once."""
    reported = set()
    if record.outcome is not Outcome.MEASURED:
        reported.add(record.reason)
        yield TrialClass(record.outcome.value), "", None, record.reason
    # The reason of a refused trial is the failed check of its proof.
    proof = record.proof.checks if record.proof and record.outcome is not Outcome.REFUSED else ()
    for check in (*record.checks, *proof):
        if check.verdict is not Verdict.OK and check.reason not in reported:
            reported.add(check.reason)
            yield TrialClass(check.verdict.value), check.name, check.rule, check.reason


def _above_limit(row: Row, records: Iterable[TrialRecord]) -> str:
    """Return why the row's median is impossible (above the limit of the line); empty if it is possible or a check says
    so already."""
    if row.figures is None or row.figures.share_of_limit is None or not row.figures.is_above_limit:
        return ""
    checks = [check for record in records if row_key(record.spec) == row.key for check in record.checks]
    if any(check.rule == LIMIT_RULE and check.verdict is not Verdict.OK for check in checks):
        return ""
    return f"the median is {percent(row.figures.share_of_limit.median)} of the limit of the line"


def _rounds_in_words(rounds: Iterable[int]) -> str:
    """Return `round 2`, `rounds 1-3, 5`, or `calibration` for round 0."""
    ordered = sorted(rounds)
    if ordered == [0]:
        return "calibration"
    spans: list[list[int]] = []
    for number in ordered:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    words = ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)
    return f"round{'s' if len(ordered) > 1 else ''} {words}"
