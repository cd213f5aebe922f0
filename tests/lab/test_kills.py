"""`kill -9` at any moment: nothing of the run stays, nothing else is removed, no trial is lost or measured twice."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.lab.bench import KERNEL_AND_USER_SPACE, SHORT_TRIALS, TUNNELBENCH
from tests.lab.machine import changed_since, snapshot

from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.model.result import RunRecord
from tunnelbench.store.store import Store
from tunnelbench.tunnel.wireguard import CONTROL_SOCKETS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("TUNNELBENCH_KILLS", "2"))
"""Number of kills; `make test-kills` does more."""
LONGEST_LIFE_S = 6.0
"""Longest time until a kill [s]: from the first import to the third tunnel."""
PLAN = f"""{SHORT_TRIALS}{KERNEL_AND_USER_SPACE}[[tunnel]]
kind = "openvpn"
cipher = "AES-128-GCM"
[[tunnel]]
kind = "tinc"
"""
Trial = tuple[int, int, str, int, str]
"""Sequence, round, tunnel, payload, direction."""


@contextmanager
def decoy() -> Iterator[None]:
    """Make namespaces, devices, rules, daemons and files that are not of a run but have names like those of a run."""
    name = f"tb-{os.urandom(3).hex()}-router"
    folder = RUN_FOLDER / f"notes-{name}"
    folder.mkdir(parents=True)
    (folder / "private.key").write_text("somebody's")
    processes = []
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        inside = ["ip", "netns", "exec", name]
        for argv in (
            ["ip", "link", "add", "lan", "type", "veth", "peer", "name", "wan"],
            ["tc", "qdisc", "add", "dev", "lan", "root", "tbf", "rate", "1mbit", "burst", "3100", "latency", "50ms"],
            ["nft", "add", "table", "inet", "tunnelbench"],
        ):
            subprocess.run([*inside, *argv], check=True)
        for argv in (["sleep", "3000"], ["wireguard-go", "--foreground", "tb-decoy"]):
            quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            processes.append(subprocess.Popen([*inside, *argv], start_new_session=True, **quiet))
        while not (CONTROL_SOCKETS / "tb-decoy.sock").exists():
            assert processes[1].poll() is None
            time.sleep(0.01)
        yield
        assert [process.poll() for process in processes] == [None, None]
        for argv, expected in (
            (["tc", "qdisc", "show", "dev", "lan"], "tbf"),
            (["nft", "list", "tables"], "table inet tunnelbench"),
        ):
            shown = subprocess.run([*inside, *argv], check=True, capture_output=True, text=True).stdout
            assert expected in shown
        assert (folder / "private.key").read_text() == "somebody's"
    finally:
        for process in processes:
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "del", name], check=True)
        (CONTROL_SOCKETS / "tb-decoy.sock").unlink(missing_ok=True)
        (folder / "private.key").unlink()
        folder.rmdir()


def start(*words: str) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([TUNNELBENCH, *words], **pipes)


def run(*words: str) -> str:
    process = start(*words)
    output, errors = process.communicate(timeout=300)
    assert process.returncode in {0, 3}, errors  # 3: on a machine that others use, no figure may count
    assert "Traceback" not in errors
    return output


def trials(path: Path, run_id: str) -> dict[Trial, str]:
    """Return the time at which each trial of a run was started."""
    with Store.open(path, create=False) as store:
        found = store.trials(run_id)
    return {
        (
            record.spec.sequence,
            record.spec.round,
            record.spec.tunnel.name,
            record.spec.payload_bytes,
            str(record.spec.direction),
        ): record.started_at
        for record in found
    }


def newest(path: Path) -> RunRecord | None:
    """Return the latest run; None if there is none."""
    if not path.exists():
        return None
    with Store.open(path) as store:
        return next(iter(store.runs()), None)


def test_a_run_killed_at_random_moments_leaves_nothing_and_loses_nothing(tmp_path: Path) -> None:
    plan, path = tmp_path / "plan.toml", tmp_path / "results.sqlite"
    plan.write_text(PLAN)
    begin, store = ("run", str(plan), "--set", "quiet_wait_s=0"), ("--store", str(path))
    quiet_path = tmp_path / "undisturbed.sqlite"
    started_s = time.monotonic()
    run(*begin, "--store", str(quiet_path))
    longest_life_s = max(LONGEST_LIFE_S, time.monotonic() - started_s)  # a busy machine takes longer
    undisturbed_run = newest(quiet_path)
    assert undisturbed_run is not None
    undisturbed = trials(quiet_path, undisturbed_run.run_id).keys()
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    killed_after_s: list[float] = []
    whole: list[str] = []
    run_id, known = "", dict[Trial, str]()
    with decoy():
        before = snapshot()
        while len(killed_after_s) < KILLS:
            process = start("run", "--resume", run_id, *store) if run_id else start(*begin, *store)
            killed_after_s += kill_after(process, chance.uniform(0.05, longest_life_s))
            where = f"seed {seed}, killed after {killed_after_s} s"
            if chance.random() < 0.3:  # cleaning up can be killed, too
                kill_after(start("clean", *store), chance.uniform(0.2, 0.6))
            run("clean", *store)
            assert changed_since(before) == set(), where
            found = newest(path)
            if found is None or found.run_id in whole:
                continue  # it was killed before it started to measure
            assert found.status in {"killed", "done"}, where
            now_known = trials(path, found.run_id)
            assert run_id in {"", found.run_id}, where
            assert known.items() <= now_known.items(), f"a trial was lost or measured twice; {where}"
            if found.status == "done":
                whole.append(found.run_id)
                run_id, known = "", {}
            else:
                run_id, known = found.run_id, now_known
        if run_id:
            run("run", "--resume", run_id, *store)
            finished = trials(path, run_id)
            assert known.items() <= finished.items(), where
            whole.append(run_id)
        assert "no run has left anything behind" in run("clean", *store)
        assert changed_since(before) == set(), where
    assert whole
    for each in whole:
        assert trials(path, each).keys() == undisturbed, where


def kill_after(process: subprocess.Popen[str], life_s: float) -> list[float]:
    """Kill a process at an age and return the age [s]; an empty list if it had ended before."""
    try:
        process.communicate(timeout=life_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return [round(life_s, 3)]
    return []
