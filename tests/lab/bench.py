"""A testbed of namespaces for tests, and runs of a few short trials on it."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunnelbench.model.plan import Direction, Plan, TcpTraffic, TrialSpec, TunnelSpec
from tunnelbench.model.result import Check, TrialRecord, Verdict
from tunnelbench.model.testbed import Link, TestbedSpec
from tunnelbench.run import Bench, on_cpus
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.tunnel import create
from tunnelbench.tunnel.base import Tunnel

NO_TUNNEL = TunnelSpec("none", "no tunnel")


def make_testbed(
    folder: Path, link: Link | None = None, kind: type[NetnsTestbed] = NetnsTestbed, **changes: Any
) -> NetnsTestbed:
    """A testbed that is not up yet, with names that no other has."""
    spec = TestbedSpec("lab", "netns", link=link or Link(), **{"quiet_wait_s": 5, **changes})
    return kind(spec, f"test-{secrets.token_hex(3)}", folder)


def make_plan(*tunnels: TunnelSpec, **traffic: Any) -> Plan:
    """One round of one trial each, of a second, unless `traffic` says otherwise."""
    usual: dict[str, Any] = {
        "payload_bytes": (1448,),
        "direction": (Direction.OUT,),
        "duration_s": 1,
        "interval_s": 0.5,
    }
    return Plan("lab", "", tunnels, TcpTraffic(**{**usual, **traffic}), rounds=1)


@dataclass
class Watcher:
    """Remembers what a run tells its observer; `at_trial` is called when a trial starts."""

    at_trial: Callable[[TrialSpec], None] = lambda _: None
    ciphers: list[str] = field(default_factory=list)
    tunnels: list[str] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    rates_bps: list[float] = field(default_factory=list)

    def cipher_starts(self, what: str) -> None:
        self.ciphers.append(what)

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        self.tunnels.append(tunnel.name)

    def trial_starts(self, spec: TrialSpec) -> None:
        self.at_trial(spec)

    def second_passed(self, rate_bps: float) -> None:
        self.rates_bps.append(rate_bps)

    def trial_ended(self, record: TrialRecord) -> None:
        """Nobody is to be told."""

    def waited_for_quiet(self, seconds: float) -> None:
        self.waits_s.append(seconds)


def measure(testbed: NetnsTestbed, plan: Plan, watcher: Watcher | None = None) -> list[TrialRecord]:
    """The trials of a plan with one tunnel, on a testbed that is up, without a calibration."""
    with on_cpus(testbed.local.cpus):
        return list(Bench(testbed, plan, watcher or Watcher()).measure_block(plan.trials()))


def open_tunnel(testbed: NetnsTestbed, spec: TunnelSpec) -> Tunnel[Any]:
    """A tunnel on a testbed that is up, itself not yet up."""
    return create(spec, Bench(testbed, make_plan(spec), Watcher())._ends())


def check(record: TrialRecord, name: str) -> Check:
    """One check of a trial."""
    (found,) = (found for found in record.checks if found.name == name)
    return found


def void_checks(record: TrialRecord) -> set[str]:
    """What made a trial void."""
    return {found.name for found in record.checks if found.verdict is Verdict.VOID}


def processes_of(testbed: NetnsTestbed) -> list[str]:
    """Names of the processes in a testbed's namespaces, without those that only hold one open."""
    pids = [pid for host in testbed._hosts for pid in pids_in(host.namespace)]
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids]
    return sorted(name for name in names if name != "sleep")


def pids_in(namespace: str) -> list[int]:
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split()]


def namespaces(mark: str) -> list[str]:
    """A run's namespaces that exist."""
    listed = subprocess.run(["ip", "-j", "netns", "list"], capture_output=True, text=True, check=True)
    names = [entry["name"] for entry in json.loads(listed.stdout or "[]")]
    return sorted(name for name in names if mark in name)


def secret_files(folder: Path) -> list[str]:
    """Files below a folder that are or hold a key."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (path.suffix in (".key", ".priv") or holds_a_key(path.read_bytes()))
    )


def holds_a_key(content: bytes) -> bool:
    return b"PRIVATE KEY" in content or b"Static key" in content


def iperf3(argv: Sequence[str]) -> dict[str, Any]:
    """Run an iperf3 client by hand; its JSON."""
    completed = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=True, timeout=30)
    found: dict[str, Any] = json.loads(completed.stdout)
    return found
