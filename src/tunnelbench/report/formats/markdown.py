"""Markdown with a table as GitHub draws it."""

from __future__ import annotations

import re

from tunnelbench.report.annexes import Annex
from tunnelbench.report.document import Document, Style, legends
from tunnelbench.report.table import Block, Figure, Line, blocks
from tunnelbench.report.udp_table import UdpBlock, UdpLine, udp_blocks

COLUMNS = (
    ("Technology", ":--"),
    ("Version router (server)", ":--"),
    ("Payload [bytes]", "--:"),
    ("Direction", ":--"),
    ("Share of baseline", "--:"),
    ("Throughput [Mbit/s]", "--:"),
    ("Data [packets/s]", "--:"),
    ("ACK [packets/s]", "--:"),
    ("CPU busy", "--:"),
    ("usr/sys/softirq/steal [%]", "--:"),
    ("CPU of daemon", "--:"),
    ("CPU s per Mpackets", "--:"),
    ("CPU s per Gbit", "--:"),
    ("Ping worst", "--:"),
    ("Comment", ":--"),
)

UDP_COLUMNS = (
    ("Technology", ":--"),
    ("Version router (server)", ":--"),
    ("Payload [bytes]", "--:"),
    ("Frame [bytes]", "--:"),
    ("Direction", ":--"),
    ("UDP", ":--"),
    ("Share of baseline", "--:"),
    ("Packets/s", "--:"),
    ("Payload [Mbit/s]", "--:"),
    ("Layer 1 [Mbit/s]", "--:"),
    ("Loss", "--:"),
    ("Delay 50 % [us]", "--:"),
    ("Delay 99 % [us]", "--:"),
    ("Delay worst [us]", "--:"),
    ("CPU busy", "--:"),
    ("CPU of daemon", "--:"),
    ("CPU s per Mpackets", "--:"),
    ("Comment", ":--"),
)

_ACTIVE = re.compile(r"([\\`*_{}\[\]#|~$!@]|:(?=//)|(?<=www)\.|^[-+=])", re.IGNORECASE)
"""What would start a phrase, a link, a mention, a cell or, at the beginning, a list."""
_LIST_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")


def render(document: Document, style: Style) -> str:
    """One table; a tunnel's name and versions stand in its first row."""
    del style
    lines = [f"# {escape(document.title)}", ""]
    lines += [f"- **{label}**: {escape(value)}" for label, value in document.facts]
    for caution in document.cautions:
        lines += ["", f"> {escape(caution)}"]
    if document.has_tcp_table:
        lines += ["", *_head(COLUMNS)]
        for block in blocks(document.rows):
            lines += _block(block, [_cells(line) for line in block.lines])
    if document.udp_rows:
        lines += ["", *_head(UDP_COLUMNS)]
        for udp_block in udp_blocks(document.udp_rows):
            lines += _block(udp_block, [_udp_cells(line) for line in udp_block.lines])
    for paragraph in legends(document, "bold"):
        lines += ["", paragraph]
    for annex in document.annexes:
        lines += _annex(annex)
    lines += ["", "## Doubts", "", document.tally]
    for section in document.sections:
        lines += ["", f"### {section.title}", "", *(f"- {escape(item)}" for item in section.items)]
    return "\n".join(lines) + "\n"


def _annex(annex: Annex) -> list[str]:
    lines = ["", f"## {annex.title}"]
    if annex.rows:
        rules = [":--", *("--:" for _ in annex.header[1:])]
        lines += ["", _row(list(annex.header)), _row(rules)]
        lines += [_row([escape(cell) for cell in row]) for row in annex.rows]
    if annex.items:
        lines += ["", *(f"- {escape(item)}" for item in annex.items)]
    for note in annex.notes:
        lines += ["", escape(note)]
    return lines


def escape(text: str) -> str:
    """`text` so that Markdown shows it as it is."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return _LIST_NUMBER.sub(r"\1\\\2", _ACTIVE.sub(r"\\\1", text))


def _head(columns: tuple[tuple[str, str], ...]) -> list[str]:
    return [_row([title for title, _ in columns]), _row([rule for _, rule in columns])]


def _block(block: Block | UdpBlock, lines: list[list[str]]) -> list[str]:
    name = [escape(block.technology), "<br>".join(escape(version) for version in block.versions)]
    return [_row([*(name if number == 0 else ["", ""]), *cells]) for number, cells in enumerate(lines)]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(line: Line) -> list[str]:
    return [
        line.payload,
        line.direction,
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
        escape("; ".join(line.comments)),
    ]


def _udp_cells(line: UdpLine) -> list[str]:
    return [
        line.payload,
        line.frame,
        line.direction,
        line.what,
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
        escape("; ".join(line.comments)),
    ]


def _figure(figure: Figure) -> str:
    median = f"**{figure.median}**" if figure.is_best else figure.median
    return f"{median} ({figure.spread})" if figure.spread else median
