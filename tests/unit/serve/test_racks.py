"""Racks and queue of a real PostgreSQL: shown to all, changed by signed-in users only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import NullPool, create_engine, text
from starlette.testclient import TestClient
from tests.postgresql import Cluster, server
from tests.unit.builders import make_run
from tests.unit.report.hostile import HOSTILE
from tests.unit.serve.conftest import ORIGIN, Serve

from tunnelbench import cli
from tunnelbench.cli.run_lock import RUN_ID_PATTERN
from tunnelbench.model.errors import CannotHere
from tunnelbench.serve.access import Access
from tunnelbench.serve.queue import opened_queue
from tunnelbench.store.store import Store

__all__ = ["server"]

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

PLAN = 'title = "One"\nrounds = 1\n[tcp]\nduration_s = 1\n[[tunnel]]\nkind = "gre"\n'
FORM = {"origin": ORIGIN}
ANNA = {"x-remote-user": "anna"}


@pytest.fixture
def url(server: Cluster, tmp_path: Path) -> str:
    """A database with three jobs: 1 has failed, 2 is running, 3 waits."""
    made = server.new_database()
    plan = tmp_path / "one.toml"
    plan.write_text(PLAN)
    for words in (
        ("jobs", "--setup"),
        ("submit", str(plan), "--on", "attic,cellar"),
        ("submit", str(plan), "--on", "cellar"),
    ):
        result = CliRunner().invoke(cli.main, [*words, "--store", made])
        assert result.exit_code == 0, result.output
    execute(made, "UPDATE procrastinate_jobs SET status = 'doing' WHERE id < 3")
    execute(made, "UPDATE procrastinate_jobs SET status = 'failed' WHERE id = 1")
    execute(made, "INSERT INTO tunnelbench_job_failure VALUES (1, 3, :reason)", reason=HOSTILE.replace("\0", ""))
    return made


def execute(url: str, statement: str, **values: Any) -> list[Any]:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        result = connection.execute(text(statement), values)
        return list(result) if result.returns_rows else []


def states(url: str) -> dict[int, tuple[str, bool]]:
    found = execute(url, "SELECT id, status::text, abort_requested FROM procrastinate_jobs")
    return {row[0]: (row[1], row[2]) for row in found}


@pytest.fixture
def client(url: str, serve: Serve) -> Iterator[TestClient]:
    with opened_queue(url) as queue:
        yield serve(location=url, queue=queue)


@pytest.fixture
def of_anna(url: str, serve: Serve) -> Iterator[TestClient]:
    """A client behind the proxy that has signed in anna."""
    with opened_queue(url) as queue:
        found = serve(Access(user_header="X-Remote-User", proxies=["127.0.0.1"]), location=url, queue=queue)
        found.headers.update(ANNA)
        yield found


def token(client: TestClient) -> str:
    return client.get("/racks").text.partition('name="token" value="')[2].partition('"')[0]


def test_racks_and_jobs_are_shown_with_state_and_reason(client: TestClient, url: str) -> None:
    run_id = execute(url, "SELECT args->>'run_id' FROM procrastinate_jobs WHERE id = 2")[0][0]
    with Store.open(url) as store:
        store.begin_run(make_run(run_id=run_id, status="running", ended_at=None, trials_planned=8))
    page = client.get("/racks").text
    assert re.findall(r'<th scope="row">(\w+)</th>', page) == ["attic", "cellar"]
    assert "job 2, one" in page
    assert f'href="/runs/{run_id}">0/8</a>' in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "<button" not in page
    assert 'href="/racks"' in client.get("/").text


def test_an_expired_job_waits_and_a_job_without_a_worker_is_stalled(of_anna: TestClient, url: str) -> None:
    late = '{"deadline": "2026-01-01T00:00:00+00:00"}'
    execute(url, "UPDATE procrastinate_jobs SET args = args || CAST(:late AS jsonb) WHERE id = 3", late=late)
    page = of_anna.get("/racks").text
    assert 'job 2, one.toml: its worker is gone</td><td class="n">1</td>' in page
    assert re.findall(r"<td>(stalled|expired)</td>", page) == ["stalled", "expired"]
    assert re.findall(r'<button id="cancel-(\d)"', page) == ["2", "3"]


def test_a_visitor_who_is_not_signed_in_changes_nothing(client: TestClient, url: str) -> None:
    before = states(url)
    for job, verb in ((3, "cancel"), (2, "cancel"), (1, "resubmit")):
        answer = client.post(f"/jobs/{job}/{verb}", data={"token": ""}, headers=FORM)
        assert (answer.status_code, "signed-in" in answer.text) == (403, True)
    assert states(url) == before


def test_a_signed_in_user_cancels_and_resubmits(of_anna: TestClient, url: str) -> None:
    for job, verb in ((3, "cancel"), (2, "cancel"), (1, "resubmit")):
        answer = of_anna.post(f"/jobs/{job}/{verb}", data={"token": token(of_anna)}, headers=FORM)
        assert (answer.status_code, answer.headers["location"]) == (303, "/racks")
    found = states(url)
    assert (found[1], found[2], found[3][0]) == (("todo", False), ("doing", True), "cancelled")


def test_a_cancelled_job_continues_its_run_and_a_done_one_is_submitted_again(of_anna: TestClient, url: str) -> None:
    extra = '{"deadline": "2026-01-01T00:00:00+00:00", "campaign": "spring", "repetition": 1}'
    execute(url, "UPDATE procrastinate_jobs SET args = args || CAST(:extra AS jsonb)", extra=extra)
    execute(url, "UPDATE procrastinate_jobs SET status = 'succeeded' WHERE id = 2")
    execute(url, "UPDATE procrastinate_jobs SET status = 'cancelled' WHERE id = 3")
    query = "SELECT id, status::text, queue_name, lock, args FROM procrastinate_jobs ORDER BY id"
    before = {row[0]: row for row in execute(url, query)}
    assert re.findall(r'<button id="resubmit-(\d)"', of_anna.get("/racks").text) == ["1", "3", "2"]
    for job in (2, 3):
        answer = of_anna.post(f"/jobs/{job}/resubmit", data={"token": token(of_anna)}, headers=FORM)
        assert answer.status_code == 303, answer.text
    found = {row[0]: row for row in execute(url, query)}
    assert [(job, found[job][1]) for job in found] == [(1, "failed"), (2, "succeeded"), (3, "todo"), (4, "todo")]
    assert found[3][4]["run_id"] == before[3][4]["run_id"]
    assert found[4][2:4] == before[2][2:4] == ("cellar", "testbed cellar")
    kept = {"plan_name", "plan_text", "testbed", "expected_s"}
    assert found[4][4].keys() == {*kept, "run_id", "again_of"}
    again = of_anna.post("/jobs/2/resubmit", data={"token": token(of_anna)}, headers=FORM)
    assert (again.status_code, "submitted again as job 4" in again.text, len(states(url))) == (409, True, 4)
    assert {name: found[4][4][name] for name in kept} == {name: before[2][4][name] for name in kept}
    assert RUN_ID_PATTERN.fullmatch(found[4][4]["run_id"])
    assert found[4][4]["run_id"] != before[2][4]["run_id"]


def test_a_done_job_of_another_program_is_not_submitted_again(of_anna: TestClient, url: str) -> None:
    execute(url, "UPDATE procrastinate_jobs SET status = 'succeeded', args = '[]' WHERE id = 2")
    before = states(url)
    answer = of_anna.post("/jobs/2/resubmit", data={"token": token(of_anna)}, headers=FORM)
    assert (answer.status_code, "was not submitted by TunnelBench" in answer.text) == (404, True)
    assert states(url) == before


@pytest.mark.parametrize("verb", ["cancel", "resubmit"])
@pytest.mark.parametrize("data", [{}, {"token": "wrong"}, {"Token": "x"}])
def test_without_the_right_token_nothing_changes(
    of_anna: TestClient, url: str, data: dict[str, str], verb: str
) -> None:
    if verb == "resubmit":
        execute(url, "UPDATE procrastinate_jobs SET status = 'succeeded' WHERE id = 3")
    before = states(url)
    assert of_anna.post(f"/jobs/3/{verb}", data={**data, "a": "b"}, headers=FORM).status_code == 403
    assert of_anna.post(f"/jobs/3/{verb}", data={"token": token(of_anna)}).status_code == 403  # no Origin
    other = {"origin": "http://evil.example"}
    assert of_anna.post(f"/jobs/3/{verb}", data={"token": token(of_anna)}, headers=other).status_code == 403
    assert states(url) == before


def test_the_token_of_another_user_is_refused(of_anna: TestClient, url: str) -> None:
    own = token(of_anna)
    answer = of_anna.post("/jobs/3/cancel", data={"token": own}, headers={**FORM, "x-remote-user": "bob"})
    assert answer.status_code == 403
    assert states(url)[3] == ("todo", False)


@pytest.mark.parametrize("job", ["99/cancel", "3/delete", "x/cancel", f"{2**70}/cancel"])
def test_a_change_that_is_not_possible_is_not_found(of_anna: TestClient, url: str, job: str) -> None:
    before = states(url)
    answer = of_anna.post(f"/jobs/{job}", data={"token": token(of_anna)}, headers=FORM)
    assert answer.status_code in {404, 503}
    assert states(url) == before


@pytest.mark.parametrize("job", ["1/cancel", "2/resubmit"])
def test_a_change_that_the_state_of_a_job_does_not_allow_is_a_conflict(of_anna: TestClient, url: str, job: str) -> None:
    before = states(url)
    answer = of_anna.post(f"/jobs/{job}", data={"token": token(of_anna)}, headers=FORM)
    assert (answer.status_code, "only a" in answer.text) == (409, True)
    assert states(url) == before


def test_a_user_of_the_database_who_may_only_read_has_no_buttons(url: str, serve: Serve) -> None:
    execute(url, "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    as_reader = url.replace("postgres@", "reader@")
    with ExitStack() as stack:
        stack.callback(execute, url, "DROP OWNED BY reader; DROP ROLE reader")
        queue = stack.enter_context(opened_queue(as_reader))
        client = serve(Access(user_header="X-Remote-User", proxies=["127.0.0.1"]), location=as_reader, queue=queue)
        client.headers.update(ANNA)
        page = client.get("/racks").text
        assert "lacks the role <code>tunnelbench_submit</code>" in page
        assert "<form" not in page
        assert queue is not None
        with pytest.raises(CannotHere, match="permission denied") as caught:
            queue.cancel(3)
    assert "give this user the role tunnelbench_submit" in caught.value.hint
    assert states(url)[3] == ("todo", False)


def test_without_a_queue_racks_are_hidden(server: Cluster, serve: Serve, path: Path) -> None:
    plain = server.new_database()
    with Store.open(plain) as store:
        store.begin_run(make_run())
    for location in (plain, str(path)):
        with opened_queue(location) as queue:
            assert queue is None
            client = serve(location=location, queue=queue)
            assert 'href="/racks"' not in client.get("/").text
            assert client.get("/racks").status_code == 404


def test_a_restart_of_the_server_is_survived(server: Cluster, client: TestClient) -> None:
    assert client.get("/racks").status_code == 200
    server.stop()
    assert client.get("/racks").status_code == 503
    assert client.get("/").status_code == 503
    server.start()
    assert client.get("/racks").status_code == 200
    assert client.get("/").status_code == 200
