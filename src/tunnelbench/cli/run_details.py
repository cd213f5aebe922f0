"""A run in full: every trial with each check and each figure, what its tunnel was, and what the programs printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tunnelbench.analysis.summary import trial_class
from tunnelbench.cli.drawing import cell, columns, drawn, facts, heading, title, verbatim, word
from tunnelbench.cli.output import emit, emit_json
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import Check, RunRecord, TcpMeasurement, TrialRecord, TunnelProof
from tunnelbench.report import render
from tunnelbench.report.document import compose
from tunnelbench.report.formats.json import DERIVED, plain
from tunnelbench.report.table import version_lines
from tunnelbench.store import Store


def show(store: Store, reference: str, trial: int | None, *, as_json: bool) -> None:
    """Write a run of the store, or one of its trials; WrongInput where there is none."""
    run = store.run(reference)
    records = store.trials(run.run_id, with_raw=as_json or trial is not None)
    if trial is None:
        emit(render(run, records, "json") if as_json else "".join(run_text(run, records)))
        return
    record = next((record for record in records if record.spec.sequence == trial), None)
    if record is None:
        raise WrongInput(f"run {run.run_id} has no trial {trial}", range_text(records))
    if as_json:
        emit_json(json.loads(render(run, [record], "json"))["trials"][0])
    else:
        emit("".join((*run_text(run, [record]), *raw_text(record))))


def range_text(records: Sequence[TrialRecord]) -> str:
    """Which trials there are."""
    numbers = [record.spec.sequence for record in records]
    return f"its trials are {min(numbers)} to {max(numbers)}" if numbers else "it has none"


def run_text(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[str]:
    """The run's facts, then its trials, those of one tunnel in one round together."""
    document = compose(run, records)
    yield drawn(title(document.title), facts(document.facts), *(cell(f"Note: {note}") for note in run.notes))
    yield drawn(heading("Machine"), facts([(name, str(value)) for name, value in run.host_facts.items()]))
    yield drawn(heading("Plan")) + verbatim(run.plan_text)
    yield drawn(heading("Testbed")) + verbatim(run.testbed_text)
    seen: set[str] = set()
    for (round_number, name), group in groupby(records, key=lambda record: (record.spec.round, record.spec.tunnel.name)):
        block = list(group)
        yield drawn(heading(f"Round {round_number}: {name}" if round_number else f"Calibration: {name}"))
        yield drawn(facts(tunnel_facts(block[0])))
        if proof := block[0].proof:
            yield from proof_text(proof, seen)
        for record in block:
            yield drawn(*trial_picture(record))


def tunnel_facts(record: TrialRecord) -> Iterator[tuple[str, str]]:
    tunnel, proof = record.spec.tunnel, record.proof
    yield "Kind", tunnel.kind
    if tunnel.options:
        yield "Options", ", ".join(f"{key}={value}" for key, value in tunnel.options.items())
    if proof:
        yield "Versions", f"{', '.join(version_lines(proof.versions))}; router (server)"
        yield "MTU", f"{proof.inner_mtu_bytes} bytes" if proof.inner_mtu_bytes else "not known"


def proof_text(proof: TunnelProof, seen: set[str]) -> Iterator[str]:
    """What the tunnel was when it was up; a configuration that has been `seen` is not written again."""
    yield drawn(check_columns(proof.checks))
    for name, text in proof.configuration.items():
        if text in seen:
            continue
        seen.add(text)
        yield drawn(Text(f"  {name}", style="dim")) + verbatim(text, 4)


def trial_picture(record: TrialRecord) -> Iterator[RenderableType]:
    spec, tcp = record.spec, record.tcp
    throughput = f", {tcp.throughput_bps / 1e6:.4g} Mbit/s" if tcp else ""
    yield Text.assemble(
        "\n", (f"Trial {spec.sequence}", "bold"), f": {spec.payload_bytes} bytes {spec.direction}{throughput}, ",
        word(trial_class(record)), f"; {record.started_at}",
    )  # fmt: skip
    if record.reason:
        yield cell(f"  {record.reason}")
    if record.checks:
        yield check_columns(record.checks)
    if tcp:
        yield facts(figure_groups(tcp))


def check_columns(checks: Sequence[Check]) -> RenderableType:
    return columns([(word(check.verdict), check.name, f"{check.reason} (rule {check.rule})") for check in checks])


def figure_groups(tcp: TcpMeasurement) -> Iterator[tuple[str, str]]:
    """Every figure, by where it is in a TcpMeasurement."""
    yield "derived", pairs({name: getattr(tcp, name) for name in DERIVED})
    yield from groups_below("measured", {**plain(tcp), "intervals": []})
    for interval in tcp.intervals: ...
