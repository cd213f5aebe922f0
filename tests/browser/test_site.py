"""A site as a person uses it, in Chromium: opened from a folder, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browser.conftest import DESKTOP, PHONE, Visitor
from tests.unit.report.hostile import HOSTILE
from tests.unit.report.site.test_site import site, with_board

from tunnelbench.report.site.gather import slug

AXE = Path(__file__).with_name("axe.min.js")
DEVICE = f"devices/{slug('Box 1')}.html"
PAGES = ("index.html", DEVICE, "references/openvpn-2017.html", "methodology.html")


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
    rows = page.locator("#devices tbody tr:visible")
    everything = rows.count()
    controls = page.locator("form[data-for=devices]")
    controls.locator("input").fill("tl-wr841n v8 74kc")
    assert rows.count() == 1
    assert controls.locator("output").inner_text() == f"1 of {everything}"
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
    assert page.locator("#devices tbody tr:visible").count() > 100
    assert page.locator("form:visible").count() == 0


@pytest.mark.parametrize(
    ("name", "scheme"), [("index.html", "light"), ("index.html", "dark"), (DEVICE, "dark"), (PAGES[2], "light")]
)
def test_axe_finds_no_serious_fault(visit: Visitor, folder: Path, name: str, scheme: str) -> None:
    page = visit(folder / name, scheme=scheme).page
    if name == "index.html":
        page.locator("form[data-for=devices] input").fill("box")  # a few of two hundred rows that are alike
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
    link = found.page.locator("#devices a", has_text="<script>alert(1)</script>")
    assert link.count() == 1
    link.click()
    found.page.wait_for_selector("html[data-drawn]", state="attached")
    assert "<script>alert(1)</script>" in found.page.locator("h1").inner_text()
    assert found.page.locator("main script, main b, main img").count() == 0
    assert dialogs == []
