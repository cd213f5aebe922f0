"""A run or a reference in one shape."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import Row, summarise
from tunnelbench.analysis.udp import UdpRow, lower_bounds, summarise_udp
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, Test, TrialSpec
from tunnelbench.model.reference import Comparability, Reference
from tunnelbench.model.result import RunRecord, TcpMeasurement, TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO
from tunnelbench.model.udp import UdpMeasurement


class Figure(StrEnum):
    """What is compared."""

    THROUGHPUT = "Mbit/s"
    PACKETS = "packets/s"
    COST = "CPU s/Mpackets"
    NDR = "NDR packets/s"
    PDR = "PDR packets/s"
    CARRIED = "carried packets/s"
    """Of UDP: what came through at a load."""
    DELAY_P50 = "delay p50 us"
    DELAY_P99 = "delay p99 us"

    @property
    def is_better_when_high(self) -> bool:
        return self is not Figure.COST and not self.is_delay

    @property
    def is_delay(self) -> bool:
        return self in {Figure.DELAY_P50, Figure.DELAY_P99}

    @property
    def is_rate(self) -> bool:
        """Whether a tester that is the limit makes it the tester's own."""
        return self in {Figure.THROUGHPUT, Figure.NDR, Figure.PDR, Figure.CARRIED}


@dataclass(frozen=True)
class SideRow:
    """All repeats of one tunnel with one payload in one direction."""

    kind: str
    name: str
    settings: Mapping[str, str]
    """`cipher`, `digest`, `transport` as far as they are known, in lower case."""
    options: Mapping[str, Any]
    """Every option of a run's tunnel."""
    payload_bytes: int | None
    """As asked for; None: not stated."""
    effective_bytes: float | None
    """What a full segment carried; None: not known."""
    direction: str
    """`in`, `out`, `both`; empty: not stated."""
    traffic: str
    """`tcp`, `udp`; empty: not stated."""
    figures: Mapping[Figure, tuple[float, ...]]
    """One value a trial that counts, in the figure's unit."""
    is_tester_limited: bool = False
    remarks: tuple[str, ...] = ()
    test: str = ""
    """Of UDP: which test at which load, such as `search` or `latency 50%`; else empty."""
    expected: Figure = Figure.THROUGHPUT
    """What it lacks where it has no figure."""

    @property
    def place(self) -> tuple[int | None, str, str]:
        return self.payload_bytes, self.direction, self.test


@dataclass(frozen=True)
class Side:
    """One of the two results."""

    name: str
    title: str
    rows: tuple[SideRow, ...]
    facts: Mapping[str, str]
    """What it was taken on and with."""
    testers: tuple[SideRow, ...] = ()
    """What the testers did back to back."""
    comparability: Comparability | None = None
    """Of a reference; None: a run."""
    remarks: tuple[str, ...] = field(default_factory=tuple)


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
    key = (row.tunnel.name, row.payload_bytes, row.direction)
    trials: list[TcpMeasurement] = [
        record.tcp
        for record in records
        if record.counts
        and record.tcp is not None
        and (record.spec.tunnel.name, record.spec.payload_bytes, record.spec.direction) == key
    ]
    figures = {Figure.THROUGHPUT: tuple(trial.throughput_bps / 1e6 for trial in trials)}
    costs = [trial.cpu_s_per_million_packets for trial in trials]
    if row.tunnel.kind != CALIBRATION_KIND:
        figures[Figure.COST] = tuple(cost for cost in costs if cost is not None)
    known = row.figures.payload_bytes if row.figures else None
    return SideRow(
        kind=row.tunnel.kind,
        name=row.tunnel.name,
        settings=_settings(row.tunnel.options),
        options=row.tunnel.options,
        payload_bytes=row.payload_bytes,
        effective_bytes=known.median if known else None,
        direction=row.direction.value,
        traffic="tcp",
        figures={figure: values for figure, values in figures.items() if values},
        is_tester_limited=row.figures is not None and row.figures.is_tester_limited,
        remarks=row.doubtful_checks if row.figures else row.reasons[:1],
    )


COMPARED_TESTS = {
    Test.SEARCH: Figure.PDR,
    Test.LATENCY: Figure.DELAY_P50,
    Test.RATE: Figure.CARRIED,
    Test.ECHO: Figure.CARRIED,
}
"""Tests of UDP that have figures to compare, and which they lack first where they have none."""


def _row_of_udp(row: UdpRow, records: Sequence[TrialRecord]) -> SideRow:
    place = (row.tunnel.name, row.payload_bytes, row.direction, row.test, row.load)
    trials = [
        record.udp for record in records if record.counts and record.udp is not None and _place_of(record.spec) == place
    ]
    values: dict[Figure, list[float | None]] = {
        Figure.NDR: [_of_searches(trial, NDR_LOSS_RATIO) for trial in trials],
        Figure.PDR: [_of_searches(trial, PDR_LOSS_RATIO) for trial in trials],
    }
    if COMPARED_TESTS[row.test] is Figure.CARRIED:
        values[Figure.CARRIED] = [trial.counts.forwarding_rate_pps for trial in trials if trial.counts]
    delays = [trial.counts.delay for trial in trials if trial.counts and trial.counts.delay]
    values[Figure.DELAY_P50] = [delay.p50_ns / 1e3 for delay in delays]
    values[Figure.DELAY_P99] = [delay.p99_ns / 1e3 for delay in delays]
    known = {figure: tuple(value for value in own if value is not None) for figure, own in values.items()}
    return SideRow(
        kind=row.tunnel.kind,
        name=row.tunnel.name,
        settings=_settings(row.tunnel.options),
        options=row.tunnel.options,
        payload_bytes=row.payload_bytes,
        effective_bytes=None,
        direction=row.direction.value,
        traffic="udp",
        figures={figure: own for figure, own in known.items() if own},
        is_tester_limited=row.figures is not None and row.figures.is_tester_limited,
        remarks=row.doubtful_checks if row.figures else row.reasons[:1],
        test=f"{row.test} {row.load}".strip(),
        expected=COMPARED_TESTS[row.test],
    )


def _place_of(spec: TrialSpec) -> tuple[str, int, Direction, Test, str]:
    return spec.tunnel.name, spec.payload_bytes, spec.direction, spec.test, spec.load


def _of_searches(trial: UdpMeasurement, loss_ratio: float) -> float | None:
    """The median of a trial's searches: they went through one and the same tunnel, and are one repeat [packets/s]."""
    found = lower_bounds(trial.searches, loss_ratio)
    return median(found) if found else None


def side_of_reference(reference: Reference) -> Side:
    """A reference; each of its figures counts as one trial."""
    devices = {row.get("device", "") for row in reference.rows}
    cells = reference.rows if len(devices) > 1 else [{**row, "device": ""} for row in reference.rows]
    rows = [row for each in cells if (row := _row_of_reference(each)) is not None]
    return Side(
        name=reference.name,
        title=f"{reference.title} ({reference.source}, {reference.date})",
        rows=tuple(rows),
        facts={
            "date": reference.date,
            **{fact: said for fact, column in _FACTS.items() if (said := _all(reference, column))},
            **_published_versions(reference),
        },
        comparability=reference.comparability,
    )


_FACTS = {"board": "device", "cpu_model": "cpu", "system": "system", "traffic": "traffic"}
"""Facts of a machine by the column of a reference that tells them."""


def _row_of_reference(cells: Mapping[str, str]) -> SideRow | None:
    """A row with a throughput or a packet rate; None: it has neither."""
    figures = {}
    for figure, column in ((Figure.THROUGHPUT, "throughput_mbps"), (Figure.PACKETS, "packets_per_s")):
        if cells.get(column) and Figure.THROUGHPUT not in figures:
            figures[figure] = (float(cells[column]),)
    if not figures:
        return None
    payload = cells.get("payload_bytes", "")
    words = cells.get("traffic", "").lower().split()
    names = (cells.get("tunnel", ""), cells.get("cipher", ""), cells.get("auth", ""))
    return SideRow(
        kind=cells.get("tunnel", ""),
        name=" ".join(filter(None, names)),
        settings=_settings(cells),
        options={},
        payload_bytes=int(payload) if payload else None,
        effective_bytes=float(payload) if payload else None,
        direction=cells.get("direction", ""),
        traffic=next((word for word in words if word in {"tcp", "udp"}), ""),
        figures=figures,
        remarks=tuple(filter(None, (cells.get("device", ""), cells.get("comment", "")))),
    )


def _settings(options: Mapping[str, Any]) -> Mapping[str, str]:
    said = {
        "cipher": options.get("cipher"),
        "digest": options.get("digest") or options.get("auth"),
        "transport": options.get("transport"),
    }
    known = {name: str(value).lower().replace("sha-", "sha") for name, value in said.items() if value}
    if known.get("cipher", "").endswith(("-gcm", "-poly1305")):
        known.pop("digest", None)  # the cipher authenticates
    return known


def _versions(records: Iterable[TrialRecord]) -> Mapping[str, str]:
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for key, version in (record.proof.versions if record.proof else {}).items():
            end, _, program = key.partition(".")
            found.setdefault(f"{program} ({end})", {})[version] = None
    return {key: ", ".join(versions) for key, versions in found.items()}


def _published_versions(reference: Reference) -> Mapping[str, str]:
    found: dict[str, dict[str, None]] = {}
    for row in reference.rows:
        for end in ("router", "server"):
            for said in filter(None, row.get(f"version_{end}", "").split("; ")):
                program, _, version = said.partition(" ")
                found.setdefault(f"{program.lower()} ({end})", {})[version] = None
    return {key: ", ".join(versions) for key, versions in found.items()}


def _all(reference: Reference, column: str) -> str:
    said = dict.fromkeys(row[column] for row in reference.rows if row.get(column))
    return ", ".join(said) if len(said) < 4 else f"{len(said)} different ones"


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
