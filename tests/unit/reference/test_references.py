"""Published results ship whole, with what they are and what they may be compared with."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.sides import ComparedFigure
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.reference import Comparable
from tunnelbench.reference import read_reference, shipped_names

PUBLISHED = Path(__file__).parents[1] / "analysis" / "audit" / "published" / "published-throughput.csv"
DOCUMENTS = {
    "000": "wr841n-2014",
    "001": "alix-2d3-2010",
    "002": "pentium3-it168",
    "003": "apu1d-2014",
    "004": "openvpn-2017",
}
SPELLED_OTHERWISE = {"l2tp-ppp": "l2tpv2-ppp"}
NOT_IN_THE_DOCUMENT = {
    "001": {"auth", "comment"},
    "002": {"auth", "comment"},
    "003": {"cpu", "transport", "comment"},
    "004": {"device", "transport", "version_router", "version_server", "traffic", "payload_bytes", "comment"},
}
"""Columns in which the collected table has values that the document does not state, or lacks statements of it."""


@pytest.mark.parametrize("name", shipped_names())
def test_every_reference_says_what_it_is(name: str) -> None:
    reference = read_reference(name)
    assert all((reference.title, reference.source, reference.date, reference.method, reference.comparability.meaning))
    assert reference.rows
    assert all(tuple(row) == reference.columns for row in reference.rows)


@pytest.mark.parametrize(("document", "name"), DOCUMENTS.items())
def test_each_document_ships_to_the_last_figure(document: str, name: str) -> None:
    with PUBLISHED.open(encoding="utf-8", newline="") as stream:
        published = [row for row in csv.DictReader(stream) if row["source"] == document]
    reference = read_reference(name)
    rows = [row for row in reference.rows if not row.get("comment", "").startswith("Windows")]
    assert len(rows) == len(published)
    for shipped, row in zip(rows, published, strict=True):
        for column in set(row) - {"source", "year"} - NOT_IN_THE_DOCUMENT.get(document, set()):
            assert shipped.get(column, "") == SPELLED_OTHERWISE.get(row[column], row[column])


def test_what_the_slides_on_openvpn_do_not_state_is_empty() -> None:
    rows = {row["throughput_mbps"]: row for row in read_reference("openvpn-2017").rows}
    assert [rate for rate, row in rows.items() if row["device"]] == ["600", "840", "400"]
    assert {rate: row["version_router"] for rate, row in rows.items()} == {
        "650": "openvpn 2.4.4",
        "900": "openvpn 2.4.4",
        "600": "openvpn 2.3",
        "840": "openvpn 2.4",
        "400": "openvpn 2.4",
        "2850": "",
    }
    assert not any(row["version_server"] for row in rows.values())
    assert {rate: row["payload_bytes"] for rate, row in rows.items() if row["payload_bytes"]} == {"2850": "8948"}
    assert rows["400"]["direction"] == "in"
    stated = {"650", "900", "600", "840"}
    for column, value in (("transport", "udp"), ("traffic", "iperf tcp 2 GB")):
        assert {rate: row[column] for rate, row in rows.items()} == {
            rate: value if rate in stated else "" for rate in rows
        }


@pytest.mark.parametrize("name", ["alix-2d3-2010", "pentium3-it168", "apu1d-2014"])
def test_a_digest_that_a_document_does_not_state_is_no_cell(name: str) -> None:
    reference = read_reference(name)
    assert not any(row.get("auth") for row in reference.rows)
    assert not any("not stated" in row["comment"] for row in reference.rows)


@pytest.mark.parametrize(
    ("name", "fact"),
    [("openvpn-2017", "3 MHz"), ("openvpn-2017", "10 %"), ("openvpn-2017", "5 %"), ("apu1d-2014", "180 euros")],
)
def test_a_statement_without_a_row_is_a_note(name: str, fact: str) -> None:
    assert any(fact in note for note in read_reference(name).notes)


def test_two_processors_did_not_help_a_pentium() -> None:
    assert "52 %" in " ".join(read_reference("pentium3-it168").notes)


def test_figures_on_the_device_itself_are_of_a_class_that_is_not_compared() -> None:
    reference = read_reference("wireguard-by-device")
    assert len(reference.rows) == 180
    assert reference.comparability.comparable is Comparable.NO
    assert "on the device itself" in reference.comparability.label


def test_all_of_fastds_methods_and_routers_are_there() -> None:
    rows = read_reference("fastd-by-device").rows
    assert Counter(row["device"] for row in rows) == Counter(dict.fromkeys({row["device"] for row in rows}, 18))
    assert ("TL-WDR3600 v1", "null", "50.3") in {(row["device"], row["cipher"], row["throughput_mbps"]) for row in rows}


def test_packet_rates_are_used_only_where_there_is_no_throughput() -> None:
    rows = side_of_reference(read_reference("apu1d-2014")).rows
    assert all(set(row.figures) - {ComparedFigure.SHARE} == {ComparedFigure.THROUGHPUT} for row in rows)
    # Of the others no row without a tunnel has the same payload.
    assert {row.payload_bytes for row in rows if ComparedFigure.SHARE in row.figures} == {112}
    assert all(
        set(row.figures) == {ComparedFigure.NDR} for row in side_of_reference(read_reference("pentium3-it168")).rows
    )
    assert side_of_reference(read_reference("cipher-speed")).rows == ()


def test_an_unknown_shipped_names_the_known_ones() -> None:
    with pytest.raises(WrongInput, match="there is no reference 'wr841'") as caught:
        read_reference("wr841")
    assert "wr841n-2014" in caught.value.hint
