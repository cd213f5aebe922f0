"""A value of a plan is never a command, an option or a path out of the run's folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import tomli_w
from tests.lab.bench import TUNNELBENCH
from tests.lab.machine import changed_since, snapshot

pytestmark = pytest.mark.lab

BAIT = "tunnelbench-was-fooled"
HOSTILE = [
    f"x; touch /tmp/{BAIT}",
    f"$(touch /tmp/{BAIT})",
    f"`touch /tmp/{BAIT}`",
    f"x\nup /tmp/{BAIT}.sh\nscript-security 2",
    f"x' --up 'touch /tmp/{BAIT}",
    "--help",
    "-h",
    "../../../../tmp/" + BAIT,
    f"/tmp/{BAIT}",
    "x\0y",
    "\x1b[2Jx",
    '"x" "y"',
    "%s%n{cipher}{0}",
]
"""Values that would do harm in a shell, in a configuration file, as an option, as a path or on a terminal."""
OPTIONS = [("openvpn", "cipher"), ("openvpn", "auth"), ("openvpn", "mode"), ("tinc", "cipher"), ("vxlan", "kind")]


@pytest.fixture
def bait() -> None:
    assert not list(Path("/tmp").glob(f"{BAIT}*"))


def run(tmp_path: Path, plan: dict[str, object], *words: str) -> subprocess.CompletedProcess[bytes]:
    path = tmp_path / "plan.toml"
    path.write_text(tomli_w.dumps({"rounds": 1, **plan}))
    argv = [TUNNELBENCH, "run", str(path), "--store", str(tmp_path / "results.sqlite"), *words]
    return subprocess.run(argv, capture_output=True, timeout=110, check=False)


def test_hostile_values_of_a_plan_cannot_become_commands_or_leave_the_folder(tmp_path: Path, bait: None) -> None:
    """Names are free text, and their tunnels are measured."""
    before = snapshot()
    names = [name for name in HOSTILE if name.isprintable()]
    tcp = {"payload_bytes": 1448, "direction": "out", "duration_s": 1, "interval_s": 0.5}
    tunnels = [{"kind": "vxlan", "name": name.replace("{", "(").replace("}", ")")} for name in names]
    done = run(tmp_path, {"title": names[0], "tcp": tcp, "tunnel": tunnels}, "--set", "quiet_wait_s=0")
    assert done.returncode in {0, 3}, done.stderr
    assert b"x; touch" in done.stdout
    assert b"\x1b" not in done.stdout
    assert changed_since(before) == set()
    assert not list(Path("/tmp").glob(f"{BAIT}*"))


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
def test_a_hostile_value_in_an_option_is_refused_in_a_sentence(tmp_path: Path, bait: None, value: str) -> None:
    tunnels = [{"kind": kind, option: value} for kind, option in OPTIONS]
    tunnels += [{"kind": "openvpn", "program": value}, {"kind": "none", "name": value}]
    done = run(tmp_path, {"tcp": {"congestion_control": value}, "tunnel": tunnels})
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stderr
    assert b"\0" not in done.stderr
    assert not list(Path("/tmp").glob(f"{BAIT}*"))
    assert not (tmp_path / "results.sqlite").exists()
