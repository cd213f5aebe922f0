"""A soak continues after its daemon and its controller were killed, and reports both."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import TUNNELBENCH, namespaces, pids_of

from tunnelbench.analysis.soak import SoakSummary, summarise_soak
from tunnelbench.model.result import Outcome, TrialRecord
from tunnelbench.store.store import Store

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

PLAN = """
rounds = 1
[soak]
payload_bytes = 1400
duration = "{duration}"
rate = 500
echo = {echo}
[[tunnel]]
kind = "{kind}"
{options}
"""
PATIENCE_S = 60.0


def start(*words: str) -> subprocess.Popen[str]:
    quiet: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([TUNNELBENCH, *words], **quiet)


def run(*words: str) -> str:
    """Run tunnelbench and return its output. On a busy machine no figure may count, which is status 3."""
    process = start(*words)
    output, errors = process.communicate(timeout=120)
    assert process.returncode in {0, 3}, errors
    assert "Traceback" not in errors
    return output


def found(path: Path) -> tuple[str, SoakSummary | None, list[TrialRecord]]:
    """Return the run, the stored part of its soak, and its trials; all are empty before the run."""
    if not path.exists():
        return "", None, []
    with Store.open(path) as store:
        if not (runs := store.runs()):
            return "", None, []
        tables = store.soaks(runs[0].run_id)
        soak = tables.soak(1)
        summary = summarise_soak(soak, tables.chunks(1)) if soak else None
        return runs[0].run_id, summary, store.trials(runs[0].run_id)


def wait_until(path: Path, is_so: Callable[[SoakSummary], bool], process: subprocess.Popen[str]) -> SoakSummary:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        summary = found(path)[1]
        if summary is not None and is_so(summary):
            return summary
        time.sleep(0.3)
    raise AssertionError(f"it did not come to that in {PATIENCE_S:g} s: {found(path)}")


def kill_daemon(run_id: str, name: str) -> None:
    """Kill the tunnel's program on the router."""
    (namespace,) = (each for each in namespaces(run_id[-6:]) if each.endswith("router"))
    (pid,) = pids_of(namespace, name)
    os.kill(pid, signal.SIGKILL)


def test_a_soak_survives_its_daemon_and_its_controller(tmp_path: Path) -> None:
    plan, path = tmp_path / "plan.toml", tmp_path / "results.sqlite"
    plan.write_text(PLAN.format(duration="20s", echo="false", kind="openvpn", options="reneg_sec = 5"))
    store = ("--store", str(path))
    process = start("run", str(plan), "--set", "quiet_wait_s=0", *store)
    try:
        wait_until(path, lambda soak: soak.measured_s >= 5, process)
        run_id = found(path)[0]
        kill_daemon(run_id, "openvpn")
        before = wait_until(path, lambda soak: soak.restarts > 0, process)
    finally:
        process.kill()
        process.communicate()
    kept = found(path)[1]
    assert kept is not None
    assert kept.measured_s >= before.measured_s
    assert (kept.parts, kept.ended, kept.is_complete) == (1, "unknown", False)

    assert "SOAK" in run("run", "--resume", "last", *store)
    shown = run("report", "last", "--full", *store)
    _, after, records = found(path)
    assert after is not None
    assert (after.parts, after.gaps, after.ended, after.is_complete) == (2, 1, "", True)
    assert after.gaps_s > 0
    assert after.measured_s == pytest.approx(20, abs=1.5)
    # Packets that the dead daemon did not carry are lost. The gap of some thousand packets is no loss.
    assert 0 < kept.lost_packets <= kept.sent_packets
    assert after.lost_packets <= kept.lost_packets + after.sent_packets * 0.1
    assert after.sent_packets == pytest.approx(500 * after.measured_s, rel=0.05)
    assert after.restart_list[0].text.startswith("openvpn on the router ended; the tunnel was up again after")
    assert after.rekeys > 0
    assert {trend.program for trend in after.memory} >= {"router/openvpn", "controller", "engine/sender"}
    (record,) = records
    assert record.outcome is Outcome.MEASURED, record.reason
    assert "1 gap" in next(check.reason for check in record.checks if check.name == "soak")
    assert "Soaks" in shown
    assert "1 gap at" in shown

    series = list(csv.DictReader(io.StringIO(run("report", "last", "--format", "series", *store))))
    assert [line["event"] for line in series if "gap" in line["event"]] == ["gap: nothing was measured"]
    assert sum(int(line["sent_packets"] or 0) for line in series) == after.sent_packets
    assert "- not measured" in run("show", "last", "--trial", "1", *store)
    assert namespaces(run_id[-6:]) == []


def test_an_echo_soak_that_is_interrupted_ends_cleanly_with_what_was_measured(tmp_path: Path) -> None:
    plan, path = tmp_path / "plan.toml", tmp_path / "results.sqlite"
    plan.write_text(PLAN.format(duration="1h", echo="true", kind="none", options=""))
    store = ("--store", str(path))
    process = start("run", str(plan), "--set", "quiet_wait_s=0", *store)
    try:
        wait_until(path, lambda soak: soak.measured_s >= 5, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, errors
    run_id, summary, records = found(path)
    assert summary is not None
    assert records == []
    assert (summary.parts, summary.ended, summary.is_complete) == (1, "interrupted", False)
    assert summary.received_packets > 0
    assert summary.delay_max_ns is not None
    assert f"run --resume {run_id}" in errors
    assert "not finished" in run("report", "last", "--full", *store)
    assert namespaces(run_id[-6:]) == []
