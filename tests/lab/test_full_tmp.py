"""A /tmp without room: verbs that do not write there work, and the others say so in a sentence and leave nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.lab.bench import SHORT_TRIALS, TUNNELBENCH
from tests.unit.builders import make_records, make_run, make_speeds

from tunnelbench.report.exchange import export
from tunnelbench.store.store import Store

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

RUNS = 20
"""Number of exported runs for a site: enough for several processes, which talk through a socket."""

PLAN = f"""{SHORT_TRIALS}[[tunnel]]
kind = "openvpn"
cipher = "AES-128-GCM"
[[tunnel]]
kind = "tinc"
"""

WITH_FULL_TMP = """
stage=$1 listing=$2
shift 2
mount -t tmpfs -o size=32k,nr_inodes=32,mode=1777 tmpfs "$stage"
while [ "$1" != -- ]; do
    mkdir "$stage/$1"
    mount --bind "/tmp/$1" "$stage/$1"
    shift
done
shift
head -c 100000 /dev/zero > "$stage/filler" 2>/dev/null || true
number=0
while ( : > "$stage/$number" ) 2>/dev/null; do number=$((number + 1)); done
mount --rbind "$stage" /var/tmp
mount --rbind "$stage" /tmp
cd /tmp
ls -A /tmp > "$listing.before"
status=0
"$@" || status=$?
ls -A /tmp > "$listing.after"
exit $status
"""
"""Runs a command where /tmp, /var/tmp and the working folder have no room for a byte or a name.

Arguments: a mount point, a file for listings of /tmp, the names in /tmp that stay, `--`, the command."""


def with_full_tmp(tmp_path: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a verb, and check that it has neither a traceback nor left anything in /tmp."""
    stage, listing = tmp_path / "stage", tmp_path / "listing"
    stage.mkdir(exist_ok=True)
    paths = [Path(each).resolve() for each in (str(tmp_path), sys.prefix, *filter(None, sys.path))]
    kept = sorted({path.parts[2] for path in paths if path.parts[1] == "tmp"})
    own = os.pathsep.join(
        str(Path(each).resolve()) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each
    )
    variables = {name: value for name, value in os.environ.items() if name != "TMPDIR"} | {"PYTHONPATH": own}
    inner = [*map(str, (stage, listing)), *kept, "--", TUNNELBENCH, *map(str, words)]
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", WITH_FULL_TMP, "sh", *inner]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=variables)
    assert "Traceback" not in done.stderr, done.stderr
    left = [(tmp_path / f"listing.{when}").read_text() for when in ("before", "after")]
    assert left[0] == left[1], words
    assert "filler" in left[0]
    return done


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Sequence[Path]]:
    """A store with a run, and files with exported runs."""
    path = tmp_path / "results.sqlite"
    records, files = make_records(1), []
    with Store.open(path) as results:
        results.add_run(make_run(trials_planned=len(records)), records, make_speeds())
    for number in range(RUNS):
        run = make_run(run_id=f"20250314-0926{number:02}-abcdef", trials_recorded=len(records))
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(export(run, records, make_speeds()).text)
    return path, files


def test_verbs_that_do_not_write_there_work_with_a_full_tmp(
    tmp_path: Path, stored: tuple[Path, Sequence[Path]]
) -> None:
    path, files = stored
    verbs: list[list[str | Path]] = [
        ["show", "last", "--store", path],
        ["report", "last", "--format", "html", "--store", path],
        ["export", "last", "-o", tmp_path / "run.json", "--store", path],
        ["import", files[0], "--store", path],
        ["site", tmp_path / "site", *files],
        ["clean", "--store", path],
    ]
    for words in verbs:
        done = with_full_tmp(tmp_path, *words)
        assert done.returncode == 0, (words, done.stderr)
    assert with_full_tmp(tmp_path, "doctor").returncode in {0, 3}


def test_a_run_measures_with_a_full_tmp(tmp_path: Path) -> None:
    plan, path = tmp_path / "plan.toml", tmp_path / "results.sqlite"
    plan.write_text(PLAN)
    done = with_full_tmp(tmp_path, "run", plan, "--set", "quiet_wait_s=0", "--store", path)
    assert done.returncode in {0, 3}, done.stderr
    with Store.open(path) as store:
        (run,) = store.runs()
        assert run.status == "done"
        assert {str(record.outcome) for record in store.trials(run.run_id)} == {"measured"}


def test_verbs_that_write_to_a_full_tmp_say_so_and_leave_nothing(
    tmp_path: Path, stored: tuple[Path, Sequence[Path]]
) -> None:
    path, files = stored
    verbs: list[list[str | Path]] = [
        ["report", "last", "-o", "/tmp/table.txt", "--store", path],
        ["report", "last", "--format", "svg", "-o", "/tmp/charts", "--store", path],
        ["export", "last", "-o", "/tmp/run.json", "--store", path],
        ["import", files[0], "--store", "/tmp/folder/results.sqlite"],
        ["site", "/tmp/site", *files],
        ["run", "quick", "--store", "/tmp/folder/results.sqlite"],
        ["doctor", "--log", "/tmp/commands.sh"],
    ]
    for words in verbs:
        done = with_full_tmp(tmp_path, *words)
        assert done.returncode == 3, (words, done.stderr)
        assert re.search(r"(?m)^tunnelbench: (the folder |the log )?/tmp/.*: No space left on device$", done.stderr), (
            done.stderr
        )
