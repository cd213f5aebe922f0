"""A worker without a database: messages of its runs, and faults before a run starts."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.own_loop import in_own_loop

pytest.importorskip("procrastinate", reason="the extra racks is not installed")

from tunnelbench.racks import worker as racks_worker
from tunnelbench.racks.worker import JobFailed, RackWorker

JOB = {"plan_name": "plan.toml", "plan_text": "[tcp]\n", "run_id": "20250314-092653-abcdef", "testbed": "attic"}


def test_messages_after_a_line_without_end_are_read() -> None:
    said: list[str] = []
    lines: deque[str] = deque(maxlen=5)

    async def read() -> None:
        messages = asyncio.StreamReader(limit=100)
        messages.feed_data(b"first\n" + b"x" * 500 + b"\nlast\n")
        messages.feed_eof()
        await RackWorker("", {}, said.append)._read(messages, lines)

    in_own_loop(asyncio.wait_for(read(), 10))
    assert [*lines] == said == ["first", "last"]


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_run_that_cannot_be_started_is_a_failure_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_missing: bool
) -> None:
    folder = tmp_path / "runs"
    if not is_missing:
        folder.write_text("")
    monkeypatch.setattr(racks_worker, "RUN_FOLDER", folder / "missing" if is_missing else folder)
    stored: list[dict[str, Any]] = []

    async def answer(_query: str, **values: Any) -> dict[str, int]:
        stored.append(values)
        return {"found": 0, "failures": 1}

    app = cast("Any", SimpleNamespace(connector=SimpleNamespace(execute_query_one_async=answer)))
    context = cast("Any", SimpleNamespace(job=SimpleNamespace(queue="attic")))
    with pytest.raises(JobFailed, match=r"the worker cannot start the run: .*runs"):
        in_own_loop(RackWorker("", {"attic": "attic.toml"}, print)._run(app, context, 7, JOB))
    assert (stored[-1]["job_id"], stored[-1]["failures"]) == (7, 1)
