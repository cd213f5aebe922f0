"""A table for the terminal: a tunnel's name and versions head its rows, remarks stand under theirs.

The best is starred, so that it also shows where there is no bold.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tunnelbench.report.annexes import Annex
from tunnelbench.report.document import Document, Style, legends
from tunnelbench.report.table import Block, Figure, Line, blocks
from tunnelbench.report.udp_table import UdpBlock, UdpLine, udp_blocks

DEFAULT_WIDTH = 120
INDENT = 2
GAP = "  "


@dataclass(frozen=True)
class Column:
    """A column of a table; a cell has a line for each of the header's, or fewer."""

    title: tuple[str, ...]
    cell: Callable[[Any], tuple[Text, ...]]
    """Of a `Line`, in the table of UDP of a `UdpLine`."""


def render(document: Document, style: Style) -> str:
    """At most `style.width` columns wide from 80 on; escape sequences only where colour is asked for."""
    width = style.width or DEFAULT_WIDTH
    output = io.StringIO()
    console = Console(
        file=output,
        width=width,
        force_terminal=style.colour,
        color_system="standard" if style.colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},  # COLUMNS and NO_COLOR are the caller's to heed
    )
    for part in _parts(document, width):
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().split("\n")[:-1])


def _parts(document: Document, width: int) -> Iterator[RenderableType]:
    yield Text(document.title, style="bold")
    facts = Table.grid(padding=(0, 2))
    for label, value in document.facts:
        facts.add_row(Text(label, style="dim"), Text(value))
    yield facts
    for caution in document.cautions:
        yield Text(f"\n{caution}", style="yellow")
    yield Text()
    if document.has_tcp_table:
        yield from _table(blocks(document.rows, thousands=True), width, (WIDE, NARROW))
    if document.udp_rows:
        yield from _table(udp_blocks(document.udp_rows, thousands=True), width, (UDP_WIDE, UDP_NARROW))
    for paragraph in legends(document, "starred"):
        yield Text(f"{paragraph}\n", style="dim")
    for annex in document.annexes:
        yield from _annex(annex)
    yield Text("Doubts", style="bold")
    yield Text(document.tally)
    for section in document.sections:
        yield Text(f"\n{section.title}", style="bold")
        yield _items(section.items)


def _items(texts: Sequence[str]) -> RenderableType:
    items = Table.grid(padding=(0, 1))
    for text in texts:
        items.add_row("-", Text(text))
    return items


def _annex(annex: Annex) -> Iterator[RenderableType]:
    yield Text(annex.title, style="bold")
    if annex.rows:
        titles = [title.split(" ") for title in annex.header[1:]]
        widths = [
            max(len(word) for word in (*words, *(row[number] for row in annex.rows)))
            for number, words in enumerate(titles, start=1)
        ]
        yield from _lines([[Text(word) for word in words] for words in titles], widths)
        for name, rows in groupby(annex.rows, key=lambda row: row[0]):
            yield Text(name, style="bold")
            for row in rows:
                yield from _lines([[Text(cell)] for cell in row[1:]], widths)
    if annex.items:
        yield _items(annex.items)
    for note in annex.notes:
        yield Text(note, style="dim")
    yield Text()


def _table(
    every: Sequence[Block | UdpBlock], width: int, shapes: tuple[Sequence[Column], Sequence[Column]]
) -> Iterator[RenderableType]:
    """In the first shape where that fits, else in the second."""
    columns, narrow = shapes
    widths = _widths(columns, every)
    if INDENT + sum(widths) + len(GAP) * (len(widths) - 1) > width:
        columns, widths = narrow, _widths(narrow, every)
    yield Text("technology, version: router (server)", style="bold")
    yield from _lines([[Text(title) for title in column.title] for column in columns], widths)
    yield Text("─" * width)
    for block in every:
        yield Text.assemble((block.technology, "bold"), GAP, (", ".join(block.versions), "dim"))
        if block.is_empty_alike:
            yield _remarks(block.lines[0], INDENT)
        else:
            for line in block.lines:
                yield from _lines([column.cell(line) for column in columns], widths)
                if line.comments:
                    yield _remarks(line, INDENT + widths[0] + len(GAP))
        yield Text()


def _widths(columns: Sequence[Column], every: Sequence[Block | UdpBlock]) -> list[int]:
    lines = [line for block in every for line in block.lines]
    return [
        max(
            *(len(title) for title in column.title),
            *(piece.cell_len for line in lines for piece in column.cell(line)),
            0,
        )
        for column in columns
    ]


def _lines(cells: Sequence[Sequence[Text]], widths: Sequence[int]) -> Iterator[Text]:
    """Cells side by side, the first one on the left of its column, the others on the right."""
    for pieces in zip_longest(*cells, fillvalue=Text()):
        line = Text(" " * INDENT, overflow="fold")
        for number, (piece, width) in enumerate(zip(pieces, widths, strict=True)):
            blank = " " * (width - piece.cell_len)
            line.append(piece.copy().append(blank) if number == 0 else Text(f"{GAP}{blank}").append(piece))
        if line.plain.strip():
            yield line


def _remarks(line: Line | UdpLine, indent: int) -> RenderableType:
    return Padding(Text("; ".join(line.comments), style="italic"), (0, 0, 0, indent))


def _median(figure: Figure) -> Text:
    return Text(f"*{figure.median}", style="bold") if figure.is_best else Text(figure.median)


def _spread(figure: Figure) -> Text:
    return Text(figure.spread, style="dim")


def _with_spread(*title: str, of: Callable[[Any], Figure]) -> Column:
    return Column(title, lambda line: (_median(of(line)), _spread(of(line))))


PLACE = Column(("payload",), lambda line: (Text(f"{line.payload} {line.direction}"),))
SHARE = _with_spread("share of", "baseline", of=lambda line: line.share)
THROUGHPUT = _with_spread("", "Mbit/s", of=lambda line: line.throughput)
PER_MILLION_PACKETS = _with_spread("CPU s per", "Mpackets", of=lambda line: line.per_million_packets)
PER_GIGABIT = _with_spread("CPU s per", "Gbit", of=lambda line: line.per_gigabit)

WIDE = (
    PLACE,
    SHARE,
    THROUGHPUT,
    Column(("packets/s", "data"), lambda line: (_median(line.data_packets),)),
    Column(("", "ACK"), lambda line: (_median(line.ack_packets),)),
    Column(("router CPU", "usr/sys/sirq/st"), lambda line: (_median(line.busy), Text(line.split, style="dim"))),
    Column(("", "daemon"), lambda line: (Text(line.daemon),)),
    PER_MILLION_PACKETS,
    PER_GIGABIT,
    Column(("ping worst", "lost"), lambda line: (Text(line.ping_worst), Text(line.ping_lost))),
)

NARROW = (
    PLACE,
    SHARE,
    THROUGHPUT,
    Column(
        ("packets/s", "ACK/s", "ping"),
        lambda line: (
            _median(line.data_packets),
            _median(line.ack_packets),
            Text(line.ping_worst),
            Text(line.ping_lost),
        ),
    ),
    Column(
        ("CPU", "us/sy/si/st", "daemon"),
        lambda line: (_median(line.busy), Text(line.split, style="dim"), Text(line.daemon)),
    ),
    Column(
        ("CPU s per", "Mpackets", "Gbit"),
        lambda line: (
            _median(line.per_million_packets),
            _spread(line.per_million_packets),
            _median(line.per_gigabit),
        ),
    ),
)
"""For 80 columns: figures of one kind under each other."""


def _text_under(text: str, below: str) -> tuple[Text, ...]:
    return Text(text), Text(below, style="dim")


UDP_PLACE = Column(
    ("payload, test", "frame"),
    lambda line: _text_under(f"{line.payload} {line.direction} {line.what}", f"{line.frame}"),
)
UDP_PACKETS = _with_spread("", "packets/s", of=lambda line: line.packets)
UDP_RATES = Column(("Mbit/s", "layer 1"), lambda line: _text_under(line.payload_rate, line.layer_1_rate))
UDP_LOSS = Column(("loss",), lambda line: (_median(line.loss),))
UDP_COST = _with_spread("CPU s per", "Mpackets", of=lambda line: line.per_million_packets)

UDP_WIDE = (
    UDP_PLACE,
    SHARE,
    UDP_PACKETS,
    UDP_RATES,
    UDP_LOSS,
    Column(("delay [us]", "50 %"), lambda line: (Text(line.delay_median),)),
    Column(("", "99 %"), lambda line: (Text(line.delay_99),)),
    Column(("", "worst"), lambda line: (Text(line.delay_max),)),
    Column(("router CPU", "daemon"), lambda line: (_median(line.busy), Text(line.daemon, style="dim"))),
    UDP_COST,
)

UDP_NARROW = (
    UDP_PLACE,
    Column(
        ("packets/s", "", "share"),
        lambda line: (_median(line.packets), _spread(line.packets), Text(line.share.median)),
    ),
    UDP_RATES,
    UDP_LOSS,
    Column(
        ("delay", "50/99 %", "max [us]"),
        lambda line: (Text(line.delay_median), Text(line.delay_99), Text(line.delay_max)),
    ),
    Column(
        ("CPU", "daemon", "s/Mpackets"),
        lambda line: (_median(line.busy), Text(line.daemon, style="dim"), _median(line.per_million_packets)),
    ),
)
