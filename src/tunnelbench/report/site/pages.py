"""The files of a site, by their path in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from jinja2 import Environment

from tunnelbench import __version__
from tunnelbench.model.plan import direction_label, payload_text
from tunnelbench.model.reference import Reference
from tunnelbench.model.text import counted
from tunnelbench.report.device_ranking import is_single
from tunnelbench.report.exchange import Imported
from tunnelbench.report.figures import figure
from tunnelbench.report.formats.html import inert, library, page
from tunnelbench.report.methodology import methodology_html
from tunnelbench.report.page_templates import TEMPLATES, environment, resource
from tunnelbench.report.site.device_names import device_key, known_cpu, known_facts
from tunnelbench.report.site.gather import (
    DeviceFacts,
    DeviceGroup,
    GatheredRun,
    Published,
    ResultMarks,
    by_device,
    is_lower_bound,
    published,
    slug,
)
from tunnelbench.report.site.index import Device, Fact, Index, ReferenceEntry, Result
from tunnelbench.report.site.overview import as_published, overview_chart, overview_table
from tunnelbench.report.site.ranking import site_ranking
from tunnelbench.report.site.side_by_side import side_by_side

NOT_GIVEN = "not given"

LIBRARY = "assets/charts.js"
METHODOLOGY = "methodology.html"
COMPARISON = "compare.html"
RANKING = "ranking.html"

FACT_TITLES = {
    "cpu": "CPU",
    "architecture": "Architecture",
    "cores": "Cores",
    "clock_mhz": "Clock [MHz]",
    "turbo_mhz": "Highest clock [MHz]",
    "crypto": "Cryptography in hardware",
    "ethernet": "Ethernet",
    "memory_mib": "Memory [MiB]",
    "released": "Released",
}
"""Title of each fact that `data/devices` has, in the order of the page."""

DEVICE_COLUMNS = (
    figure("tcp", "throughput_bps"),
    figure("tcp", "share_of_baseline"),
    figure("udp", "packets_per_s"),
    figure("tcp", "cpu_s_per_million_packets"),
)
"""Figures on the page of a device; a `Result` has them under their keys."""


def run_page(found: Imported) -> str:
    name = found.run.run_id
    return page(
        found.document,
        index_href="../index.html",
        library_href=f"../{LIBRARY}",
        data_href=f"{name}.json",
        methodology_href=f"../{METHODOLOGY}",
    )


def other_pages(
    runs: Sequence[GatheredRun], references: Sequence[Reference], given: Mapping[str, DeviceFacts]
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file except the pages of runs."""
    runs = sorted(runs, key=_newest, reverse=True)
    rows = [row for reference in references for row in published(reference)]
    groups = by_device(runs, rows)
    given = {device_key(name): facts for name, facts in given.items()}
    devices = [
        (_device(each, given.get(device_key(each.name), DeviceFacts())), each.runs, each.rows) for each in groups
    ]
    runs = sorted((run for each in groups for run in each.runs), key=_newest, reverse=True)
    index = Index(
        format="tunnelbench-site",
        format_number=1,
        written_by=__version__,
        devices=tuple(device for device, _, _ in devices),
        runs=tuple(run.entry for run in runs),
        references=tuple(_reference_entry(reference) for reference in references),
    )
    dates = {entry.name: entry.date for entry in index.references}
    trials = {reference.name: reference.trials_per_row for reference in references}
    yield "index.json", json.dumps(index.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")) + "\n"
    yield LIBRARY, library()
    yield "assets/site.css", resource(TEMPLATES, "page.css") + resource(TEMPLATES, "site.css")
    yield "assets/site.js", resource(TEMPLATES, "tables.js") + resource(TEMPLATES, "site.js")
    encrypted, plain = (overview_table(devices, is_encrypted=each) for each in (True, False))
    values: dict[str, Any] = {
        "index": index,
        "encrypted": encrypted,
        "plain": plain,
        "chart": overview_chart(encrypted),
    }
    yield "index.html", _drawn("index", "", **values)
    compared = side_by_side(devices)
    compared_pages = {each["page"] for each in compared}
    left_out = [device for device, _, _ in devices if device.page not in compared_pages]
    yield COMPARISON, _drawn("compare", "", data=compared, left_out=left_out)
    yield METHODOLOGY, _drawn("methodology", "", body=methodology_html())
    ranking = site_ranking(runs, references, given)
    page_of = {device_key(device.name): device.page for device, _, _ in devices}
    values = {"ranking": ranking, "lines": ranking.lines(page_of, references)}
    yield RANKING, _drawn("ranking", "", **values, predictions=ranking.predictions(page_of))
    yield "ranking.json", json.dumps(ranking.for_programs(), ensure_ascii=False, separators=(",", ":")) + "\n"
    for device, own_runs, own_rows in devices:
        lines = [
            _line(result, each.entry.title, f"../{each.entry.page}", f"testbed {each.entry.testbed}",
                  each.entry.started_at[:10], marks)
            for each in own_runs
            for result, marks in zip(each.entry.results, each.marks, strict=True)
        ]  # fmt: skip
        lines += [_line_of_row(row, dates[row.reference], trials[row.reference]) for row in own_rows]
        meanings = {f"testbed {run.entry.testbed}": run.entry.comparability for run in own_runs}
        meanings |= {row.comparability.name: row.comparability.meaning for row in own_rows}
        values = {
            "comparison": COMPARISON if device.page in compared_pages else "",
            "device": device,
            "lines": lines,
            "meanings": meanings,
            "not_given": NOT_GIVEN,
            "columns": DEVICE_COLUMNS,
            "fact_titles": FACT_TITLES,
            "predictions": ranking.predictions(page_of, device.name),
            "tried": ranking.tried,
        }
        yield device.page, _drawn("device", "../", **values)
    for reference in references:
        yield f"references/{reference.name}.html", _drawn("reference", "../", reference=reference)


def _newest(run: GatheredRun) -> tuple[str, str]:
    return run.entry.started_at, run.entry.run_id


def _device(group: DeviceGroup, given: DeviceFacts) -> Device:
    name, runs, rows = group.name, group.runs, group.rows
    known = [run.known for run in runs]

    def first(values: Sequence[Any]) -> Any:
        return next((value for value in values if value is not None), None)

    names = [name, *group.other_names]
    cpu = first([*(each.cpu for each in known), *(row.cpu for row in rows), *map(known_cpu, names)])
    facts = {} if any(each.is_guest for each in known) else known_facts(name, cpu)
    return Device(
        name=name,
        other_names=group.other_names,
        page=f"devices/{slug(name)}.html",
        cpu=cpu,
        facts={key: Fact(text=fact.text, source=fact.source) for key, fact in facts.items()},
        cpus=first([each.cpus for each in known]),
        memory_mib=first([each.memory_mib for each in known]),
        price=given.price or first([*(each.price for each in known), *(row.price for row in rows)]),
        watts=given.watts or first([*(each.watts for each in known), *(row.watts for row in rows)]),
        runs=tuple(run.entry.run_id for run in runs),
        references=tuple(dict.fromkeys(row.reference for row in rows)),
    )


def _reference_entry(reference: Reference) -> ReferenceEntry:
    return ReferenceEntry(
        name=reference.name,
        page=f"references/{reference.name}.html",
        title=reference.title,
        source=reference.source,
        date=reference.date,
        comparability=reference.comparability.label,
        rows=len(reference.rows),
    )


@dataclass(frozen=True)
class SiteRow:
    """A row of a device's page, as text."""

    tunnel: str
    encrypted: str
    """`yes`, `no`, or `unknown`."""
    test: str
    payload: str
    direction: str
    figures: tuple[str, ...]
    """Figures as text, one for each of `DEVICE_COLUMNS`."""
    where: str
    href: str
    date: str
    comparability: str
    marks: str
    """Marks of the figure, and the remark of its publication."""


def _line_of_row(row: Published, date: str, trials: int | None) -> SiteRow:
    marks = ResultMarks(trials, row.is_line_speed)
    href, kind = f"../references/{row.reference}.html", row.comparability.name
    line = _line(row.result, row.reference, href, kind, date, marks, row.comment)
    bound = "≥ " * (bool(row.mbps_text) and is_lower_bound(row.result, is_line_speed=row.is_line_speed))
    figures = tuple(
        bound + row.mbps_text
        if each.key == "throughput_bps"
        else as_published(getattr(row.result, each.key), each.scale)
        for each in DEVICE_COLUMNS
    )
    return replace(line, figures=figures)


def _line(  # noqa: PLR0917 - the cells of a row, in their order
    result: Result, where: str, href: str, comparability: str, date: str, marks: ResultMarks, comment: str = ""
) -> SiteRow:
    limited = " (tester-limited)" if result.is_tester_limited else ""
    size = result.payload_bytes
    words = ["lower bound"] * is_lower_bound(result, is_line_speed=marks.is_line_speed)
    words += ["line speed"] * marks.is_line_speed + ["single measurement"] * is_single(marks.repeats, comment)
    texts = {each.key: each.printed(getattr(result, each.key)).median for each in DEVICE_COLUMNS}
    return SiteRow(
        tunnel=result.tunnel,
        encrypted={True: "yes", False: "no", None: "unknown"}[result.is_encrypted],
        test=result.test,
        payload="" if size is None else payload_text(size, is_udp=result.test != "tcp"),
        direction=direction_label(result.direction or ""),
        figures=tuple(text + limited * (bool(text) and key == "throughput_bps") for key, text in texts.items()),
        where=where,
        href=href,
        date=date,
        comparability=comparability,
        marks="; ".join(each for each in (", ".join(words), "" if comment in words else comment) if each),
    )


def _drawn(name: str, root: str, **values: Any) -> str:
    """Return a page; `root` is the path from it to the site's folder."""
    return (
        _environment().get_template(f"site-{name}.html.jinja").render(root=root, version=__version__, **values) + "\n"
    )


@cache
def _environment() -> Environment:
    return environment({"counted": counted, "inert": inert})
