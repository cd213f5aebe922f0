"""A run as a side of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tunnelbench.analysis.compare.sides import ComparedFigure, Side, SideRow, settings_of, versions_by_program
from tunnelbench.analysis.connections import ConnectionRow, summarise_connections
from tunnelbench.analysis.packet_instructions import (
    PacketInstructions,
    are_apart,
    paced_rate_pps,
    packet_instructions,
)
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import Row, RowKey, is_tester_limited, summarise, trials_by_row
from tunnelbench.analysis.udp import UdpRow, summarise_udp
from tunnelbench.model.counters import Window
from tunnelbench.model.plan import FLAT_OUT, Direction, Test, paced_text
from tunnelbench.model.result import FULL_CPU_SHARE, SIMULATED, RunRecord, TcpMeasurement, TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO
from tunnelbench.model.text import are, counted
from tunnelbench.model.toml_text import toml_values
from tunnelbench.model.udp import UdpMeasurement

MOMENTARY = frozenset({"cpu_mhz"})
"""Facts of a machine that change from moment to moment, so that they are not compared."""

COMPARED_TESTS = {
    Test.SEARCH: ComparedFigure.PDR,
    Test.ECHO_SEARCH: ComparedFigure.PDR,
    Test.LATENCY: ComparedFigure.DELAY_P50,
    Test.RATE: ComparedFigure.CARRIED,
    Test.ECHO: ComparedFigure.CARRIED,
    Test.REKEY: ComparedFigure.GAP,
    Test.HANDSHAKE: ComparedFigure.GAP,
    Test.CONNECT: ComparedFigure.CONNECTIONS,
    Test.CONCURRENT: ComparedFigure.OPEN,
}
"""Tests of the packet engine that are compared, each with the figure that is reported as missing if there is none."""

Values = Mapping[ComparedFigure, float | None]

Place = tuple[str, int, Direction]
"""Name of the tunnel, payload [bytes] and direction."""


def side_of_run(run: RunRecord, records: Sequence[TrialRecord]) -> Side:
    """Return a run as a side; a row without a trial that counts has no figures."""
    by_row = trials_by_row(record for record in records if record.counts)
    udp_rows = summarise_udp(records)
    engine_rows: list[UdpRow | ConnectionRow] = [*udp_rows, *summarise_connections(records)]
    baselines: dict[tuple[Any, ...], Sequence[TrialRecord]] = {}
    for key, own in by_row.items():
        if own[0].spec.tunnel.is_baseline:
            baselines.setdefault(key[1:], own)
    work_rows = _work_rows(records, udp_rows, by_row)
    rows = [
        *(_tcp_row(row, by_row, baselines.get(row.key[1:], ())) for row in summarise(records)),
        *((row, False) for row in work_rows.values()),
        *(_engine_row(row, by_row, work_rows.get(_place(row))) for row in engine_rows if row.test in COMPARED_TESTS),
    ]
    missing = run.trials_planned - len(records)
    tests = [row.test for row in udp_rows] + [record.spec.test for record in records]
    not_compared = dict.fromkeys(test.value for test in tests if test not in COMPARED_TESTS and test is not Test.TCP)
    return Side(
        name=run.run_id,
        title=f"run {run.run_id} ({run.plan_title or run.plan_name})",
        rows=tuple(row for row, is_calibration in rows if not is_calibration),
        testers=tuple(row for row, is_calibration in rows if is_calibration),
        facts={
            "date": run.started_at[:10],
            "TunnelBench": run.tunnelbench_version,
            "testbed": run.testbed_name,
            **({SIMULATED: "yes"} if run.is_simulated else {}),
            **{name: str(value) for name, value in run.host_facts.items() if name not in MOMENTARY},
            **_versions(records),
            "plan": run.plan_name,
            **_flat("plan", run.plan_text),
            **_flat("testbed", run.testbed_text),
        },
        remarks=(
            *(
                [f"{missing} of its {counted(run.trials_planned, 'trial')} {are(missing)} missing"]
                if missing > 0
                else []
            ),
            *([f"these tests are not compared: {', '.join(not_compared)}"] if not_compared else []),
        ),
    )


def _tcp_row(
    row: Row, by_row: Mapping[RowKey, Sequence[TrialRecord]], plain: Sequence[TrialRecord]
) -> tuple[SideRow, bool]:
    """Return a TCP row as a row of a side, and True if it is a calibration; `plain` are the baseline's trials of that
    test."""
    baseline = {} if row.tunnel.is_baseline else {record.spec.round: record for record in plain}
    own = {record.spec.round: record.tcp for record in by_row.get(row.key, []) if record.tcp is not None}
    trials = [*own.values()]
    figures = _by_figure({number: _tcp_values(trial, baseline.get(number)) for number, trial in own.items()})
    if row.is_calibration:  # no router forwarded the packets, and no cable limited them
        figures = {figure: each for figure, each in figures.items() if figure is ComparedFigure.THROUGHPUT}
    known = row.figures.payload_bytes if row.figures else None
    return SideRow(
        **_row_facts(row),
        effective_bytes=known.median if known else None,
        traffic="tcp",
        figures=figures,
        test=paced_text(row.load),
        cost_within=median([*figures[ComparedFigure.COST].values()]) if ComparedFigure.COST in figures else None,
        segment_instructions=None if row.is_calibration else _segment_instructions(trials),
        clock_lost_share=_clock_lost_share([trial.window for trial in trials]),
        has_fixed_speed=ComparedFigure.INSTRUCTIONS in figures,
        is_router_full=_is_router_full(trial.window for trial in trials),
        is_paced=bool(row.load),
    ), row.is_calibration


def _segment_instructions(trials: Sequence[TcpMeasurement]) -> float | None:
    known = [
        trial.window.router_instructions / trial.window.data_packets
        for trial in trials
        if trial.window.router_instructions is not None and trial.window.data_packets
    ]
    return median(known) if known else None


def _clock_lost_share(windows: Iterable[Window | None]) -> float | None:
    return max(
        (
            window.router_clock_lost_s / window.duration_s
            for window in windows
            if window is not None and window.router_clock_lost_s is not None and window.duration_s > 0
        ),
        default=None,
    )


def _is_router_full(windows: Iterable[Window | None]) -> bool:
    """Return True if a router of fixed speed was busy for all of the time on its own clock: median of the windows."""
    shares = [share for window in windows if window is not None and (share := window.router_own_share) is not None]
    return bool(shares) and median(shares) >= FULL_CPU_SHARE


def _engine_row(
    row: UdpRow | ConnectionRow, by_row: Mapping[RowKey, Sequence[TrialRecord]], work_row: SideRow | None
) -> tuple[SideRow, bool]:
    """Return a row of the packet engine as a row of a side, and True if it is a calibration.

    If the router's instructions without idle work are known from this and another rate, `work_row` has them, and the
    row has none: idle work hides a part of a difference.
    """
    figures = _by_figure(
        {
            record.spec.round: _engine_values(record.udp, row.test)
            for record in by_row.get(row.key, [])
            if record.udp is not None
        }
    )
    if row.is_calibration:
        for figure in (ComparedFigure.COST, ComparedFigure.INSTRUCTIONS):  # no router forwarded the packets
            figures.pop(figure, None)
    has_fixed_speed = ComparedFigure.INSTRUCTIONS in figures
    if work_row and work_row.figures and paced_rate_pps(row.test, row.payload_bytes, row.load) is not None:
        figures.pop(ComparedFigure.INSTRUCTIONS, None)
    windows = [record.udp.window for record in by_row.get(row.key, []) if record.udp is not None]
    return SideRow(
        **_row_facts(row),
        effective_bytes=None,
        traffic="tcp" if row.test.is_of_connections else "udp",
        figures=figures,
        test=f"{row.test} {row.load}".strip(),
        expected=COMPARED_TESTS[row.test],
        clock_lost_share=_clock_lost_share(windows),
        has_fixed_speed=has_fixed_speed,
        is_router_full=_is_router_full(windows),
        is_paced=row.load not in {"", FLAT_OUT},
    ), row.is_calibration


def _place(row: UdpRow | ConnectionRow) -> Place:
    return row.tunnel.name, row.payload_bytes, row.direction


def _work_rows(
    records: Sequence[TrialRecord], rows: Iterable[UdpRow], by_row: Mapping[RowKey, Sequence[TrialRecord]]
) -> Mapping[Place, SideRow]:
    """Return the rows with the instructions of a packet without idle work; none if the router has no fixed speed."""
    work = {(each.tunnel.name, each.direction): each for each in packet_instructions(records)}
    if not work:
        return {}
    by_place: dict[Place, dict[float, UdpRow]] = {}
    for row in rows:
        rate_pps = paced_rate_pps(row.test, row.payload_bytes, row.load)
        if rate_pps is not None and not row.is_calibration:
            by_place.setdefault(_place(row), {})[rate_pps] = row
    return {
        place: _work_row([of[pps] for pps in sorted(of)], work.get((place[0], place[2])), by_row)
        for place, of in by_place.items()
        if are_apart(of)
    }


def _work_row(
    rows: Sequence[UdpRow], work: PacketInstructions | None, by_row: Mapping[RowKey, Sequence[TrialRecord]]
) -> SideRow:
    """Return the row with the instructions of a packet without idle work; `rows` has all rates, the lowest first.

    It also exists without a figure, so that a comparison shows that the figure is missing.
    """
    lowest, highest = rows[0], rows[-1]
    values = work.by_round.get(lowest.payload_bytes, {}) if work else {}
    if values:
        remarks = [name for row in rows for name in row.doubtful_checks]
    else:
        remarks = [reason for row in rows for reason in row.reasons][:1]
        if not remarks and work and work.left_out_trials:
            remarks = ["packets were lost or waited, so that the instructions of a packet are unknown"]
    facts = {**_row_facts(lowest), "is_tester_limited": False, "remarks": tuple(dict.fromkeys(remarks))}
    trials = [record.udp for row in rows for record in by_row.get(row.key, []) if record.udp is not None]
    return SideRow(
        **facts,
        effective_bytes=None,
        traffic="udp",
        figures={ComparedFigure.WORK: values} if values else {},
        test=f"{Test.RATE} {lowest.load}-{highest.load}",
        expected=ComparedFigure.WORK,
        clock_lost_share=_clock_lost_share([trial.window for trial in trials]),
        has_fixed_speed=True,
        is_paced=True,
    )


def _row_facts(row: Row | UdpRow | ConnectionRow) -> dict[str, Any]:
    return {
        "kind": row.tunnel.kind,
        "name": row.tunnel.name,
        "settings": settings_of(row.tunnel.options),
        "options": row.tunnel.options,
        "payload_bytes": row.payload_bytes,
        "direction": row.direction.value,
        "is_tester_limited": row.figures is not None and row.figures.is_tester_limited,
        "remarks": row.doubtful_checks if row.figures else row.reasons[:1],
    }


def _tcp_values(trial: TcpMeasurement, baseline: TrialRecord | None) -> Values:
    """Return the figures of a trial.

    `baseline` is the baseline trial of the same round; None: it does not count, so there are no relative figures. If
    the testers limited it, its throughput is theirs, and a share of it would fall with faster testers.
    """
    cost = trial.cpu_s_per_million_packets
    other = baseline.tcp if baseline else None
    plain = other.throughput_bps if baseline and other and not is_tester_limited([baseline]) else None
    plain_cost = other.cpu_s_per_million_packets if other else None
    return {
        ComparedFigure.THROUGHPUT: trial.throughput_bps / 1e6,
        ComparedFigure.SHARE: trial.throughput_bps / plain if plain else None,
        ComparedFigure.COST: cost,
        ComparedFigure.COST_SHARE: cost / plain_cost if cost is not None and plain_cost else None,
        ComparedFigure.INSTRUCTIONS: trial.window.instructions_per_packet,
    }


def _engine_values(trial: UdpMeasurement, test: Test) -> Values:
    counts, handshakes, opened = trial.counts, trial.handshakes, trial.connections
    delay = counts.delay if counts and not test.is_of_gaps else None
    is_one_load = COMPARED_TESTS[test] is ComparedFigure.CARRIED  # a search mixes the costs of many loads
    return {
        ComparedFigure.NDR: trial.lower_bound_pps(NDR_LOSS_RATIO),
        ComparedFigure.PDR: trial.lower_bound_pps(PDR_LOSS_RATIO),
        ComparedFigure.CARRIED: counts.forwarding_rate_pps if counts and is_one_load else None,
        ComparedFigure.COST: trial.cpu_s_per_million_packets if is_one_load else None,
        ComparedFigure.INSTRUCTIONS: trial.window.instructions_per_packet if is_one_load and trial.window else None,
        ComparedFigure.DELAY_P50: delay.p50_ns / 1e3 if delay else None,
        ComparedFigure.DELAY_P99: delay.p99_ns / 1e3 if delay else None,
        ComparedFigure.GAP: counts.longest_gap_s * 1e3
        if counts and counts.longest_gap_s is not None and test.is_of_gaps
        else None,
        ComparedFigure.HANDSHAKES: handshakes.per_s if handshakes else None,
        ComparedFigure.SETUP: handshakes.setup_p50_s * 1e3
        if handshakes and handshakes.setup_p50_s is not None
        else None,
        ComparedFigure.CONNECTIONS: opened.established_per_s if opened and test is Test.CONNECT else None,
        ComparedFigure.OPEN: float(opened.open_max) if opened and test is Test.CONCURRENT else None,
    }


def _by_figure(values: Mapping[int, Values]) -> dict[ComparedFigure, dict[int, float]]:
    """Return for each figure its value in each round; figures without a value are left out."""
    found: dict[ComparedFigure, dict[int, float]] = {}
    for figure in ComparedFigure:
        known = {number: value for number, own in values.items() if (value := own.get(figure)) is not None}
        if known:
            found[figure] = known
    return found


def _versions(records: Iterable[TrialRecord]) -> Mapping[str, str]:
    stated = (
        (program, end, version)
        for record in records
        for key, version in (record.proof.versions if record.proof else {}).items()
        for end, _, program in (key.partition("."),)
    )
    return versions_by_program(stated)


def _flat(name: str, text: str) -> Mapping[str, str]:
    """Return a plan or testbed file by key, without its tunnels, which are compared row by row."""
    try:
        return dict(_leaves(name, {key: value for key, value in toml_values(text).items() if key != "tunnel"}))
    except ValueError:
        return {name: "not readable"}


def _leaves(name: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}: {key}" if ":" not in name else f"{name}.{key}", inner)
    elif name != "plan: title":
        yield name, str(value)
