"""The page as a person uses it, in Chromium: opened from a file, without a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.browser.conftest import DESKTOP, PHONE, Visit, Visitor, of_tcp
from tests.unit.builders import make_records, make_run
from tests.unit.report.hostile import HOSTILE, hostile_run

from tunnelbench.analysis.compare.comparison import compare
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.report.compare import sheet
from tunnelbench.report.document import compose
from tunnelbench.report.formats.html import library, page
from tunnelbench.report.render import render_sheet
from tunnelbench.report.text import one_line

AXE = Path(__file__).with_name("axe.min.js")


def column(table: Page, heading: int, name: str = "tcp") -> list[str]:
    """The first text of a column's cells in the rows that are shown."""
    script = """([name, column]) => Array.from(document.querySelectorAll(`#${name} tbody tr`))
        .filter((row) => !row.hidden).map((row) => row.cells[column].firstChild?.textContent ?? "")"""
    found: list[str] = table.evaluate(script, [name, heading])
    return found


def opened(page: Page, *sections: str) -> Page:
    """Open the folded sections."""
    for name in sections:
        page.locator(f"#{name} > details > summary").click()
    return page


def is_wider_than_its_window(visit: Visit) -> bool:
    return bool(visit.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


def shown_charts(found: Page) -> int:
    """Return the number of charts that are shown; each must have one picture."""
    drawn = found.evaluate("""Array.from(document.querySelectorAll('figure:not([hidden]) .chart'),
        (chart) => chart.querySelectorAll('svg').length)""")
    assert set(drawn) == {1}
    return len(drawn)


CUT_OFF = """Array.from(document.querySelectorAll('figure:not([hidden]) .chart')).flatMap((chart) => {
    const frame = chart.getBoundingClientRect();
    return Array.from(chart.querySelectorAll('text'))
        .filter((text) => text.getBoundingClientRect().width > 0)
        .filter((text) => text.getBoundingClientRect().right > frame.right + 1)
        .map((text) => text.textContent);
})"""


@pytest.mark.parametrize("name", ["tcp_page", "udp_page"])
def test_on_a_phone_nothing_is_cut_off_and_only_tables_scroll_sideways(
    visit: Visitor, name: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(name)
    found = visit(path, PHONE)
    assert found.requests == [path.as_uri()]
    assert shown_charts(found.page) >= 6
    assert found.page.evaluate(CUT_OFF) == []
    assert not is_wider_than_its_window(found)


@pytest.mark.parametrize("name", ["tcp_page", "udp_page"])
def test_a_phone_shows_verdict_and_chart_at_once(visit: Visitor, name: str, request: pytest.FixtureRequest) -> None:
    found = visit(request.getfixturevalue(name), PHONE)
    verdict, chart = found.page.locator("p.answer").first, found.page.locator("#answer figure svg").first
    for part in (verdict, chart):
        box = part.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE[0]
        assert box["y"] < PHONE[1]
    assert not is_wider_than_its_window(found)


def test_the_table_has_a_line_for_each_tunnel_and_sorts_within_its_groups(visit: Visitor, tcp_page: Path) -> None:
    found = visit(tcp_page).page
    table = found.locator("table.answer")
    assert table.count() == 1
    assert table.locator("thead th").count() == 6
    titles = table.locator("tr.group").all_inner_texts()
    assert titles == ["Encrypted", "Not encrypted", "Without figures"]
    assert table.locator("tbody").nth(0).locator("tr[data-tunnel]").first.inner_text().startswith("openvpn AES-128-GCM")
    remark = table.locator("td.remarks").first.bounding_box()
    assert remark
    assert remark["x"] + remark["width"] <= DESKTOP[0]
    table.get_by_role("columnheader", name="down").first.get_by_role("button").click()
    plain = table.locator("tbody").nth(1).locator("tr")
    assert [row.inner_text().split()[0] for row in plain.all()] == ["Not", "vxlan", "none"]
    found.get_by_label("Tunnel", exact=True).select_option("vxlan")
    assert table.locator("tr[data-tunnel]:visible").all_inner_texts() == [plain.nth(1).inner_text()]


def test_the_link_to_the_rules_opens_them(visit: Visitor, tcp_page: Path) -> None:
    found = opened(visit(tcp_page).page, "measured")
    rule = found.get_by_role("heading", name="12. No other process uses the CPU")
    assert not rule.is_visible()
    found.get_by_role("link", name="docs/methodology.md").click()
    assert rule.is_visible()


def test_rows_are_sorted_and_filtered(visit: Visitor, tcp_page: Path) -> None:
    found = opened(visit(tcp_page).page, "rows")
    heading = found.get_by_role("columnheader", name="Throughput [Mbit/s]")
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    texts = column(found, 4)
    numbers = [float(text.replace(",", "")) for text in texts if text]
    assert numbers == sorted(numbers)
    assert len(numbers) == 12
    assert texts[len(numbers) :] == [""] * 4  # rows without a figure are last, whichever way
    heading.get_by_role("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert [float(text.replace(",", "")) for text in column(found, 4) if text] == numbers[::-1]
    assert column(found, 4)[len(numbers) :] == [""] * 4
    found.locator("#tcp").get_by_role("columnheader", name="Tunnel").get_by_role("button").click()
    assert column(found, 0) == sorted(column(found, 0), key=str.lower)
    assert heading.get_attribute("aria-sort") is None

    assert found.get_by_role("status").inner_text() == "16 of 16 rows"
    found.get_by_label("Tunnel", exact=True).select_option("vxlan")
    assert column(found, 0) == ["vxlan"] * 4
    found.get_by_label("Payload", exact=True).select_option("76")
    found.get_by_label("Direction", exact=True).select_option("up")
    assert (column(found, 0), column(found, 1), column(found, 2)) == (["vxlan"], ["76"], ["up"])
    assert found.get_by_role("status").inner_text() == "1 of 16 rows"
    found.get_by_label("Tunnel", exact=True).select_option("")
    assert len(column(found, 0)) == 4


def test_filters_choose_what_charts_draw(visit: Visitor, tcp_page: Path) -> None:
    found = opened(visit(tcp_page).page, "cost")
    chart = found.locator("#cost-tcp-1448 svg")
    everything = chart.bounding_box()
    assert "openvpn AES-128-GCM" in (chart.text_content() or "")
    found.get_by_label("Tunnel", exact=True).select_option("vxlan")
    found.wait_for_function("!document.querySelector('#cost-tcp-1448 svg').textContent.includes('openvpn')")
    assert "vxlan" in (chart.text_content() or "")
    filtered = chart.bounding_box()
    assert everything
    assert filtered
    assert filtered["height"] < everything["height"] / 2
    found.get_by_label("Payload", exact=True).select_option("76")
    assert not found.locator("#cost-tcp-1448").is_visible()
    assert found.locator("#cost-tcp-76").is_visible()
    opened(found, "series")
    assert found.locator("#series figure:visible strong").inner_text() == "vxlan, 76 down"
    found.get_by_label("Tunnel", exact=True).select_option("")
    found.get_by_label("Payload", exact=True).select_option("")
    found.wait_for_function("document.querySelector('#cost-tcp-1448 svg').textContent.includes('openvpn')")
    again = chart.bounding_box()
    assert again
    assert again["height"] == everything["height"]


def test_a_pointer_on_a_bar_shows_its_figures(visit: Visitor, tcp_page: Path) -> None:
    found = opened(visit(tcp_page).page, "cost")
    tip = found.locator(".tip")
    assert not tip.is_visible()
    found.locator("#cost-tcp-1448 svg .mark-rect path").nth(2).hover()
    assert re.search(r"Tunnel: vxlan\s+µs: down 6\.\d+\s+Lowest: 6\.\d+\s+Highest: 6\.\d+$", tip.inner_text())
    found.mouse.move(0, 0)
    assert not tip.is_visible()


def test_the_head_of_a_table_stays_in_sight(visit: Visitor, tcp_page: Path) -> None:
    found = opened(visit(tcp_page, PHONE).page, "rows")
    frame = found.locator(".wide:has(#tcp)")
    frame.evaluate("(frame) => { frame.scrollTop = frame.scrollHeight; frame.scrollLeft = 300; }")
    heading = found.locator("#tcp").get_by_role("columnheader", name="Tunnel").bounding_box()
    around = frame.bounding_box()
    assert heading
    assert around
    assert abs(heading["y"] - around["y"]) < 3
    assert abs(heading["x"] - around["x"]) < 3


def test_columns_are_shown_when_they_are_chosen(visit: Visitor, tcp_page: Path) -> None:
    found = opened(visit(tcp_page).page, "rows")
    assert found.locator("#tcp thead th:visible").count() == 6
    remark = found.locator("#tcp td.remarks").first.bounding_box()
    assert remark
    assert remark["x"] + remark["width"] <= DESKTOP[0]
    found.get_by_text("Columns", exact=True).click()
    found.get_by_label("ACK [packets/s]").check()
    assert found.locator("#tcp thead th:visible").count() == 7
    assert found.get_by_role("columnheader", name="ACK [packets/s]").is_visible()


def test_one_series_is_shown_another_can_be_chosen_and_all_follow_the_window(visit: Visitor, tcp_page: Path) -> None:
    found = visit(tcp_page)
    opened(found.page, "series")
    shown = found.page.locator("#series figure:not([hidden])")
    assert shown.count() == 1
    found.page.get_by_label("Trial", exact=True).select_option(label="vxlan, 76 down")
    assert "vxlan, 76 down" in shown.inner_text()
    shown.locator(".chart svg").wait_for()
    drawn = shown.locator(".chart svg").text_content() or ""
    assert drawn.count("start of the test") == 2
    assert "router CPU [%]" in drawn
    assert not is_wider_than_its_window(found)
    width = "document.querySelector('#series figure:not([hidden]) .chart svg').getBoundingClientRect().width"
    assert found.page.evaluate(width) > PHONE[0]
    found.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    found.page.wait_for_function(f"{width} < {PHONE[0]}", timeout=30_000)
    assert not is_wider_than_its_window(found)


def test_without_javascript_all_text_and_tables_are_there(visit: Visitor, tcp_page: Path) -> None:
    found = visit(tcp_page, javascript=False)
    opened(found.page, "rows", "cost", "measured", "throughput")
    text = found.page.locator("main").inner_text()
    assert "Of the tunnels that carry 100 Mbit/s, openvpn AES-128-GCM leaves the router the most free CPU" in text
    assert "CPU s per Mpackets" in text
    assert "Every check that failed" in text
    assert found.page.locator("#tcp tbody tr").count() == 16
    figures = found.page.locator("figure details").first
    figures.locator("summary").click()
    assert "openvpn AES-128-GCM" in figures.inner_text()


def brightness(colour: str) -> int:
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


@pytest.mark.parametrize(("name", "scheme"), [("tcp_page", "light"), ("udp_page", "dark")])
def test_axe_finds_no_serious_fault_in_a_light_or_a_dark_page(
    visit: Visitor, name: str, scheme: str, request: pytest.FixtureRequest
) -> None:
    found = visit(request.getfixturevalue(name), scheme=scheme).page
    ink, paper = (found.evaluate(f"getComputedStyle(document.body).{what}") for what in ("color", "backgroundColor"))
    assert (brightness(paper) - brightness(ink) > 400) == (scheme == "light")
    assert found.evaluate("getComputedStyle(document.querySelector('.chart svg text')).fill") == ink
    found.evaluate("document.querySelectorAll('section > details').forEach((each) => (each.open = true))")
    found.evaluate(AXE.read_text())
    result = found.evaluate("axe.run()")
    assert len(result["passes"]) > 20
    grave = [
        f"{fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]}"
        for fault in result["violations"]
        if fault["impact"] in {"serious", "critical"}
    ]
    assert grave == []


def test_a_dark_page_prints_light_with_its_charts_and_what_was_folded(visit: Visitor, tcp_page: Path) -> None:
    found = visit(tcp_page, scheme="dark").page
    assert found.pdf(format="A4")[:5] == b"%PDF-"
    assert found.locator("section > details[open]").count() == found.locator("section > details").count() > 2
    found.emulate_media(media="print")
    assert found.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert found.evaluate("getComputedStyle(document.querySelector('.chart svg text')).fill") == "rgb(0, 0, 0)"
    assert not found.locator(".controls").first.is_visible()


def test_hostile_text_does_nothing(visit: Visitor, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page(compose(*hostile_run())), encoding="utf-8")
    found = visit(path)
    dialogs: list[str] = []
    found.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    opened(found.page, "rows")
    found.page.locator("#tcp").get_by_role("columnheader", name="Tunnel").get_by_role("button").click()
    assert one_line(HOSTILE) in column(found.page, 0)
    assert found.page.locator("main script:not([type])").count() == 0
    assert found.page.locator("main a:not([href^='#'])").count() == 0
    assert (dialogs, found.requests) == ([], [path.as_uri()])


def test_pages_that_share_a_library_are_drawn_from_the_file_beside_them(visit: Visitor, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "library.js").write_text(library(), encoding="utf-8")
    path = tmp_path / "runs" / "run.html"
    text = page(of_tcp(), index_href="../index.html", library_href="../library.js", data_href="run.json")
    path.write_text(text, encoding="utf-8")
    found = visit(path)
    assert found.requests == [path.as_uri(), (tmp_path / "library.js").as_uri()]
    assert shown_charts(found.page) >= 6


def test_a_comparison_has_a_chart_and_a_table_that_filters_choose_from(visit: Visitor, tmp_path: Path) -> None:
    sides = [side_of_run(make_run(run_id=name), make_records(5)) for name in ("a", "b")]
    path = tmp_path / "comparison.html"
    path.write_text(render_sheet(sheet(compare(*sides), {}), "html"), encoding="utf-8")
    found = visit(path, PHONE)
    assert shown_charts(found.page) == 1
    assert found.page.evaluate(CUT_OFF) == []
    assert not is_wider_than_its_window(found)
    found.page.get_by_label("Tunnel", exact=True).select_option("vxlan")
    assert set(column(found.page, 0, "sheet")) == {"vxlan"}
    assert found.requests == [path.as_uri()]
