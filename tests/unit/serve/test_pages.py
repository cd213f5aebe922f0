"""Each page: its content, its escaping, and its answer to what is not there."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from tests.own_loop import in_own_loop
from tests.unit.builders import make_records, make_run
from tests.unit.report.hostile import HOSTILE
from tests.unit.serve.conftest import Serve
from tests.unit.store.test_progress import PROGRESS

from tunnelbench.model.errors import CannotHere
from tunnelbench.report.formats import html
from tunnelbench.serve import results as results_module
from tunnelbench.serve.access import Access
from tunnelbench.serve.guard import SCOPE_USER
from tunnelbench.serve.results import LISTED, Results
from tunnelbench.serve.site import Site
from tunnelbench.store.store import Store

DONE, RUNNING = "20250314-092653-aaaaaa", "20250315-092653-bbbbbb"
PAGES = ("/", f"/runs/{DONE}", f"/runs/{RUNNING}", f"/runs/{DONE}/report", "/compare", "/references",
         "/references/wr841n-2014", "/methodology")  # fmt: skip


def publish(path: Path, age: timedelta = timedelta(), **changes: Any) -> None:
    """Publish the progress of the running run, as the run does."""
    updated_at = (datetime.now(UTC) - age).isoformat(timespec="seconds")
    with Store.open(path) as store:
        table = store.progress(RUNNING)
        table.publish(replace(PROGRESS, updated_at=updated_at, **changes))
        table.close()


def test_the_list_has_each_run_and_the_running_one_with_its_time_left(serve: Serve, path: Path) -> None:
    publish(path, left_s=200.0)
    text = serve().get("/").text
    assert re.findall(r'id="run-([\w-]+)"', text) == [RUNNING, DONE, "hostile"]
    running = text.partition("Running now")[2].partition("All runs")[0]
    assert 'value="10"' in running
    assert "about 3 min left" in running


def test_a_list_of_many_runs_has_pages(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "many.sqlite"
    with Store.open(path) as store:
        for number in range(LISTED + 3):
            store.begin_run(make_run(run_id=f"run-{number:03}", started_at=f"2025-03-14T09:{number:02}:00+00:00"))
    client = serve(location=path)
    first = client.get("/").text
    older = re.findall(r'href="(/\?before=[\w-]+)"', first)
    assert older == ["/?before=run-003"]
    assert re.findall(r'id="run-([\w-]+)"', client.get(older[0]).text) == ["run-002", "run-001", "run-000"]
    assert "There are no older runs" in client.get("/?before=run-000").text


def test_the_page_of_a_run_has_its_state_and_the_newest_trials_with_their_checks(serve: Serve) -> None:
    text = serve().get(f"/runs/{DONE}").text
    assert '<dd id="status">done</dd>' in text
    assert "Running now" not in text
    assert text.count('<tr><th scope="row">') == results_module.LATEST
    assert "the kernel&#39;s wireguard is missing on router" in text


def test_a_running_trial_is_shown_with_rate_router_cpu_and_time_left(serve: Serve, path: Path) -> None:
    publish(path, activity="round 1: vxlan, 1448 bytes, down", left_s=65.0)
    text = serve().get(f"/runs/{RUNNING}").text
    assert '<dd id="activity">round 1: vxlan, 1448 bytes, down</dd>' in text
    assert '<dd id="rate">2.0 Mbit/s on the wire</dd>' in text
    assert '<dd id="router-cpu">50% busy</dd>' in text
    assert "about 65 s left" in text
    assert "Rates of the last 2 s: 1.0 to 2.0 Mbit/s" in text


def test_a_run_without_news_may_have_been_killed_and_has_no_time_left(serve: Serve, path: Path) -> None:
    publish(path, age=timedelta(minutes=5))
    for address in ("/", f"/runs/{RUNNING}"):
        text = serve().get(address).text
        assert "no news since" in text
        assert " left" not in text
        assert 'id="rate"' not in text


def test_a_run_that_has_published_nothing_is_shown_all_the_same(serve: Serve) -> None:
    text = serve().get(f"/runs/{RUNNING}").text
    assert "has not published its progress" in text
    assert "10/" in text


def test_progress_that_was_forged_is_left_out(serve: Serve, path: Path) -> None:
    publish(path)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE progress SET progress = '{}'")
    answer = serve().get(f"/runs/{RUNNING}")
    assert (answer.status_code, "has not published" in answer.text) == (200, True)


def test_the_beginning_of_an_id_and_last_lead_to_the_run(serve: Serve) -> None:
    client = serve()
    for name in ("last", "20250314"):
        answer = client.get(f"/runs/{name}")
        assert (answer.status_code, answer.headers["location"]) == (302, f"/runs/{DONE}")


def test_a_simulated_run_is_marked_in_the_list_and_on_each_page_of_it(serve: Serve, path: Path) -> None:
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="drawn", testbed_name="toy", testbed_text='kind = "simulated"\n'))
    client = serve()
    for page in ("/", "/runs/drawn"):
        assert "toy (simulated)" in client.get(page).text
    assert "SIMULATED: NOTHING WAS MEASURED" in client.get("/runs/drawn/report").text.partition("</title>")[0]
    assert client.get("/runs/drawn/data.json").json()["is_simulated"] is True


@pytest.mark.parametrize("name", ["x", "2025", "..%2F..", "%00", "a" * 200, "%3Cscript%3E", "%F0%9F%92%A9"])
@pytest.mark.parametrize("page", ["/runs/{}", "/runs/{}/report", "/runs/{}/data.json", "/events/runs/{}/report"])
def test_a_run_that_is_not_there_is_not_found(serve: Serve, name: str, page: str) -> None:
    answer = serve().get(page.format(name))
    assert answer.status_code == 404
    assert "<script>" not in answer.text


@pytest.mark.parametrize("path_of", ["/nothing", "/assets/../pyproject.toml", "/assets/x", "/references/x", "/racks"])
def test_what_is_not_there_is_not_found(serve: Serve, path_of: str) -> None:
    assert serve().get(path_of).status_code == 404


def test_the_report_of_a_running_run_fills_in_and_that_of_an_ended_one_does_not(serve: Serve) -> None:
    client = serve()
    running, done = (client.get(f"/runs/{name}/report") for name in (RUNNING, DONE))
    assert f'data-events="/events/runs/{RUNNING}/report"' in running.text
    assert "connect-src &#39;self&#39;" in running.text
    assert "data-events" not in done.text
    assert "connect-src" not in done.text
    assert 'src="/assets/charts.js"' in done.text
    for answer in (running, done):
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_report_is_made_anew_only_after_a_trial(serve: Serve, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted_page(*words: Any, **values: Any) -> str:
        made.append("page")
        return html.page(*words, **values)

    monkeypatch.setattr(results_module, "page", counted_page)
    client = serve()
    first = [client.get(f"/runs/{RUNNING}/report").text for _ in range(3)]
    assert (len(made), len(set(first))) == (1, 1)
    with Store.open(path) as store:
        store.add_trial(RUNNING, make_records(rounds=1)[10])
    assert client.get(f"/runs/{RUNNING}/report").text != first[0]
    assert len(made) == 2


def test_a_run_without_trials_has_a_report(serve: Serve, path: Path) -> None:
    with Store.open(path) as store:
        store.begin_run(make_run(run_id="empty", status="running", ended_at=None))
    client = serve()
    assert client.get("/runs/empty/report").status_code == 200
    assert "No trial has ended yet" in client.get("/runs/empty").text


def test_the_data_of_a_run_are_json(serve: Serve) -> None:
    answer = serve().get(f"/runs/{DONE}/data.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["run"]["run_id"] == DONE


def test_two_results_are_compared_and_a_wrong_name_is_explained(serve: Serve) -> None:
    client = serve()
    found = client.get(f"/compare?a={DONE}&b={RUNNING}")
    assert (found.status_code, "openvpn AES-128-GCM" in found.text) == (200, True)
    assert client.get(f"/compare?a={DONE}&b=wr841n-2014").status_code == 200
    wrong = client.get(f"/compare?a={DONE}&b=%3Cb%3Enothing")
    assert (wrong.status_code, 'role="alert"' in wrong.text, "<b>" in wrong.text) == (404, True, False)
    picked = client.get(f"/compare?a={DONE}").text
    assert f'<option value="{DONE}" selected>' in picked


def test_hostile_names_are_text_on_every_page(serve: Serve) -> None:
    client = serve()
    for page in ("/", "/runs/hostile", "/runs/hostile/report", "/compare", f"/compare?a=hostile&b={DONE}"):
        text = client.get(page).text
        assert "&lt;script&gt;alert(1)" in text, page
        assert "<script>alert(1)" not in text, page
    assert HOSTILE not in client.get("/").text


def test_a_store_that_does_not_exist_yet_is_named_and_found_later(serve: Serve, path: Path, tmp_path: Path) -> None:
    later = tmp_path / "later.sqlite"
    client = serve(location=later)
    empty = client.get("/")
    assert (empty.status_code, "there are no results yet" in empty.text) == (200, True)
    assert client.get("/compare").status_code == 200
    assert client.get(f"/runs/{DONE}").status_code == 404
    shutil.copy(path, later)
    assert DONE in client.get("/").text
    later.unlink()
    assert "there are no results yet" in client.get("/").text


def test_a_store_that_was_replaced_is_opened_again(serve: Serve, path: Path, tmp_path: Path) -> None:
    client = serve()
    assert DONE in client.get("/").text
    other = tmp_path / "other.sqlite"
    with Store.open(other) as store:
        store.begin_run(make_run(run_id="another"))
    other.replace(path)
    for companion in ("-wal", "-shm"):
        Path(f"{path}{companion}").unlink(missing_ok=True)
    text = client.get("/").text
    assert "another" in text
    assert DONE not in text


def test_a_file_that_is_no_store_is_a_sentence(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database " * 20)
    answer = serve(location=tmp_path / "notes.txt").get("/")
    assert (answer.status_code, "not a store of TunnelBench" in answer.text) == (404, True)


def test_a_damaged_run_is_a_sentence(serve: Serve, path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE run SET plan_title = 'forged' WHERE run_id = 'hostile'")
    answer = serve().get("/")
    assert (answer.status_code, "the store is damaged" in answer.text) == (503, True)


def test_a_bug_is_a_page_without_its_traceback(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Results, "newest", fail)
    client = serve()
    with pytest.raises(RuntimeError):  # the server logs it
        client.get("/")
    client = type(client)(client.app, "http://localhost:8710", raise_server_exceptions=False)
    answer = client.get("/")
    assert (answer.status_code, "secret detail" in answer.text) == (500, False)


def test_a_shared_file_is_sent_once(serve: Serve) -> None:
    client = serve()
    first = client.get("/assets/charts.js")
    again = client.get("/assets/charts.js", headers={"if-none-match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.text) == (200, 304, "")


def test_the_pages_change_no_byte_of_the_store(serve: Serve, path: Path) -> None:
    before = path.read_bytes()
    client = serve()
    for page in PAGES:
        assert client.get(page).status_code == 200, page
    assert path.read_bytes() == before


def test_each_page_has_a_title_one_heading_and_the_language(serve: Serve) -> None:
    client = serve()
    for page in (each for each in PAGES if each != "/methodology"):  # its own heading is hidden
        text = client.get(page).text
        assert len(re.findall("<h1[ >]", text)) == 1, page
        assert '<html lang="en">' in text
        assert "<main" in text


async def first_events(site: Site, path: str, count: int) -> list[str]:
    """Return the first events of a stream."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [],
        "query_string": b"",
        "path_params": {"run": RUNNING},
        SCOPE_USER: None,
    }
    answer: Any = await (site.report_events if path.endswith("report") else site.run_events)(Request(scope))
    found = []
    async for text in answer.body_iterator:
        found.append(json.loads(text.removeprefix("data: ")))
        if len(found) == count:
            break
    await answer.body_iterator.aclose()
    return found


def test_events_tell_of_a_trial_that_another_process_stores(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.serve.site.LOOK_INTERVAL_S", 0.01)

    async def watch(address: str) -> list[str]:
        results = Results(path)
        task = asyncio.create_task(first_events(Site(results, None, Access(), print), address, 2))
        await asyncio.sleep(0.3)
        with Store.open(path) as store:
            sequence = len(store.trials(RUNNING))
            store.add_trial(RUNNING, make_records(rounds=1)[sequence])
        found = await asyncio.wait_for(task, 20)
        results.close()
        return found

    before, after = in_own_loop(watch(f"/events/runs/{RUNNING}"))
    assert ("10/" in before, "11/" in after) == (True, True)
    before, after = in_own_loop(watch(f"/events/runs/{RUNNING}/report"))
    assert before != after


def test_a_store_that_goes_away_does_not_end_the_events(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.serve.site.LOOK_INTERVAL_S", 0.01)
    results = Results(path)
    usual, calls = Results.state, []

    def away_at_first(self: Results, run_id: str) -> Any:
        calls.append(run_id)
        if len(calls) == 1:
            raise CannotHere("the server is away", "wait")
        return usual(self, run_id)

    monkeypatch.setattr(Results, "state", away_at_first)
    site = Site(results, None, Access(), print)
    first, second = in_own_loop(first_events(site, f"/events/runs/{RUNNING}", 2))
    results.close()
    assert "the server is away" in first
    assert "The newest trials" in second


def test_there_are_not_too_many_streams(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.serve.site.MOST_STREAMS", 0)
    assert serve().get("/events/runs").status_code == 503
