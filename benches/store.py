#!/usr/bin/env python3
"""Measure the time and the memory of commands on a store of many runs, and on two runs of many trials.

    .venv/bin/python benches/store.py [--runs 1000] [--trials 20000] [--repeats 5] [--against REVISION]

Each call is a process of its own. The runs are synthetic, and are stored in a folder under /tmp that is removed at the
end.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from options import at_least_one
from table import print_table
from versions import PROGRAM, ROOT, Cost, add_options, cost_row, filled_versions

# Behind the other version's modules, which make its stores.
sys.path.append(str(ROOT))

from tests.unit.builders import STARTED_AT, make_long_run, make_records, make_run, make_speeds

from tunnelbench.store.store import Store

MANY, LONG = "many.sqlite", "long.sqlite"
LONG_RUNS = ("2025-long-1", "2025-long-2")


def fill(folder: Path, runs: int, trials: int) -> None:
    """Make a store of runs of a hundred trials, and one of two runs of `trials` trials."""
    records, speeds = make_records(), make_speeds()
    with Store.open(folder / MANY) as store:
        for number in range(runs):
            started = (STARTED_AT + timedelta(hours=number)).isoformat()
            run = make_run(run_id=run_id(number), started_at=started, ended_at=started)
            store.add_run(run, [replace(record, started_at=started) for record in records], speeds)
    with Store.open(folder / LONG) as store:
        for name in LONG_RUNS:
            store.add_run(make_run(run_id=name, trials_planned=trials, trials_recorded=trials),
                          make_long_run(trials), speeds)  # fmt: skip


def run_id(number: int) -> str:
    return f"2025-{number:06d}"


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=at_least_one, default=1000, help="of a hundred trials each")
    parser.add_argument("--trials", type=at_least_one, default=20_000, help="of each of the two long runs")
    add_options(parser)
    given = parser.parse_args()
    if given.fill:
        fill(given.fill, given.runs, given.trials)
        return
    of_many, of_long = f"{given.runs} runs", f"{given.trials} trials"
    first, second = LONG_RUNS
    commands: list[tuple[str, str, list[str], float | None, float | None]] = [
        (of_many, MANY, ["list", "runs"], None, None),
        (of_many, MANY, ["report", "last"], None, None),
        (of_many, MANY, ["report", run_id(given.runs // 2)], None, None),
        (of_long, LONG, ["report", first], 3, 150),
        (of_long, LONG, ["show", first], 3, 150),
        (of_long, LONG, ["compare", first, second], 5, None),
    ]
    rows = []
    with filled_versions(__file__, given, "--runs", given.runs, "--trials", given.trials) as filled:
        for size, store, verb, most_s, most_mb in commands:
            costs: list[list[Cost]] = [[] for _ in filled]
            for _ in range(1 + given.repeats):
                for (version, folder), of_version in zip(filled, costs, strict=True):
                    of_version.append(version.run([PROGRAM, *verb, "--store", folder / store], caches=folder))
            rows.append(cost_row(f"{size}: {' '.join(verb)}", costs, most_s, most_mb))
    print_table(rows)


if __name__ == "__main__":
    main()
