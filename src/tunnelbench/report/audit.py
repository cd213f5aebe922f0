"""Formats an audit of a published table: the columns that were read, the findings, and the conclusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tunnelbench.analysis.audit.headings import HeadingColumn
from tunnelbench.analysis.audit.rules import Rule
from tunnelbench.analysis.audit.verdict import Audit, ExplainedFinding, RowVerdict, TableVerdict
from tunnelbench.analysis.number_format import significant
from tunnelbench.model.text import counted
from tunnelbench.report.sections import Section
from tunnelbench.report.sheet import Sheet

SMALL_FACTOR = 0.01
AUDITED_HEADER = ("row", "line", "what", "rule", "stated", "expected", "factor", "likeliest cause")
AUDITED_NUMBERS = (0, 1, 4, 5, 6)

RULES_IN_WORDS = {
    Rule.PACKET_RATE: "packets/s = throughput / (8 x payload), within 2 % and the rounding of the figures",
    Rule.LINE_LIMIT: "no more than the link carries of this payload, 0.5 % allowed",
    Rule.CPU_SUM: "parts of the CPU are at most 100 % and at most their total, their rounding allowed",
    Rule.BASELINE: "no more than the same without a tunnel, 0.5 % allowed; a stated share is the quotient, within 2 %",
    Rule.UNITS: "two columns of one throughput agree to the digits printed",
    Rule.SIGN: "nothing below zero",
}


def sheet(audit: Audit, name: str, encoding: str, *, every_row: bool = False) -> Sheet:
    """Return the sheet of an audit; `name` is the table's file, `every_row` adds the rows without a finding."""
    rows = [row for table in audit.tables for row in table.rows]
    words = Counter(row.word for row in rows)
    parts = [f"{words[word]} {word}" for word in ("ok", "wrong", "not checked") if words[word]]
    passed = f", {audit.passed_over} more without a known column" if audit.passed_over else ""
    several = len(audit.tables) > 1
    lines = [
        (f"{number}: " if several else "", row)
        for number, table in enumerate(audit.tables, start=1)
        for row in table.rows
        if every_row or row.found
    ]
    return Sheet(
        title=f"Audit of {name}",
        facts=(
            ("File", f"{encoding}, {counted(len(audit.tables), 'table')}{passed}"),
            ("Rows", f"{len(rows)}: {', '.join(parts)}"),
            *(fact for number, table in enumerate(audit.tables, start=1) for fact in _facts(number, table, several)),
        ),
        cautions=tuple(_cautions(audit)),
        header=AUDITED_HEADER,
        rows=tuple(cells for prefix, row in lines for cells in _cells(prefix, row)),
        numbers=AUDITED_NUMBERS,
        sections=tuple(_sections(audit)),
        data=_data(audit, name, encoding),
    )


def _facts(number: int, table: TableVerdict, several: bool) -> Iterator[tuple[str, str]]:
    which = f" {number}" if several else ""
    yield f"Columns{which}", ", ".join(map(_column, table.columns))
    if table.ignored:
        yield f"Not used{which}", ", ".join(table.ignored)


def _column(column: HeadingColumn) -> str:
    unit = f" in {_unit(column.unit_bps)}" if column.unit_bps else ""
    directions = f" {'/'.join(column.directions)}" if column.directions else ""
    return f"{column.heading} = {column.role}{directions}{unit}"


def _unit(unit_bps: float) -> str:
    for prefix, size in (
        ("", 1.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("Ki", 2.0**10),
        ("Mi", 2.0**20),
        ("Gi", 2.0**30),
    ):
        for name, bits in (("bit/s", 1), ("B/s", 8)):
            if unit_bps == size * bits:
                return prefix + name
    return f"{significant(unit_bps, 7)} bit/s"


def _cautions(audit: Audit) -> Iterator[str]:
    rows = [row for table in audit.tables for row in table.rows]
    unread = Counter(heading for row in rows for heading in row.row.unread)
    for heading, count in unread.items():
        yield f"In {counted(count, 'row')} the column {heading} has no number with a known unit."
    limited = sum(Rule.LINE_LIMIT in row.applied for row in rows)
    if limited < len(rows):
        yield (
            f"The rate of the link is known for {limited} of {counted(len(rows), 'row')}; the others were not checked "
            "against a physical limit. If all rows have the same link, name its rate with --link-mbps."
        )
    bare = sum(row.word == "not checked" for row in rows)
    if bare:
        say = "has" if bare == 1 else "have"
        yield f"{counted(bare, 'row')} {say} too few figures for any rule, so the audit cannot find a mistake in them."


def _cells(prefix: str, row: RowVerdict) -> Iterator[tuple[str, ...]]:
    place = (f"{prefix}{row.row.number}", str(row.row.line), row.row.label)
    if not row.found:
        rules = ", ".join(row.applied)
        yield (*place, rules, "", "", "", row.word)
    for each in row.found:
        finding = each.finding
        most = "at most " if finding.is_bound else ""
        yield (
            *place,
            finding.rule,
            f"{significant(finding.stated.value)} {finding.figure}",
            f"{most}{significant(finding.expected)}",
            _factor(finding.factor) if finding.expected else "",
            each.cause.words,
        )


def _factor(value: float) -> str:
    """Return a factor in words; far below 1 as a fraction, because a wrong unit may mean a millionth."""
    if 0 < value < SMALL_FACTOR:
        return f"1/{significant(1 / value, thousands=True)}"
    return significant(value, 3)


def _sections(audit: Audit) -> Iterator[Section]:
    said = tuple(conclusion for table in audit.tables for conclusion in table.conclusions)
    yield Section("Conclusions", said or ("No printed figure is impossible.",))
    applied = Counter(rule for table in audit.tables for row in table.rows for rule in row.applied)
    rules = [f"{rule}, {counted(applied[rule], 'row')}: {RULES_IN_WORDS[rule]}" for rule in Rule if applied[rule]]
    yield Section("Rules", tuple(rules))


def _data(audit: Audit, name: str, encoding: str) -> dict[str, object]:
    return {
        "file": name,
        "encoding": encoding,
        "tables": [
            {
                "columns": [
                    {"heading": column.heading, "role": column.role, "directions": column.directions}
                    for column in table.columns
                ],
                "ignored": table.ignored,
                "conclusions": table.conclusions,
                "rows": [_row_data(row) for row in table.rows],
            }
            for table in audit.tables
        ],
    }


def _row_data(row: RowVerdict) -> dict[str, object]:
    return {
        "row": row.row.number,
        "line": row.row.line,
        "source": row.row.source,
        "what": row.row.label,
        "verdict": row.word,
        "rules": row.applied,
        "findings": [_finding_data(each) for each in row.found],
    }


def _finding_data(each: ExplainedFinding) -> dict[str, object]:
    finding = each.finding
    return {
        "rule": finding.rule,
        "figure": finding.figure,
        "stated": finding.stated.value,
        "expected": finding.expected,
        "expected_is_the_most": finding.is_bound,
        "factor": finding.factor,
        "reason": finding.reason,
        "single_cause": each.cause.slip,
        "cause": each.cause.words,
    }
