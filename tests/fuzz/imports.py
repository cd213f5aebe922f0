"""Target `imports`: a file of an exported run is read; a run that is accepted is stored, reported, compared and shown.

A changed file rarely has the right checksum, so an input that is a JSON object is also tried with the right one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.target import Target, same
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.report.hostile import hostile_run
from tests.unit.report.test_report import excerpt
from tests.unit.udp_builders import make_udp_records

from tunnelbench.analysis.compare.comparison import compare
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import Side
from tunnelbench.cli.details.run import run_text
from tunnelbench.cli.plans import planned_trials
from tunnelbench.model.errors import WrongInput
from tunnelbench.reference import read_reference
from tunnelbench.report.compare import sheet
from tunnelbench.report.contribution.judge import names_left, objections
from tunnelbench.report.contribution.place import file_of
from tunnelbench.report.contribution.published import highest_published
from tunnelbench.report.contribution.pull_request import body
from tunnelbench.report.exchange import Imported, export, read
from tunnelbench.report.exchange.file import CHECKSUM, checksum
from tunnelbench.report.formats import format_names
from tunnelbench.report.render import render, render_sheet
from tunnelbench.report.site.gather import gathered
from tunnelbench.report.site.pages import other_pages, run_page
from tunnelbench.store.store import Store
from tunnelbench.tunnel import compresses, encrypts, weights

COMPARED_AS = ("csv", "json")
"""Formats of a comparison here; the target `tables` draws it in every format."""


def take(data: bytes) -> None:
    with suppress(WrongInput):
        use(read(data))
    if (repaired := with_checksum(data)) is not None:
        use(read(repaired))


def with_checksum(data: bytes) -> bytes | None:
    """Return the file with the right checksum; None if it is no JSON object, or has the right one."""
    try:
        whole: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict):
        return None
    try:
        right = checksum(whole)
    except (ValueError, RecursionError, TypeError):
        return None
    if whole.get(CHECKSUM) == right:
        return None
    return json.dumps({**whole, CHECKSUM: right}).encode()


def use(found: Imported) -> None:
    """Do everything that the verbs do with an imported run."""
    run, records = found.run, found.records
    for name in format_names():
        render(run, records, name, 100, speeds=found.speeds)
    for _ in run_text(run, records):
        pass
    page = run_page(found)
    pages = dict(other_pages([gathered(found)], [read_reference("wr841n-2014")], {}))
    if not page or not pages:
        raise AssertionError("a site has no pages")
    highest = highest_published([read_reference("wr841n-2014")])
    objections(found, encrypts, compresses, highest, planned_trials)
    names_left(found)
    with suppress(WrongInput):
        body(found, file_of(run, found.original_id))
    side = side_of_run(run, records)
    for a, b in ((side, own_side()), (own_side(), side), (side, side)):
        compared = compare(a, b)
        for name in COMPARED_AS:
            render_sheet(sheet(compared, weights()), name)
    stored(found)
    again = read(export(run, records, found.speeds).text.encode())
    same(export(again.run, again.records, again.speeds).text, export(again.run, again.records, again.speeds).text)


def stored(found: Imported) -> None:
    """Store the run, and compare what the store returns."""
    path = folder() / "runs.sqlite"
    for part in folder().glob("runs.sqlite*"):
        part.unlink()
    with Store.open(path) as store:
        store.add_run(found.run, found.records, found.speeds)
        same(store.trials(found.run.run_id), list(found.records))
        same(store.cipher_speeds(found.run.run_id), list(found.speeds))
        same(store.run(found.run.run_id), found.run)


@cache
def folder() -> Path:
    """Return a folder in memory, if there is one, for the stores of this process."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="tunnelbench-fuzz-", dir=memory if memory.is_dir() else None))


@cache
def own_side() -> Side:
    return side_of_run(make_run(), excerpt())


def seeds() -> Iterator[bytes]:
    udp = make_udp_records()
    kinds = {record.spec.test: record for record in udp}
    few = tuple(make_records(3)[number] for number in (0, 8, 30, 31))
    for run, records, speeds in (
        (make_run(), excerpt(), make_speeds()[:1]),
        (make_run(), few[:1], ()),
        (make_run(), few[1:2], make_speeds()[2:]),
        *((make_run(), (record,), ()) for record in kinds.values()),
        (make_run(), (), ()),
        (make_run(), few, ()),
        (make_run(), tuple(kinds.values()), ()),
        (make_run(host_facts={"router_kernel": "x", "router_board": "b", "router_memory_mib": 3}), excerpt()[:2], ()),
    ):
        bare = [replace(record, raw={}) for record in records]
        yield export(run, bare, speeds).text.encode()
    run, records = hostile_run()
    yield export(replace(run, started_at=make_run().started_at), records).text.encode()


TARGET = Target("imports", take, seeds, (CHECKSUM, "null", "1e308", "-1", "NaN", "1e400", '"imported"', "\\ud800"))
