"""What is to be doubted in a run: every check that is not ok and every trial without a figure, grouped by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.numbers import percent
from tunnelbench.analysis.summary import Row, TrialClass
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Outcome, TrialRecord, Verdict

LIMIT_RULE = 17

_NUMBER = re.compile(r"(?<![\w.:-])\d+(?:,\d{3})*(?:\.\d+)?(?![.:-]?\w)")
"""A number that stands alone: not part of a name (AES-128-GCM), a version (2.6.14) or a time (10:30)."""


@dataclass(frozen=True)
class Doubt:
    """One thing said of some trials of one tunnel."""

    trial_class: TrialClass
    check: str
    """Name of the check; empty: the trial has no figure for the reason given."""
    rule: int | None
    tunnel: str
    reason: str
    """Where the reasons of several trials differ in their figures alone: with each figure's range."""
    trials: tuple[TrialSpec, ...]
    is_every_trial: bool
    """Whether it holds for all trials of the tunnel."""

    @property
    def where(self) -> str:
        """The trials in words, such as `1448 in, 1448 out (rounds 1-3)`."""
        if self.is_every_trial:
            return "every trial"
        rounds: dict[str, set[int]] = {}
        for spec in self.trials:
            rounds.setdefault(f"{spec.payload_bytes} {spec.direction}", set()).add(spec.round)
        places: dict[str, list[str]] = {}
        for place, numbers in rounds.items():
            places.setdefault(_rounds_in_words(numbers), []).append(place)
        return "; ".join(f"{', '.join(group)} ({words})" for words, group in places.items())


def doubts(records: Sequence[TrialRecord], rows: Sequence[Row]) -> tuple[Doubt, ...]:
    """All doubts: refused, unavailable, given up, void, doubtful, note; within a class in the order of the plan."""
    ordered = sorted(records, key=lambda record: record.spec.sequence)
    said = [(record.spec, *each) for record in ordered for each in _said_of(record)]
    for row in rows:
        if reason := _above_limit(row, ordered):
            specs = [record.spec for record in ordered if record.counts and _is_of(record, row)]
            said += [(spec, TrialClass.DOUBTFUL, "physical-limit", LIMIT_RULE, reason) for spec in specs]
    groups: dict[tuple[TrialClass, str, int | None, str, tuple[str, ...]], list[tuple[TrialSpec, str]]] = {}
    for spec, each, check, rule, reason in said:
        key = (each, check, rule, spec.tunnel.name, tuple(_NUMBER.split(reason)))
        groups.setdefault(key, []).append((spec, reason))
    trials_of = Counter(record.spec.tunnel.name for record in ordered)
    found = []
    for (each, check, rule, tunnel, _), members in groups.items():
        trials = {spec.sequence: spec for spec, _ in members}
        reason = merged([reason for _, reason in members])
        every = len(trials) == trials_of[tunnel]
        found.append(Doubt(each, check, rule, tunnel, reason, tuple(trials.values()), every))
    return tuple(sorted(found, key=lambda doubt: _ORDER.index(doubt.trial_class)))


_ORDER = (
    TrialClass.REFUSED,
    TrialClass.UNAVAILABLE,
    TrialClass.GIVEN_UP,
    TrialClass.VOID,
    TrialClass.DOUBTFUL,
    TrialClass.NOTE,
)


def merged(reasons: Sequence[str]) -> str:
    """One sentence for reasons that differ in their figures alone: each figure that differs as `low to high`."""
    columns = zip(*(_NUMBER.findall(reason) for reason in reasons), strict=True)
    ranges = iter([_range(column) for column in columns])
    return _NUMBER.sub(lambda _: next(ranges), reasons[0])


def _range(numbers: Iterable[str]) -> str:
    ordered = sorted(numbers, key=lambda number: float(number.replace(",", "")))
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def _said_of(record: TrialRecord) -> Iterable[tuple[TrialClass, str, int | None, str]]:
    """Class, check, rule and reason of all that is not ok; a proof's check that is also the trial's is said once."""
    said = set()
    if record.outcome is not Outcome.MEASURED:
        said.add(record.reason)
        yield TrialClass(record.outcome.value), "", None, record.reason
    # Why a tunnel was refused is its reason; the checks of its proof would only say it again.
    proof = record.proof.checks if record.proof and record.outcome is not Outcome.REFUSED else ()
    for check in (*record.checks, *proof):
        if check.verdict is not Verdict.OK and check.reason not in said:
            said.add(check.reason)
            yield TrialClass(check.verdict.value), check.name, check.rule, check.reason


def _above_limit(row: Row, records: Iterable[TrialRecord]) -> str:
    """Why the row's median cannot be, unless a check of its trials says so already; empty: it can."""
    if row.figures is None or row.figures.share_of_limit is None or not row.figures.is_above_limit:
        return ""
    checks = [check for record in records if _is_of(record, row) for check in record.checks]
    if any(check.rule == LIMIT_RULE and check.verdict is not Verdict.OK for check in checks):
        return ""
    return f"the median is {percent(row.figures.share_of_limit.median)} of what the line can carry"


def _is_of(record: TrialRecord, row: Row) -> bool:
    spec = record.spec
    return (spec.tunnel.name, spec.payload_bytes, spec.direction) == (
        row.tunnel.name,
        row.payload_bytes,
        row.direction,
    )


def _rounds_in_words(rounds: Iterable[int]) -> str:
    """`round 2`, `rounds 1-3, 5`; `calibration` is round 0."""
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
