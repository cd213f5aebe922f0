"""Runs on the rig's router as a place of labgrid."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.lab.rig import LAN, LAPTOP, TRIALS, Rig, on_laptop
from tests.labgrid_rack import LabgridRack, labgrid_rack, service

SHORT_PLAN = "rounds = 1\n" + TRIALS
SLOW_START_S = 180.0
"""Longest start of a run on a busy machine [s]: it loads labgrid twice before its first trial."""

COUNTING_OR_NOT = (0, 3)
"""Exit codes of a run that ended in order; 3: on a machine that others use, no figure counts."""

GROUPS = {"attic": {"NetworkService": service(f"{LAN}.1"), "NetworkPowerPort": {}}}
PORT = 20408
ENTER = ("nsenter", f"--net=/run/netns/{LAPTOP}")


def rack_on_laptop(folder: Path) -> AbstractContextManager[LabgridRack]:
    """Start a coordinator, an exporter and a power switch on the rig's laptop; its router is the place `attic`."""
    return labgrid_rack(folder, PORT, GROUPS, ENTER)


def place_file(rig: Rig, wait_s: int = 120, more: str = "") -> str:
    """Write a testbed file that names the place and no address."""
    lines = ['kind = "ssh"', "quiet_wait_s = 0", 'place = "attic"', f"place_wait_s = {wait_s}", "power_after_s = 5"]
    path = rig.folder / "place.toml"
    path.write_text("\n".join([*lines, "[router]", f'config = "{rig.ssh_config}"', more, ""]))
    return str(path)


@contextmanager
def run_started(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """Start `tunnelbench run --json` on the laptop; yields the process with the files of its output and its errors."""
    output, errors = folder / "output", folder / "errors"
    with output.open("wb") as out, errors.open("wb") as err:
        running = subprocess.Popen(on_laptop("run", *words, "--json"), stdout=out, stderr=err)
    try:
        yield running, output, errors
    finally:
        running.kill()
        running.wait()
