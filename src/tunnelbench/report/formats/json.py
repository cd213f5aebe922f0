"""JSON for programs: the run, the rows of the tables, and the trials as stored with the figures that follow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tunnelbench.analysis.background_load import background_load_effect
from tunnelbench.analysis.comments import comments
from tunnelbench.analysis.cost_components import ComponentCost, MeasuredComponents, UnknownComponents
from tunnelbench.analysis.cost_model import FRAME_SIZES_BYTES, IMIX_FRAMES, CostModel, LeftOut, NoModel
from tunnelbench.analysis.summary import RowKey, trial_class, trials_by_row
from tunnelbench.model.json_types import plain
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.search import NDR_LOSS_RATIO, PDR_LOSS_RATIO, SearchRun
from tunnelbench.report.document import Document, SoakReport, Style
from tunnelbench.report.figures import AnyRow, TableRow, row_figures, trial_figures
from tunnelbench.report.formats import SheetFormat
from tunnelbench.report.sheet import Sheet

GOALS = {"ndr": NDR_LOSS_RATIO, "pdr": PDR_LOSS_RATIO}


class Format(SheetFormat):
    """JSON: one object; its fields have the names of the model, with their units."""

    def render(self, document: Document, style: Style) -> str:
        del style
        return _text(content(document))

    def render_sheet(self, sheet: Sheet, style: Style) -> str:
        del style
        return _text(plain(sheet.data))


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def content(document: Document) -> dict[str, Any]:
    """Return a report as objects, arrays and values that JSON has."""
    trials = trials_by_row(document.records)
    rows = [
        {**_row("tcp", row, trials), "comments": list(comments(row)), "limits": plain(limits)}
        for row, limits in zip(document.rows, document.limits, strict=True)
    ]
    return {
        "is_simulated": document.run.is_simulated,
        "run": plain(document.run),
        "answer": plain(document.answer),
        "rows": rows,
        "advice": plain(document.advice),
        "cost_models": [_model(model) for model in document.models],
        "cost_parts": [_parts(parts) for parts in document.parts],
        "packet_instructions": plain(document.instructions),
        "tunnel_starts": plain(document.starts),
        "cipher_speeds": plain(document.speeds),
        "quiet": plain(background_load_effect(document.records)),
        "soaks": [_soak(report) for report in document.soaks],
        "udp_rows": [_row("udp", row, trials) for row in document.udp_rows],
        "connection_rows": [_row("connections", row, trials) for row in document.connection_rows],
        "doubts": [{**plain(doubt), "where": doubt.where} for doubt in document.doubts],
        "trials": [_trial(record) for record in document.records],
    }


def _row(kind: str, row: AnyRow, trials: Mapping[RowKey, Sequence[TrialRecord]]) -> dict[str, Any]:
    found = TableRow(row, tuple(trials[row.key]))
    return {**plain(replace(row, figures=None)), "figures": plain(row_figures(kind, found))}


def _members(value: Any, *names: str) -> dict[str, Any]:
    """Return some fields and properties of an object, by their names."""
    return {name: plain(getattr(value, name)) for name in names}


def _soak(report: SoakReport) -> dict[str, Any]:
    """Return a soak without its series, which the format `series` has."""
    summary = report.summary
    spec = summary.spec
    return {
        "sequence": spec.sequence,
        "tunnel": spec.tunnel.name,
        **_members(spec, "payload_bytes", "direction", "load"),
        **plain(trial_figures("soak", summary)),
        "memory": [{**plain(trend), "growth": trend.growth.value} for trend in summary.memory],
        "part_list": plain(report.soak.parts),
    }


def _model(model: CostModel | NoModel) -> dict[str, Any]:
    if isinstance(model, NoModel):
        return {"tunnel": model.tunnel.name, "reason": model.reason}
    return {
        "tunnel": model.tunnel.name,
        **_members(model, "smallest_bytes", "largest_bytes", "inner_mtu_bytes", "rounds", "drift", "is_straight"),
        "directions": [_way(model, direction) for direction in model.directions],
        "left_out": [_left_out(case) for case in model.left_out],
        "sizes_left_out": [_left_out(case) for case in model.sizes_left_out],
    }


def _way(model: CostModel, direction: Direction) -> dict[str, Any]:
    mixes = [*([(size, 1)] for size in FRAME_SIZES_BYTES), IMIX_FRAMES]
    return {
        "direction": direction.value,
        "fixed_s": plain(model.fitted.fixed_s(direction)),
        "per_byte_s": plain(model.fitted.per_byte_s(direction)),
        "predictions": [plain(model.predict(mix, direction)) for mix in mixes],
    }


def _left_out(case: LeftOut) -> dict[str, Any]:
    return {**plain(case), "error_share": case.error_share}


def _parts(parts: MeasuredComponents | UnknownComponents) -> dict[str, Any]:
    if isinstance(parts, UnknownComponents):
        return _members(parts, "kind", "variants", "reason")
    return {
        **_members(parts, "kind", "variants", "worst_misfit_share"),
        "ciphers_that_authenticate": list(parts.aead_ciphers),
        "costs": [_part_cost(cost) for cost in parts.costs],
    }


def _part_cost(cost: ComponentCost) -> dict[str, Any]:
    values = plain(cost)
    return {"part": values.pop("component")["names"], **values, "is_distinguishable": cost.is_distinguishable}


def plain_trial(record: TrialRecord) -> dict[str, Any]:
    """Return a trial's record with its figures under `tcp` or `udp`, and null under the other one."""
    own = {"tcp" if name == "measurement" else name: value for name, value in plain(record).items()}
    return {**own, "tcp": plain(record.tcp), "udp": plain(record.udp)}


def _trial(record: TrialRecord) -> dict[str, Any]:
    known = {"class": trial_class(record).value, "counts": record.counts, "figures": derived_figures(record)}
    return plain_trial(record) | known


def derived_figures(record: TrialRecord) -> dict[str, Any] | None:
    """Return the figures computed from a trial's counts; for UDP also the lower and upper bound of each search."""
    if record.tcp:
        return dict(plain(trial_figures("tcp", record.tcp)))
    if (udp := record.udp) is None:
        return None
    if udp.connections:
        return dict(plain(trial_figures("connections", udp)))
    searches = [
        _members(run, "trial_s", "is_complete") | {name: _bounds(run, ratio) for name, ratio in GOALS.items()}
        for run in udp.searches
    ]
    loss_ratios = [point.loss_ratio for point in udp.points]
    return {**plain(trial_figures("udp", udp)), "searches": searches, "loss_ratios": loss_ratios}


def _bounds(run: SearchRun, loss_ratio: float) -> dict[str, Any]:
    found = run.bounds(loss_ratio)
    return {
        **_members(found, "lower_pps", "upper_pps", "upper_is_testers"),
        "forwarding_rate_pps": found.lower.forwarding_rate_pps if found.lower else None,
    }
