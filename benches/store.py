#!/usr/bin/env python3
"""Measure the time of `list runs` and `report` on a large store, each in a process of its own.

Makes a store of synthetic runs in a folder of its own under /tmp and takes it down again; nothing is measured but time.

    .venv/bin/python benches/store.py [--runs 1000] [--repeats 5] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.unit.builders import STARTED_AT, make_records, make_run, make_speeds  # noqa: E402

from tunnelbench.store.store import Store  # noqa: E402

PROGRAM = Path(sys.executable).with_name("tunnelbench")


def fill(path: Path, runs: int) -> int:
    """Fill a store with runs of a hundred trials, and return the number of trials."""
    records, speeds = make_records(), make_speeds()
    with Store.open(path) as store:
        for number in range(runs):
            started = (STARTED_AT + timedelta(hours=number)).isoformat()
            run = make_run(run_id=f"2025-{number:06d}", started_at=started, ended_at=started)
            store.add_run(run, [replace(record, started_at=started) for record in records], speeds)
    return runs * len(records)


def timed(command: list[str], repeats: int) -> list[float]:
    """Return the duration of each call [s]."""
    # An installed program is compiled already. The first call compiles the modules.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = []
    for _ in range(1 + repeats):
        start = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        found.append(time.monotonic() - start)
    return found[1:]


def main() -> None:
    """Print the median and the spread of each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="of a hundred trials each")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="use the store in this file, made where it is missing, and keep it")
    parser.add_argument("--profile", action="store_true", help="print what `report` spends its time on")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tunnelbench-store-") as folder:
        path = given.keep or Path(folder) / "results.sqlite"
        if not path.exists():
            start = time.monotonic()
            trials = fill(path, given.runs)
            took, size = time.monotonic() - start, path.stat().st_size / 1e6
            print(f"{trials} trials in {given.runs} runs, {size:.0f} MB, written in {took:.0f} s")
        if given.profile:
            profile(path)
        for verb in (["list", "runs"], ["report", "last"], ["report", f"2025-{given.runs // 2:06d}"]):
            found = timed([str(PROGRAM), *verb, "--store", str(path)], given.repeats)
            spread = f"{min(found):.2f}-{max(found):.2f}"
            print(f"{' '.join(verb):<20} {statistics.median(found):.2f} s ({spread}, {len(found)} times)")


def profile(path: Path) -> None:
    """Print a profile of `report` and `list runs`, imports included."""
    from tunnelbench.cli import main as program  # noqa: PLC0415

    for verb in (["list", "runs"], ["report", "last"]):
        profiler = cProfile.Profile()
        with suppress(SystemExit):
            profiler.runcall(program, [*verb, "--store", str(path)])
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(30)


if __name__ == "__main__":
    main()
