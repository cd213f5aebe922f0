"""The memory that reading a file of another person takes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.builders import make_long_run, make_run

from tunnelbench.report.exchange import export
from tunnelbench.report.exchange.json_object import LARGEST_BYTES, MOST_VALUES

READER = """
import re, sys
from pathlib import Path
from tunnelbench.model.errors import WrongInput
from tunnelbench.report.exchange import read

def largest_kib():
    return int(re.search(r"VmHWM:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())[1])

content = Path(sys.argv[1]).read_bytes()
before_kib = largest_kib()
try:
    read(content)
except WrongInput:
    pass
print((largest_kib() - before_kib) * 1024)
"""
"""Prints the growth of its largest resident memory [bytes]."""

DENSEST = {"objects": '{"a":0},', "empty objects": "{},", "arrays": "[[]],", "numbers": "0,", "texts": '"\U0001f600",'}
"""Pieces of JSON with much memory for each byte."""
MOST_MEMORY_BYTES = 500_000_000
"""Largest growth for a file of any content."""
MOST_MEMORY_PER_BYTE = 10
"""Largest growth for each byte of a run's file."""


def memory_bytes(path: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-c", READER, str(path)], check=True, capture_output=True, text=True, timeout=120
    )
    return int(done.stdout)


@pytest.mark.parametrize("kind", DENSEST)
def test_the_densest_json_within_the_bounds_takes_a_bounded_memory(kind: str, tmp_path: Path) -> None:
    piece = DENSEST[kind]
    values = sum(map(piece.count, "{[,"))
    count = min((MOST_VALUES - 3) // values, (LARGEST_BYTES - 100) // len(piece.encode()))
    path = tmp_path / "run.json"
    path.write_text(f'{{"x": [{piece * count}0]}}')
    assert 1_000_000 < memory_bytes(path) < MOST_MEMORY_BYTES


def test_a_run_takes_a_bounded_multiple_of_its_file(tmp_path: Path) -> None:
    records = make_long_run(2000)
    path = tmp_path / "run.json"
    path.write_text(export(make_run(trials_recorded=len(records)), records).text)
    assert memory_bytes(path) < path.stat().st_size * MOST_MEMORY_PER_BYTE
