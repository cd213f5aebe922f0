"""One page that needs no network: text and tables without JavaScript, charts and sorting with it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tunnelbench.model.text import printable
from tunnelbench.report.annexes import Annex
from tunnelbench.report.charts import charts
from tunnelbench.report.charts.chart import Place, config
from tunnelbench.report.document import Document, Style, legends
from tunnelbench.report.formats.json import content
from tunnelbench.report.methodology import methodology_html
from tunnelbench.report.table import Block, Figure, blocks
from tunnelbench.report.text import one_line
from tunnelbench.report.udp_table import UdpBlock, udp_blocks

if TYPE_CHECKING:
    from jinja2 import Template

MOST_DATA_BYTES = 700_000
"""Of the raw data, so that a page has at most 2 MB with 0.83 MB of libraries; above it the trials are left out."""

METHODOLOGY_ANCHOR = "methodology"
"""Of the heading of the rules, where they are inside the page."""
LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")

TCP_COLUMNS = (
    "Tunnel",
    "Payload [bytes]",
    "Direction",
    "Share of baseline",
    "Throughput [Mbit/s]",
    "Data [packets/s]",
    "ACK [packets/s]",
    "CPU busy",
    "usr / sys / softirq / steal [%]",
    "CPU of daemon",
    "CPU s per Mpackets",
    "CPU s per Gbit",
    "Ping worst",
    "Remarks",
)
UDP_COLUMNS = (
    "Tunnel",
    "Payload [bytes]",
    "Direction",
    "Frame [bytes]",
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
    "Remarks",
)


def render(document: Document, style: Style) -> str:
    """The page with everything in it."""
    del style
    return page(document)


def page(
    document: Document,
    *,
    index_href: str | None = None,
    library_href: str | None = None,
    data_href: str | None = None,
    methodology_href: str | None = None,
) -> str:
    """The page of a run, ending with a newline.

    For pages that stand together, each a relative address: `index_href` of what lists them, linked at the head;
    `library_href` of a file that holds `library()`, else it is inside the page; `data_href` of the run's JSON, else
    that is inside, too; `methodology_href` of the rules that the page names, else these are inside.
    """
    drawn = charts(document)
    tcp, udp = blocks(document.rows, thousands=True), udp_blocks(document.udp_rows, thousands=True)
    named: list[Block | UdpBlock] = [*tcp, *udp]
    text = _template().render(
        document=document,
        index_href=index_href,
        library_href=library_href,
        data_href=data_href,
        methodology_href=methodology_href or f"#{METHODOLOGY_ANCHOR}",
        methodology=None if methodology_href else methodology_html(below=2),
        data=None if data_href else embedded_data(document),
        library=None if library_href else library(),
        policy=_policy(is_shared=library_href is not None),
        style=_resource("report/templates", "page.css"),
        script=_resource("report/templates", "page.js"),
        tables=[*_tcp_table(tcp, is_alone=document.has_tcp_table), *_udp_table(udp)],
        words=("Tunnel", "Direction", "UDP", "Remarks"),
        charts={place.value: [chart for chart in drawn if chart.place is place] for place in Place},
        config=config(),
        annexes=_annexes(document),
        versions=list({block.technology: block.versions for block in named}.items()),
        configurations=_configurations(document),
        legends=legends(document, "bold"),
    )
    return text.strip() + "\n"


@cache
def library() -> str:
    """The JavaScript that draws charts: what pages share where it is not inside them (Vega, Vega-Lite, Vega-Embed)."""
    parts = []
    for name in LIBRARIES:
        licence = _resource("data/javascript", f"{name.removesuffix('.min.js')}.LICENSE")
        code = _resource("data/javascript", name)
        # A browser's tools would look for the map beside the page.
        lines = [line for line in code.splitlines() if not line.startswith("//# sourceMappingURL=")]
        parts += [f"/*! {name}\n{licence.strip()}\n*/", *lines]
    return "\n".join(parts) + "\n"


@cache
def _resource(folder: str, name: str) -> str:
    return files("tunnelbench").joinpath(folder, name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - 60 ms, for those alone who draw a page

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["inert"] = inert
    environment.filters["numbers"] = number_columns
    environment.filters["table_rows"] = table_rows
    environment.filters["one_line"] = one_line
    environment.filters["lines"] = _lines
    return environment.from_string(_resource("report/templates", "page.html.jinja"))


@cache
def _policy(*, is_shared: bool) -> str:
    """What the browser is allowed: our own two scripts, and no request to anywhere but for the library beside the page.

    By their hashes, which browsers do not take for a file that is opened from a disk.
    """
    own = _hash(_resource("report/templates", "page.js"))
    scripts = f"{own} 'self' file:" if is_shared else f"{own} {_hash(library())}"
    return f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def _lines(text: str) -> str:
    """A file line by line; what would turn the direction of writing or steer a terminal is spelled out."""
    return "\n".join(printable(line.expandtabs()) for line in text.splitlines())


def _hash(code: str) -> str:
    return f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'"


def inert(value: Any) -> Any:
    """JSON that may stand inside a script element: nothing in it ends that, or begins a comment."""
    from markupsafe import Markup  # noqa: PLC0415 - comes with jinja2

    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped for the place where it stands


def number_columns(rows: Sequence[Sequence[str]]) -> frozenset[int]:
    """Places of the columns whose cells begin as a number does, or are empty: they stand to the right."""
    return frozenset(
        place for place, column in enumerate(zip(*rows, strict=True)) if place and all(map(_NUMBER.match, column))
    )


def table_rows(rows: Sequence[Sequence[str]]) -> Any:
    """The rows of a small table; the template's own loops take three times as long, and most of a page is such rows."""
    from markupsafe import Markup  # noqa: PLC0415 - comes with jinja2

    right = number_columns(rows)
    ends = [('<td class="n">' if place in right else "<td>", "</td>") for place in range(len(rows[0]))]
    ends[0] = ('<th scope="row">', "</th>")
    written = (
        "".join(f"{start}{escape(cell)}{end}" for cell, (start, end) in zip(row, ends, strict=True)) for row in rows
    )
    return Markup("".join(f"<tr>{cells}</tr>\n" for cells in written))  # noqa: S704 - every cell is escaped


_NUMBER = re.compile(r"-?\d|-?$|not known$")


@dataclass(frozen=True)
class Data:
    """What a program may read out of a page."""

    text: str
    """JSON."""
    has_trials: bool


def embedded_data(document: Document) -> Data:
    """What `--format json` has, without what programs printed; without the trials where that would be too large."""
    whole = content(document)
    for trial in whole["trials"]:
        trial.pop("raw", None)
        if trial["proof"]:
            trial["proof"].pop("raw", None)
    text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    if len(text) <= MOST_DATA_BYTES:
        return Data(text, has_trials=True)
    return Data(json.dumps({**whole, "trials": []}, separators=(",", ":"), allow_nan=False), has_trials=False)


@dataclass(frozen=True)
class Cell:
    """One of a table; a number stands to the right."""

    text: str
    spread: str = ""
    is_best: bool = False
    is_word: bool = False


@dataclass(frozen=True)
class Row:
    tunnel: str
    payload: str
    direction: str
    cells: tuple[Cell, ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def _tcp_table(tcp: Sequence[Block], *, is_alone: bool) -> Iterator[Table]:
    """Drawn without rows, too, where it is the only one."""
    rows = [
        Row(
            block.technology,
            line.payload,
            line.direction,
            (
                _cell(line.share),
                _cell(line.throughput),
                _cell(line.data_packets),
                _cell(line.ack_packets),
                _cell(line.busy),
                Cell(line.split),
                Cell(line.daemon),
                _cell(line.per_million_packets),
                _cell(line.per_gigabit),
                Cell(line.ping_worst, line.ping_lost),
            ),
            line.comments,
        )
        for block in tcp
        for line in block.lines
    ]
    if rows or is_alone:
        yield Table("tcp", "TCP: medians of the trials that count", TCP_COLUMNS, tuple(rows))


def _udp_table(udp: Sequence[UdpBlock]) -> Iterator[Table]:
    rows = [
        Row(
            block.technology,
            line.payload,
            line.direction,
            (
                Cell(line.frame),
                Cell(line.what, is_word=True),
                _cell(line.share),
                _cell(line.packets),
                Cell(line.payload_rate),
                Cell(line.layer_1_rate),
                _cell(line.loss),
                Cell(line.delay_median),
                Cell(line.delay_99),
                Cell(line.delay_max),
                _cell(line.busy),
                Cell(line.daemon),
                _cell(line.per_million_packets),
            ),
            line.comments,
        )
        for block in udp
        for line in block.lines
    ]
    if rows:
        yield Table("udp", "UDP: medians of the trials that count", UDP_COLUMNS, tuple(rows))


def _cell(figure: Figure) -> Cell:
    return Cell(figure.median, figure.spread, figure.is_best)


SECTIONS = {
    "Advice": "advice",
    "What limits": "limits",
    "What a packet costs the router": "cost",
    "Where a packet's time goes": "cost",
    "Ciphers and digests by themselves": "ciphers",
    "Soaks": "soaks",
}
"""Where an annex stands, by its title up to a colon; `more` is where others do."""


def _annexes(document: Document) -> Mapping[str, Sequence[Annex]]:
    placed: dict[str, list[Annex]] = {section: [] for section in (*SECTIONS.values(), "more")}
    for annex in document.annexes:
        placed[SECTIONS.get(annex.title.partition(":")[0], "more")].append(annex)
    return placed


def _configurations(document: Document) -> list[tuple[str, list[tuple[str, str]]]]:
    """By tunnel its files and command lines, each once."""
    found: dict[str, dict[str, str]] = {}
    for record in document.records:
        if record.proof is not None:
            own = found.setdefault(one_line(record.spec.tunnel.name), {})
            for name, text in record.proof.configuration.items():
                own.setdefault(name, text)
    return [(tunnel, list(own.items())) for tunnel, own in found.items() if own]
