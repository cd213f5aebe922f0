"""Waits for what a run in another process makes and removes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tunnelbench.host.host import RUN_FOLDER

LIMIT_S = 60.0


def until(is_so: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Wait until a condition holds. The test fails with `what` after the limit."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, f"not in {limit_s:g} s: {what}"
        time.sleep(0.05)


def await_folder(before: set[Path]) -> set[Path]:
    """Wait for the folders of runs that were not there before, and return them."""
    until(lambda: bool(set(RUN_FOLDER.glob("[0-9]*")) - before), "a run's folder")
    return set(RUN_FOLDER.glob("[0-9]*")) - before


def await_machines(left: Callable[[str], Sequence[object]], mark: str, number: int) -> None:
    """Wait until `left` finds `number` machines of the run with that mark."""
    until(lambda: len(left(mark)) == number, f"{number} machines of {mark}")


def await_text(path: Path, text: str, limit_s: float = LIMIT_S) -> None:
    """Wait until a file contains a text."""
    until(lambda: text in path.read_text(), f"{text!r} in {path}", limit_s)


def programs_of(controller: int) -> list[str]:
    """Return the command lines of the programs that a run has started and that still run."""
    argv = ["ps", "-ww", "-o", "args=", "--ppid", str(controller)]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()


def await_traffic(controller: int, limit_s: float = LIMIT_S) -> None:
    """Wait until the timed TCP traffic of a trial runs; the warm-up before it has `--bytes` in place of `--time`."""
    until(
        lambda: any("iperf3 --client" in line and "--time" in line for line in programs_of(controller)),
        "the traffic of a trial",
        limit_s,
    )
