#!/usr/bin/env python3
"""Measure the time and the memory to build a site of a thousand runs: a hundred trials each, of two hundred devices.

    .venv/bin/python benches/site.py [--runs 1000] [--repeats 5] [--against REVISION]

The site is then built again, with nothing changed and with one run changed. The runs are synthetic. Their files and the
site are made in a folder under /tmp that is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from datetime import timedelta
from pathlib import Path

from options import at_least_one
from table import print_table
from versions import PROGRAM, ROOT, Cost, add_options, cost_row, filled_versions

# Behind the other version's modules, which export its runs.
sys.path.append(str(ROOT))

from tests.unit.builders import STARTED_AT, make_records, make_run, make_speeds

from tunnelbench.report.exchange import export

RUNS = "runs"
DEVICES = 200
NEW, UNCHANGED, ONE_CHANGED = "new", "nothing changed", "one run changed"
MOST_S = {NEW: 10.0, UNCHANGED: 1.0, ONE_CHANGED: 1.0}
"""Longest time to build a site [s]."""
UNTRUSTED_S = 1.1
"""`site` reads a file again whose time of change is younger than about this [s]."""


def fill(folder: Path, runs: int) -> None:
    """Write exported runs, one in each file of the folder RUNS."""
    (folder / RUNS).mkdir()
    records, speeds = make_records(), make_speeds()
    usual = make_run()
    for number in range(runs):
        started = (STARTED_AT + timedelta(hours=number)).isoformat()
        facts = {**usual.host_facts, "board": f"Router {number % DEVICES}"}
        run = make_run(run_id=f"2025-{number:06d}", started_at=started, host_facts=facts, trials_recorded=len(records))
        (folder / RUNS / f"{number:06d}.json").write_text(export(run, records, speeds).text, encoding="utf-8")


def main() -> None:
    """Print a row for each way to build the site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=at_least_one, default=1000)
    add_options(parser)
    given = parser.parse_args()
    if given.fill:
        fill(given.fill, given.runs)
        return
    with filled_versions(__file__, given, "--runs", given.runs) as filled:
        costs: dict[str, list[list[Cost]]] = {way: [[] for _ in filled] for way in MOST_S}
        for _ in range(1 + given.repeats):
            for index, (version, folder) in enumerate(filled):
                caches, site = folder / "caches", folder / "site"
                for gone in (caches, site):
                    shutil.rmtree(gone, ignore_errors=True)
                files = sorted((folder / RUNS).iterdir())
                for way, of_way in costs.items():
                    if way == ONE_CHANGED:
                        os.utime(files[len(files) // 2])
                    time.sleep(UNTRUSTED_S)
                    of_way[index].append(version.run([PROGRAM, "site", site, *files], caches=caches))
    print_table([cost_row(f"site of {given.runs} runs: {way}", of_way, MOST_S[way]) for way, of_way in costs.items()])


if __name__ == "__main__":
    main()
