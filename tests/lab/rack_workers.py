"""Workers of racks for tests, which wait shorter than those of a user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab.bench import TUNNELBENCH

from tunnelbench.store.store import Store

IMPATIENT = """
import sys
from tunnelbench.racks import worker
worker.RETRY_S, worker.STALLED_S, worker.HEARTBEAT_S = 0, 4.0, 1.0
from tunnelbench.cli import main
main(sys.argv[1:], prog_name="tunnelbench")
"""
"""A worker that waits shorter than that of a user."""


def verb(*words: str) -> str:
    return subprocess.run([TUNNELBENCH, *words], check=True, capture_output=True, text=True, timeout=180).stdout


def start_worker(url: str, testbed: str, log: Path = Path(os.devnull)) -> subprocess.Popen[bytes]:
    """Start a worker whose messages go to a file."""
    argv = [sys.executable, "-c", IMPATIENT, "worker", "--testbed", testbed, "--store", url]
    with log.open("wb") as messages:
        return subprocess.Popen(argv, stderr=messages)


@contextmanager
def worker(url: str, testbed: str) -> Iterator[subprocess.Popen[bytes]]:
    process = start_worker(url, testbed)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def jobs(url: str) -> list[dict[str, Any]]:
    return list(json.loads(verb("jobs", "--all", "--json", "--store", url)))


def recorded(url: str, testbed: str | None = None) -> int:
    """Return the number of stored trials of all testbeds, or of one that a file describes."""
    with Store.open(url, create=False) as store:
        runs = store.runs() if testbed is None else store.runs(testbed=f"{testbed}.toml")
        return sum(run.trials_recorded for run in runs)
