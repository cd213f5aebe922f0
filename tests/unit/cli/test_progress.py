"""The view of a run, and its expected time left."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console
from tests.unit.builders import make_tcp, make_trial, make_tunnel

from tunnelbench.cli.progress import LiveView, PlainProgress, Progress
from tunnelbench.model.plan import Plan, SoakTraffic, TcpTraffic, Test, UdpTraffic

WEEK_S = 604_800.0
PLAN = Plan(
    "soak", "", (make_tunnel(),), None, 1, udp=UdpTraffic(payload_bytes=(1400,)), soak=SoakTraffic(duration_s=WEEK_S)
)


def trials_s(plan: Plan) -> float:
    return sum(plan.expected_trial_s(spec) for spec in (*plan.calibrations(), *plan.trials()))


def test_a_soak_that_is_to_come_counts_for_as_long_as_it_is() -> None:
    progress = PlainProgress(PLAN, to_stderr=True)
    assert progress.left_s == pytest.approx(PLAN.expected_duration_s())
    searches = [spec for spec in (*PLAN.calibrations(), *PLAN.trials()) if spec.test is not Test.SOAK]
    progress.know([make_trial(spec) for spec in searches])
    assert progress.left_s == pytest.approx(WEEK_S, rel=0.01)


def test_the_time_of_the_present_trial_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = PlainProgress(PLAN, to_stderr=True)
    now_s = [1000.0]
    monkeypatch.setattr("tunnelbench.cli.progress.time.monotonic", lambda: now_s[0])
    before_s = progress.left_s
    progress.trial_starts(PLAN.trials()[-1])
    now_s[0] += 3600
    assert progress.left_s == pytest.approx(before_s - 3600)


def test_searches_that_take_twice_as_long_make_the_others_expected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress(PLAN)
    now_s = [1000.0]
    monkeypatch.setattr("tunnelbench.cli.progress.time.monotonic", lambda: now_s[0])
    first, *others = [spec for spec in PLAN.trials() if spec.test.is_search]
    before_s = progress.left_s
    expected_s = PLAN.expected_trial_s(first) * PLAN.expected_duration_s() / trials_s(PLAN)
    progress.trial_starts(first)
    now_s[0] += 2 * expected_s
    progress.trial_ended(replace(make_trial(first), measurement=make_tcp()))
    assert others
    assert progress.left_s == pytest.approx(before_s - expected_s + len(others) * expected_s)


def test_the_time_left_follows_the_time_that_trials_and_tunnels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("slow", "", (make_tunnel(),), TcpTraffic(), 5)
    progress = Progress(plan)
    now_s = [1000.0]
    monkeypatch.setattr("tunnelbench.cli.progress.time.monotonic", lambda: now_s[0])
    for spec in (*plan.calibrations(), *plan.trials())[:4]:
        progress.trial_starts(spec)
        now_s[0] += 20.0
        progress.trial_ended(replace(make_trial(spec), measurement=make_tcp()))
        now_s[0] += 10.0  # a tunnel comes up
    progress.trial_starts(plan.trials()[0])
    left = progress.total - 4
    assert progress.left_s == pytest.approx((left * (4 * 20 + 3 * 10) / 4) - 10)


def test_nothing_is_left_of_a_run_that_is_done() -> None:
    progress = PlainProgress(PLAN, to_stderr=True)
    progress.know([make_trial(spec) for spec in (*PLAN.calibrations(), *PLAN.trials())])
    assert progress.left_s == 0


def test_the_live_view_escapes_what_a_program_has_printed() -> None:
    view = LiveView(PLAN)
    view.recent.append("void: it printed \x1b[2J\x1b]0;title\x07")
    view.cipher_starts("aes \x9b2J")
    output = io.StringIO()
    Console(file=output, width=100, force_terminal=False).print(view._draw())
    drawn = output.getvalue()
    assert r"\x1b[2J\x1b]0;title\x07" in drawn
    assert r"aes \x9b2J" in drawn
    assert not {"\x1b", "\x07", "\x9b"} & set(drawn)


VIEW_ON_A_TERMINAL_THAT_STOPS = """
import os, pty, sys, termios, time
from tests.unit.cli.test_progress import PLAN
from tunnelbench.cli.progress import LiveView
near, far = pty.openpty()
sys.stdout = os.fdopen(far, "w")
with LiveView(PLAN).showing():
    assert os.read(near, 100)
    termios.tcflow(far, termios.TCOOFF)
    time.sleep(1.2)  # the view draws twice in a second
print("ended", file=sys.stderr)
"""


def test_a_run_ends_although_its_terminal_takes_no_output() -> None:
    script = [sys.executable, "-c", VIEW_ON_A_TERMINAL_THAT_STOPS]
    ended = subprocess.run(script, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "ended\n")
