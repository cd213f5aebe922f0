"""What reports in a markup say, and in which order; how each markup spells it is in `formats`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from tunnelbench.report.annexes import Annex
from tunnelbench.report.document import Document, legends
from tunnelbench.report.table import Block, Figure, Line, blocks
from tunnelbench.report.udp_table import UdpBlock, UdpLine, udp_blocks


@dataclass(frozen=True)
class Cell:
    """A cell of a table. Its text is without line breaks and markup; the markup escapes it."""

    lines: tuple[str, ...] = ()
    is_number: bool = False
    is_best: bool = False
    """To be marked; `spread` is not."""
    spread: str = ""
    is_heading: bool = False
    rows: int = 1
    """How many rows it spans; those below it hold `covered` cells."""
    is_covered: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table, by its heading."""

    title: str
    is_number: bool = False


Row = tuple[Cell, ...]


class Markup(Protocol):
    """How a markup spells what a report is made of: each method gives lines, texts are escaped by it."""

    def heading(self, level: int, text: str) -> str:
        """A heading; 1 is the title."""

    def fact(self, label: str, value: str) -> str:
        """A line of the list of facts."""

    def caution(self, text: str) -> str:
        """A paragraph that must not be overlooked."""

    def paragraph(self, text: str) -> str: ...

    def item(self, text: str) -> str:
        """A line of a list."""

    def table(self, columns: Sequence[Column], rows: Sequence[Row]) -> list[str]: ...


COLUMNS = (
    Column("Technology"),
    Column("Version router (server)"),
    Column("Payload [bytes]", is_number=True),
    Column("Direction"),
    Column("Share of baseline", is_number=True),
    Column("Throughput [Mbit/s]", is_number=True),
    Column("Data [packets/s]", is_number=True),
    Column("ACK [packets/s]", is_number=True),
    Column("CPU busy", is_number=True),
    Column("usr/sys/softirq/steal [%]", is_number=True),
    Column("CPU of daemon", is_number=True),
    Column("CPU s per Mpackets", is_number=True),
    Column("CPU s per Gbit", is_number=True),
    Column("Ping worst", is_number=True),
    Column("Comment"),
)

UDP_COLUMNS = (
    Column("Technology"),
    Column("Version router (server)"),
    Column("Payload [bytes]", is_number=True),
    Column("Frame [bytes]", is_number=True),
    Column("Direction"),
    Column("UDP"),
    Column("Share of baseline", is_number=True),
    Column("Packets/s", is_number=True),
    Column("Payload [Mbit/s]", is_number=True),
    Column("Layer 1 [Mbit/s]", is_number=True),
    Column("Loss", is_number=True),
    Column("Delay 50 % [us]", is_number=True),
    Column("Delay 99 % [us]", is_number=True),
    Column("Delay worst [us]", is_number=True),
    Column("CPU busy", is_number=True),
    Column("CPU of daemon", is_number=True),
    Column("CPU s per Mpackets", is_number=True),
    Column("Comment"),
)


def draw(document: Document, markup: Markup) -> str:
    """The whole report, ending with a line break."""
    parts: list[list[str]] = [[markup.heading(1, document.title)]]
    parts.append([markup.fact(label, value) for label, value in document.facts])
    parts += [[markup.caution(caution)] for caution in document.cautions]
    if document.has_tcp_table:
        parts.append(markup.table(COLUMNS, [row for block in blocks(document.rows) for row in _rows(block)]))
    if document.udp_rows:
        udp_rows = [row for block in udp_blocks(document.udp_rows) for row in _udp_rows(block)]
        parts.append(markup.table(UDP_COLUMNS, udp_rows))
    parts += [[markup.paragraph(text)] for text in legends(document, "bold")]
    parts += chain.from_iterable(_annex(annex, markup) for annex in document.annexes)
    parts += [[markup.heading(2, "Doubts")], [markup.paragraph(document.tally)]]
    for section in document.sections:
        parts += [[markup.heading(3, section.title)], [markup.item(item) for item in section.items]]
    return joined(parts)


def joined(parts: Sequence[Sequence[str]]) -> str:
    """Blocks with an empty line between them; those that say nothing are left out."""
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _annex(annex: Annex, markup: Markup) -> Iterator[list[str]]:
    yield [markup.heading(2, annex.title)]
    if annex.rows:
        columns = [Column(title, is_number=place > 0) for place, title in enumerate(annex.header)]
        yield markup.table(columns, plain_rows(columns, annex.rows))
    yield [markup.item(item) for item in annex.items]
    for note in annex.notes:
        yield [markup.paragraph(note)]


def plain_rows(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[Row]:
    """Rows of texts as cells."""
    return [
        tuple(Cell((text,) if text else (), column.is_number) for column, text in zip(columns, row, strict=True))
        for row in rows
    ]


def _heads(block: Block | UdpBlock) -> Iterator[tuple[Cell, Cell]]:
    """A tunnel's name and versions, beside each of its lines."""
    count = len(block.lines)
    yield Cell((block.technology,), is_heading=True, rows=count), Cell(block.versions, rows=count)
    for _ in range(count - 1):
        yield Cell(is_covered=True), Cell(is_covered=True)


def _rows(block: Block) -> Iterator[Row]:
    heads = _heads(block)
    for lines in block.by_payload():
        payload = Cell((lines[0].payload,), rows=len(lines))
        for place, line in enumerate(lines):
            own = replace(payload, rows=1, is_covered=True) if place else payload
            yield (*next(heads), own, *_cells(line))


def _cells(line: Line) -> Row:
    return (
        _text(line.direction),
        _figure(line.share),
        _figure(line.throughput),
        _figure(line.data_packets),
        _figure(line.ack_packets),
        _figure(line.busy),
        _number(line.split),
        _number(line.daemon),
        _figure(line.per_million_packets),
        _figure(line.per_gigabit),
        _number(line.ping),
        Cell(line.comments),
    )


def _udp_rows(block: UdpBlock) -> Iterator[Row]:
    for head, line in zip(_heads(block), block.lines, strict=True):
        yield (*head, *_udp_cells(line))


def _udp_cells(line: UdpLine) -> Row:
    return (
        *(_text(text) for text in (line.payload, line.frame, line.direction, line.what)),
        _figure(line.share),
        _figure(line.packets),
        _number(line.payload_rate),
        _number(line.layer_1_rate),
        _figure(line.loss),
        _number(line.delay_median),
        _number(line.delay_99),
        _number(line.delay_max),
        _figure(line.busy),
        _number(line.daemon),
        _figure(line.per_million_packets),
        Cell(line.comments),
    )


def _text(text: str) -> Cell:
    return Cell((text,) if text else ())


def _number(text: str) -> Cell:
    return replace(_text(text), is_number=True)


def _figure(figure: Figure) -> Cell:
    return replace(_number(figure.median), is_best=figure.is_best, spread=figure.spread)
