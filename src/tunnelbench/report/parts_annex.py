"""Where a packet's time goes: crypto by difference beside crypto by calculation."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.own_parts import NoParts, OwnParts, PartCost
from tunnelbench.report.annexes import Annex, amount_text
from tunnelbench.report.text import one_line

PARTS_NOTE = (
    "Router CPU of one packet. By difference: fitted to all variants of the tunnel at once, with the 95 % interval "
    "where there are more sizes and variants than unknowns. By calculation: the packet's bytes at the speed of "
    "openssl speed, between the nearest blocks; it encrypts, while the router decrypts what goes in, and counts "
    "neither the tunnel's own header nor padding, nor the keys of a digest (HMAC)."
)


def parts_annexes(every: Sequence[OwnParts | NoParts]) -> list[Annex]:
    """One for each tunnel of which there are variants; where their parts cannot be told apart, why."""
    return [_annex(parts) for parts in every]


def _annex(parts: OwnParts | NoParts) -> Annex:
    title = one_line(f"Where a packet's time goes: {parts.kind}")
    variants = f"Variants: {'; '.join(parts.variants)}."
    if isinstance(parts, NoParts):
        return Annex(title, items=(one_line(variants), one_line(f"Not known: {parts.reason}.")))
    shown = {min(cost.payload_bytes for cost in parts.costs), max(cost.payload_bytes for cost in parts.costs)}
    costs = [cost for cost in parts.costs if cost.payload_bytes in shown]
    return Annex(
        title=title,
        header=("Part", "Way", "Payload", "IP packet", "By difference [us]", "By calculation [us]"),
        rows=tuple(_row(cost) for cost in costs),
        items=tuple(one_line(remark) for remark in (variants, *_remarks(parts, costs))),
        notes=(PARTS_NOTE,),
    )


def _row(cost: PartCost) -> tuple[str, ...]:
    calculated = cost.by_calculation_s
    return (
        one_line(cost.part.label),
        cost.direction.value,
        str(cost.payload_bytes),
        f"{cost.packet_bytes:.0f}",
        "-" if cost.told_s is None else amount_text(cost.told_s.times(1e6)),
        "-" if calculated is None else significant(calculated * 1e6, 3),
    )


def _remarks(parts: OwnParts, costs: Sequence[PartCost]) -> list[str]:
    found = []
    if parts.fitted.widening is None:
        found.append("No error is known: there are as many unknowns as variants and sizes; take a size more.")
    else:
        found.append(f"The parts add up to within {percent(parts.worst_misfit_share)} of every variant at every size.")
    found += [
        f"Not told apart, no variant has one without the other: {part.label}."
        for part in parts.parts
        if len(part.names) > 1
    ]
    if parts.aead_ciphers:
        found.append(f"No digest beside {', '.join(parts.aead_ciphers)}: the cipher's part is its authentication, too.")
    if below := [cost for cost in costs if cost.is_impossible]:
        found.append(f"Came out below zero, so that chance is larger and nothing is told: {_named(below)}.")
    small = [cost for cost in costs if cost.is_told_from_nothing is False]
    if small:
        found.append(f"Not told from nothing, the error being as large: {_named(small)}.")
    return found


def _named(costs: Sequence[PartCost]) -> str:
    return ", ".join(f"{cost.part.label} {cost.payload_bytes} {cost.direction}" for cost in costs)
