"""Textile as Redmine draws it: a tunnel's cell spans its rows, a payload's its directions.

What matters of Redmine's wiki_formatting/textile/redcloth3.rb: a cell's attributes stand before `. ` in the order `_`
(header), `/4` (row span), `>` (alignment); a row ends with `|` at the end of its line, any other line break is inside a
cell; `*bold*` begins after white space or `(`; a character reference passes through untouched.
"""

from __future__ import annotations

import re

from tunnelbench.report.annexes import Annex
from tunnelbench.report.document import Document, Style, legends
from tunnelbench.report.table import Block, Figure, Line, blocks
from tunnelbench.report.udp_table import UdpBlock, UdpLine, udp_blocks

COLUMNS = (
    "Technology",
    "Version router (server)",
    "Payload [bytes]",
    "Direction",
    "Share of baseline",
    "Throughput [Mbit/s]",
    "Data [packets/s]",
    "ACK [packets/s]",
    "CPU busy",
    "usr/sys/softirq/steal [%]",
    "CPU of daemon",
    "CPU s per Mpackets",
    "CPU s per Gbit",
    "Ping worst",
    "Comment",
)

UDP_COLUMNS = (
    "Technology",
    "Version router (server)",
    "Payload [bytes]",
    "Frame [bytes]",
    "Direction",
    "UDP",
    "Share of baseline",
    "Packets/s",
    "Payload [Mbit/s]",
    "Layer 1 [Mbit/s]",
    "Loss",
    "Delay 50 % [us]",
    "Delay 99 % [us]",
    "Delay worst [us]",
    "CPU busy",
    "CPU of daemon",
    "CPU s per Mpackets",
    "Comment",
)

_ACTIVE = re.compile(
    r"""
    [^\w\ .,;:()/%'-]        # all but what is harmless in most places, and of that:
    | (?<!\d)\.(?=\w)        # a dot inside a word, as in www.
    | :(?!\s|$|\d)           # a colon that joins, as in http: and user:
    | (?<![^\W_])- | -(?![^\W_])  # a dash that opens or closes a phrase, and what else does so:
    | (?<![^\W_])_ | _(?![^\W_])
    | (?<!\d)%
    | (?<!\ )\(              # a bracket that makes the word before it an acronym
    """,
    re.ASCII | re.VERBOSE,
)


def render(document: Document, style: Style) -> str:
    """Ready to be pasted into a wiki page."""
    del style
    lines = [f"h2. {escape(document.title)}", ""]
    lines += [f"* *{label}:* {escape(value)}" for label, value in document.facts]
    for caution in document.cautions:
        lines += ["", f"p. {escape(caution)}"]  # says that it is a paragraph, whatever it begins with
    if document.has_tcp_table:
        lines += ["", _head(COLUMNS)]
        for block in blocks(document.rows):
            lines += _block(block)
    if document.udp_rows:
        lines += ["", _head(UDP_COLUMNS)]
        for udp_block in udp_blocks(document.udp_rows):
            lines += _udp_block(udp_block)
    for paragraph in legends(document, "bold"):
        lines += ["", escape(paragraph)]
    for annex in document.annexes:
        lines += _annex(annex)
    lines += ["", "h3. Doubts", "", escape(document.tally)]
    for section in document.sections:
        lines += ["", f"h4. {escape(section.title)}", "", *(f"* {escape(item)}" for item in section.items)]
    return "\n".join(lines) + "\n"


def _annex(annex: Annex) -> list[str]:
    lines = ["", f"h3. {escape(annex.title)}"]
    if annex.rows:
        lines += ["", "".join(f"|_. {escape(title)} " for title in annex.header) + "|"]
        for first, *others in annex.rows:
            lines.append(f"{_cell(escape(first))}{''.join(_cell(escape(cell), '>. ') for cell in others)}|")
    if annex.items:
        lines += ["", *(f"* {escape(item)}" for item in annex.items)]
    for note in annex.notes:
        lines += ["", f"p. {escape(note)}"]
    return lines


def escape(text: str) -> str:
    """`text` so that Redmine shows it as it is."""
    return _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", text)


def _head(columns: tuple[str, ...]) -> str:
    return "".join(f"|_. {title} " for title in columns) + "|"


def _udp_block(block: UdpBlock) -> list[str]:
    technology = _spanning(escape(block.technology), len(block.lines), "_")
    versions = _spanning("\n".join(escape(version) for version in block.versions), len(block.lines))
    rows = [_udp_cells(line) for line in block.lines]
    return [f"{technology}{versions}{rows[0]}", *rows[1:]]


def _udp_cells(line: UdpLine) -> str:
    names = (line.payload, line.frame, line.direction, line.what)
    figures = (
        _figure(line.share),
        _figure(line.packets),
        line.payload_rate,
        line.layer_1_rate,
        _figure(line.loss),
        line.delay_median,
        line.delay_99,
        line.delay_max,
        _figure(line.busy),
        line.daemon,
        _figure(line.per_million_packets),
    )
    comment = "\n".join(escape(comment) for comment in line.comments)
    cells = "".join(_cell(name) for name in names) + "".join(_cell(text, ">. " if text else "") for text in figures)
    return f"{cells}{_cell(comment)}|"


def _block(block: Block) -> list[str]:
    technology = _spanning(escape(block.technology), len(block.lines), "_")
    versions = _spanning("\n".join(escape(version) for version in block.versions), len(block.lines))
    rows = []
    for lines in block.by_payload():
        for number, line in enumerate(lines):
            payload = _spanning(line.payload, len(lines)) if number == 0 else ""
            rows.append(f"{payload}{_cells(line)}")
    return [f"{technology}{versions}{rows[0]}", *rows[1:]]


def _spanning(text: str, rows: int, kind: str = "") -> str:
    span = f"/{rows}" if rows > 1 else ""
    return _cell(text, f"{kind}{span}. " if kind or span else "")


def _cell(text: str, attributes: str = "") -> str:
    return f"|{attributes or ' '}{text} " if text else f"|{attributes or ' '}"


def _cells(line: Line) -> str:
    figures = (
        _figure(line.share),
        _figure(line.throughput),
        _figure(line.data_packets),
        _figure(line.ack_packets),
        _figure(line.busy),
        line.split,
        line.daemon,
        _figure(line.per_million_packets),
        _figure(line.per_gigabit),
        line.ping,
    )
    comment = "\n".join(escape(comment) for comment in line.comments)
    return f"{_cell(line.direction)}{''.join(_cell(text, '>. ' if text else '') for text in figures)}{_cell(comment)}|"


def _figure(figure: Figure) -> str:
    median = f"*{figure.median}*" if figure.is_best else figure.median
    return f"{median} ({figure.spread})" if figure.spread else median
