"""A run as a side of a comparison."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tunnelbench.analysis.compare.sides import Figure, Side, SideRow, settings_of
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import Row, summarise
from tunnelbench.analysis.udp import UdpRow, lower_bounds, summarise_udp
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, Test, TrialSpec
from tunnelbench.model.result import RunRecord, TcpMeasurement, TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO
from tunnelbench.model.udp import UdpMeasurement

MOMENTARY = frozenset({"cpu_mhz"})
"""Facts of a machine that differ from one moment to the next and say nothing of it."""


def side_of_run(run: RunRecord, records: Sequence[TrialRecord]) -> Side:
    """A run; rows without a trial that counts have no figures."""
    udp_rows = summarise_udp(records)
    rows = [
        *(_row_of_run(row, records) for row in summarise(records)),
        *(_row_of_udp(row, records) for row in udp_rows if row.test in COMPARED_TESTS),
    ]
    left = run.trials_planned - len(records)
    not_compared = dict.fromkeys(row.test.value for row in udp_rows if row.test not in COMPARED_TESTS)
    return Side(
        name=run.run_id,
        title=f"run {run.run_id} ({run.plan_title or run.plan_name})",
        rows=tuple(row for row in rows if row.kind != CALIBRATION_KIND),
        testers=tuple(row for row in rows if row.kind == CALIBRATION_KIND),
        facts={
            "date": run.started_at[:10],
            "TunnelBench": run.tunnelbench_version,
            "testbed": run.testbed_name,
            **{name: str(value) for name, value in run.host_facts.items() if name not in MOMENTARY},
            **_versions(records),
            "plan": run.plan_name,
            **_flat("plan", run.plan_text),
            **_flat("testbed", run.testbed_text),
        },
        remarks=(
            *([f"{left} of its {run.trials_planned} trials are missing"] if left > 0 else []),
            *([f"these UDP tests are not compared: {', '.join(not_compared)}"] if not_compared else []),
        ),
    )


def _row_of_run(row: Row, records: Sequence[TrialRecord]) -> SideRow:
    trials = _counting(row.tunnel.name, row, records)
    baseline = {} if row.tunnel.is_baseline else _baseline(row, records)
    values = {number: _tcp_figures(trial, baseline.get(number)) for number, trial in trials.items()}
    figures = _by_figure(values)
    if row.tunnel.kind == CALIBRATION_KIND:  # no router carried anything, and no cable was in the way
        figures = {figure: own for figure, own in figures.items() if figure is Figure.THROUGHPUT}
    known = row.figures.payload_bytes if row.figures else None
    return SideRow(
        kind=row.tunnel.kind,
        name=row.tunnel.name,
        settings=settings_of(row.tunnel.options),
        options=row.tunnel.options,
        payload_bytes=row.payload_bytes,
        effective_bytes=known.median if known else None,
        direction=row.direction.value,
        traffic="tcp",
        figures=figures,
        is_tester_limited=row.figures is not None and row.figures.is_tester_limited,
        remarks=row.doubtful_checks if row.figures else row.reasons[:1],
        cost_within=median([*figures[Figure.COST].values()]) if Figure.COST in figures else None,
    )


def _counting(name: str, row: Row, records: Iterable[TrialRecord]) -> dict[int, TcpMeasurement]:
    """The trials that count of the tunnel of that name, with the row's payload and direction, by round."""
    place = (name, row.payload_bytes, row.direction)
    return {
        record.spec.round: record.tcp
        for record in records
        if record.counts
        and record.tcp is not None
        and (record.spec.tunnel.name, record.spec.payload_bytes, record.spec.direction) == place
    }


def _baseline(row: Row, records: Sequence[TrialRecord]) -> dict[int, TcpMeasurement]:
    name = next((record.spec.tunnel.name for record in records if record.spec.tunnel.is_baseline), None)
    return {} if name is None else _counting(name, row, records)


def _tcp_figures(trial: TcpMeasurement, baseline: TcpMeasurement | None) -> dict[Figure, float | None]:
    """`baseline`: of the same round; None: it does not count there, and nothing tells what the machine did to both."""
    cost = trial.cpu_s_per_million_packets
    plain = baseline.throughput_bps if baseline else None
    plain_cost = baseline.cpu_s_per_million_packets if baseline else None
    return {
        Figure.THROUGHPUT: trial.throughput_bps / 1e6,
        Figure.SHARE: trial.throughput_bps / plain if plain else None,
        Figure.COST: cost,
        Figure.COST_SHARE: cost / plain_cost if cost is not None and plain_cost else None,
    }


COMPARED_TESTS = {
    Test.SEARCH: Figure.PDR,
    Test.LATENCY: Figure.DELAY_P50,
    Test.RATE: Figure.CARRIED,
    Test.ECHO: Figure.CARRIED,
}
"""Tests of UDP that have figures to compare, and which they lack first where they have none."""


def _row_of_udp(row: UdpRow, records: Sequence[TrialRecord]) -> SideRow:
    place = (row.tunnel.name, row.payload_bytes, row.direction, row.test, row.load)
    trials = {
        record.spec.round: record.udp
        for record in records
        if record.counts and record.udp is not None and _place_of(record.spec) == place
    }
    values = {number: _udp_figures(trial, row.test) for number, trial in trials.items()}
    figures = _by_figure(values)
    if row.tunnel.kind == CALIBRATION_KIND:
        figures.pop(Figure.COST, None)  # no router carried anything
    return SideRow(
        kind=row.tunnel.kind,
        name=row.tunnel.name,
        settings=settings_of(row.tunnel.options),
        options=row.tunnel.options,
        payload_bytes=row.payload_bytes,
        effective_bytes=None,
        direction=row.direction.value,
        traffic="udp",
        figures=figures,
        is_tester_limited=row.figures is not None and row.figures.is_tester_limited,
        remarks=row.doubtful_checks if row.figures else row.reasons[:1],
        test=f"{row.test} {row.load}".strip(),
        expected=COMPARED_TESTS[row.test],
    )


def _udp_figures(trial: UdpMeasurement, test: Test) -> dict[Figure, float | None]:
    counts = trial.counts
    delay = counts.delay if counts else None
    # Of a search it would be a mix of many loads.
    cost = trial.cpu_s_per_million_packets if COMPARED_TESTS[test] is Figure.CARRIED else None
    return {
        Figure.NDR: _of_searches(trial, NDR_LOSS_RATIO),
        Figure.PDR: _of_searches(trial, PDR_LOSS_RATIO),
        Figure.CARRIED: counts.forwarding_rate_pps if counts and COMPARED_TESTS[test] is Figure.CARRIED else None,
        Figure.COST: cost,
        Figure.DELAY_P50: delay.p50_ns / 1e3 if delay else None,
        Figure.DELAY_P99: delay.p99_ns / 1e3 if delay else None,
    }


def _by_figure(values: Mapping[int, Mapping[Figure, float | None]]) -> dict[Figure, dict[int, float]]:
    """The figures that a round or more has, each by round."""
    found: dict[Figure, dict[int, float]] = {}
    for figure in Figure:
        known = {number: value for number, own in values.items() if (value := own.get(figure)) is not None}
        if known:
            found[figure] = known
    return found


def _place_of(spec: TrialSpec) -> tuple[str, int, Direction, Test, str]:
    return spec.tunnel.name, spec.payload_bytes, spec.direction, spec.test, spec.load


def _of_searches(trial: UdpMeasurement, loss_ratio: float) -> float | None:
    """The median of a trial's searches: they went through one and the same tunnel, and are one repeat [packets/s]."""
    found = lower_bounds(trial.searches, loss_ratio)
    return median(found) if found else None


def _versions(records: Iterable[TrialRecord]) -> Mapping[str, str]:
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for key, version in (record.proof.versions if record.proof else {}).items():
            end, _, program = key.partition(".")
            found.setdefault(f"{program} ({end})", {})[version] = None
    return {key: ", ".join(versions) for key, versions in found.items()}


def _flat(name: str, text: str) -> Mapping[str, str]:
    """A plan or testbed file by key; its tunnels are compared row by row instead."""
    try:
        return dict(_leaves(name, {key: value for key, value in tomllib.loads(text).items() if key != "tunnel"}))
    except tomllib.TOMLDecodeError:
        return {name: "not readable"}


def _leaves(name: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}: {key}" if ":" not in name else f"{name}.{key}", inner)
    elif name != "plan: title":
        yield name, str(value)
