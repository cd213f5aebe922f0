"""The files of a site, by their path in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tunnelbench import __version__
from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.model.reference import Comparable, Reference
from tunnelbench.model.text import counted
from tunnelbench.report.exchange import Imported
from tunnelbench.report.formats.html import library, page
from tunnelbench.report.methodology import methodology_html
from tunnelbench.report.site.gather import GatheredRun, Published, by_device, gathered, published, slug
from tunnelbench.report.site.index import Device, Index, ReferenceEntry, Result, Run

NOT_GIVEN = "not given"

LIBRARY = "assets/charts.js"
METHODOLOGY = "methodology.html"

FULL_PAYLOAD_BYTES = 1000
"""A TCP payload below it is one of small packets: the overview is of large ones."""

FIRST_KINDS = ("none", "openvpn", "wireguard", "tinc")
"""The tunnels that stand first in the overview, where there are any of them."""


@dataclass(frozen=True)
class DeviceFacts:
    """What whoever builds the site knows of a device; None is not given."""

    price: str | None = None
    watts: str | None = None


@dataclass(frozen=True)
class Best:
    """A cell of the overview: the highest throughput of a device through a kind of tunnel."""

    text: str
    note: str
    """What it is of."""
    is_comparable: bool


def run_page(found: Imported) -> str:
    """The page of a run."""
    name = found.run.run_id
    return page(
        found.document,
        index_href="../index.html",
        library_href=f"../{LIBRARY}",
        data_href=f"{name}.json",
        methodology_href=f"../{METHODOLOGY}",
    )


def summary(found: Imported) -> GatheredRun:
    """What the other pages need of a run."""
    return gathered(found)


def other_pages(
    runs: Sequence[GatheredRun], references: Sequence[Reference], given: Mapping[str, DeviceFacts]
) -> Iterator[tuple[str, str]]:
    """Everything but the pages of runs: path and text of each file."""
    runs = sorted(runs, key=lambda run: (run.entry.started_at, run.entry.run_id), reverse=True)
    rows = [row for reference in references for row in published(reference)]
    devices = [
        (_device(name, own_runs, own_rows, given.get(name, DeviceFacts())), own_runs, own_rows)
        for name, (own_runs, own_rows) in by_device(runs, rows).items()
    ]
    index = Index(
        format="tunnelbench-site",
        format_number=1,
        written_by=__version__,
        devices=tuple(device for device, _, _ in devices),
        runs=tuple(run.entry for run in runs),
        references=tuple(_reference_entry(reference) for reference in references),
    )
    dates = {entry.name: entry.date for entry in index.references}
    yield "index.json", json.dumps(index.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":")) + "\n"
    yield LIBRARY, library()
    yield "assets/site.css", _resource("page.css") + _resource("site.css")
    yield "assets/site.js", _resource("site.js")
    yield "index.html", _drawn("index", "", index=index, overview=_overview(devices))
    yield METHODOLOGY, _drawn("methodology", "", body=methodology_html())
    for device, own_runs, own_rows in devices:
        lines = [line for run in own_runs for line in _lines_of_run(run.entry)]
        lines += [_line_of_row(row, dates[row.reference]) for row in own_rows]
        meanings = {f"testbed {run.entry.testbed}": run.entry.comparability for run in own_runs}
        meanings |= {row.comparability.name: row.comparability.meaning for row in own_rows}
        values = {"device": device, "lines": lines, "meanings": meanings, "not_given": NOT_GIVEN}
        yield device.page, _drawn("device", "../", **values)
    for reference in references:
        yield f"references/{reference.name}.html", _drawn("reference", "../", reference=reference)


def _device(name: str, runs: Sequence[GatheredRun], rows: Sequence[Published], given: DeviceFacts) -> Device:
    known = [run.known for run in runs]

    def first(values: Sequence[Any]) -> Any:
        return next((value for value in values if value is not None), None)

    return Device(
        name=name,
        page=f"devices/{slug(name)}.html",
        cpu=first([*(each.cpu for each in known), *(row.cpu for row in rows)]),
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


def _overview(devices: Sequence[tuple[Device, list[GatheredRun], list[Published]]]) -> dict[str, Any]:
    """Devices by tunnels, of each the highest throughput with large packets of TCP."""
    table = []
    first_runs = sorted(devices, key=lambda each: (not each[1], not any(_is_comparable(row) for row in each[2])))
    for device, runs, rows in first_runs:
        cells: dict[str, tuple[float, Best]] = {}
        every: list[tuple[Result, bool, str, Callable[[float], str]]]
        every = [
            (each, not run.known.is_guest, run.entry.title, significant) for run in runs for each in run.entry.results
        ]
        every += [(row.result, _is_comparable(row), row.reference, _as_published) for row in rows]
        for result, is_comparable, where, written in every:
            rate = result.throughput_bps
            if (
                rate is None
                or result.test != "tcp"
                or (result.payload_bytes or FULL_PAYLOAD_BYTES) < FULL_PAYLOAD_BYTES
            ):
                continue
            before = cells.get(result.kind)
            # What may be compared stands before what may not, however fast that is.
            if before is None or (is_comparable, rate) > (before[1].is_comparable, before[0]):
                cells[result.kind] = (rate, Best(written(rate / 1e6), f"{result.tunnel}, {where}", is_comparable))
        table.append((device, {kind: best for kind, (_, best) in cells.items()}))
    kinds = sorted({kind for _, cells in table for kind in cells})
    ordered = [kind for kind in FIRST_KINDS if kind in kinds] + [kind for kind in kinds if kind not in FIRST_KINDS]
    return {"kinds": ordered, "rows": table}


def _is_comparable(row: Published) -> bool:
    return row.comparability.comparable is not Comparable.NO


@dataclass(frozen=True)
class Line:
    """A row of a device's page, as text."""

    tunnel: str
    test: str
    payload: str
    direction: str
    throughput: str
    share: str
    packets: str
    cost: str
    where: str
    href: str
    date: str
    comparability: str


def _lines_of_run(run: Run) -> list[Line]:
    href, date = f"../{run.page}", run.started_at[:10]
    return [_line(result, run.title, href, f"testbed {run.testbed}", date) for result in run.results]


def _line_of_row(row: Published, date: str) -> Line:
    line = _line(row.result, row.reference, f"../references/{row.reference}.html", row.comparability.name, date)
    rate, packets = row.result.throughput_bps, row.result.packets_per_s
    return replace(line, throughput=_as_published(rate, 1e-6), packets=_as_published(packets))


def _as_published(value: float | None, scale: float = 1.0) -> str:
    """No digit more than was published."""
    return "" if value is None else f"{value * scale:.10g}"


def _line(result: Result, where: str, href: str, comparability: str, date: str) -> Line:
    def number(value: float | None, scale: float = 1.0) -> str:
        return "" if value is None else significant(value * scale)

    limited = " (tester-limited)" if result.is_tester_limited else ""
    is_mix = result.payload_bytes == 0 and result.test != "tcp"
    return Line(
        tunnel=result.tunnel,
        test=result.test,
        payload="imix" if is_mix else "" if result.payload_bytes is None else str(result.payload_bytes),
        direction=result.direction or "",
        throughput=number(result.throughput_bps, 1e-6) + limited * (result.throughput_bps is not None),
        share="" if result.share_of_baseline is None else percent(result.share_of_baseline),
        packets=number(result.packets_per_s),
        cost=number(result.cpu_s_per_million_packets),
        where=where,
        href=href,
        date=date,
        comparability=comparability,
    )


def _drawn(name: str, root: str, **values: Any) -> str:
    """A page; `root` leads from it to the site's folder."""
    return (
        _environment().get_template(f"site-{name}.html.jinja").render(root=root, version=__version__, **values) + "\n"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tunnelbench", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    return environment


@cache
def _resource(name: str) -> str:
    return files("tunnelbench").joinpath("report", "templates", name).read_text(encoding="utf-8")
