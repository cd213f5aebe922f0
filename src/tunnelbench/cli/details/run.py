"""A run: every trial with each check and each figure, what its tunnel was, and what the programs printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tunnelbench.analysis.soak import in_words
from tunnelbench.analysis.summary import trial_class
from tunnelbench.cli.chart import chart
from tunnelbench.cli.drawing import cell, columns, drawn, facts, heading, title, verbatim, word
from tunnelbench.cli.output import emit, emit_json
from tunnelbench.cli.soaks import down_sampled, soak_reports
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import Test
from tunnelbench.model.result import Check, Interval, RunRecord, TcpMeasurement, TrialRecord
from tunnelbench.model.search import SearchPoint
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report import render
from tunnelbench.report.document import SoakReport, compose
from tunnelbench.report.formats.json import DERIVED, GOALS, derived_of_udp, plain
from tunnelbench.report.soak_annex import memory_text
from tunnelbench.report.table import version_lines
from tunnelbench.store import Store


def show(store: Store, reference: str, trial: int | None, *, as_json: bool) -> None:
    """Write a run of the store, or one of its trials; WrongInput where there is none."""
    run = store.run(reference)
    records = store.trials(run.run_id, with_raw=as_json or trial is not None)
    soaks = {report.soak.spec.sequence: report for report in soak_reports(store, run.run_id)}
    if trial is None:
        every = list(soaks.values())
        text = (
            render(run, records, "json", soaks=every)
            if as_json
            else "".join((*run_text(run, records), *map(soak_text, every)))
        )
        emit(text)
        return
    if trial in soaks:
        has_record = any(record.spec.sequence == trial for record in records)
        if not as_json:
            emit("".join((drawn(title(f"Run {run.run_id}")), soak_text(soaks[trial]))))
        elif not has_record:
            emit_json(json.loads(render(run, (), "json", soaks=[soaks[trial]]))["soaks"][0])
        if not has_record:
            return
    record = next((record for record in records if record.spec.sequence == trial), None)
    if record is None:
        numbers = [record.spec.sequence for record in records] + list(soaks)
        known = f"its trials are {min(numbers)} to {max(numbers)}" if numbers else "it has none"
        raise WrongInput(f"run {run.run_id} has no trial {trial}", known)
    if as_json:
        emit_json(json.loads(render(run, [record], "json"))["trials"][0])
    else:
        emit("".join((drawn(title(f"Run {run.run_id}")), *blocks_text([record]), *raw_text(record))))


def run_text(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[str]:
    """The run's facts, then its trials."""
    document = compose(run, records)
    yield drawn(title(document.title), facts(document.facts), *(cell(f"Note: {note}") for note in run.notes))
    yield drawn(heading("Machine"), facts([(name, str(value)) for name, value in run.host_facts.items()]))
    yield drawn(heading("Plan")) + verbatim(run.plan_text)
    yield drawn(heading("Testbed")) + verbatim(run.testbed_text)
    yield from blocks_text(records)


def soak_text(report: SoakReport) -> str:
    """A soak: its chart over time, its figures, its parts."""
    summary = report.summary
    figures = {name: value for name, value in plain(summary).items() if not isinstance(value, list | dict)}
    parts = [
        (
            f"part {part.number}",
            f"{part.started_at} to {part.ended_at or 'an end that nobody noted'} {part.ended}".strip(),
        )
        for part in report.soak.parts
    ]
    memory = [("", memory_text(trend)) for trend in summary.memory]
    happened = [*summary.restart_list, *summary.rekey_list]
    events = [(f"{each.at_s:.0f} s", each.text) for each in sorted(happened, key=lambda each: each.at_s)]
    gaps = [(f"{gap.at_s:.0f} s", f"gap of {gap.duration_s:.1f} s: nobody measured") for gap in summary.gap_list]
    lines = "\n".join(f"  {line}" for line in chart(down_sampled(report)))
    return drawn(
        heading(f"Soak, trial {summary.spec.sequence}: {summary.spec.tunnel.name}, {summary.spec.what}"),
        Text(lines),
        facts([("soak", in_words(summary)), ("figures", pairs(figures)), *parts, *gaps, *events, *memory]),
    )


def blocks_text(records: Sequence[TrialRecord]) -> Iterator[str]:
    """The trials, those of one tunnel in one round together; a configuration is written where it is new."""
    seen: set[tuple[str, str]] = set()
    for (number, name), group in groupby(records, key=lambda record: (record.spec.round, record.spec.tunnel.name)):
        block = list(group)
        yield drawn(heading(f"Round {number}: {name}" if number else f"Before the rounds: {name}"))
        yield drawn(facts(tunnel_facts(block[0])))
        if proof := block[0].proof:
            yield drawn(check_columns(proof.checks))
            fresh = [item for item in proof.configuration.items() if item not in seen]
            seen.update(fresh)
            for file, text in fresh:
                yield drawn(Text(f"  {file}", style="dim")) + verbatim(text, 4)
        for record in block:
            yield drawn(*trial_picture(record))


def tunnel_facts(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """What a trial went through."""
    tunnel, proof = record.spec.tunnel, record.proof
    yield "Kind", tunnel.kind
    if tunnel.options:
        yield "Options", pairs(tunnel.options)
    if proof:
        yield "Versions", ", ".join(version_lines(proof.versions)) or "not known"
        yield "MTU", f"{proof.inner_mtu_bytes} bytes" if proof.inner_mtu_bytes else "not known"


def trial_picture(record: TrialRecord) -> Iterator[RenderableType]:
    """One trial: its class, its checks and its figures."""
    spec, tcp, udp = record.spec, record.tcp, record.udp
    yield Text.assemble(
        (f"\nTrial {spec.sequence}", "bold"),
        f": {spec.payload_bytes} bytes {spec.direction}, " if tcp or spec.test is Test.TCP else f": {spec.what}, ",
        f"{tcp.throughput_bps / 1e6:.4g} Mbit/s, " if tcp else "",
        word(trial_class(record)),
    )
    yield facts([("started", record.started_at), ("ended", record.ended_at)])
    if record.reason:
        yield facts([("reason", record.reason)])
    if record.checks:
        yield check_columns(record.checks)
    if tcp:
        yield facts(figures(tcp))
    if udp:
        yield facts(udp_figures(udp))
        yield Text("\n".join(f"  {line}" for line in chart(udp.counts.intervals if udp.counts else ())))


def udp_figures(udp: UdpMeasurement) -> Iterator[tuple[str, str]]:
    """Every figure; each search with its bounds and its trials in the order in which they were made."""
    derived = derived_of_udp(udp)
    own = {name: value for name, value in derived.items() if not isinstance(value, list)}
    yield "derived", pairs(own)
    for number, (run, found) in enumerate(zip(udp.searches, derived["searches"], strict=True), start=1):
        bounds = {f"{goal}_{key}": value for goal in GOALS for key, value in found[goal].items()}
        yield f"search {number}", pairs({"trial_s": run.trial_s, "is_complete": run.is_complete, **bounds})
        yield "", "; ".join(map(point_text, run.points))
    if udp.points:
        yield "loss curve", "; ".join(map(point_text, udp.points))
    if udp.bursts:
        yield "bursts", "; ".join(f"{burst.received_packets} of {burst.packets}" for burst in udp.bursts)
    shown = {key: value for key, value in plain(udp).items() if key not in ("searches", "points", "bursts")}
    if shown["counts"]:
        del shown["counts"]["intervals"]
    yield from below("measured", shown)


def point_text(point: SearchPoint) -> str:
    """One trial of a search."""
    doubt = " repeated" if point.is_repeated else " void" if point.is_void else ""
    return f"{point.intended_pps:.0f}/s {point.duration_s:g} s {point.lost_packets} lost{doubt}"


def check_columns(checks: Sequence[Check]) -> RenderableType:
    """Checks, the ok ones too."""
    return columns([(word(check.verdict), check.name, f"{check.reason} (rule {check.rule})") for check in checks])


def figures(tcp: TcpMeasurement) -> Iterator[tuple[str, str]]:
    """Every figure, by the object that it is in; names and units as in the model."""
    yield "derived", pairs({name: getattr(tcp, name) for name in DERIVED})
    yield from below("measured", {key: value for key, value in plain(tcp).items() if key != "intervals"})
    if tcp.intervals:
        yield "intervals", "; ".join(map(interval_text, tcp.intervals))


def below(label: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """An object's own figures, then those of the objects in it."""
    inner = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    several = {key: value for key, value in values.items() if isinstance(value, list) and any(map(is_object, value))}
    yield label, pairs({key: value for key, value in values.items() if key not in inner | several}) or "-"
    for key, value in inner.items():
        yield from below(key, value)
    for key, each_value in several.items():
        for each in each_value:
            yield from below(key, each)


def is_object(value: Any) -> bool:
    """Whether it has figures of its own."""
    return isinstance(value, Mapping)


def interval_text(interval: Interval) -> str:
    """One reading of the series."""
    again = "" if interval.retransmits is None else f", {interval.retransmits} retransmits"
    return f"{number(interval.start_s)} to {number(interval.end_s)} s {interval.bytes} bytes{again}"


def pairs(values: Mapping[str, Any]) -> str:
    """`key=value` for each, without a blank inside, so that it is not parted at the end of a line."""
    return " ".join(f"{key}={number(value)}" for key, value in values.items())


def number(value: Any) -> str:
    """A figure in full, but for what a floating-point number has beyond the millionth; `-` where there is none."""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, list):
        return ",".join(map(number, value))
    return "-" if value in (None, "") else str(value)


def raw_text(record: TrialRecord) -> Iterator[str]:
    """What the programs printed: while the tunnel was proven, then in the trial."""
    for source in (record.proof.raw if record.proof else {}, record.raw):
        for name, output in source.items():
            text = output if isinstance(output, str) else json.dumps(output, indent=2)
            yield drawn(heading(name)) + verbatim(text)
