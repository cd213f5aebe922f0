"""Audit of a text: its tables, their wrong figures with causes, and the rows that could not be checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tunnelbench.analysis.audit import tables
from tunnelbench.analysis.audit.causes import Cause, causes
from tunnelbench.analysis.audit.headings import HeadingColumn, Role, folded, is_of_figures
from tunnelbench.analysis.audit.links import links_bps
from tunnelbench.analysis.audit.rows import AuditedRow, read_rows
from tunnelbench.analysis.audit.rules import AuditFinding, Rule, apply_rules
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import are, counted


@dataclass(frozen=True)
class ExplainedFinding:
    """A finding and its likeliest cause."""

    finding: AuditFinding
    cause: Cause


@dataclass(frozen=True)
class RowVerdict:
    """Result of the audit of one row."""

    row: AuditedRow
    applied: tuple[Rule, ...]
    """Rules that were applicable, each once."""
    found: tuple[ExplainedFinding, ...]

    @property
    def word(self) -> str:
        """`wrong`, `ok`, or `not checked` if no rule is applicable."""
        if self.found:
            return "wrong"
        return "ok" if self.applied else "not checked"


@dataclass(frozen=True)
class TableVerdict:
    """Result of the audit of one table."""

    columns: tuple[HeadingColumn, ...]
    ignored: tuple[str, ...]
    """Headings that no rule uses."""
    rows: tuple[RowVerdict, ...]
    conclusions: tuple[str, ...]
    """Sentences that sum up the findings of each document."""


@dataclass(frozen=True)
class Audit:
    """Results for all tables of a text that contain figures."""

    tables: tuple[TableVerdict, ...]
    passed_over: int
    """Number of tables without a known column."""

    @property
    def found(self) -> tuple[ExplainedFinding, ...]:
        return tuple(each for table in self.tables for row in table.rows for each in row.found)


def audit(
    text: str,
    format_name: str | None = None,
    given: Mapping[str, str] | None = None,
    link_mbps: float | None = None,
    added_bytes: Mapping[str, int] | None = None,
) -> Audit:
    """Check the figures of the tables in a text against each other.

    `given` holds headings by key, for columns that are not recognised. `link_mbps` is the rate of the link, if the
    table does not state it. `added_bytes` has the bytes that each kind of tunnel adds to a packet. Raises WrongInput if
    there is no table, or no table with a known column.
    """
    verdicts = []
    read = tables.read(text, format_name)
    faults: list[WrongInput] = []
    headings: list[str] = []
    has_headings = False
    for table in read:
        try:
            found = read_rows(table, given)
        except WrongInput as error:
            faults.append(error)
            continue
        headings += found.headings
        has_headings = has_headings or any(map(is_of_figures, found.headings))
        if found.rows:
            known = {column.position for column in found.columns}
            ignored = [text for position, text in enumerate(found.headings) if position not in known and text]
            rows = _rows([_with_added_bytes(row, added_bytes or {}) for row in found.rows], link_mbps)
            verdicts.append(TableVerdict(found.columns, tuple(ignored), rows, conclusions(rows)))
    if not verdicts and faults:
        raise faults[0]
    if not verdicts and has_headings:
        raise WrongInput("there is no figure below the known headings", "audit the table with its rows")
    if not verdicts:
        seen = ", ".join(filter(None, headings))[:200] or "none"
        raise WrongInput(
            f"no column of throughput, packets per second, CPU or share is recognised; headings: {seen}",
            "name the column: --column throughput_mbps=HEADING",
        )
    return Audit(tuple(verdicts), len(read) - len(verdicts))


def _with_added_bytes(row: AuditedRow, added_bytes: Mapping[str, int]) -> AuditedRow:
    return replace(row, added_bytes=added_bytes.get(folded(row.text.get(Role.TUNNEL, "")), 0))


def _rows(rows: Sequence[AuditedRow], link_mbps: float | None) -> tuple[RowVerdict, ...]:
    every = apply_rules(rows, links_bps(rows, link_mbps))
    why = iter(causes([each.finding for of_row in every for each in of_row if each.finding]))
    return tuple(
        RowVerdict(
            row,
            tuple(dict.fromkeys(each.rule for each in of_row)),
            tuple(ExplainedFinding(each.finding, next(why)) for each in of_row if each.finding),
        )
        for row, of_row in zip(rows, every, strict=True)
    )


def conclusions(rows: Sequence[RowVerdict]) -> tuple[str, ...]:
    """Return a sentence for each document and failed rule, with the number of rows, the factors and the causes."""
    said = []
    for source in dict.fromkeys(row.row.source for row in rows):
        of_source = [row for row in rows if row.row.source == source]
        for rule in Rule:
            found = [each for row in of_source for each in row.found if each.finding.rule is rule]
            if found:
                said.append(_conclusion(source, rule, found, sum(rule in row.applied for row in of_source)))
    return tuple(said)


def _conclusion(source: str, rule: Rule, found: Sequence[ExplainedFinding], applied: int) -> str:
    failed = {(each.finding.row.number, each.finding.row.direction) for each in found}
    factors = [each.finding.factor for each in found]
    low, high = f"{min(factors):.3g}", f"{max(factors):.3g}"
    span = f", by a factor of {low if low == high else f'{low} to {high}'}" if math.isfinite(max(factors)) else ""
    by_cause: dict[str | None, list[str]] = {}
    for each in found:
        place = f"{each.finding.row.number} {each.finding.row.direction}".strip()
        places = by_cause.setdefault(each.cause.slip, [])
        if place not in places:  # a row is listed once, even if several of its figures are wrong
            places.append(place)
    ordered = sorted(by_cause.items(), key=lambda item: (item[0] is None, -len(item[1])))
    said = [
        f"{len(places)} explained by one slip: {slip}"
        if slip
        else f"{len(places)} explained by no single cause: row {', '.join(places)}"
        for slip, places in ordered
    ]
    where = f"{source}: " if source else ""
    wrong = f"{len(failed)} of {counted(applied, 'row')} {are(len(failed))} wrong"
    return f"{where}{rule}: {wrong}{span}; {'; '.join(said)}."
