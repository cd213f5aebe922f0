"""A run of TCP connections: verdict, screen, report, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from tests.unit.builders import make_run, make_tcp
from tests.unit.connection_builders import LIMIT, OPENVPN, connection_records
from tests.unit.udp_builders import make_udp_records

from tunnelbench.model.counters import Ping
from tunnelbench.model.plan import Test
from tunnelbench.model.result import Check, TrialRecord, Verdict
from tunnelbench.report.document import compose
from tunnelbench.report.first_screen import first_screen
from tunnelbench.report.render import render

RUN = make_run(plan_name="connections")
RECORDS = connection_records()


def test_the_screen_names_the_rates_and_the_limit_that_was_found() -> None:
    text = "\n".join(line.plain for line in first_screen(compose(RUN, RECORDS), 200))
    assert f"Through {OPENVPN}, the client opens 500 new TCP connections per second." in text
    assert "Without a tunnel, it opens 1,000 per second." in text
    assert f"{OPENVPN} carries at most 1,500 TCP connections at the same time; 2000 were tried." in text
    assert "no tunnel carries at most" not in text
    (row,) = (line.split() for line in text.splitlines() if line.strip().startswith(f"{OPENVPN}, kept, 2000"))
    assert row[-4:] == ["1,500", "500", "1,500", "900"]
    assert max(len(line.plain) for line in first_screen(compose(RUN, RECORDS), 80)) <= 80


def test_a_number_of_connections_that_were_opened_too_fast_is_a_lower_bound() -> None:
    records = [with_opening_of(record, 4.0) if record.spec.test is Test.CONCURRENT else record for record in RECORDS]
    text = " ".join(line.plain for line in first_screen(compose(RUN, records), 200))
    assert (
        f"{OPENVPN} carries at least 1,500 TCP connections at the same time; 2000 were tried, perhaps too fast for the "
        "path: set a lower connections.opening_rate."
    ) in text
    assert "at most" not in text
    one_slow = [with_opening_of(RECORDS[-1], 4.0) if record is RECORDS[-1] else record for record in RECORDS]
    assert "carries at least 1,500 TCP" in "\n".join(line.plain for line in first_screen(compose(RUN, one_slow), 200))


def with_opening_of(record: TrialRecord, opening_s: float) -> TrialRecord:
    """Return a trial whose connections were established over another time."""
    assert record.udp is not None
    assert record.udp.connections is not None
    counts = replace(record.udp.connections, opening_s=opening_s)
    return replace(record, measurement=replace(record.udp, connections=counts))


def test_a_rate_that_the_testers_limited_is_a_lower_bound() -> None:
    limited = Check("tester-limited", Verdict.DOUBTFUL, "a tester's CPU was 99 % busy", 6)
    records = [replace(record, checks=(limited,)) for record in RECORDS]
    text = "\n".join(line.plain for line in first_screen(compose(RUN, records), 200))
    assert "the client opens at least 500 new TCP connections per second" in text


def test_report_csv_and_json_have_the_connections() -> None:
    text = render(RUN, RECORDS, "markdown")
    assert "New/s" in text
    assert "| 1,500 |" in text
    rows = list(csv.DictReader(io.StringIO(render(RUN, RECORDS, "csv"))))
    kept = [row for row in rows if row["test"] == "concurrent" and row["kind"] == "openvpn"]
    assert {(row["connections_open_max"], row["connections_tracked"]) for row in kept} == {(str(LIMIT), str(LIMIT))}
    assert {row["udp_sent_packets"] for row in rows} == {""}
    document = json.loads(render(RUN, RECORDS, "json"))
    assert document["udp_rows"] == []
    shares = [row["figures"]["share_of_baseline"] for row in document["connection_rows"] if row["test"] == "connect"]
    assert [share["median"] for share in shares] == pytest.approx([1.0, 0.5], rel=0.01)


@pytest.mark.parametrize("name", ["dokuwiki", "html", "terminal", "textile"])
def test_every_other_format_shows_such_a_run(name: str) -> None:
    assert OPENVPN in render(RUN, RECORDS, name, 100)


@pytest.mark.parametrize(("kind", "records"), [("connection", RECORDS), ("udp", make_udp_records())])
def test_pings_under_load_and_the_far_end_s_cpu_are_in_every_report(kind: str, records: list[TrialRecord]) -> None:
    found = [
        replace(record, measurement=replace(
            record.udp, ping=Ping(40, 38, 12.5), window=replace(make_tcp(1e7).window, far_end_busy_share=0.25)
        ))
        if record.udp
        else record
        for record in records
    ]  # fmt: skip
    assert "Ping worst" in render(RUN, found, "markdown")
    assert "12.5 ms" in render(RUN, found, "terminal", 120)
    rows = [row["figures"] for row in json.loads(render(RUN, found, "json"))[f"{kind}_rows"] if row["figures"]]
    assert {row["ping_worst_ms"] for row in rows} == {12.5}
    assert all(row["pings_lost"] * 20 == row["pings_sent"] for row in rows)
    measured = [row for row in csv.DictReader(io.StringIO(render(RUN, found, "csv"))) if row["outcome"] == "measured"]
    prefix = "connections" if kind == "connection" else kind
    assert {(row[f"{prefix}_far_end_busy_share"], row[f"{prefix}_ping_worst_ms"]) for row in measured} == {
        ("0.25", "12.5")
    }
