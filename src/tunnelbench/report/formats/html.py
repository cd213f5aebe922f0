"""One page that needs no network. Text and tables need no JavaScript, charts and sorting do."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any

from tunnelbench import __version__
from tunnelbench.model.text import printable
from tunnelbench.report.bounds import MOST_REPORTED_ROWS, bounded, bounded_section
from tunnelbench.report.charts import charts
from tunnelbench.report.charts.chart import Chart, PageSection, config
from tunnelbench.report.document import Document, Style, legends, tables
from tunnelbench.report.formats import SheetFormat
from tunnelbench.report.formats.json import content
from tunnelbench.report.methodology import methodology_html
from tunnelbench.report.page_tables import page_tables
from tunnelbench.report.page_templates import TEMPLATES, environment, resource
from tunnelbench.report.sections import Section
from tunnelbench.report.sheet import VERDICT, Sheet
from tunnelbench.report.text import one_line

if TYPE_CHECKING:
    from jinja2 import Template

MOST_DATA_BYTES = 700_000
"""Largest size of the raw data; above it the page has no trials. A page has at most 2 MB with 0.83 MB of libraries."""

METHODOLOGY_ANCHOR = "methodology"
"""Anchor of the heading of the rules inside the page."""
MAIN_COLUMNS = frozenset({"throughput_bps", "packets_per_s", "cpu_s_per_million_packets"})
"""Keys of the figures whose columns are shown at first; the reader can show the others."""

BARS_NOTE = (
    "A line across a bar goes from the lowest to the highest value. A short upright line shows what the link can "
    "carry. Striped bars with ≥ are lower bounds: the testers, not the router, were the limit."
)
SERIES_NOTE = (
    "For each row the median trial: the traffic that arrived, and below it the load of the router's CPU. The dashed "
    "line is the start of the test. An x marks a reading with packet loss."
)
PAGE_SECTIONS = (
    ("throughput", "Throughput, its spread, and what limits it", BARS_NOTE),
    ("packets", "Packets per second", ""),
    ("cost", "What a packet costs the router", ""),
    ("load", "Loss and delay against load", ""),
    ("soaks", "Soaks", ""),
    ("series", "Over time", SERIES_NOTE),
    ("ciphers", "Speed of the ciphers", ""),
    ("more", "More", ""),
)
"""Folded sections of charts and texts: place, title and note on the charts, in the order of the page."""

LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


class Format(SheetFormat):
    """HTML: one page with tables and charts; that of a run has its raw data and the methodology, too."""

    def render(self, document: Document, style: Style) -> str:
        del style
        return page(document)

    def render_sheet(self, sheet: Sheet, style: Style) -> str:
        del style
        return sheet_page(sheet)


@dataclass(frozen=True)
class LivePage:
    """Addresses of a page that a server makes anew while its run goes on."""

    script_href: str
    """Address of the script that fetches the page again."""
    events_href: str
    """Address of the events that tell the script when."""
    run_href: str
    """Address of the page that shows the run's progress."""
    version: str
    """The text that the events have as long as the page is up to date."""


def page(
    document: Document,
    *,
    index_href: str | None = None,
    library_href: str | None = None,
    data_href: str | None = None,
    methodology_href: str | None = None,
    live: LivePage | None = None,
) -> str:
    """Return the page of a run; it ends with a newline.

    The addresses are for pages of one site, relative to the page: `index_href` of the list of pages, linked at the top;
    `library_href` of a file with `library()`; `data_href` of the run's JSON; `methodology_href` of the rules. Without
    its address each of the last three is inside the page. With `live`, the page fills in while the run goes on.
    """
    document = bounded(document)
    first, drawn = first_chart(charts(document))
    results = tables(document, thousands=True)
    text = _template("page").render(
        document=document,
        **_frame(document.title, document.run.tunnelbench_version, index_href, library_href, live),
        data_href=data_href,
        methodology_href=methodology_href or f"#{METHODOLOGY_ANCHOR}",
        methodology=None if methodology_href else methodology_html(below=2),
        data=None if data_href else embedded_data(document),
        tables=results,
        answer_tables=page_tables(document),
        places=PAGE_SECTIONS,
        main_columns=MAIN_COLUMNS,
        charts={
            "answer": first,
            **{place: [chart for chart in drawn if chart.place == place] for place, _, _ in PAGE_SECTIONS},
        },
        sections=_sections(document),
        versions=list({block.tunnel: block.versions for table in results for block in table.blocks}.items()),
        configurations=_configurations(document),
        legends=legends(document, "bold"),
    )
    return text.strip() + "\n"


FOLDED_HEADINGS = frozenset({"A", "B", "p"})
"""Headings of a comparison's columns that are hidden until the reader shows them."""


def sheet_page(sheet: Sheet, *, index_href: str | None = None, library_href: str | None = None) -> str:
    """Return the page of a comparison or an audit; it ends with a newline. `page` explains the addresses."""
    first = [section for section in sheet.sections if section.title == VERDICT]
    text = _template("sheet").render(
        sheet=sheet,
        **_frame(sheet.title, __version__, index_href, library_href),
        first=first,
        rest=[bounded_section(section) for section in sheet.sections if section not in first],
        charts=sheet.charts,
        rows=sheet.rows[:MOST_REPORTED_ROWS],
        left_out=max(0, len(sheet.rows) - MOST_REPORTED_ROWS),
        has_filters=sheet.header[:3] == ("tunnel", "payload", "direction"),
        folded=FOLDED_HEADINGS,
    )
    return text.strip() + "\n"


def _frame(
    title: str, version: str, index_href: str | None, library_href: str | None, live: LivePage | None = None
) -> dict[str, Any]:
    """Return the values of `page-base.html.jinja`."""
    return {
        "title": title,
        "version": version,
        "index_href": index_href,
        "library_href": library_href,
        "library": None if library_href else library(),
        "policy": policy(is_shared=library_href is not None, is_live=live is not None),
        "live": live,
        "style": resource(TEMPLATES, "page.css"),
        "script": _script(),
        "config": config(),
    }


def first_chart(drawn: Sequence[Chart]) -> tuple[Sequence[Chart], Sequence[Chart]]:
    """Return the chart below the verdict, if there is one, and the other charts."""
    if len({chart.place for chart in drawn}) == 1:  # a soak, or the speed of ciphers
        return drawn[:1], drawn[1:]
    first = [chart for chart in drawn if chart.place is PageSection.ANSWER]
    return first, [chart for chart in drawn if chart.place is not PageSection.ANSWER]


@cache
def library() -> str:
    """Return the JavaScript that draws charts (Vega, Vega-Lite, Vega-Embed), which pages of a site share."""
    parts = []
    for name in LIBRARIES:
        licence = resource("data/javascript", f"{name.removesuffix('.min.js')}.LICENSE")
        code = resource("data/javascript", name)
        # A browser's tools would look for the map next to the page.
        lines = [line for line in code.splitlines() if not line.startswith("//# sourceMappingURL=")]
        parts += [f"/*! {name}\n{licence.strip()}\n*/", *lines]
    return "\n".join(parts) + "\n"


@cache
def _script() -> str:
    return "".join(resource(TEMPLATES, name) for name in ("tables.js", "page.js"))


@cache
def _template(name: str) -> Template:
    filters = {
        "inert": inert,
        "numbers": number_columns,
        "table_rows": table_rows,
        "one_line": one_line,
        "lines": _lines,
    }
    return environment(filters).get_template(f"{name}.html.jinja")


@cache
def policy(*, is_shared: bool, is_live: bool = False) -> str:
    """Return the Content-Security-Policy of a page: only its own two scripts run.

    The page makes no request, except for scripts in the same site if `is_shared`, and to its server if `is_live`.

    Scripts are allowed by their hashes. Browsers ignore the hash of a file next to a page that is opened from a disk.
    """
    own = _hash(_script())
    scripts = f"{own} 'self' file:" if is_shared else f"{own} {_hash(library())}"
    found = f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    return f"{found}; connect-src 'self'" if is_live else found


def _lines(text: str) -> str:
    """Return a file line by line, with control characters and changes of the writing direction as escapes."""
    return "\n".join(printable(line.expandtabs()) for line in text.splitlines())


def _hash(code: str) -> str:
    return f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'"


def inert(value: Any) -> Any:
    """Return JSON for a script element: nothing in it ends the element or begins a comment."""
    from markupsafe import Markup  # noqa: PLC0415 - comes with jinja2

    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped for the place where it stands


def number_columns(rows: Sequence[Sequence[str]]) -> frozenset[int]:
    """Return the positions of the columns whose cells all begin as a number or are empty, for their alignment."""
    return frozenset(
        place for place, column in enumerate(zip(*rows, strict=True)) if place and all(map(_NUMBER.match, column))
    )


def table_rows(rows: Sequence[Sequence[str]]) -> Any:
    """Return the rows of a small table; loops in the template would take three times as long."""
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
    """The data of a run that programs can read out of a page."""

    text: str
    """The data as JSON text."""
    has_trials: bool


def embedded_data(document: Document) -> Data:
    """Return the data of `--format json` without the output of programs, and without trials if they are too large."""
    whole = content(document)
    for trial in whole["trials"]:
        trial.pop("raw", None)
        if trial["proof"]:
            trial["proof"].pop("raw", None)
    text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    if len(text) <= MOST_DATA_BYTES:
        return Data(text, has_trials=True)
    return Data(json.dumps({**whole, "trials": []}, separators=(",", ":"), allow_nan=False), has_trials=False)


SECTIONS = {
    "Advice": "advice",
    "What limits": "throughput",
    "What a packet costs the router": "cost",
    "Where a packet's time goes": "cost",
    "Ciphers and digests by themselves": "ciphers",
    "Soaks": "soaks",
}
"""Place of a section on the page, by its title up to a colon; other sections stand in `more`."""


def _sections(document: Document) -> Mapping[str, Sequence[Section]]:
    placed: dict[str, list[Section]] = {place: [] for place in ("advice", *(place for place, _, _ in PAGE_SECTIONS))}
    for section in document.sections:
        placed[SECTIONS.get(section.title.partition(":")[0], "more")].append(section)
    return placed


def _configurations(document: Document) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the files and command lines of each tunnel, each once."""
    found: dict[str, dict[str, str]] = {}
    for record in document.records:
        if record.proof is not None:
            own = found.setdefault(one_line(record.spec.tunnel.name), {})
            for name, text in record.proof.configuration.items():
                own.setdefault(name, text)
    return [(tunnel, list(own.items())) for tunnel, own in found.items() if own]
