"""Turns runs, trials and jobs into the texts that the pages show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tunnelbench.cli.common_options import duration_text
from tunnelbench.cli.progress import describe, udp_figures
from tunnelbench.model.progress import RunProgress
from tunnelbench.model.result import RUNNING, RunRecord, TrialRecord, Verdict
from tunnelbench.model.text import counted
from tunnelbench.report.text import one_line
from tunnelbench.serve.results import RunState

SILENCE = timedelta(seconds=60)
"""Age of the last progress from which a run may have been killed; the run publishes it every two seconds."""
CHART_WIDTH, CHART_HEIGHT = 600, 80
"""Size of the picture of the rates, in its own units."""


@dataclass(frozen=True)
class RunLine:
    """A run in a list."""

    run_id: str
    title: str
    begun: str
    status: str
    trials: str
    testbed: str
    version: str
    recorded: int
    planned: int
    left: str
    """Time left in words; empty: not known."""


@dataclass(frozen=True)
class TrialLine:
    """A trial that has ended."""

    what: str
    figures: str
    router_cpu: str
    verdict: str
    checks: tuple[str, ...]
    """Findings that are not ok, or one sentence on all checks."""


@dataclass(frozen=True)
class RateChart:
    """The rates of the running trial as a picture."""

    points: str
    """Points of the line, for SVG."""
    sentence: str
    width, height = CHART_WIDTH, CHART_HEIGHT


@dataclass(frozen=True)
class RunView:
    """The page of a run."""

    line: RunLine
    plan: str
    ended: str
    is_running: bool
    activity: str
    """The present step; empty: the run is not running, or has published nothing."""
    rate: str
    router_cpu: str
    passed: str
    """Time of the present trial in words; empty: no trial is running."""
    news: str
    """Time of the last progress."""
    chart: RateChart | None
    trials: tuple[TrialLine, ...]


def time_text(text: str | None) -> str:
    """Return a stored time as `2026-11-24 07:03:20`; empty if there is none."""
    return one_line((text or "")[:19].replace("T", " "))


def is_silent(progress: RunProgress | None, now: datetime | None = None) -> bool:
    """Return True if a run has published nothing for so long that it may have been killed."""
    if progress is None:
        return False
    try:
        news = datetime.fromisoformat(progress.updated_at)
    except ValueError:
        return True
    news = news if news.tzinfo else news.replace(tzinfo=UTC)
    return (now or datetime.now(UTC)) - news > SILENCE


def run_line(run: RunRecord, progress: RunProgress | None = None) -> RunLine:
    """Return a run for a list."""
    is_running = run.status == RUNNING
    status = run.status
    if is_running and is_silent(progress):
        status = f"running; no news since {time_text(progress.updated_at if progress else None)} UTC"
    has_left = is_running and progress is not None and not is_silent(progress)
    return RunLine(
        run_id=run.run_id,
        title=one_line(run.plan_title or run.plan_name) or run.run_id,
        begun=time_text(run.started_at)[:16],
        status=one_line(status),
        trials=f"{run.trials_recorded}/{run.trials_planned}",
        testbed=one_line(run.testbed_name + " (simulated)" * run.is_simulated),
        version=one_line(run.tunnelbench_version),
        recorded=max(0, run.trials_recorded),
        planned=max(1, run.trials_planned),
        left=f"about {duration_text(progress.left_s)} left" if progress is not None and has_left else "",
    )


def run_view(state: RunState) -> RunView:
    """Return the page of a run."""
    run, progress, latest = state
    is_live = run.status == RUNNING and progress is not None and not is_silent(progress)
    now = progress if is_live else None
    rates = now.rates_bps if now else ()
    share = now.router_busy_share if now else None
    return RunView(
        line=run_line(run, progress),
        plan=one_line(run.plan_name),
        ended=time_text(run.ended_at)[:16],
        is_running=run.status == RUNNING,
        activity=one_line(now.activity) if now else "",
        rate=f"{rates[-1] / 1e6:,.1f} Mbit/s on the wire" if rates else "",
        router_cpu="" if share is None else f"{share:.0%} busy",
        passed=passed_text(now) if now else "",
        news=time_text(progress.updated_at) if progress else "",
        chart=rate_chart(rates),
        trials=tuple(trial_line(record) for record in latest),
    )


def passed_text(progress: RunProgress) -> str:
    """Return the time of the present trial in words; empty if no trial is running."""
    if progress.trial_passed_s is None or progress.trial_expected_s is None:
        return ""
    return f"{duration_text(progress.trial_passed_s)} of about {duration_text(progress.trial_expected_s)}"


def rate_chart(rates_bps: Sequence[float]) -> RateChart | None:
    """Return the picture of the rates; None if there are fewer than two."""
    if len(rates_bps) < 2:
        return None
    top = max(rates_bps) or 1.0
    step = CHART_WIDTH / (len(rates_bps) - 1)
    points = " ".join(
        f"{number * step:.1f},{CHART_HEIGHT - 2 - rate / top * (CHART_HEIGHT - 4):.1f}"
        for number, rate in enumerate(rates_bps)
    )
    least, most = min(rates_bps) / 1e6, max(rates_bps) / 1e6
    sentence = f"Rates of the last {len(rates_bps)} s: {least:,.1f} to {most:,.1f} Mbit/s"
    return RateChart(points, sentence)


def trial_line(record: TrialRecord) -> TrialLine:
    """Return a trial that has ended."""
    share = None
    if record.tcp:
        share = record.tcp.router_busy_share
        figures = f"{record.tcp.throughput_bps / 1e6:,.1f} Mbit/s, {record.tcp.data_pps:,.0f} packets/s"
    elif record.udp:
        soak = next((check.reason for check in record.checks if check.name == "soak"), "")
        figures = soak or udp_figures(record.udp)
    else:
        figures = f"{record.outcome}: {record.reason}" if record.reason else str(record.outcome)
    grave = [check for check in record.checks if check.verdict in {Verdict.VOID, Verdict.DOUBTFUL}]
    checks = tuple(one_line(f"{check.name}: {check.reason}") for check in grave)
    fine = f"{counted(len(record.checks), 'check')}, none failed" if record.checks else ""
    return TrialLine(
        what=one_line(describe(record.spec)),
        figures=one_line(figures),
        router_cpu="" if share is None else f"{share:.0%}",
        verdict=str(record.verdict),
        checks=checks or ((fine,) if fine else ()),
    )
