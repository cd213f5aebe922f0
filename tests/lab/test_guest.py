"""A run inside a guest: Debian's kernel booted over this machine's files, its tunnels proven, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import tomli_w
from tests.lab.awaiting import await_folder, await_machines
from tests.lab.bench import STARVED, TUNNELBENCH
from tests.unit.tunnel.cases import tunnel_cases

from tunnelbench.guest.kernel import debian_kernel
from tunnelbench.guest.machine import left_guests
from tunnelbench.host.host import RUN_FOLDER

pytestmark = pytest.mark.lab

IS_LONG = os.environ.get("TUNNELBENCH_GUEST_TUNNELS") == "all"
"""True for `make test-debian-kernel`, which proves all of these tunnels in the guest; `make test` proves SHORT."""

SHORT = "ipsec 1"
"""A tunnel of the kernel whose keys a program negotiates."""

TUNNELS = [
    {"kind": case.kind, "name": name, **options}
    for case in tunnel_cases().values()
    if case.needs_kernel
    for number, options in enumerate(case.exact, 1)
    if (name := f"{case.kind} {number}") == SHORT or IS_LONG
]
PLAN = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 1
interval_s = 0.5
""" + "".join(f"[[tunnel]]\n{tomli_w.dumps(tunnel)}" for tunnel in TUNNELS)
NAMES = ("no tunnel", *(tunnel["name"] for tunnel in TUNNELS))
assert SHORT in NAMES
LIMIT_S = 1200
"""Time limit for an emulated guest on a busy machine [s]; a quiet machine needs a fraction of it."""
PROOF = {"reach", "route-router", "route-server", "outer-protocol", "payload-pattern", "outer-length"}


def command(folder: Path, text: str = PLAN) -> list[str]:
    plan = folder / "plan.toml"
    plan.write_text(text)
    store = str(folder / "results.sqlite")
    return [TUNNELBENCH, "run", str(plan), "--on", "netns-debian", "--set", "quiet_wait_s=0", "--store", store]


@pytest.mark.timeout(2 * LIMIT_S + 100)
def test_tunnels_that_this_kernel_may_lack_are_proven_inside_a_guest(tmp_path: Path) -> None:
    kernel = debian_kernel()
    done = subprocess.run([*command(tmp_path), "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in {0, 3}, done.stderr  # 3: on a machine that others use, no figure counts
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    facts = found["run"]["host_facts"]
    assert facts["guest_kernel"] == kernel.version
    assert facts["guest"].startswith("inside a guest")
    assert facts["guest"] == "inside a guest" or facts["guest_cpu"].startswith("max of QEMU ")
    trials = {trial["spec"]["tunnel"]["name"]: trial for trial in found["trials"]}
    assert list(trials) == ["testers back to back", *NAMES]
    for name in NAMES:
        proof = trials[name]["proof"]
        assert proof is not None, trials[name]["reason"]
        assert {check["verdict"] for check in proof["checks"]} == {"ok"}
        assert {check["name"] for check in proof["checks"]} >= PROOF
        assert proof["versions"]["router.linux"] == proof["versions"]["server.linux"] == kernel.version
    # Whether a trial's traffic is long enough for a window is a matter of how busy the machine is.
    reasons = {trial["reason"] for trial in trials.values()} - {""}
    assert [reason for reason in reasons if not reason.startswith(STARVED)] == []
    assert left_guests(found["run"]["run_id"][-6:]) == []


def test_a_controller_that_is_killed_takes_its_guest_with_it(tmp_path: Path) -> None:
    before = set(RUN_FOLDER.glob("[0-9]*"))
    with subprocess.Popen(command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as controller:
        (folder,) = await_folder(before)
        mark = folder.name[-6:]
        await_machines(left_guests, mark, 1)
        controller.send_signal(signal.SIGKILL)
    await_machines(left_guests, mark, 0)
    cleaned = subprocess.run([TUNNELBENCH, "clean"], capture_output=True, text=True, timeout=30, check=True)
    assert folder.name in cleaned.stdout
    assert not folder.exists()
