"""JSON for programs: the run, the rows of the table and the trials, as stored and with the figures that follow."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from tunnelbench.analysis.comments import comments
from tunnelbench.analysis.cost_model import FRAME_SIZES_BYTES, IMIX, CostModel, LeftOut, NoModel
from tunnelbench.analysis.own_parts import NoParts, OwnParts, PartCost
from tunnelbench.analysis.quiet import quiet
from tunnelbench.analysis.summary import trial_class
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import TcpMeasurement, TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, SearchRun
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.document import Document, Style

DERIVED = (
    "throughput_bps",
    "data_pps",
    "ack_pps",
    "router_busy_share",
    "tester_busy_share",
    "daemon_busy_share",
    "cpu_s_per_million_packets",
    "cpu_s_per_gigabit",
)
"""Properties of `TcpMeasurement`; what is stored is what was counted."""


DERIVED_OF_COUNTS = (
    "lost_packets",
    "path_lost_packets",
    "loss_ratio",
    "offered_pps",
    "forwarding_rate_pps",
    "throughput_bps",
)
DERIVED_OF_UDP = (
    "is_refuted",
    "longest_burst_packets",
    "router_busy_share",
    "daemon_busy_share",
    "cpu_s_per_million_packets",
)
"""Properties of `UdpCounts` and `UdpMeasurement`."""

GOALS = {"ndr": NDR_LOSS_RATIO, "pdr": PDR_LOSS_RATIO}


def render(document: Document, style: Style) -> str:
    """One object: `run`, `rows`, `advice`, `cost_models`, `cost_parts`, `cipher_speeds`, `quiet`, `udp_rows`, `doubts`,
    `trials`.

    Fields are named as in the model, with their units.
    """
    del style
    return json.dumps(content(document), indent=2, allow_nan=False) + "\n"


def content(document: Document) -> dict[str, Any]:
    """As `render` has it, of what JSON has words for."""
    rows = [
        {**plain(row), "comments": list(comments(row)), "limits": plain(limits)}
        for row, limits in zip(document.rows, document.limits, strict=True)
    ]
    return {
        "run": plain(document.run),
        "rows": rows,
        "advice": plain(document.advice),
        "cost_models": [_model(model) for model in document.models],
        "cost_parts": [_parts(parts) for parts in document.parts],
        "cipher_speeds": plain(document.speeds),
        "quiet": plain(quiet(document.records)),
        "udp_rows": [plain(row) for row in document.udp_rows],
        "doubts": [{**plain(doubt), "where": doubt.where} for doubt in document.doubts],
        "trials": [_trial(record) for record in document.records],
    }


def plain(value: Any) -> Any:
    """Dataclasses as objects, sequences and sets as arrays; what JSON has no number for as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _model(model: CostModel | NoModel) -> dict[str, Any]:
    if isinstance(model, NoModel):
        return {"tunnel": model.tunnel.name, "reason": model.reason}
    return {
        "tunnel": model.tunnel.name,
        "smallest_bytes": model.smallest_bytes,
        "largest_bytes": model.largest_bytes,
        "inner_mtu_bytes": model.inner_mtu_bytes,
        "rounds": model.rounds,
        "drift": list(model.drift),
        "is_straight": model.is_straight,
        "directions": [_way(model, direction) for direction in model.directions],
        "left_out": [_left_out(case) for case in model.left_out],
        "sizes_left_out": [_left_out(case) for case in model.sizes_left_out],
    }


def _way(model: CostModel, direction: Direction) -> dict[str, Any]:
    mixes = [*([(size, 1)] for size in FRAME_SIZES_BYTES), IMIX]
    return {
        "direction": direction.value,
        "fixed_s": plain(model.fitted.fixed_s(direction)),
        "per_byte_s": plain(model.fitted.per_byte_s(direction)),
        "predictions": [plain(model.predict(mix, direction)) for mix in mixes],
    }


def _left_out(case: LeftOut) -> dict[str, Any]:
    return {**plain(case), "error_share": case.error_share}


def _parts(parts: OwnParts | NoParts) -> dict[str, Any]:
    if isinstance(parts, NoParts):
        return {"kind": parts.kind, "variants": list(parts.variants), "reason": parts.reason}
    return {
        "kind": parts.kind,
        "variants": list(parts.variants),
        "worst_misfit_share": parts.worst_misfit_share,
        "ciphers_that_authenticate": list(parts.aead_ciphers),
        "costs": [_part_cost(cost) for cost in parts.costs],
    }


def _part_cost(cost: PartCost) -> dict[str, Any]:
    told = {"is_told_from_nothing": cost.is_told_from_nothing}
    return {**plain(cost), "part": list(cost.part.names), **told}


def _trial(record: TrialRecord) -> dict[str, Any]:
    return {
        **plain(record),
        "class": trial_class(record).value,
        "counts": record.counts,
        "figures": _figures(record.tcp) if record.tcp else derived_of_udp(record.udp) if record.udp else None,
    }


def derived_of_udp(udp: UdpMeasurement) -> dict[str, Any]:
    """What follows from the counts; of each search its bounds."""
    counts = {name: getattr(udp.counts, name) for name in DERIVED_OF_COUNTS} if udp.counts else {}
    searches = [
        {
            "trial_s": run.trial_s,
            "is_complete": run.is_complete,
            **{name: plain(_bounds(run, loss_ratio)) for name, loss_ratio in GOALS.items()},
        }
        for run in udp.searches
    ]
    whole = {name: plain(getattr(udp, name)) for name in DERIVED_OF_UDP}
    return {**counts, **whole, "searches": searches, "loss_ratios": [point.loss_ratio for point in udp.points]}


def _bounds(run: SearchRun, loss_ratio: float) -> dict[str, Any]:
    found = run.bounds(loss_ratio)
    return {
        "lower_pps": found.lower_pps,
        "upper_pps": found.upper_pps,
        "upper_is_testers": found.upper_is_testers,
        "forwarding_rate_pps": found.lower.forwarding_rate_pps if found.lower else None,
    }


def _figures(tcp: TcpMeasurement) -> dict[str, Any]:
    return {name: plain(getattr(tcp, name)) for name in DERIVED}
