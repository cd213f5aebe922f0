#!/usr/bin/env python3
"""Measure the time to build a site of a thousand runs: a hundred trials each, of two hundred devices.

Then measure the time to build it again, with nothing changed and with one run changed.

Makes the files and the site in a folder of its own under /tmp and takes it down again; nothing is measured but time.

    .venv/bin/python benches/site.py [--runs 1000] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.unit.builders import STARTED_AT, make_records, make_run, make_speeds  # noqa: E402

from tunnelbench.report.exchange import export  # noqa: E402

PROGRAM = Path(sys.executable).with_name("tunnelbench")
DEVICES = 200


def fill(folder: Path, runs: int) -> list[str]:
    """Write exported runs, one in each file, and return the paths."""
    records, speeds = make_records(), make_speeds()
    usual = make_run()
    found = []
    for number in range(runs):
        started = (STARTED_AT + timedelta(hours=number)).isoformat()
        facts = {**usual.host_facts, "board": f"Router {number % DEVICES}"}
        run = make_run(run_id=f"2025-{number:06d}", started_at=started, host_facts=facts, trials_recorded=len(records))
        path = folder / f"{number:06d}.json"
        path.write_text(export(run, records, speeds).text, encoding="utf-8")
        found.append(str(path))
    return found


def main() -> None:
    """Print the duration and the size of the site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="a folder for the files and the site, which stay")
    given = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="tunnelbench-site-") as scratch:
        folder = given.keep or Path(scratch)
        runs = folder / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        files = sorted(map(str, runs.iterdir())) or fill(runs, given.runs)
        environment["XDG_CACHE_HOME"] = str(Path(scratch, "cache"))
        command = [str(PROGRAM), "site", str(folder / "site"), *files]
        for what in ("new", "nothing changed", "one run changed"):
            if what == "one run changed":
                os.utime(files[len(files) // 2])
            time.sleep(1.1)  # `site` does not trust the times of younger files
            start = time.monotonic()
            subprocess.run(command, check=True, env=environment)
            print(f"{len(files)} runs, {what}: {time.monotonic() - start:.1f} s")
        pages = [path for path in (folder / "site").rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in pages) / 1e6
        print(f"{len(pages)} files, {size:.0f} MB")


if __name__ == "__main__":
    main()
