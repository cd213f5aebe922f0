"""A server of a store with some runs, for Starlette's test client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")

from starlette.testclient import TestClient
from tests.unit.builders import make_records, make_run
from tests.unit.report.hostile import hostile_run

from tunnelbench.serve import site as site_module
from tunnelbench.serve.access import Access
from tunnelbench.serve.results import Results
from tunnelbench.serve.site import Site
from tunnelbench.store.store import Store

PASSWORD = "correct horse battery"
HOST = "localhost:8710"
ORIGIN = f"http://{HOST}"

Serve = Callable[..., TestClient]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a run that is done, one that is running, and one with hostile names."""
    found = tmp_path / "results.sqlite"
    records = make_records(rounds=1)
    with Store.open(found) as store:
        store.begin_run(make_run(run_id="20250314-092653-aaaaaa"))
        store.begin_run(
            make_run(run_id="20250315-092653-bbbbbb", started_at="2025-03-15T09:26:53+00:00", status="running",
                     ended_at=None, trials_planned=len(records))
        )  # fmt: skip
        odd, odd_records = hostile_run()
        store.begin_run(replace(odd, run_id="hostile", started_at="2025-03-13T09:26:53+00:00", status="done"))
        for record in odd_records:
            store.add_trial("hostile", record)
        for record in records:
            store.add_trial("20250314-092653-aaaaaa", record)
        for record in records[:10]:
            store.add_trial("20250315-092653-bbbbbb", record)
    return found


@pytest.fixture
def serve(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A function that returns a client of a server with some rules of access."""
    opened: list[Results] = []
    monkeypatch.setattr(site_module, "WRONG_PASSWORD_S", 0.0)

    def made(
        access: Access | None = None,
        *,
        location: Path | str = path,
        queue: Any = None,
        said: list[str] | None = None,
        host: str = HOST,
        peer: str = "127.0.0.1",
    ) -> TestClient:
        results = Results(location)
        opened.append(results)
        say = ([] if said is None else said).append
        app = Site(results, queue, access or Access(), say).app()
        return TestClient(app, f"http://{host}", client=(peer, 50000), follow_redirects=False)

    yield made
    for results in opened:
        results.close()
