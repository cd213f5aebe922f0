"""The audit of a text: its tables, what is wrong in them, why, and what could not be looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.audit import tables
from tunnelbench.analysis.audit.causes import Cause, causes
from tunnelbench.analysis.audit.headings import Column, is_of_figures
from tunnelbench.analysis.audit.links import links_bps
from tunnelbench.analysis.audit.rows import Entry, entries
from tunnelbench.analysis.audit.rules import Finding, Rule, held
from tunnelbench.model.errors import WrongInput


@dataclass(frozen=True)
class Found:
    """A finding and its likeliest cause."""

    finding: Finding
    cause: Cause


@dataclass(frozen=True)
class RowVerdict:
    """What the audit says of one row."""

    row: Entry
    applied: tuple[Rule, ...]
    """The rules that could be applied, each once."""
    found: tuple[Found, ...]

    @property
    def word(self) -> str:
        """`wrong`, `ok`, or `not checked` where no rule could be applied."""
        if self.found:
            return "wrong"
        return "ok" if self.applied else "not checked"


@dataclass(frozen=True)
class TableVerdict:
    """What the audit says of one table."""

    columns: tuple[Column, ...]
    ignored: tuple[str, ...]
    """Headings that mean nothing to the rules."""
    rows: tuple[RowVerdict, ...]
    without_figures: int
    """Lines without a figure."""
    conclusions: tuple[str, ...]
    """What the findings say together, document by document."""


@dataclass(frozen=True)
class Audit:
    """All tables of a text that hold figures."""

    tables: tuple[TableVerdict, ...]
    passed_over: int
    """Tables without a column that is known."""

    @property
    def found(self) -> tuple[Found, ...]:
        return tuple(each for table in self.tables for row in table.rows for each in row.found)


def audit(
    text: str,
    format_name: str | None = None,
    given: Mapping[str, str] | None = None,
    link_mbps: float | None = None,
) -> Audit:
    """Hold the tables of a text against themselves.

    `given`: heading by key for columns that are not recognised; `link_mbps`: the rate of the link, where the table does
    not say. WrongInput where there is no table, or none with a column that is known.
    """
    verdicts = []
    read = tables.read(text, format_name)
    faults: list[WrongInput] = []
    headings: list[str] = []
    has_headings = False
    for table in read:
        try:
            found = entries(table, given)
        except WrongInput as error:
            faults.append(error)
            continue
        headings += found.headings
        has_headings = has_headings or any(map(is_of_figures, found.headings))
        if found.rows:
            known = {column.position for column in found.columns}
            ignored = [text for position, text in enumerate(found.headings) if position not in known and text]
            rows = _rows(found.rows, link_mbps)
            verdicts.append(TableVerdict(found.columns, tuple(ignored), rows, found.without_figures, conclusions(rows)))
    if not verdicts and faults:
        raise faults[0]
    if not verdicts and has_headings:
        raise WrongInput("there is no figure below the headings that are known", "audit the table with its rows")
    if not verdicts:
        seen = ", ".join(filter(None, headings))[:200] or "none that says anything"
        raise WrongInput(
            f"no column of throughput, packets per second, CPU or share is recognised; headings: {seen}",
            "say which one it is: --column throughput_mbps=HEADING",
        )
    return Audit(tuple(verdicts), len(read) - len(verdicts))


def _rows(rows: Sequence[Entry], link_mbps: float | None) -> tuple[RowVerdict, ...]:
    every = held(rows, links_bps(rows, link_mbps))
    why = iter(causes([each.finding for of_row in every for each in of_row if each.finding]))
    return tuple(
        RowVerdict(
            row,
            tuple(dict.fromkeys(each.rule for each in of_row)),
            tuple(Found(each.finding, next(why)) for each in of_row if each.finding),
        )
        for row, of_row in zip(rows, every, strict=True)
    )


def conclusions(rows: Sequence[RowVerdict]) -> tuple[str, ...]:
    """A sentence for each document and rule that failed: how many rows, the factors, and the causes with their rows."""
    said = []
    for source in dict.fromkeys(row.row.source for row in rows):
        of_source = [row for row in rows if row.row.source == source]
        for rule in Rule:
            found = [each for row in of_source for each in row.found if each.finding.rule is rule]
            if found:
                said.append(_conclusion(source, rule, found, sum(rule in row.applied for row in of_source)))
    return tuple(said)


def _conclusion(source: str, rule: Rule, found: Sequence[Found], applied: int) -> str:
    failed = {(each.finding.row.number, each.finding.row.direction) for each in found}
    factors = [each.finding.factor for each in found]
    low, high = f"{min(factors):.3g}", f"{max(factors):.3g}"
    span = f", by a factor of {low if low == high else f'{low} to {high}'}" if math.isfinite(max(factors)) else ""
    by_cause: dict[str | None, list[str]] = {}
    for each in found:
        place = f"{each.finding.row.number} {each.finding.row.direction}".strip()
        places = by_cause.setdefault(each.cause.slip, [])
        if place not in places:  # a row is told once, whatever many of its figures are off
            places.append(place)
    ordered = sorted(by_cause.items(), key=lambda item: (item[0] is None, -len(item[1])))
    said = [
        f"{len(places)} explained by one slip: {slip}"
        if slip
        else f"{len(places)} explained by no single cause: row {', '.join(places)}"
        for slip, places in ordered
    ]
    where = f"{source}: " if source else ""
    return f"{where}{rule}: {len(failed)} of {applied} rows are off{span}; {'; '.join(said)}."
