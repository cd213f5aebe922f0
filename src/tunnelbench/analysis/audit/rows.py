"""Rows of a table as quantities, one for each direction that a line of the table contains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tunnelbench.analysis.audit.headings import OF_NUMBERS, SIZES, HeadingColumn, Role, folded, rate_unit, recognise
from tunnelbench.analysis.audit.quantities import Quantity, has_decimal_comma, multiplied, quantity
from tunnelbench.analysis.audit.tables.table import PublishedTable, TextRow
from tunnelbench.model.errors import WrongInput

HEADING_WITHIN = 10
"""Number of first rows that may be the headings: some tables begin with a title or a legend."""
MOST_AS_FRACTION = 2.0
"""Largest share that is read as a fraction of 1. A larger share is in per cent, even without a percent sign."""
_PARTED = re.compile(r"/(?!s(?:ec)?\b)")
"""Slash between two figures of a cell, but not in a unit such as Mb/s."""

_IN_EFFECT = re.compile(r"payload in effect (\d{1,5})\b")
_BASELINE = re.compile(
    r"none|no (?:vpn|tunnel)|sans (?:vpn|tunnel)|aucun|baseline|reference|plain routing|routage(?: simple)?|without.*"
)
_CALIBRATION = re.compile(r"\Adirect\Z|back[ -]to[ -]back|\Acalibration|\Aetalonnage")


@dataclass(frozen=True)
class Size:
    """Size of one packet."""

    bytes: float
    """Size as stated [bytes]."""
    role: Role

    def payload_bytes(self, headers_bytes: int) -> tuple[float, float]:
        """Return the smallest and the largest possible payload: tables differ in the meaning of packet size."""
        match self.role:
            case Role.MSS:
                return max(1.0, self.bytes - 12), self.bytes  # the MSS includes time stamps (RFC 7323)
            case Role.PACKET:
                return max(1.0, self.bytes - headers_bytes), self.bytes
            case Role.FRAME:
                return max(1.0, self.bytes - headers_bytes - 18), max(1.0, self.bytes - 18)
            case _:
                return self.bytes, self.bytes


@dataclass(frozen=True)
class AuditedRow:
    """One direction of one line of a table; None or empty: not stated."""

    number: int
    """Number of the row in the table, from 1, without headings."""
    line: int
    """Line of the file, from 1."""
    text: Mapping[Role, str]
    direction: str
    size: Size | None
    throughput: Quantity | None
    """Throughput [bit/s]."""
    throughput_again: Quantity | None
    """Throughput from a second column in another unit [bit/s]."""
    packets: Quantity | None
    """Packet rate [packets/s]."""
    cpu_parts: Mapping[str, Quantity]
    """Parts of the CPU time by heading [%]."""
    cpu_total: Quantity | None
    share: Quantity | None
    """Share of the baseline [%]."""
    link_bps: float | None
    added_bytes: int = 0
    """Bytes that the tunnel adds to a packet; 0 if they depend on options or packet, or the tunnel is unknown."""
    unread: tuple[str, ...] = ()
    """Headings of columns whose cell is not empty and contains no readable number."""

    @property
    def is_baseline(self) -> bool:
        return _BASELINE.fullmatch(folded(self.text.get(Role.TUNNEL, ""))) is not None

    @property
    def is_calibration(self) -> bool:
        """True if client and server were connected directly, without the router, so that the row may exceed the
        baseline."""
        return _CALIBRATION.search(folded(self.text.get(Role.TUNNEL, ""))) is not None

    @property
    def is_udp(self) -> bool:
        return "udp" in folded(self.text.get(Role.TRAFFIC, ""))

    @property
    def source(self) -> str:
        """Name of the document from which the row comes, if the table has a column for it."""
        return self.text.get(Role.SOURCE, "")

    @property
    def bench(self) -> tuple[str, str]:
        """Document and device: rows with the same bench share one link and one baseline."""
        return self.source, self.text.get(Role.DEVICE, "")

    @property
    def label(self) -> str:
        """Tunnel, algorithms, size and direction in a few words."""
        parts = [self.text.get(role, "") for role in (Role.TUNNEL, Role.CIPHER, Role.DIGEST)]
        place = [f"{self.size.bytes:g}" if self.size else "", self.direction]
        return " ".join(filter(None, ["/".join(filter(None, parts)), *place]))


@dataclass(frozen=True)
class AuditedTable:
    """A table with its columns recognised and its rows read."""

    columns: tuple[HeadingColumn, ...]
    headings: tuple[str, ...]
    rows: tuple[AuditedRow, ...]


def read_rows(table: PublishedTable, given: Mapping[str, str] | None = None) -> AuditedTable:
    """Read the rows of a table; the result has no columns if no heading is known. Raises WrongInput like
    `recognise`."""
    comma = any(has_decimal_comma(cell) for row in table.rows for cell in row.cells)
    at, columns = _headings(table, given or {}, comma)
    columns = tuple(_scaled(column, table.rows[at + 1 :], comma) for column in columns)
    reading = _Reading(columns, comma)
    found: list[AuditedRow] = []
    before: TextRow | None = None
    for number, row in enumerate(table.rows[at + 1 :], start=1):
        whole = reading.named(reading.realigned(row, before), before)
        found += [entry for entry in reading.entries(number, whole) if _has_figures(entry)]
        before = whole
    return AuditedTable(columns, table.rows[at].cells, tuple(found))


def _headings(table: PublishedTable, given: Mapping[str, str], comma: bool) -> tuple[int, tuple[HeadingColumn, ...]]:
    """Return the index of the row with most known headings among the first rows, and its columns."""
    best: tuple[int, tuple[HeadingColumn, ...]] = (0, ())
    fault: WrongInput | None = None
    numeric_of = _numeric_columns(table, comma)
    for at, row in enumerate(table.rows[: min(HEADING_WITHIN, len(table.rows) - 1)]):
        try:
            columns = recognise(row.cells, {p for p, last in numeric_of.items() if last > at}, given)
        except WrongInput as error:
            fault = fault or error
            continue
        if len(columns) > len(best[1]):
            best = at, columns
    if fault and not best[1]:
        raise fault
    return best


def _scaled(column: HeadingColumn, rows: Sequence[TextRow], comma: bool) -> HeadingColumn:
    """Return a column of shares with the factor that turns its numbers into per cent: 100 if they are fractions of
    1."""
    if column.role is not Role.SHARE:
        return column
    parts = [part for row in rows for part in _cell(row.cells, column.position).split("/")]
    numbers = [found for part in parts if (found := quantity(part.strip(), comma_is_point=comma))]
    largest = max((number.value for number in numbers if "%" not in number.unit), default=0.0)
    is_percent = "%" in column.heading or "pct" in column.heading or largest > MOST_AS_FRACTION
    return replace(column, scale=1.0 if is_percent else 100.0)


def _numeric_columns(table: PublishedTable, comma: bool) -> Mapping[int, int]:
    """Return, by column position, the index of the last row that has a number in that column."""
    found: dict[int, int] = {}
    for at, row in enumerate(table.rows):
        for position, cell in enumerate(row.cells):
            if any(quantity(part, comma_is_point=comma) for part in cell.split("/", 1) if part):
                found[position] = at
    return found


def _has_figures(entry: AuditedRow) -> bool:
    figures = (entry.throughput, entry.packets, entry.cpu_total, entry.share)
    return bool(entry.cpu_parts) or any(each is not None for each in figures)


@dataclass(frozen=True)
class _Reading:
    columns: tuple[HeadingColumn, ...]
    comma: bool
    directions: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        named = dict.fromkeys(name for column in self.columns for name in column.directions)
        object.__setattr__(self, "directions", tuple(named) or ("",))

    def realigned(self, row: TextRow, before: TextRow | None) -> TextRow:
        """Return the row with its missing first cells taken from the row before.

        If a page was converted to text, cells that span rows are missing in the rows below. These rows begin too far
        left and are empty at their end.
        """
        if before is None or self._misfits(row.cells) == 0:
            return row
        last = max((position for position, cell in enumerate(row.cells) if cell), default=-1)
        for shift in range(1, len(before.cells) - last):
            cells = (*before.cells[:shift], *row.cells[: last + 1])
            if self._misfits(cells) == 0:
                return TextRow(row.line, cells)
        return row

    def _misfits(self, cells: Sequence[str]) -> int:
        return sum(
            column.role in OF_NUMBERS and bool(_cell(cells, column.position)) and not self._numbers(column, cells)
            for column in self.columns
        )

    def _numbers(self, column: HeadingColumn, cells: Sequence[str]) -> dict[str, Quantity]:
        """Return the numbers of a cell by direction; empty if the cell is not readable."""
        cell = _cell(cells, column.position)
        parts = [part.strip() for part in _PARTED.split(cell)] if len(column.directions) > 1 else [cell]
        if len(parts) != max(1, len(column.directions)):
            return {}
        names = column.directions or ("",)
        last = quantity(parts[-1], comma_is_point=self.comma)
        if column.role is Role.THROUGHPUT and last is not None and rate_unit(last.unit):  # 9.1 / 8.7 Mbit/s
            bare = [quantity(part, comma_is_point=self.comma) for part in parts]
            parts = [
                f"{part} {last.unit}" if found and not found.unit else part
                for part, found in zip(parts, bare, strict=True)
            ]
        found = {
            name: read
            for name, part in zip(names, parts, strict=True)
            if (read := self._number(column, part)) is not None
        }
        return found if len(found) == len(names) else {}

    def _number(self, column: HeadingColumn, text: str) -> Quantity | None:
        found = quantity(text, comma_is_point=self.comma)
        if found is None:
            return None
        match column.role:
            case Role.THROUGHPUT | Role.LINK:
                unit = rate_unit(found.unit) or column.unit_bps
                return found.times(unit) if unit else None
            case Role.PACKETS:
                scaled = multiplied(found)
                return scaled.times(column.scale) if scaled.value == found.value else scaled
            case Role.SHARE:
                return found.times(1 if "%" in found.unit else column.scale)
            case _:
                return found

    def named(self, row: TextRow, before: TextRow | None) -> TextRow:
        """Return the row with the tunnel of the row before if it names none: many tables name a tunnel only once."""
        position = next((column.position for column in self.columns if column.role is Role.TUNNEL), None)
        if before is None or position is None or _cell(row.cells, position) or position >= len(row.cells):
            return row
        return TextRow(row.line, (*row.cells[:position], _cell(before.cells, position), *row.cells[position + 1 :]))

    def entries(self, number: int, row: TextRow) -> Iterator[AuditedRow]:
        """Yield a row for each direction that the columns name, or one row."""
        text = {
            column.role: _cell(row.cells, column.position) for column in self.columns if column.role not in OF_NUMBERS
        }
        for direction in self.directions:
            yield self._entry(number, row, text, direction)

    def _entry(self, number: int, row: TextRow, text: Mapping[Role, str], direction: str) -> AuditedRow:
        read: dict[Role, list[Quantity]] = {}
        parts: dict[str, Quantity] = {}
        unread = []
        for column in self.columns:
            if column.role not in OF_NUMBERS or (column.directions and direction not in column.directions):
                continue
            numbers = self._numbers(column, row.cells)
            found = numbers.get(direction, numbers.get(""))
            if found is None:
                if re.search(r"\w", _cell(row.cells, column.position).casefold().replace("n/a", "")):
                    unread.append(column.heading)
            elif column.role is Role.CPU_PART:
                parts[column.heading] = found
            else:
                read.setdefault(column.role, []).append(found)
        first = {role: found[0] for role, found in read.items()}
        throughputs = read.get(Role.THROUGHPUT, [])
        size = next((Size(first[role].value, role) for role in SIZES if role in first), None)
        if said := _IN_EFFECT.search(text.get(Role.COMMENT, "")):
            size = Size(float(said[1]), Role.PAYLOAD)
        link = first.get(Role.LINK)
        return AuditedRow(
            number=number,
            line=row.line,
            text=text,
            direction=direction or folded(text.get(Role.DIRECTION, "")),
            size=size if size and size.bytes > 0 else None,
            throughput=throughputs[0] if throughputs else None,
            throughput_again=throughputs[1] if len(throughputs) > 1 else None,
            packets=first.get(Role.PACKETS),
            cpu_parts=parts,
            cpu_total=first.get(Role.CPU_TOTAL),
            share=first.get(Role.SHARE),
            link_bps=link.value if link and link.value > 0 else None,
            unread=tuple(unread),
        )


def _cell(cells: Sequence[str], position: int) -> str:
    return cells[position] if position < len(cells) else ""
