"""The pages of a site: what they list, that they link to each other alone, and that nothing in them is alive."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from jsonschema import Draft202012Validator
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.report.hostile import HOSTILE, hostile_run
from tests.unit.udp_builders import make_udp_records

from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.reference import read_reference, shipped_names
from tunnelbench.report.device_ranking import RankingLimits, rank
from tunnelbench.report.exchange import export, read
from tunnelbench.report.methodology import methodology_html
from tunnelbench.report.schema import schema
from tunnelbench.report.site.gather import DeviceFacts, gathered, slug
from tunnelbench.report.site.pages import other_pages, run_page
from tunnelbench.report.text import one_line

STARTED_AT = "2025-03-14T09:26:53+00:00"


def site(
    *runs: tuple[RunRecord, tuple[TrialRecord, ...]], given: dict[str, DeviceFacts] | None = None
) -> dict[str, str]:
    """All files of a site, by path."""
    found = [read(export(run, records, make_speeds()).text.encode()) for run, records in runs]
    pages = {gathered(each).entry.page: run_page(each) for each in found}
    pages |= {gathered(each).entry.data: "{}" for each in found}
    references = [read_reference(name) for name in shipped_names()]
    return pages | dict(other_pages([gathered(each) for each in found], references, given or {}))


def with_board(board: str, plan_title: str = "What this machine can do") -> tuple[RunRecord, tuple[TrialRecord, ...]]:
    facts = {"board": board, "cpu_model": "MIPS 24Kc", "cpus": 1, "memory_mib": 32}
    return make_run(host_facts=facts, plan_title=plan_title), make_records(1)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    given = {"Box 1": DeviceFacts("49 EUR (2024)", "3 W")}
    return site(with_board("Box 1"), with_board("Box 2"), (make_run(host_facts={}), make_udp_records()), given=given)


class Page(HTMLParser):
    """Elements of a page with their attributes, and the texts of the cells of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def addresses(self) -> list[str]:
        return [str(attrs[name]) for _, attrs in self.elements for name in ("href", "src") if name in attrs]


def test_every_link_is_relative_and_leads_to_a_file_of_the_site(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        if not name.endswith(".html"):
            continue
        anchors = set(re.findall(r'id="([^"]+)"', text))
        for address in Page(text).addresses():
            path, _, anchor = address.partition("#")
            assert not re.match(r"[a-z]+:|/", path), f"{name}: {address}"
            if path:
                assert posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) in pages, f"{name}: {address}"
            else:
                assert anchor in anchors, f"{name}: {address}"


def test_every_page_links_to_the_index_and_to_the_methodology(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        if name.endswith(".html"):
            leads = {
                posixpath.normpath(posixpath.join(posixpath.dirname(name), each)) for each in Page(text).addresses()
            }
            assert {"index.html", "methodology.html"} <= leads, name


def overviews(page: str) -> dict[str, list[list[str]]]:
    """The rows of both tables of devices, as text: with and without encryption."""
    encrypted, _, plain = page.partition('id="plain"')
    return {"encrypted": Page(encrypted).rows, "plain": Page(plain.partition("</table>")[0]).rows}


def test_the_index_has_devices_by_tunnels_with_runs_first(pages: dict[str, str]) -> None:
    header, first, second, *_ = overviews(pages["index.html"])["encrypted"]
    assert header[:3] == ["Device", "wireguard", "openvpn"]
    assert "none" not in header
    assert (first[0], second[0]) == ("Box 1", "Box 2")
    assert first[2].startswith("≥ 2")
    header, first, *_ = overviews(pages["index.html"])["plain"]
    assert header[1] == "none"
    assert float(first[1]) == pytest.approx(2420, rel=0.05)


def test_no_tunnel_without_encryption_stands_for_its_family(pages: dict[str, str]) -> None:
    cells = {}
    for group, (header, *rows) in overviews(pages["index.html"]).items():
        (row,) = [row for row in rows if row[0] == "TP-Link TL-WR841N v8"]
        cells[group] = {name: text for name, text in zip(header, row, strict=True) if text.strip()}
    assert {name: cells["encrypted"][name] for name in ("openvpn", "tinc")} == {"openvpn": "17.9", "tinc": "15.9"}
    assert cells["plain"]["openvpn"] == "42.8"
    assert {"gre", "ipip", "l2tpv2-ppp", "none"} <= cells["plain"].keys()
    assert cells["encrypted"].keys().isdisjoint({"gre", "ipip", "l2tpv2-ppp", "none"})


def test_the_chart_of_the_index_has_a_dot_for_each_encrypted_figure(pages: dict[str, str]) -> None:
    index = pages["index.html"]
    header, *rows = overviews(index)["encrypted"]
    figures = [text for row in rows for text in row[1 : header.index("CPU")] if text.strip()]
    titles = re.findall(r"<circle [^>]*><title>([^<]*)</title>", index)
    assert len(titles) == len(figures) > 100
    assert "TP-Link TL-WR841N v8: 17.9 Mbit/s (openvpn BF-CBC SHA1, wr841n-2014)" in titles
    assert index.count('class="ring"') == sum(text.strip().endswith("*") for text in figures)


def test_a_device_has_the_cpu_that_its_name_states(pages: dict[str, str]) -> None:
    every = json.loads(pages["index.json"])["devices"]
    devices = {device["name"]: device["cpu"] for device in every if device["references"]}
    assert devices["OpenWrt One / MT7981"] == "MT7981"
    assert devices["Raspberry Pi 5 / BCM2712"] == "BCM2712"
    assert devices["Intel N100"] == "Intel N100"
    assert devices["TL-WR841N/ND v9"] == "QCA9533", "by the facts that ship"
    assert devices["PC, 2 x Intel E100 (two identical gateways)"] == "Pentium III 1 GHz"
    assert [name for name, cpu in devices.items() if cpu is None and " / " in name] == []
    assert devices["GL.iNet GL-MT2500 (Brume 2)"] == "MT7981B", "by the facts that ship"
    assert sum(cpu is None for cpu in devices.values()) == 1


def test_names_of_one_device_share_a_page(pages: dict[str, str]) -> None:
    devices = {device["name"]: device for device in json.loads(pages["index.json"])["devices"]}
    device = devices["TL-WR841N/ND v9"]
    assert device["other_names"] == ["TP-Link WR841N v9 / QCA9533"]
    text = Page(pages[device["page"]]).text
    assert "fastd salsa2012+umac" in text
    assert "wireguard ChaCha20-Poly1305" in text
    router = {"router_kernel": "6.6", "router_board": "tplink,tl-wr841-v9"}
    found = site((make_run(host_facts=router), make_records(3)))
    (run,) = json.loads(found["index.json"])["runs"]
    assert run["device"] == "TL-WR841N/ND v9"
    assert run["run_id"] in found[device["page"]]


def test_the_page_of_a_device_has_facts_with_sources_and_marks(pages: dict[str, str]) -> None:
    page = Page(pages[f"devices/{slug('Intel Celeron N5105')}.html"])
    assert ["Cores", "4"] in [row[:2] for row in page.rows]
    assert "Intel ARK" in page.text
    page = Page(pages[f"devices/{slug('ASUS RT-AX53U / MT7621AT')}.html"])
    assert "single measurement; overclocked to 1.2 GHz" in page.text


def test_the_ranking_has_the_rows_of_the_command_with_their_marks(pages: dict[str, str]) -> None:
    references = [read_reference(name) for name in shipped_names()]
    rows = rank([], references, {}, RankingLimits()).rows
    whole = json.loads(pages["ranking.json"])
    assert [row["text"] for row in whole["rows"]] == [row.text for row in rows]
    page = Page(pages["ranking.html"].partition("<h2>Predictions")[0])
    assert [row[1] for row in page.rows[1:]] == [row.text for row in rows]
    assert all(row.marks[0] in line[4] for row, line in zip(rows, page.rows[1:], strict=True) if row.marks)


def test_predictions_stand_beside_the_test_of_the_method(pages: dict[str, str]) -> None:
    whole = json.loads(pages["ranking.json"])
    said = (
        f"{whole['validation']['predicted']} had a prediction; the 90 % interval held {whole['validation']['covered']}"
    )
    (row, *_) = [each for each in whole["predicted"] if each["device"] == "TL-WR1043ND v2"]
    assert row["tunnel"] == "wireguard"
    for name in ("ranking.html", f"devices/{slug('TL-WR1043ND v2')}.html"):
        assert said in pages[name]
        assert f"{row['covered']} of {row['tried']}" in pages[name]


def test_two_devices_side_by_side_have_their_own_figures(pages: dict[str, str]) -> None:
    text = pages["compare.html"]
    data = json.loads(re.findall(r'id="devices-data">(.*?)</script>', text)[0])
    (device,) = [each for each in data if each["name"] == "TP-Link TL-WR841N v8"]
    figures = {tuple(each[:5]): each[5] for each in device["figures"]}
    assert figures["encrypted", "openvpn", "openvpn BF-CBC SHA1", "1448", "down"] == "17.9"
    assert figures["plain", "openvpn", "openvpn none none", "1448", "down"] == "42.8"
    assert figures["unknown", "gre", "gre", "1448", "down"] == "≥ 92.7"
    assert device["facts"]["CPU"] == "Atheros AR9341 MIPS 74Kc 535 MHz"
    assert {each["page"] for each in data} <= pages.keys()


def test_the_page_of_two_devices_has_a_bounded_number_of_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.report.site.side_by_side.MOST_FIGURES", 50)
    pages = site()
    data = json.loads(re.findall(r'id="devices-data">(.*?)</script>', pages["compare.html"])[0])
    assert 1 < sum(len(device["figures"]) for device in data) <= 50
    compared = {device["page"] for device in data}
    others = {path for path in pages if path.startswith("devices/")} - compared
    said, *_ = re.findall(r"This page has no room for the figures of these devices: (.*)", pages["compare.html"])
    assert set(re.findall(r'href="([^"]*)"', said)) == others != set()
    for path in compared | others:
        assert ("Compare with another device" in pages[path]) is (path in compared)


def test_the_device_is_what_was_under_test_and_not_what_drove_it() -> None:
    laptop = {"board": "Laptop", "cpu_model": "Fast CPU", "cpus": 8, "memory_mib": 16384}
    router = {"router_kernel": "5.15", "router_board": "Small Box", "router_soc": "MIPS", "router_memory_mib": 32}
    router |= {"router_price": "19 EUR", "router_watts": "2 W", "router_cpus": 1}
    guest = {"guest": "inside a guest, emulated", "guest_cpu": "max of QEMU 7.2"}
    runs = [make_run(host_facts=laptop | facts, run_id=name) for name, facts in (("r1", router), ("g1", guest))]
    found = site(*((run, make_records(1)) for run in runs))
    index = json.loads(found["index.json"])
    own = {device["name"]: device for device in index["devices"] if device["runs"]}
    assert own.keys() == {"Small Box", "max of QEMU 7.2 (inside a guest, emulated)"}
    box = own["Small Box"]
    known = ("cpu", "cpus", "memory_mib", "price", "watts")
    assert [box[name] for name in known] == ["MIPS", 1, 32, "19 EUR", "2 W"]
    cells = {row[0]: row[1] for row in overviews(found["index.html"])["plain"] if row and row[0] in own}
    assert [name for name, cell in cells.items() if "*" in cell] == ["max of QEMU 7.2 (inside a guest, emulated)"]


def test_what_was_taken_on_the_device_itself_is_marked_and_gives_way_to_what_was_not(pages: dict[str, str]) -> None:
    found = overviews(pages["index.html"])
    encrypted, plain = ({row[0]: row for row in rows} for rows in found.values())
    assert encrypted["Raspberry Pi Model B / BCM2835"][1] == "16.1*"
    assert plain["TP-Link TL-WR841N v8"][1] == "≥ 94.2", "line speed"


def test_a_device_has_what_is_given_of_it_and_says_what_is_not(pages: dict[str, str]) -> None:
    first, second = (Page(pages[f"devices/{slug(name)}.html"]).text for name in ("Box 1", "Box 2"))
    for said in ("MIPS 24Kc, 1 CPUs", "32 MiB", "49 EUR (2024)", "3 W"):
        assert said in first
    assert re.search(r"Price\s*not given\s*Power\s*not given", second)


def test_a_published_figure_has_no_digit_more_than_was_published(pages: dict[str, str]) -> None:
    rows = Page(pages[f"devices/{slug('TL-WR841N/ND v9')}.html"]).rows
    assert next(row[5] for row in rows[1:] if row[0].startswith("fastd null")) == "35.5"


def test_a_published_figure_has_all_digits_that_were_published(pages: dict[str, str]) -> None:
    rows = Page(pages[f"devices/{slug('TL-WDR3600 v1')}.html"]).rows
    assert next(row[5] for row in rows[1:] if row[0] == "fastd salsa2012+umac") == "29.0"
    assert '"29.0' in pages["compare.html"]


def test_a_published_figure_at_line_speed_is_a_lower_bound_on_each_page(pages: dict[str, str]) -> None:
    rows = Page(pages[f"devices/{slug('TP-Link TL-WR841N v8')}.html"]).rows
    shown = [row for row in rows if row and row[0] == "none" and "94.2" in row[5]]
    assert {row[5] for row in shown} == {"≥ 94.2"}
    assert all("lower bound, line speed" in " ".join(row) for row in shown)
    assert "≥ 94.2" in pages["index.html"]
    data = json.loads(re.findall(r'id="devices-data">(.*?)</script>', pages["compare.html"])[0])
    figures = {text for device in data if device["name"] == "TP-Link TL-WR841N v8" for *_, text, _ in device["figures"]}
    assert "≥ 94.2" in figures
    assert "94.2" not in figures


def test_a_run_at_line_speed_is_a_lower_bound_in_the_overview() -> None:
    run, records = with_board("Box 1")
    at_line_speed = tuple(
        replace(each, measurement=replace(each.tcp, physical_limit_bps=each.tcp.throughput_bps)) if each.tcp else each
        for each in records
    )
    for kept, is_bound in ((records, False), (at_line_speed, True)):
        cells = {row[0]: row[1] for row in overviews(site((run, kept))["index.html"])["plain"] if row}
        assert cells["Box 1"].startswith("≥ ") is is_bound


@pytest.mark.parametrize("name", shipped_names())
def test_a_reference_has_source_date_method_and_class(pages: dict[str, str], name: str) -> None:
    reference = read_reference(name)
    page = Page(pages[f"references/{name}.html"])
    for said in (reference.source, reference.date, reference.method, reference.comparability.label):
        assert said in page.text
    assert len(page.rows) == 1 + len(reference.rows)


def test_the_index_for_programs_is_what_its_schema_says(pages: dict[str, str]) -> None:
    index = json.loads(pages["index.json"])
    Draft202012Validator(schema("site")).validate(index)
    assert {run["page"] for run in index["runs"]} <= pages.keys()
    assert {device["page"] for device in index["devices"]} <= pages.keys()
    tests = {result["test"] for run in index["runs"] for result in run["results"]}
    assert {"tcp", "search", "latency idle"} <= tests


def test_without_javascript_nothing_is_hidden_but_the_controls(pages: dict[str, str]) -> None:
    hidden = {tag for tag, attrs in Page(pages["index.html"]).elements if "hidden" in attrs}
    assert hidden == {"form"}
    assert "needs JavaScript" in Page(pages["compare.html"]).text


def test_a_site_without_runs_has_the_published_results() -> None:
    page = Page(site()["index.html"])
    assert "There are no runs yet." in page.text
    assert "TP-Link TL-WR841N v8" in page.text


def test_hostile_text_is_text_on_every_page() -> None:
    _, records = hostile_run()
    facts = {"board": HOSTILE, "cpu_model": HOSTILE, "cpus": HOSTILE}
    hostile = make_run(
        host_facts=facts, started_at=STARTED_AT, plan_title=HOSTILE, plan_name=HOSTILE, testbed_name=HOSTILE
    )
    pages = site((hostile, records), given={one_line(HOSTILE): DeviceFacts(HOSTILE, HOSTILE)})
    assert {"script", "b"} & {tag for tag, _ in Page(HOSTILE).elements}
    plain = site(with_board("Box 1"))
    for kind in ("index.html", "devices/", "references/"):
        allowed = {tag for name, text in plain.items() if name.startswith(kind) for tag, _ in Page(text).elements}
        for text in (text for name, text in pages.items() if name.startswith(kind)):
            page = Page(text)
            assert {tag for tag, _ in page.elements} <= allowed
            assert sum(tag == "script" for tag, _ in page.elements) == 1
            assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert "<script>alert(1)</script>" in Page(pages["index.html"]).text


def test_names_that_look_alike_have_pages_of_their_own() -> None:
    assert len({slug(name) for name in ("a b", "a-b", "A B", "a/b", "\u202eab", "..")}) == 6
    assert all(re.fullmatch(r"[a-z0-9-]+", slug(name)) for name in ("../../etc/passwd", "", "漢字", "x" * 500))
    assert len(slug("x" * 500)) < 60


def test_the_methodology_is_the_document_with_its_anchors() -> None:
    text = methodology_html()
    assert 'id="classes-of-trials"' in text
    assert "<table>" in text
    assert all(href.startswith("#") for href in re.findall(r'href="([^"]*)"', text))
