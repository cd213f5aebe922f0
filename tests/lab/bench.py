"""A testbed of namespaces for tests, and runs of a few short trials on it."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.watcher import Watcher

from tunnelbench.analysis.soak import check_soak
from tunnelbench.measure.live_tunnel import tunnel_ends
from tunnelbench.measure.plan_runner import PlanRunner
from tunnelbench.measure.request import ResultsInMemory, RunRequest, RunSink, SoakJournal
from tunnelbench.model.plan import Direction, Plan, TcpTraffic, TunnelSpec
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import Link, TestbedSpec
from tunnelbench.run import on_cpus
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.testbed.qemu import QemuTestbed
from tunnelbench.tunnel import create
from tunnelbench.tunnel.base import Tunnel

BUSY_SLOW_START_S = 1.0
"""`Testbed.slow_start_s` beside four other tests [s]: a program then starts late, and late is its first packet seen."""

STARVED = ("the traffic ended early", "data flowed for only")
"""Beginnings of the reasons of a trial whose traffic this process saw too late, because other tests used the CPUs."""

TRIES = 4
"""Largest number of times that `measure` measures such a trial."""

NO_TUNNEL = TunnelSpec("none", "no tunnel")

TUNNELBENCH = str(Path(sys.executable).parent / "tunnelbench")

SHORT_TRIALS = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 1
interval_s = 0.5
"""
"""Head of a plan file with one trial of 1 s for each tunnel; `[[tunnel]]` tables follow."""

TRIALS_OF_A_VIRTUAL_ROUTER = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 3
interval_s = 0.5
"""
"""The same with a trial of 3 s, for an emulated router."""

KERNEL_AND_USER_SPACE = """
[[tunnel]]
kind = "vxlan"
[[tunnel]]
kind = "wireguard-go"
"""
"""Tunnels of a plan file: one of the kernel, and one with a program and a control socket."""


def make_testbed(
    folder: Path, link: Link | None = None, kind: type[NetnsTestbed] = NetnsTestbed, **changes: Any
) -> NetnsTestbed:
    """Return a testbed that is not set up yet, with unique names."""
    spec = TestbedSpec("lab", "netns", link=link or Link(), **{"quiet_wait_s": 5, **changes})
    made = kind(spec, f"test-{secrets.token_hex(3)}", folder)
    made.slow_start_s = BUSY_SLOW_START_S
    return made


def make_plan(*tunnels: TunnelSpec, **traffic: Any) -> Plan:
    """Return a plan of one round with one trial of 2 s for each tunnel; `traffic` changes the traffic."""
    usual: dict[str, Any] = {
        "payload_bytes": (1448,),
        "direction": (Direction.OUT,),
        "duration_s": 2,
        "interval_s": 0.5,
    }
    return Plan("lab", "", tunnels, TcpTraffic(**{**usual, **traffic}), rounds=1)


def measure(
    testbed: NetnsTestbed | QemuTestbed, plan: Plan, watcher: Watcher | None = None, soaks: SoakJournal | None = None
) -> list[TrialRecord]:
    """Measure the trials of a plan with one tunnel on a testbed that is set up, without a calibration.

    Other tests use the same CPUs. A trial whose window they shortened is measured again, as a user would do it.
    """
    found: dict[int, TrialRecord] = {}
    with on_cpus(testbed.local.cpus):
        sink = RunSink(ResultsInMemory(soaks=soaks), watcher or Watcher())
        for _ in range(TRIES):
            waiting = [trial for trial in plan.trials() if _was_starved(found.get(trial.sequence))]
            if not waiting:
                break
            runner = PlanRunner(RunRequest(plan, testbed), sink, check_soak)
            found |= {record.spec.sequence: record for record in runner.measure_block(waiting)}
    return list(found.values())


def _was_starved(record: TrialRecord | None) -> bool:
    """Return True if this process saw the traffic of a trial too late, or if there was no trial yet."""
    if record is None:
        return True
    if record.outcome is Outcome.VOID:
        return record.reason.startswith(STARVED)
    return record.tcp is not None and record.tcp.mss_bytes is None


def open_tunnel(testbed: NetnsTestbed, spec: TunnelSpec) -> Tunnel[Any]:
    """Return a tunnel that is not set up yet, on a testbed that is."""
    return create(spec, tunnel_ends(testbed))


def check(record: TrialRecord, name: str) -> Check:
    """Return one check of a trial by its name."""
    (found,) = (found for found in record.checks if found.name == name)
    return found


def void_checks(record: TrialRecord) -> set[str]:
    """Return the names of the checks that made a trial void."""
    return {found.name for found in record.checks if found.verdict is Verdict.VOID}


def processes_of(testbed: NetnsTestbed) -> list[str]:
    """Return the names of the processes in a testbed's namespaces, without those that hold a namespace open."""
    names = [program_of(pid) for host in testbed._hosts for pid in pids_in(host.namespace)]
    return sorted(name for name in names if name not in {"sleep", ""})


def pids_in(namespace: str) -> list[int]:
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split()]


def program_of(pid: int) -> str:
    """Return the name of a process's program; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def pids_of(namespace: str, program: str) -> list[int]:
    """Return the processes of a program in a namespace."""
    return [pid for pid in pids_in(namespace) if program_of(pid) == program]


def namespaces(mark: str) -> list[str]:
    """Return the namespaces of a run that exist."""
    listed = subprocess.run(["ip", "-j", "netns", "list"], capture_output=True, text=True, check=True)
    names = [entry["name"] for entry in json.loads(listed.stdout or "[]")]
    return sorted(name for name in names if mark in name)


def secret_files(folder: Path) -> list[str]:
    """Return the files below a folder that are keys or contain one."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (path.suffix in (".key", ".priv") or holds_a_key(path.read_bytes()))
    )


def holds_a_key(content: bytes) -> bool:
    return b"PRIVATE KEY" in content or b"Static key" in content


def iperf3(argv: Sequence[str]) -> dict[str, Any]:
    """Run an iperf3 client without TunnelBench and return its JSON."""
    completed = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=True, timeout=30)
    found: dict[str, Any] = json.loads(completed.stdout)
    return found
