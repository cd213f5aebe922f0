"""The pages of `tunnelbench serve` in Chromium, while another process stores the trials of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from tests.browser.conftest import DESKTOP, PHONE
from tests.postgresql import Cluster, cluster
from tests.unit.builders import make_records, make_run
from tests.unit.cli.test_serve import CODE, PASSWORD, served
from tests.unit.report.hostile import hostile_run

from tunnelbench.cli.serve import PASSWORD_VARIABLE
from tunnelbench.model.progress import RunProgress
from tunnelbench.model.result import TrialRecord
from tunnelbench.store.store import Store

AXE = Path(__file__).with_name("axe.min.js")
DONE, RUNNING = "20250314-092653-aaaaaa", "20250315-092653-bbbbbb"
PAGES = ("", f"runs/{DONE}", f"runs/{RUNNING}", f"runs/{RUNNING}/report", "compare", f"compare?a={DONE}&b={RUNNING}",
         "references", "references/wr841n-2014", "methodology", "no-such-page")  # fmt: skip
WAIT_MS = 60_000
expect.set_options(timeout=WAIT_MS)


@dataclass
class Served:
    """A server with its store, and a run that this process measures."""

    path: Path
    address: str
    records: tuple[TrialRecord, ...]
    done: int = 0

    def end_trial(self, count: int = 1) -> None:
        with Store.open(self.path) as store:
            for record in self.records[self.done : self.done + count]:
                store.add_trial(RUNNING, record)
        self.done += count

    def publish(self, activity: str, *rates_bps: float) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with Store.open(self.path) as store:
            table = store.progress(RUNNING)
            table.publish(
                RunProgress(now, activity, self.done, 200.0, 3.0, 10.0, rates_bps, 0.83 if rates_bps else None)
            )
            table.close()

    def end(self) -> None:
        with Store.open(self.path) as store:
            store.end_run(RUNNING, "done", "2025-03-15T09:50:53+00:00")


def begin_runs(location: str | Path, records: tuple[TrialRecord, ...]) -> None:
    """Store a run that is done, one that is running, and one in which every text is hostile."""
    with Store.open(location) as store:
        store.begin_run(make_run(run_id=DONE))
        for record in records:
            store.add_trial(DONE, record)
        odd, odd_records = hostile_run()
        store.begin_run(replace(odd, run_id="hostile", started_at="2025-03-13T09:26:53+00:00"))
        for record in odd_records:
            store.add_trial("hostile", record)
        store.begin_run(
            make_run(run_id=RUNNING, started_at="2025-03-15T09:26:53+00:00", status="running", ended_at=None,
                     trials_planned=len(records))
        )  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    records = make_records(rounds=1)
    path = tmp_path / "results.sqlite"
    begin_runs(path, records)
    with served("--store", str(path)) as (_, address):
        found = Served(path, address, records)
        found.end_trial(10)
        found.publish("round 1: vxlan, 1448 bytes, down", 3e8, 4e8, 3.8e8, 4.1e8)
        yield found


@dataclass
class Guest:
    """A person with a browser."""

    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __call__(
        self, address: str, size: tuple[int, int] = DESKTOP, *, scheme: str = "light", javascript: bool = True
    ) -> Page:
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=javascript,
        )
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.goto(address)
        if javascript:
            page.wait_for_selector("html[data-drawn]", state="attached", timeout=WAIT_MS)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        """Keep a warning or an error. A remark is none, such as that a field has no autofocus: the test was faster."""
        if message.type in {"warning", "error"}:
            self.complaints.append(f"{message.type}: {message.text}")

    def leave(self) -> None:
        """Close all pages, before their server ends."""
        while self.contexts:
            self.contexts.pop().close()


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Guest]:
    """No page asks another server for anything, and none complains."""
    guest = Guest(chromium)
    yield guest
    guest.leave()
    assert [each for each in guest.complaints if "404 (Not Found)" not in each] == []
    assert [each for each in guest.requests if not each.startswith("http://127.0.0.1:")] == []


def test_a_trial_that_ends_is_seen_without_a_reload(server: Served, visit: Guest) -> None:
    page = visit(f"{server.address}runs/{RUNNING}")
    expect(page.locator("#rate")).to_have_text("410.0 Mbit/s on the wire")
    expect(page.locator("#router-cpu")).to_have_text("83% busy")
    expect(page.locator("progress")).to_have_attribute("value", "10")
    expect(page.locator(".state")).to_contain_text("about 3 min left")
    server.end_trial()
    server.publish("round 1: starting and proving tunnel tinc")
    expect(page.locator("progress")).to_have_attribute("value", "11")
    expect(page.locator("#activity")).to_have_text("round 1: starting and proving tunnel tinc")
    expect(page.locator("#trials-table tbody tr")).to_have_count(8)
    server.end()
    expect(page.locator("#status")).to_have_text("done")
    expect(page.locator("#now")).to_have_count(0)


def test_a_new_run_appears_in_the_list_and_the_focus_stays(server: Served, visit: Guest) -> None:
    page = visit(server.address)
    page.locator(f"#run-{DONE}").focus()
    with Store.open(server.path) as store:
        store.begin_run(make_run(run_id="new", started_at="2025-03-16T09:26:53+00:00", status="running", ended_at=None))
    expect(page.locator("#run-new")).to_have_count(1)
    assert page.evaluate("document.activeElement.id") == f"run-{DONE}"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{DONE}")


def test_a_reader_stops_the_updates_and_starts_them_again(server: Served, visit: Guest) -> None:
    page = visit(f"{server.address}runs/{RUNNING}")
    page.get_by_role("button", name="Stop updating").press("Enter")
    server.end_trial()
    other = visit(f"{server.address}runs/{RUNNING}")
    expect(other.locator("progress")).to_have_attribute("value", "11")
    assert page.locator("progress").get_attribute("value") == "10"
    page.get_by_role("button", name="Update this page").press("Enter")
    expect(page.locator("progress")).to_have_attribute("value", "11")


def test_the_report_fills_in_and_keeps_what_is_open_and_chosen(server: Served, visit: Guest) -> None:
    page = visit(f"{server.address}runs/{RUNNING}/report")
    page.locator("#rows > details > summary").click()
    page.get_by_label("Direction", exact=True).select_option("down")
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("ACK [packets/s]").check()
    rows = page.locator("#tcp tbody tr")
    before, shown = rows.count(), page.locator("#tcp tbody tr:visible").count()
    server.end_trial(8)
    page.wait_for_selector("html[data-filled='1']", state="attached")
    assert rows.count() > before
    assert shown < page.locator("#tcp tbody tr:visible").count() < rows.count()
    expect(page.get_by_label("Direction", exact=True)).to_have_value("down")
    expect(page.get_by_role("columnheader", name="ACK [packets/s]")).to_be_visible()
    server.end_trial(len(server.records) - server.done)
    server.end()
    expect(page.locator("#live-controls")).to_have_text("The run has ended.")
    assert page.locator("#answer figure svg").count() == 1
    assert page.locator("#rows > details").get_attribute("open") is not None


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_every_page_fits_its_window(server: Served, visit: Guest, size: tuple[int, int]) -> None:
    page = visit(server.address, size)
    for name in (*PAGES, "runs/hostile"):
        page.goto(f"{server.address}{name}")
        page.wait_for_selector("html[data-drawn]", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_any_page(server: Served, visit: Guest, scheme: str) -> None:
    page = visit(server.address, scheme=scheme)
    for name in PAGES:
        page.goto(f"{server.address}{name}")
        page.wait_for_selector("html[data-drawn]", state="attached")
        page.evaluate(AXE.read_text())
        result = page.evaluate("axe.run({preload: false})")
        grave = [
            f"{name}: {fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]}"
            for fault in result["violations"]
            if fault["impact"] in {"serious", "critical"}
        ]
        assert grave == []
        assert len(result["passes"]) > 10


def test_a_keyboard_reaches_the_content_first(server: Served, visit: Guest) -> None:
    page = visit(server.address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    names = []
    for _ in range(4):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert names[:2] == ["BUTTON", f"running-{RUNNING}"]


def test_two_runs_are_picked_and_compared(server: Served, visit: Guest) -> None:
    page = visit(f"{server.address}runs/{DONE}")
    page.get_by_role("link", name="Compare with another run").click()
    page.get_by_label("B, the result after").select_option("wr841n-2014")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert "TP-Link" in page.locator("main").inner_text()
    page.get_by_role("link", name="All results").click()
    page.wait_for_url(server.address)


def test_hostile_text_is_shown_and_does_nothing(server: Served, visit: Guest) -> None:
    page = visit(server.address)
    page.locator("#run-hostile").click()
    assert "<script>alert(1)</script>" in page.locator("h1").inner_text()
    page.wait_for_selector("html[data-live]", state="attached")
    assert page.locator("main script, main b, main img").count() == 0


def test_without_javascript_every_page_is_whole(server: Served, visit: Guest) -> None:
    page = visit(f"{server.address}runs/{RUNNING}", javascript=False)
    assert page.locator("#rate").inner_text() == "410.0 Mbit/s on the wire"
    assert "Reload the page" in page.locator("#live-controls").inner_text()
    page.goto(server.address)
    assert page.locator(f"#run-{DONE}").is_visible()


def test_a_lost_server_is_reported_and_found_again(server: Served, visit: Guest, tmp_path: Path) -> None:
    with served("--store", str(server.path)) as (process, address):
        page = visit(f"{address}runs/{RUNNING}")
        port = address.rstrip("/").rpartition(":")[2]
        process.terminate()
        process.wait(120)  # the server has the lowest priority, and other tests run beside it
        expect(page.locator("#live-controls")).to_contain_text("No connection to the server")
        server.end_trial()
        with subprocess.Popen(
            [sys.executable, "-c", CODE, "serve", "--listen", port, "--store", str(server.path)]
        ) as again:
            expect(page.locator("progress")).to_have_attribute("value", "11")
            visit.leave()
            again.terminate()
    visit.complaints[:] = [each for each in visit.complaints if "ERR_" not in each]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Cluster]:
    pytest.importorskip("procrastinate", reason="the extra racks is not installed")
    with cluster() as made:
        yield made


def verbs(url: str, *lines: list[str]) -> None:
    for words in lines:
        subprocess.run([sys.executable, "-c", CODE, *words, "--store", url], check=True, capture_output=True)


def test_a_signed_in_user_cancels_a_job_and_resubmits_it(visit: Guest, postgresql: Cluster) -> None:
    url = postgresql.new_database()
    verbs(url, ["jobs", "--setup"], ["submit", "quick", "--on", "attic,cellar"])
    with served("--store", url, **{PASSWORD_VARIABLE: PASSWORD}) as (_, address):
        page = visit(f"{address}racks", PHONE)
        page.get_by_label("Password").fill("wrong password")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("The password is wrong.")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/racks")
        page.evaluate(AXE.read_text())
        result = page.evaluate("axe.run({preload: false})")
        assert [fault["id"] for fault in result["violations"] if fault["impact"] in {"serious", "critical"}] == []
        page.get_by_role("button", name="Cancel job 1").press("Enter")
        ended = page.get_by_role("region", name="Jobs that have ended")
        expect(ended.get_by_role("row", name="1 cancelled")).to_be_visible()
        page.get_by_role("button", name="Resubmit job 1").press("Enter")
        expect(page.get_by_role("button", name="Cancel job 1")).to_be_visible()
        expect(page.get_by_role("button", name="Cancel job 2")).to_be_visible()
        page.wait_for_selector("html[data-drawn]", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        page.goto(address)
        assert "sign-in" in page.url
        visit.leave()
    visit.complaints[:] = [each for each in visit.complaints if "403 (Forbidden)" not in each]


PLAN = """
rounds = 2
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 5
interval_s = 0.5
[[tunnel]]
kind = "vxlan"
"""


@pytest.mark.lab
@pytest.mark.timeout(600)
def test_a_real_run_is_watched_from_its_start_to_its_end(visit: Guest, tmp_path: Path) -> None:
    path, plan = tmp_path / "own.sqlite", tmp_path / "short.toml"
    plan.write_text(PLAN)
    with served("--store", str(path)) as (_, address):
        page = visit(address)
        assert "there are no results yet" in page.locator("main").inner_text()
        words = ["run", str(plan), "--wait", "--store", str(path)]
        with subprocess.Popen([sys.executable, "-c", CODE, *words], stdout=subprocess.PIPE, text=True) as run:
            page.locator(".running a").click()
            page.wait_for_url("**/runs/*")
            expect(page.locator("#rate")).to_contain_text("Mbit/s on the wire")
            expect(page.locator("#router-cpu")).to_contain_text("% busy")
            expect(page.locator(".state")).to_contain_text("left")
            expect(page.locator("#trials-table .remarks").first).not_to_be_empty()
            expect(page.locator("#status")).to_have_text("done", timeout=120_000)
            output, _ = run.communicate(timeout=60)
        assert run.returncode in {0, 3}, output  # 3: on a machine that others use, no figure counts
        page.get_by_role("link", name="Report").click()
        page.wait_for_selector("html[data-drawn]", state="attached")
        assert "vxlan" in page.locator("#table").inner_text()
        visit.leave()
