"""A published result as a side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tunnelbench.analysis.compare.sides import Figure, Side, SideRow, settings_of
from tunnelbench.model.plan import BASELINE_KIND
from tunnelbench.model.reference import Reference


def side_of_reference(reference: Reference) -> Side:
    """A reference; each of its figures counts as one trial of one round."""
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
            figures[figure] = {1: float(cells[column])}
    if not figures:
        return None
    payload = cells.get("payload_bytes", "")
    words = cells.get("traffic", "").lower().split()
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
        cost_within=_cost(cells),
    )


def _with_share(row: SideRow, rows: Sequence[SideRow]) -> SideRow:
    """With its share of the only row without a tunnel that is like it."""
    plain = [
        each
        for each in rows
        if (each.kind, each.place, each.traffic) == (BASELINE_KIND, row.place, row.traffic)
        and Figure.THROUGHPUT in each.figures
    ]
    if row.kind == BASELINE_KIND or Figure.THROUGHPUT not in row.figures or len(plain) != 1:
        return row
    share = row.figures[Figure.THROUGHPUT][1] / plain[0].figures[Figure.THROUGHPUT][1]
    return replace(row, figures={**row.figures, Figure.SHARE: {1: share}})


def _cost(cells: Mapping[str, str]) -> float | None:
    """Share of the CPU over packets per second, where both are told."""
    columns = ("cpu_usr_pct", "cpu_sys_pct", "cpu_sirq_pct", "cpu_total_pct")
    shares = [float(told) for column in columns if (told := cells.get(column))]
    packets_per_s = float(cells.get("packets_per_s") or 0)
    return sum(shares) / 100 / packets_per_s if shares and packets_per_s else None


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
