"""The page: what it says without JavaScript, what is inside it, and that nothing from outside is alive in it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from pytest_regressions.file_regression import FileRegressionFixture
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.report.hostile import HOSTILE, hostile_run
from tests.unit.report.test_report import excerpt
from tests.unit.udp_builders import make_udp_records

from tunnelbench.model.plan import Test
from tunnelbench.report.document import Document, compose
from tunnelbench.report.figures import table_figures
from tunnelbench.report.formats import html
from tunnelbench.report.formats.html import embedded_data, library, page
from tunnelbench.report.render import render
from tunnelbench.report.sections import Section
from tunnelbench.report.table import rows_with_trials
from tunnelbench.report.text import one_line

MOST_BYTES = 2_000_000
BESIDE: dict[str, Any] = {
    "library_href": "../library.js",
    "data_href": "run.json",
    "index_href": "../index.html",
    "methodology_href": "../methodology.html",
}


class Page(HTMLParser):
    """The elements of a page with their attributes, its scripts, and its text outside them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag in {"script", "style", "td", "th"} else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, code = self.scripts[-1]
            self.scripts[-1] = (attributes, code + data)
        elif self._inside != "style":
            self.text += data
            if self._inside in {"td", "th"}:
                self.tables[-1][-1][-1] += data

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.elements}


def document(**changes: object) -> Document:
    return compose(make_run(**changes), make_records(), None, make_speeds())


def test_the_body_of_a_small_run(file_regression: FileRegressionFixture) -> None:
    text = page(compose(make_run(), excerpt(), None, make_speeds()[:1]), **BESIDE)
    body = text[text.index("<body>") : text.index("<script src=")]
    file_regression.check(body, encoding="utf-8", extension=".html")


def test_the_body_of_a_small_run_of_udp(file_regression: FileRegressionFixture) -> None:
    tests = {Test.SEARCH, Test.LATENCY, Test.LOSS_CURVE}
    records = [
        record
        for record in make_udp_records()
        if record.spec.payload_bytes and record.spec.tunnel.name in {"none", "vxlan"} and record.spec.test in tests
    ]
    text = page(compose(make_run(), records), **BESIDE)
    body = text[text.index("<body>") : text.index("<script src=")]
    file_regression.check(body, encoding="utf-8", extension=".html")


def test_a_page_with_everything_in_it_is_small_enough_and_names_no_other_place() -> None:
    text = page(document())
    assert len(text.encode()) < MOST_BYTES
    found = Page(text)
    addresses = [
        value for _, attributes in found.elements for key, value in attributes.items() if key in {"src", "href"}
    ]
    anchors = {f"#{attributes['id']}" for _, attributes in found.elements if "id" in attributes}
    assert addresses
    assert set(addresses) <= anchors
    assert found.names.isdisjoint({"link", "img", "iframe", "object", "embed", "base", "form"})


def test_every_row_has_all_columns_and_numbers_stand_to_the_right() -> None:
    found = Page(page(document(), **BESIDE))
    results = next(table for table in found.tables if table[0][-1] == "Comment")
    columns = ["Tunnel", "Payload [bytes]", "Direction", *(each.heading for each in table_figures("tcp")), "Comment"]
    assert results[0] == columns
    assert len(results) == 1 + 36
    assert {len(row) for table in found.tables for row in table} >= {len(columns)}
    # The heading of a group spans all columns.
    assert all(len(row) in {1, len(table[0])} for table in found.tables for row in table)
    assert html.number_columns([("a", "1.5", "in", "-"), ("b", "", "out", "not known")]) == {1, 3}


def test_a_run_of_udp_has_its_own_table_and_no_empty_one_of_tcp() -> None:
    document = compose(make_run(), make_udp_records())
    found = Page(page(document, **BESIDE))
    rows = rows_with_trials(document.udp_rows, document.records)
    headings = [each.heading for each in table_figures("udp", rows)]
    heads = [table[0] for table in found.tables]
    assert ["Tunnel", "Payload [bytes]", "Direction", "Test", *headings, "Comment"] in heads
    assert ("table", {"class": "results", "id": "tcp"}) not in found.elements


def test_sections_come_in_the_order_in_which_they_are_asked_for() -> None:
    text = page(document(), **BESIDE)
    order = [
        "answer",
        "table",
        "rows",
        "throughput",
        "packets",
        "cost",
        "series",
        "ciphers",
        "measured",
        "configuration",
        "data",
    ]
    places = [text.find(f'<section id="{name}"') for name in order]
    assert [name for name, place in zip(order, places, strict=True) if place < 0] in ([], ["series"])
    assert sorted(place for place in places if place >= 0) == [place for place in places if place >= 0]


def test_each_chart_is_also_a_sentence_a_label_and_a_table() -> None:
    text = page(document(), **BESIDE)
    found = Page(text)
    labels = [attributes["aria-label"] for name, attributes in found.elements if attributes.get("role") == "img"]
    figures = [attributes["id"] for name, attributes in found.elements if name == "figure"]
    assert len(labels) == len(figures) >= 7
    assert all(label and label.endswith(".") and len(label) > 40 for label in labels)
    for figure in text.split("<figure ")[1:]:
        assert "<table>" in figure.split("</figure>")[0]


def test_the_data_are_those_of_the_json_report_without_what_programs_printed() -> None:
    found = Page(page(document()))
    (data,) = [code for attributes, code in found.scripts if attributes.get("id") == "tunnelbench-data"]
    whole = json.loads(render(make_run(), make_records(), "json", speeds=make_speeds()))
    for trial in whole["trials"]:
        del trial["raw"]
        if trial["proof"]:
            del trial["proof"]["raw"]
    assert json.loads(data) == whole


def test_a_page_leaves_out_trials_beyond_its_size_limit_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(html, "MOST_DATA_BYTES", 50_000)
    remark = "too large for this page"
    assert json.loads(embedded_data(document()).text)["trials"] == []
    assert remark in page(document())
    monkeypatch.undo()
    assert remark not in page(document())


def test_the_browser_is_allowed_our_two_scripts_and_nothing_else() -> None:
    found = Page(page(document()))
    run = [code for attributes, code in found.scripts if "type" not in attributes]
    assert len(run) == 2
    (policy,) = [
        attributes["content"] for name, attributes in found.elements if attributes.get("http-equiv") is not None
    ]
    assert policy is not None
    hashes = {f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in run}
    assert set(re.findall(r"'sha256-[^']+'", policy)) == hashes
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy


def test_pages_that_stand_together_share_the_library_and_lead_back_to_their_index() -> None:
    found = Page(page(document(), **BESIDE))
    assert ("a", {"href": "../index.html"}) in found.elements
    assert ("a", {"href": "run.json"}) in found.elements
    assert [attributes for attributes, code in found.scripts if attributes.get("src")] == [{"src": "../library.js"}]
    assert len(page(document(), **BESIDE)) < 300_000
    assert library().count("vega") > 10


def test_the_library_has_its_licences_and_cannot_end_its_element() -> None:
    text = library()
    assert text.count("Redistributions in binary form") == len(html.LIBRARIES)
    assert "</script" not in text.lower()
    assert "<!--" not in text
    assert "sourceMappingURL" not in text


def test_hostile_text_is_text() -> None:
    for beside in ({}, BESIDE):
        found = Page(page(compose(*hostile_run()), **beside))
        assert found.names <= Page(page(document(), **beside)).names | {"code"}
        assert all(not key.startswith("on") for _, attributes in found.elements for key in attributes)
        assert found.text.count("<script>alert(1)</script>") >= 10
        assert not set("\x1b\x07\x9b\u202e\u2028") & set(found.text)
        assert f"TunnelBench: {one_line(HOSTILE)}" in found.text
        assert {attributes["type"] for attributes, code in found.scripts if "type" in attributes} == {
            "application/json"
        }


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "&lt;", '"\\u003c', "\u2028\u2029", "'\"`"]
)
def test_json_in_the_page_is_inert_and_comes_back_as_it_was(text: str) -> None:
    written = html.inert({"a": text})
    assert not set("<>&") & set(str(written))
    assert json.loads(str(written)) == {"a": text}


@pytest.mark.parametrize(
    "text", ['"><script>alert(1)</script>', "' onmouseover='alert(1)", "</title><b>", "{{ 7 * 7 }}"]
)
def test_names_versions_and_comments_do_not_leave_their_place(text: str) -> None:
    records = [
        replace(record, spec=replace(record.spec, tunnel=replace(record.spec.tunnel, name=text)), reason=text)
        for record in make_records(1)[4:8]
    ]
    run = make_run(plan_title=text, testbed_text=text, plan_text=text, tunnelbench_version=text)
    found = Page(page(compose(run, records)))
    assert "b" not in {name for name, _ in found.elements} - Page(page(document())).names
    assert all(not key.startswith("on") for _, attributes in found.elements for key in attributes)
    assert found.text.count(text) > 4


def test_an_section_that_the_page_does_not_know_stands_in_a_section_of_its_own() -> None:
    found = document()
    text = page(replace(found, sections=(*found.sections, Section("Weather", items=("It rained.",)))), **BESIDE)
    assert "It rained." in text.partition('<section id="more">')[2].partition("</section>")[0]


def test_files_are_shown_line_by_line_as_they_are() -> None:
    text = page(document(plan_text="a = 1\n[b]\n\tc = '\u202e<x>'\n"), **BESIDE)
    assert "a = 1\n[b]\n        c = &#39;\\u202e&lt;x&gt;&#39;</pre>" in text


def test_configurations_and_versions_are_there_once_a_tunnel() -> None:
    text = page(document(), **BESIDE)
    section = text.partition('<section id="configuration">')[2]
    assert section.count("openvpn 2.6.14 (2.6.14); OpenSSL 3.0.19 (3.0.19)") == 2
    assert section.count("# openvpn AES-128-GCM\n") == 1
