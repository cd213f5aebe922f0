"""Show a run: every trial with its tunnel, checks and figures, and the output of the programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tunnelbench.analysis.soak import in_words
from tunnelbench.analysis.summary import trial_class
from tunnelbench.cli.common_options import emit, emit_json
from tunnelbench.cli.layout import cell, columns, drawn, facts, heading, title, verbatim, word
from tunnelbench.cli.soak_reports import down_sampled, soak_reports
from tunnelbench.cli.text_chart import chart
from tunnelbench.host.command import LINE_LIMIT
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.json_types import plain
from tunnelbench.model.plan import Test
from tunnelbench.model.result import Check, Interval, RunRecord, TcpMeasurement, TrialRecord, Verdict
from tunnelbench.model.search import SearchPoint
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.document import SoakReport, compose
from tunnelbench.report.formats.json import GOALS, derived_figures
from tunnelbench.report.render import render
from tunnelbench.report.soak_section import memory_text
from tunnelbench.report.table import version_lines
from tunnelbench.report.text import INDENT, one_line
from tunnelbench.store.store import Store

MOST_SHOWN_TRIALS = 200
"""Largest number of trials that are shown without being asked for."""


def show(store: Store, reference: str, trial: int | None, *, as_json: bool) -> None:
    """Write a run of the store, or one of its trials. Raises WrongInput if there is none."""
    run = store.run(reference)
    records = store.trials(run.run_id, with_raw=as_json and trial is None)
    if trial is not None or not as_json:
        failed = [record.spec.sequence for record in shown_trials(records) if record.has_failed]
        whole = store.trials(run.run_id, only=failed if trial is None else [trial])
        records = [*({record.spec.sequence: record for record in (*records, *whole)}).values()]
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
        emit("".join((drawn(title(f"Run {run.run_id}")), *blocks_text([record], with_logs=False), *raw_text(record))))


def run_text(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield the text of a run: first its facts, then its trials."""
    document = compose(run, records)
    yield drawn(title(document.title), facts(document.facts), *(cell(f"Note: {note}") for note in run.notes))
    yield drawn(heading("Machine"), facts([(name, str(value)) for name, value in run.host_facts.items()]))
    yield drawn(heading("Plan")) + verbatim(run.plan_text)
    yield drawn(heading("Testbed")) + verbatim(run.testbed_text)
    yield from blocks_text(shown_trials(records), with_logs=True)
    if len(records) > MOST_SHOWN_TRIALS:
        failed = sum(record.verdict is not Verdict.OK for record in records)
        yield (
            f"\nShown are {MOST_SHOWN_TRIALS} of {len(records)} trials, those with a finding first; {failed} have one."
            f" `--trial N` shows any trial, and `--json` has all.\n"
        )


def shown_trials(records: Sequence[TrialRecord]) -> Sequence[TrialRecord]:
    """Return at most `MOST_SHOWN_TRIALS` trials in their order; those with the gravest verdicts are chosen first."""
    if len(records) <= MOST_SHOWN_TRIALS:
        return records
    chosen = sorted(records, key=lambda record: (-record.verdict.severity, record.spec.sequence))[:MOST_SHOWN_TRIALS]
    return sorted(chosen, key=lambda record: record.spec.sequence)


def soak_text(report: SoakReport) -> str:
    """Yield the text of a soak: its chart over time, its figures, its parts."""
    summary = report.summary
    figures = {name: value for name, value in plain(summary).items() if not isinstance(value, list | dict)}
    parts = [
        (
            f"part {part.number}",
            f"{part.started_at} to {part.ended_at or 'an unknown end'} {part.ended}".strip(),
        )
        for part in report.soak.parts
    ]
    memory = [("", memory_text(trend)) for trend in summary.memory]
    happened = [*summary.restart_list, *summary.rekey_list]
    events = [(f"{each.at_s:.0f} s", each.text) for each in sorted(happened, key=lambda each: each.at_s)]
    gaps = [(f"{gap.at_s:.0f} s", f"gap of {gap.duration_s:.1f} s: nothing was measured") for gap in summary.gap_list]
    lines = "\n".join(f"  {line}" for line in chart(down_sampled(report)))
    return drawn(
        heading(f"Soak, trial {summary.spec.sequence}: {summary.spec.tunnel.name}, {summary.spec.what}"),
        Text(lines),
        facts([("soak", in_words(summary)), ("figures", pairs(figures)), *parts, *gaps, *events, *memory]),
    )


def blocks_text(records: Sequence[TrialRecord], *, with_logs: bool) -> Iterator[str]:
    """Yield the text of the trials, grouped by round and tunnel; each configuration of a tunnel is shown once.

    `with_logs` shows the end of the daemons' logs of failed trials.
    """
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
                yield drawn(Text(f"  {file}", style="dim")) + verbatim(text, INDENT * 2)
        for record in block:
            yield drawn(*trial_picture(record))
            if with_logs and record.has_failed:
                yield from last_log_lines(record)


def tunnel_facts(record: TrialRecord) -> Iterator[tuple[str, str]]:
    """Describe a trial's tunnel."""
    tunnel, proof = record.spec.tunnel, record.proof
    yield "Kind", tunnel.kind
    if tunnel.options:
        yield "Options", pairs(tunnel.options)
    if proof:
        yield "Versions", ", ".join(version_lines(proof.versions)) or "unknown"
        yield "MTU", f"{proof.inner_mtu_bytes} bytes" if proof.inner_mtu_bytes else "unknown"


def trial_picture(record: TrialRecord) -> Iterator[RenderableType]:
    """Yield the text of a trial: its class, its checks and its figures."""
    spec, tcp, udp = record.spec, record.tcp, record.udp
    is_tcp = tcp or spec.test is Test.TCP
    yield Text.assemble(
        (f"\nTrial {spec.sequence}", "bold"),
        f": {spec.payload_bytes} bytes {spec.direction.label}, " if is_tcp else f": {spec.what}, ",
        f"{tcp.throughput_bps / 1e6:.4g} Mbit/s, " if tcp else "",
        word(trial_class(record)),
    )
    yield facts([("started", record.started_at), ("ended", record.ended_at)])
    if record.reason:
        yield facts([("reason", record.reason)])
    if record.checks:
        yield check_columns(record.checks)
    if tcp:
        yield facts(figures(tcp, derived_figures(record) or {}))
    if udp:
        yield facts(udp_figures(udp, derived_figures(record) or {}))
        yield Text("\n".join(f"  {line}" for line in chart(udp.counts.intervals if udp.counts else ())))


def udp_figures(udp: UdpMeasurement, derived: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and text of every figure of a UDP trial; a search has its bounds and its trials in their order."""
    own = {name: value for name, value in derived.items() if not isinstance(value, list)}
    yield "derived", pairs(own)
    for number, (run, found) in enumerate(zip(udp.searches, derived.get("searches", ()), strict=True), start=1):
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
    """Describe one trial of a search."""
    doubt = " repeated" if point.is_repeated else " void" if point.is_void else ""
    return f"{point.intended_pps:.0f}/s {point.duration_s:g} s {point.lost_packets} lost{doubt}"


def check_columns(checks: Sequence[Check]) -> RenderableType:
    """Return a table of all checks of a trial, including those that passed."""
    return columns([(word(check.verdict), check.name, f"{check.reason} (rule {check.rule})") for check in checks])


def figures(tcp: TcpMeasurement, derived: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and text of every figure of a TCP trial; names and units are those of the model."""
    yield "derived", pairs(derived)
    yield from below("measured", {key: value for key, value in plain(tcp).items() if key != "intervals"})
    if tcp.intervals:
        yield "intervals", "; ".join(map(interval_text, tcp.intervals))


def below(label: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the figures of an object, then the figures of the objects inside it."""
    inner = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    several = {key: value for key, value in values.items() if isinstance(value, list) and any(map(is_object, value))}
    yield label, pairs({key: value for key, value in values.items() if key not in inner | several}) or "-"
    for key, value in inner.items():
        yield from below(key, value)
    for key, each_value in several.items():
        for each in each_value:
            yield from below(key, each)


def is_object(value: Any) -> bool:
    """Return True if a value is an object that contains figures."""
    return isinstance(value, Mapping)


def interval_text(interval: Interval) -> str:
    """Describe one interval of a trial's time series."""
    again = "" if interval.retransmits is None else f", {interval.retransmits} retransmits"
    return f"{number(interval.start_s)} to {number(interval.end_s)} s {interval.bytes} bytes{again}"


def pairs(values: Mapping[str, Any]) -> str:
    """Format mappings as `key=value` without spaces inside, so that a line break cannot divide a pair."""
    return " ".join(f"{key}={number(value)}" for key, value in values.items())


def number(value: Any) -> str:
    """Format a figure with at most six decimals; `-` if there is none."""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, list):
        return ",".join(map(number, value))
    return "-" if value in (None, "") else str(value)


LOG_LINES = 5
"""Number of last lines of a daemon's log that are shown."""

LOG_SUFFIX = ".log"
"""Suffix of the names under which the logs of a tunnel's daemons are stored."""


def last_log_lines(record: TrialRecord) -> Iterator[str]:
    """Yield the last lines of each daemon's log of a failed trial; `show RUN --trial N` shows more."""
    logs = {**(record.proof.raw if record.proof else {}), **record.raw}
    for name, output in logs.items():
        if name.endswith(LOG_SUFFIX) and isinstance(output, str):
            lines = output.strip().splitlines()[-LOG_LINES:] or ["no output"]
            text = "\n".join(line[:LINE_LIMIT] for line in lines)
            yield drawn(Text(f"  end of {one_line(name)}", style="dim")) + verbatim(text, INDENT * 2)


def raw_text(record: TrialRecord) -> Iterator[str]:
    """Yield the output of the programs of a trial: first from the proof of the tunnel, then from the trial itself."""
    for source in (record.proof.raw if record.proof else {}, record.raw):
        for name, output in source.items():
            text = output if isinstance(output, str) else json.dumps(output, indent=2)
            yield drawn(heading(name)) + verbatim(text)
