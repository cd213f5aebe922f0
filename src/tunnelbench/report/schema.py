"""JSON Schemas (draft 2020-12) of what is written for programs, made from the classes that it is written from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from tunnelbench.analysis.advice import Advice
from tunnelbench.analysis.cost import Amount
from tunnelbench.analysis.cost_model import Prediction
from tunnelbench.analysis.limits import Finding
from tunnelbench.analysis.memory import Growth
from tunnelbench.analysis.quiet import Quiet
from tunnelbench.analysis.soak import Gap, Moment
from tunnelbench.analysis.summary import Figures, TrialClass
from tunnelbench.analysis.udp import UdpRow
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Direction, TrialSpec, TunnelSpec
from tunnelbench.model.result import Check, Outcome, RunRecord, TcpMeasurement, TunnelProof
from tunnelbench.model.soak import SoakPart
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.exchange.file import File
from tunnelbench.report.site.index import Index

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Part(BaseModel):
    """What all objects are like that no class of the program stands for."""

    model_config = ConfigDict(extra="forbid")


class ReportRow(Part):
    """A row of the table of TCP."""

    tunnel: TunnelSpec
    payload_bytes: int
    direction: Direction
    classes: Mapping[TrialClass, int]
    doubtful_checks: tuple[str, ...]
    reasons: tuple[str, ...]
    versions: Mapping[str, str]
    figures: Figures | None
    best: tuple[str, ...]
    comments: tuple[str, ...]
    limits: tuple[Finding, ...]


class Way(Part):
    """What a packet costs in one direction."""

    direction: Direction
    fixed_s: Amount
    per_byte_s: Amount
    predictions: tuple[Prediction, ...]


class Tried(Part):
    """A size that was left out and predicted."""

    payload_bytes: int
    direction: Direction | None
    predicted_s: float
    measured_s: float
    error_share: float


class Model(Part):
    """What a packet costs in a tunnel."""

    tunnel: str
    smallest_bytes: int
    largest_bytes: int
    inner_mtu_bytes: int | None
    rounds: int
    drift: tuple[float, float]
    is_straight: bool
    directions: tuple[Way, ...]
    left_out: tuple[Tried, ...]
    sizes_left_out: tuple[Tried, ...]


class ModelMissing(Part):
    """Why there is no model."""

    tunnel: str
    reason: str


class OwnCost(Part):
    """What a part of a packet costs."""

    part: tuple[str, ...]
    direction: Direction
    payload_bytes: int
    packet_bytes: float
    by_difference_s: Amount
    by_calculation_s: float | None
    is_told_from_nothing: bool | None


class Parts(Part):
    """What parts of a packet cost, by the variants of a tunnel."""

    kind: str
    variants: tuple[str, ...]
    worst_misfit_share: float
    ciphers_that_authenticate: tuple[str, ...]
    costs: tuple[OwnCost, ...]


class PartsMissing(Part):
    """Why they are not told apart."""

    kind: str
    variants: tuple[str, ...]
    reason: str


class ReportDoubt(Part):
    """A check that is not ok, or a reason for which there is no figure."""

    trial_class: TrialClass
    check: str
    rule: int | None
    tunnel: str
    reason: str
    trials: tuple[TrialSpec, ...]
    is_every_trial: bool
    where: str


class Memory(Part):
    """Whether a program's memory grew over a soak."""

    program: str
    first_bytes: int
    last_bytes: int
    observed_s: float
    slope_bytes_per_s: float | None
    error_bytes_per_s: float | None
    growth: Growth


class ReportSoak(Part):
    """A soak without its series."""

    sequence: int
    tunnel: str
    payload_bytes: int
    direction: Direction
    load: str
    planned_s: float
    measured_s: float
    rate_pps: float
    is_echo: bool
    parts: int
    sent_packets: int
    received_packets: int
    lost_packets: int
    late_packets: int | None
    duplicated_packets: int
    reordered_packets: int
    corrupted_packets: int
    tester_dropped_packets: int
    seconds_with_loss: int
    longest_loss_free_s: float
    worst_second: Moment | None
    worst_second_lost_packets: int
    delay_p50_ns: float | None
    delay_p99_worst_ns: float | None
    delay_max_ns: float | None
    router_busy_share: float | None
    router_busy_max_share: float | None
    gaps: int
    gaps_s: float
    gap_list: tuple[Gap, ...]
    restarts: int
    restart_list: tuple[Moment, ...]
    rekeys: int
    rekey_list: tuple[Moment, ...]
    memory: tuple[Memory, ...]
    ended: str
    is_complete: bool
    offered_pps: float
    received_pps: float
    loss_ratio: float
    part_list: tuple[SoakPart, ...]


class ReportTrial(BaseModel):
    """A trial as stored, with what follows from it."""

    spec: TrialSpec
    outcome: Outcome
    reason: str
    started_at: str
    ended_at: str
    checks: tuple[Check, ...]
    tcp: TcpMeasurement | None
    proof: TunnelProof | None
    raw: Mapping[str, Any]
    waited_for_quiet_s: float | None
    udp: UdpMeasurement | None
    counts: bool
    figures: Mapping[str, Any] | None


class Report(Part):
    """`tunnelbench report --format json`."""

    run: RunRecord
    rows: tuple[ReportRow, ...]
    advice: tuple[Advice, ...]
    cost_models: tuple[Model | ModelMissing, ...]
    cost_parts: tuple[Parts | PartsMissing, ...]
    cipher_speeds: tuple[CipherSpeed, ...]
    quiet: Quiet
    soaks: tuple[ReportSoak, ...]
    udp_rows: tuple[UdpRow, ...]
    doubts: tuple[ReportDoubt, ...]
    trials: tuple[ReportTrial, ...]


def report_schema() -> dict[str, Any]:
    """Of `tunnelbench report --format json`."""
    schema = Report.model_json_schema(mode="serialization")
    trial = schema["$defs"]["ReportTrial"]
    trial["properties"]["class"] = {"$ref": "#/$defs/TrialClass"}
    trial["required"].append("class")
    return schema


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "report": report_schema,
    "export": lambda: File.model_json_schema(mode="serialization"),
    "site": lambda: Index.model_json_schema(mode="serialization"),
}
"""What is described: a report as JSON, the file of `tunnelbench export`, and `index.json` of a site."""


def schema(name: str) -> dict[str, Any]:
    """The schema of one of `SCHEMAS`."""
    return {"$schema": DIALECT, **SCHEMAS[name]()}
