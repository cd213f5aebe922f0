"""A published result as a side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tunnelbench.analysis.compare.sides import ComparedFigure, Side, SideRow, settings_of, versions_by_program
from tunnelbench.model.plan import BASELINE_KIND, Test
from tunnelbench.model.reference import CPU_PART_COLUMNS, Reference


def side_of_reference(reference: Reference) -> Side:
    """Return a reference as a side; each of its figures counts as one trial of one round."""
    devices = {row.get("device", "") for row in reference.rows}
    cells = reference.rows if len(devices) > 1 else [{**row, "device": ""} for row in reference.rows]
    rows = [row for each in cells if (row := _row_of_reference(each)) is not None]
    rows = [_with_share(row, rows) for row in rows]
    return Side(
        name=reference.name,
        title=f"{reference.title} ({reference.source}, {reference.date})",
        rows=tuple(rows),
        facts={
            "date": reference.date,
            **{fact: values for fact, column in _FACTS.items() if (values := _values_of(reference, column))},
            **_published_versions(reference),
        },
        comparability=reference.comparability,
        clock_mhz=reference.clock_mhz,
        clock_source=reference.clock_source,
    )


_FACTS = {"board": "device", "cpu_model": "cpu", "system": "system", "traffic": "traffic"}
"""Facts of a machine, and the column of a reference that states each."""


LABEL_COLUMNS = ("version_router", "comment", "device", "cpu", "transport")
"""Columns that can distinguish two rows of one tunnel."""


def _row_of_reference(cells: Mapping[str, str]) -> SideRow | None:
    """Return a row with its throughput or its packet rate; None if it has neither."""
    figures: dict[ComparedFigure, dict[int, float]] = {}
    words = cells.get("traffic", "").lower().replace(",", " ").split()
    is_echo_search = "echo" in words and "loss" in words
    packets = ComparedFigure.NDR if is_echo_search else ComparedFigure.PACKETS
    for figure, column in ((ComparedFigure.THROUGHPUT, "throughput_mbps"), (packets, "packets_per_s")):
        if cells.get(column) and ComparedFigure.THROUGHPUT not in figures:
            figures[figure] = {1: float(cells[column])}
    if not figures:
        return None
    payload = cells.get("payload_bytes", "")
    names = (cells.get("tunnel", ""), cells.get("cipher", ""), cells.get("auth", ""))
    return SideRow(
        kind=cells.get("tunnel", ""),
        name=" ".join(filter(None, names)),
        settings=settings_of(cells),
        options={},
        payload_bytes=int(payload) if payload else None,
        effective_bytes=float(payload) if payload else None,
        direction=cells.get("direction", ""),
        traffic=next((word for word in words if word in {"tcp", "udp"}), ""),
        figures=figures,
        remarks=tuple(filter(None, (cells.get("device", ""), cells.get("comment", "")))),
        test=Test.ECHO_SEARCH if is_echo_search else "",
        cost_within=_cost(cells),
        cpu_share=_cpu_share(cells),
        label_facts=tuple(cells.get(column, "") for column in LABEL_COLUMNS),
    )


def _with_share(row: SideRow, rows: Sequence[SideRow]) -> SideRow:
    """Add the throughput as a share of the baseline's, if exactly one row without a tunnel matches."""
    plain = [
        each
        for each in rows
        if (each.kind, each.place, each.traffic) == (BASELINE_KIND, row.place, row.traffic)
        and ComparedFigure.THROUGHPUT in each.figures
    ]
    if row.kind == BASELINE_KIND or ComparedFigure.THROUGHPUT not in row.figures or len(plain) != 1:
        return row
    share = row.figures[ComparedFigure.THROUGHPUT][1] / plain[0].figures[ComparedFigure.THROUGHPUT][1]
    return replace(row, figures={**row.figures, ComparedFigure.SHARE: {1: share}})


def _cost(cells: Mapping[str, str]) -> float | None:
    """Return the CPU time per packet: the CPU share divided by packets per second; None if one is not stated."""
    share = _cpu_share(cells)
    packets_per_s = float(cells.get("packets_per_s") or 0)
    return share / packets_per_s if share is not None and packets_per_s else None


def _cpu_share(cells: Mapping[str, str]) -> float | None:
    shares = [float(share) for column in (*CPU_PART_COLUMNS, "cpu_total_pct") if (share := cells.get(column))]
    return sum(shares) / 100 if shares else None


def _published_versions(reference: Reference) -> Mapping[str, str]:
    stated = (
        (program.lower(), end, version)
        for row in reference.rows
        for end in ("router", "server")
        for text in filter(None, row.get(f"version_{end}", "").split("; "))
        for program, _, version in (text.partition(" "),)
        if version  # not the word "same"
    )
    return versions_by_program(stated)


def _values_of(reference: Reference, column: str) -> str:
    values = dict.fromkeys(row[column] for row in reference.rows if row.get(column))
    return ", ".join(values) if len(values) < 4 else f"{len(values)} different ones"
