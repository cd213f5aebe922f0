"""JSON Schemas (draft 2020-12) of TunnelBench's JSON outputs, made from its classes and the list of figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from tunnelbench.analysis.advice import Advice
from tunnelbench.analysis.answer import Answer
from tunnelbench.analysis.background_load import BackgroundLoadEffect
from tunnelbench.analysis.connections import ConnectionFigures, ConnectionRow
from tunnelbench.analysis.cost import Amount
from tunnelbench.analysis.cost_components import ComponentCost, UnknownComponents
from tunnelbench.analysis.cost_model import LeftOut, NoModel, Prediction
from tunnelbench.analysis.limits import LimitFinding
from tunnelbench.analysis.memory import Growth, MemoryTrend
from tunnelbench.analysis.packet_instructions import PacketInstructions
from tunnelbench.analysis.soak import SoakSummary
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row, TrialClass
from tunnelbench.analysis.tunnel_start import TunnelStart
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.analysis.warnings import TrialWarning
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Direction
from tunnelbench.model.result import RunRecord, TcpMeasurement, TrialRecord
from tunnelbench.model.soak import SoakPart
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.exchange.file import ExportedFile
from tunnelbench.report.figures import FIGURES, Figure
from tunnelbench.report.site.index import Index

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class SchemaModel(BaseModel):
    """An object of a schema. It has no other fields."""

    model_config = ConfigDict(extra="forbid")


def _object(name: str, **types: Any) -> type[SchemaModel]:
    """Return a pydantic model with these fields; each value is a field's type, or its type and its description."""
    whole: dict[str, Any] = {field: each if isinstance(each, tuple) else (each, ...) for field, each in types.items()}
    return create_model(name, __base__=SchemaModel, **whole)


def _with_fields(name: str, source: type, **more: Any) -> type[SchemaModel]:
    """Return a model with the fields of a dataclass and those in `more`; a type of None in `more` removes a field."""
    hints = get_type_hints(source)
    types = {**{field.name: hints[field.name] for field in fields(source)}, **more}
    return _object(name, **{field: each for field, each in types.items() if each is not None})


def _many(item: Any) -> Any:
    return tuple[item, ...]


def _figures(name: str, kind: str, source: type, is_used: Callable[[Figure], bool], other: Any) -> type[SchemaModel]:
    """Return a model with a field for each figure; `other`: type of a figure that is no field of `source`."""
    hints = get_type_hints(source)
    figures: dict[str, Any] = {
        each.key: (_type(source, hints, each.key, other), Field(description=each.help or None))
        for each in FIGURES[kind]
        if is_used(each)
    }
    return create_model(name, __base__=SchemaModel, **figures)


def _type(source: type, hints: Mapping[str, Any], key: str, other: Any) -> Any:
    member = getattr(source, key, None)
    if isinstance(member, property) and member.fget:
        return get_type_hints(member.fget)["return"]
    return hints.get(key, other)


def _is_derived(figure: Figure) -> bool:
    return figure.of_trial is not None and not figure.is_stored


def _cost_models() -> Any:
    left_out = _many(_with_fields("ReportLeftOut", LeftOut, error_share=float))
    cost = _object(
        "DirectionCost", direction=Direction, fixed_s=Amount, per_byte_s=Amount, predictions=_many(Prediction)
    )
    model = _object(
        "ReportCostModel",
        **dict.fromkeys(("smallest_bytes", "largest_bytes", "rounds"), int),
        tunnel=str,
        inner_mtu_bytes=int | None,
        drift=tuple[float, float],
        is_straight=bool,
        directions=_many(cost),
        left_out=left_out,
        sizes_left_out=left_out,
    )
    return model | _with_fields("ReportNoModel", NoModel, tunnel=str)


def _cost_parts() -> Any:
    cost = _with_fields("PartCost", ComponentCost, component=None, part=tuple[str, ...], is_distinguishable=bool | None)
    names = {"variants": tuple[str, ...], "ciphers_that_authenticate": tuple[str, ...]}
    parts = _object("CostParts", kind=str, **names, worst_misfit_share=float, costs=_many(cost))
    return parts | _with_fields("NoCostParts", UnknownComponents)


def _soak() -> Any:
    figures = _figures("SoakFigures", "soak", SoakSummary, _is_derived, float | None)
    place = _object("SoakPlace", sequence=int, tunnel=str, payload_bytes=int, direction=Direction, load=str)
    memory = _with_fields("Memory", MemoryTrend, growth=Growth)
    details = _object("SoakDetails", memory=_many(memory), part_list=_many(SoakPart))
    return create_model("ReportSoak", __base__=(details, figures, place))


def _trial() -> Any:
    rates = dict.fromkeys(("lower_pps", "upper_pps", "forwarding_rate_pps"), float | None)
    bounds = _object("SearchBounds", **rates, upper_is_testers=bool)
    search = _object("ReportSearch", trial_s=float, is_complete=bool, ndr=bounds, pdr=bounds)
    searches = _object("UdpSearches", searches=_many(search), loss_ratios=tuple[float, ...])
    udp = _figures("UdpCountedFigures", "udp", UdpMeasurement, _is_derived, float | None)
    tcp: Any = _figures("TcpTrialFigures", "tcp", TcpMeasurement, _is_derived, float | None)
    opened: Any = _figures("ConnectionTrialFigures", "connections", UdpMeasurement, _is_derived, float | None)
    return _with_fields(
        "ReportTrial",
        TrialRecord,
        measurement=None,
        tcp=TcpMeasurement | None,
        udp=UdpMeasurement | None,
        counts=bool,
        figures=tcp | create_model("UdpTrialFigures", __base__=(searches, udp)) | opened | None,
        trial_class=(TrialClass, Field(alias="class")),
    )


def report_model() -> type[SchemaModel]:
    """Return the model of `tunnelbench report --format json`."""
    tcp: Any = _figures("TcpRowFigures", "tcp", Figures, attrgetter("is_row_data"), Estimate | None)
    udp: Any = _figures("UdpRowFigures", "udp", UdpFigures, attrgetter("is_row_data"), Estimate | None)
    opened: Any = _figures(
        "ConnectionRowFigures", "connections", ConnectionFigures, attrgetter("is_row_data"), Estimate | None
    )
    of_row = {"comments": tuple[str, ...], "limits": _many(LimitFinding)}
    several: dict[str, Any] = {
        "rows": _with_fields("ReportRow", Row, figures=tcp | None, **of_row),
        "advice": Advice,
        "cost_models": _cost_models(),
        "cost_parts": _cost_parts(),
        "packet_instructions": PacketInstructions,
        "tunnel_starts": TunnelStart,
        "cipher_speeds": CipherSpeed,
        "soaks": _soak(),
        "udp_rows": _with_fields("ReportUdpRow", UdpRow, figures=udp | None),
        "connection_rows": _with_fields("ReportConnectionRow", ConnectionRow, figures=opened | None),
        "doubts": _with_fields("ReportWarning", TrialWarning, where=str),
        "trials": _trial(),
    }
    lists = {name: _many(item) for name, item in several.items()}
    return _object("Report", is_simulated=bool, run=RunRecord, answer=Answer, quiet=BackgroundLoadEffect, **lists)


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "report": lambda: report_model().model_json_schema(mode="serialization"),
    "export": lambda: ExportedFile.model_json_schema(mode="serialization"),
    "site": lambda: Index.model_json_schema(mode="serialization"),
}
"""Schemas by name: a report as JSON, the file of `tunnelbench export`, and `index.json` of a site."""


def schema(name: str) -> dict[str, Any]:
    return {"$schema": DIALECT, **SCHEMAS[name]()}
