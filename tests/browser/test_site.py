"""A site as a person uses it, in Chromium: opened from a folder, without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.browser.conftest import DESKTOP, PHONE, Visitor
from tests.unit.report.hostile import HOSTILE
from tests.unit.report.site.test_site import site, with_board

from tunnelbench.report.site.gather import slug

AXE = Path(__file__).with_name("axe.min.js")
DEVICE = f"devices/{slug('Box 1')}.html"
PAGES = ("index.html", DEVICE, "references/openvpn-2017.html", "methodology.html", "compare.html", "ranking.html")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name, text in site(with_board("Box 1"), with_board(HOSTILE, HOSTILE)).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("name", "size"), [("index.html", DESKTOP), *((name, PHONE) for name in PAGES)])
def test_a_page_asks_for_its_own_files_alone_and_fits_its_window(
    visit: Visitor, folder: Path, name: str, size: tuple[int, int]
) -> None:
    found = visit(folder / name, size)
    assert all(each.startswith(folder.as_uri()) for each in found.requests)
    assert found.complaints == []
    assert found.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_run_is_reached_from_the_index_and_draws_its_charts_with_the_shared_file(
    visit: Visitor, folder: Path
) -> None:
    found = visit(folder / "index.html")
    found.page.click("#runs a")
    found.page.wait_for_selector("figure .chart svg", timeout=60_000)
    assert found.complaints == []
    assert any(each.endswith("assets/charts.js") for each in found.requests)
    found.page.click("text=All results")
    assert found.page.url == (folder / "index.html").as_uri()


def test_a_search_and_filters_leave_the_rows_that_are_asked_for(visit: Visitor, folder: Path) -> None:
    page = visit(folder / "index.html").page
    rows = page.locator("#encrypted tbody tr:visible")
    everything = rows.count()
    dots = page.locator(".overview circle:visible")
    assert dots.count() >= everything
    controls = page.locator("form[data-for=encrypted]")
    controls.locator("input").fill("tl-wr841n v8 74kc")
    assert rows.count() == 1
    assert controls.locator("output").inner_text() == f"1 of {everything}"
    assert dots.count() == 2  # its openvpn and its tinc
    controls.locator("input").fill("")
    controls.locator("[name=tunnel]").select_option("fastd")
    fastd = rows.count()
    assert 0 < fastd < everything
    controls.locator("[name=tunnel]").select_option("")
    controls.locator("[name=from]").select_option("run")
    assert rows.count() == 2
    controls.locator("[name=from]").select_option("")
    assert rows.count() == everything


def test_without_javascript_the_tables_are_whole_and_the_controls_are_not_there(visit: Visitor, folder: Path) -> None:
    page = visit(folder / "index.html", javascript=False).page
    assert page.locator("#encrypted tbody tr:visible").count() > 100
    assert page.locator("form:visible").count() == 0


def test_a_click_on_a_heading_sorts_the_devices(visit: Visitor, folder: Path) -> None:
    page = visit(folder / "index.html").page
    heading = page.locator("#encrypted thead th").nth(1)
    heading.get_by_role("button").click()
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    first, *_, last = page.locator("#encrypted tbody tr").all()
    assert "Ryzen" in first.inner_text() or "Apple" in first.inner_text()
    assert last.locator("td").nth(0).inner_text() == ""  # no figure is last, whichever way
    page.locator("#references").get_by_role("columnheader", name="Rows").get_by_role("button").press("Enter")
    rows = [int(text) for text in page.locator("#references tbody td:nth-child(4)").all_inner_texts()]
    assert rows == sorted(rows)


def test_two_devices_are_compared_side_by_side(visit: Visitor, folder: Path) -> None:
    page = visit(folder / DEVICE).page
    page.get_by_role("link", name="Compare with another device").click()
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert page.locator("[name=a]").input_value() == "Box 1"
    page.locator("[name=b]").select_option("TP-Link TL-WR841N v8")
    head = page.locator("#pair thead")
    assert head.get_by_role("link").all_inner_texts() == ["Box 1", "TP-Link TL-WR841N v8"]
    assert head.get_by_role("link", name="Box 1").get_attribute("href") == DEVICE
    text = page.locator("#pair").inner_text()
    assert "Atheros AR9341" in text
    assert text.index("Encrypted") < text.index("openvpn BF-CBC SHA1") < text.index("Not encrypted")

    def shown(name: str) -> list[str]:
        (row,) = page.locator("#pair").get_by_role("row", name=re.compile(f"^{name}")).all()
        return row.locator("td").all_inner_texts()[-3:]

    one, other, ratio = shown("none 76 down")
    assert float(ratio) == pytest.approx(float(other) / float(one.replace(",", "")), rel=0.01)
    assert shown("none 1448 down")[1:] == ["≥ 94.2", ""], "a figure at line speed has no quotient"


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("index.html", "light"),
        ("index.html", "dark"),
        (DEVICE, "dark"),
        (PAGES[2], "light"),
        ("compare.html", "dark"),
        ("ranking.html", "light"),
    ],
)
def test_axe_finds_no_serious_fault(visit: Visitor, folder: Path, name: str, scheme: str) -> None:
    page = visit(folder / name, scheme=scheme).page
    if name in {"index.html", "ranking.html"}:
        form = "encrypted" if name == "index.html" else "ranking"
        page.locator(f"form[data-for={form}] input").fill("box")  # a few of two hundred rows that are alike
    page.evaluate(AXE.read_text())
    result = page.evaluate("axe.run({preload: false})")
    assert len(result["passes"]) > 10
    grave = [
        f"{fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]}"
        for fault in result["violations"]
        if fault["impact"] in {"serious", "critical"}
    ]
    assert grave == []


def test_hostile_text_is_shown_and_does_nothing(visit: Visitor, folder: Path) -> None:
    found = visit(folder / "index.html")
    dialogs: list[str] = []
    found.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    link = found.page.locator("#encrypted a", has_text="<script>alert(1)</script>")
    assert link.count() == 1
    link.click()
    found.page.wait_for_selector("html[data-drawn]", state="attached")
    assert "<script>alert(1)</script>" in found.page.locator("h1").inner_text()
    assert found.page.locator("main script, main b, main img").count() == 0
    assert dialogs == []
