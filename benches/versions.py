"""Runs a command of this version and of another one in turn, and compares their times and their memory."""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from options import at_least_one
from table import Row, spread

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(sys.executable).with_name("tunnelbench")
USUAL_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Environment of the programs that are measured. A process that finds no compiled modules spends seconds on them."""

COMMAND_WORDS = 3
"""Number of words of a command in a message about it."""


@dataclass(frozen=True)
class Version:
    """A version of the program."""

    name: str
    """Empty for this version, else the revision of Git."""
    root: Path
    """Folder that has src/ and tests/ of this version."""

    def run(self, command: Sequence[str | Path], *, caches: Path) -> Cost:
        """Run a command with this version's modules; `caches`: folder for what the program keeps between two calls."""
        paths = os.pathsep.join(map(str, (self.root / "src", self.root)))
        environment = {**USUAL_ENVIRONMENT, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(caches)}
        begin_s = time.monotonic()
        # Not subprocess.run(): only wait4() returns the memory of this one child.
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            begun = " ".join(map(str, command[:COMMAND_WORDS]))
            sys.exit(f"{self.name or 'this version'}: {begun} ... ended with {process.returncode}")
        return Cost(time.monotonic() - begin_s, used.ru_maxrss * 1024 / 1e6)


@dataclass(frozen=True)
class Cost:
    """Time and memory of a command."""

    wall_s: float
    memory_mb: float
    """Most memory that the process had at a time [MB]."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of benches that compare versions."""
    parser.add_argument("--fill", type=Path, metavar="FOLDER", help="make the input there, and measure nothing")
    parser.add_argument(
        "--against", metavar="REVISION", help="compare with this version; usually the newest tag, if any"
    )
    parser.add_argument("--repeats", type=at_least_one, default=5)


@contextmanager
def filled_versions(script: str, given: argparse.Namespace, *sizes: object) -> Iterator[list[tuple[Version, Path]]]:
    """Yield this version, and the other one if there is one, each with a folder of its input.

    Each version makes its input by `script --fill FOLDER`, with the options `sizes`.
    """
    prefix = "tunnelbench-bench-"
    with tempfile.TemporaryDirectory(prefix=prefix) as scratch, compared_versions(given.against) as known:
        filled = [(version, Path(scratch, str(number))) for number, version in enumerate(known)]
        for version, folder in filled:
            folder.mkdir()
            version.run([sys.executable, script, "--fill", folder, *map(str, sizes)], caches=folder)
        yield filled


@contextmanager
def compared_versions(revision: str | None) -> Iterator[list[Version]]:
    """Yield this version and the other one, if there is one."""
    if revision is None:
        newest = subprocess.run(
            ("git", "-C", ROOT, "describe", "--tags", "--abbrev=0"), capture_output=True, text=True, check=False
        )
        revision = newest.stdout.strip()
    ours = Version("", ROOT)
    if not revision:
        yield [ours]
        return
    packing = subprocess.run(("git", "-C", ROOT, "archive", revision), capture_output=True, check=False)
    if packing.returncode:
        sys.exit(f"--against: {packing.stderr.decode(errors='replace').strip()}")
    with tempfile.TemporaryDirectory(prefix="tunnelbench-version-") as folder:
        with tarfile.open(fileobj=io.BytesIO(packing.stdout)) as packed:
            packed.extractall(folder, filter="data")
        yield [ours, Version(revision, Path(folder))]


def cost_row(figure: str, costs: Sequence[Sequence[Cost]], most_s: float | None, most_mb: float | None = None) -> Row:
    """Return the row of a command; `costs` has those of this version and, if compared, those of the other one.

    The first call of each version compiles the modules, and does not count. `most_s` and `most_mb` are the targets of
    the medians.
    """
    costs = [each[1:] for each in costs]
    texts = [f"{spread([cost.wall_s for cost in each], digits=2)} s, {_memory_mb(each):.0f} MB" for each in costs]
    medians_s = [statistics.median(cost.wall_s for cost in each) for each in costs]
    targets = [f"{most:g} {unit}" for most, unit in ((most_s, "s"), (most_mb, "MB")) if most is not None]
    is_met = (most_s is None or medians_s[0] <= most_s) and (most_mb is None or _memory_mb(costs[0]) <= most_mb)
    other, ratio = (texts[1], f"{medians_s[0] / medians_s[1]:.2f}") if len(costs) > 1 else ("", "")
    return Row(
        figure, texts[0], other, ratio, f"<= {', '.join(targets)}" if targets else "", is_met if targets else None
    )


def _memory_mb(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.memory_mb for cost in costs)
