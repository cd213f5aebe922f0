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
from tunnelbench.reference import read_reference, reference_names

PUBLISHED = Path(__file__).parents[1] / "analysis" / "audit" / "published" / "published-throughput.csv"
DOCUMENTS = {
    "000": "wr841n-2014",
    "001": "alix-2d3-2010",
    "002": "pentium3-it168",
    "003": "apu1d-2014",
    "004": "openvpn-2017",
}
SPELLED_OTHERWISE = {"l2tp-ppp": "l2tpv2-ppp"}


@pytest.mark.parametrize("name", reference_names())
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
    assert len(reference.rows) == len(published)
    for shipped, row in zip(reference.rows, published, strict=True):
        for column in set(row) - {"source", "year"}:
            assert shipped.get(column, "") == SPELLED_OTHERWISE.get(row[column], row[column])


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
        set(row.figures) == {ComparedFigure.PACKETS} for row in side_of_reference(read_reference("pentium3-it168")).rows
    )
    assert side_of_reference(read_reference("cipher-speed")).rows == ()


def test_an_unknown_reference_names_the_known_ones() -> None:
    with pytest.raises(WrongInput, match="there is no reference 'wr841'") as caught:
        read_reference("wr841")
    assert "wr841n-2014" in caught.value.hint
