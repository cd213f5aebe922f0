"""Makes the result tables of reports for people: the rows of a run as text, with one column for each figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tunnelbench.analysis.comments import class_comments, comments, why_empty
from tunnelbench.analysis.connections import ConnectionRow
from tunnelbench.analysis.summary import Row, joined_versions, trials_by_row
from tunnelbench.analysis.udp import UdpRow
from tunnelbench.model.plan import paced_text, payload_text
from tunnelbench.model.result import GENERATORS, TrialRecord
from tunnelbench.model.text import PROGRAM_TITLES
from tunnelbench.report.figures import AnyRow, Figure, FigureText, TableRow, table_figures
from tunnelbench.report.text import one_line
from tunnelbench.report.udp_comments import udp_comments

CAPTIONS = {
    "tcp": "TCP: medians of the trials that count",
    "udp": "UDP: medians of the trials that count",
    "connections": "TCP connections: medians of the trials that count",
}

STATISTICS = (
    "Figures are the median of the trials that count, with minimum and maximum; from five trials on with the 95 % "
    "bootstrap interval of the median."
)
BEST = (
    "The best of each payload and direction is {mark}, without the baseline; several are if their spreads overlap. "
    "Throughput and packets/s are not ranked if a row of the group is tester-limited."
)
PAYLOAD_AND_DIRECTION = (
    "Payload: TCP payload of a full segment in the plan, in bytes. Direction: down is server to client, up is client "
    "to server."
)
EXTRAPOLATED = "Extrapolated: what one CPU of the router would carry, data and ACKs, at the same cost of a packet."


@dataclass(frozen=True)
class TableLine:
    """One line of a table; the tunnel's name is in its `TunnelRows`. An empty text is unknown."""

    payload: str
    direction: str
    test: str
    """Test of UDP with its load, NDR or PDR; of TCP the rate at which the plan paces it, if it does."""
    figures: Mapping[str, FigureText]
    """Figures of the line as text, by the figure's key; one for each column."""
    comments: tuple[str, ...] = ()
    has_figures: bool = False


@dataclass(frozen=True)
class TunnelRows:
    """All lines of one tunnel."""

    tunnel: str
    versions: tuple[str, ...]
    """`program router (server)`, one for each program."""
    lines: tuple[TableLine, ...]

    @property
    def is_empty_alike(self) -> bool:
        """True if no line has figures, and the reason is the same for all lines."""
        return not any(line.has_figures for line in self.lines) and len({line.comments for line in self.lines}) == 1

    def by_payload(self) -> list[list[TableLine]]:
        """Return the lines in groups of one payload."""
        return [list(lines) for _, lines in groupby(self.lines, key=lambda line: line.payload)]


@dataclass(frozen=True)
class ResultTable:
    """The table of one kind of traffic."""

    kind: str
    """`tcp` or `udp`."""
    columns: tuple[Figure, ...]
    blocks: tuple[TunnelRows, ...]

    @property
    def caption(self) -> str:
        return CAPTIONS[self.kind]

    @property
    def has_tests(self) -> bool:
        """True if a column names the test."""
        return self.kind != "tcp"

    @property
    def lines(self) -> list[TableLine]:
        return [line for block in self.blocks for line in block.lines]


def result_table(
    kind: str, rows: Sequence[AnyRow], records: Sequence[TrialRecord], *, thousands: bool = False
) -> ResultTable:
    """Return the table of the rows by tunnel; `thousands`: with commas in large numbers."""
    columns, trials = table_figures(kind, rows_with_trials(rows, records)), trials_by_row(records)
    by_tunnel: dict[str, list[AnyRow]] = {}
    for row in rows:
        by_tunnel.setdefault(row.tunnel.name, []).append(row)
    return ResultTable(
        kind,
        columns,
        tuple(
            TunnelRows(
                one_line(name),
                version_lines(joined_versions(record for row in own for record in trials[row.key])),
                tuple(
                    _line(found, columns, thousands)
                    for row in own
                    for found in _table_rows(row, tuple(trials[row.key]))
                ),
            )
            for name, own in by_tunnel.items()
        ),
    )


def rows_with_trials(rows: Sequence[AnyRow], records: Sequence[TrialRecord]) -> list[TableRow]:
    """Return each row of the analysis with its trials."""
    trials = trials_by_row(records)
    return [TableRow(row, tuple(trials[row.key])) for row in rows]


def legend(kind: str, rows: Sequence[TableRow], mark: str) -> Iterator[str]:
    """Yield the paragraphs that say how to read a table of rows; `mark`: how the best is marked, such as `bold`."""
    if kind == "tcp":
        yield f"{STATISTICS} {BEST.format(mark=mark)}"
    start, end = (
        (PAYLOAD_AND_DIRECTION, EXTRAPOLATED)
        if kind == "tcp"
        else (f"{'UDP' if kind == 'udp' else 'TCP connections'}.", "")
    )
    yield " ".join(filter(None, (start, *(figure.help for figure in table_figures(kind, rows)), end)))


def version_lines(versions: Mapping[str, str]) -> tuple[str, ...]:
    """Return `openvpn 2.6.14 (2.6.14)` for each program of the tunnel: at the router, in brackets at the other end."""
    ends: dict[str, dict[str, str]] = {}
    for key, version in versions.items():
        end, _, program = key.partition(".")
        if program not in GENERATORS:
            ends.setdefault(program, {})[end] = one_line(version)
    return tuple(
        one_line(f"{PROGRAM_TITLES.get(program, program)} {by_end.pop('router', '-')} ({_first(by_end.values())})")
        for program, by_end in ends.items()
    )


def _first(versions: Iterable[str]) -> str:
    return next(iter(versions), "-")


def _table_rows(row: AnyRow, trials: tuple[TrialRecord, ...]) -> list[TableRow]:
    """Return a row for each line of the table: a search has one for its NDR and one for its PDR."""
    goals = ("NDR", "PDR") if isinstance(row, UdpRow) and row.test.is_search and row.figures else ("",)
    return [TableRow(row, trials, goal) for goal in goals]


def _remarks(row: AnyRow) -> tuple[str, ...]:
    if isinstance(row, ConnectionRow):
        return why_empty(row) if row.figures is None else tuple(class_comments(row))
    return udp_comments(row) if isinstance(row, UdpRow) else comments(row)


def _line(found: TableRow, columns: Sequence[Figure], thousands: bool) -> TableLine:
    row = found.row
    is_udp = isinstance(row, UdpRow)
    remarks = () if found.goal == "PDR" else _remarks(row)
    return TableLine(
        payload=payload_text(row.payload_bytes, is_udp=is_udp),
        direction=row.direction.label,
        test=found.goal or (paced_text(row.load) if isinstance(row, Row) else f"{row.test} {row.load}".rstrip()),
        figures={figure.key: figure.text(found, thousands=thousands) for figure in columns},
        comments=tuple(one_line(remark) for remark in remarks),
        has_figures=row.figures is not None,
    )
