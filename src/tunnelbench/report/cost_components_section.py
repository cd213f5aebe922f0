"""Report sections on the CPU time of a packet: encryption by difference and by calculation.

By difference: between measured variants of a tunnel. By calculation: from the speed of the cipher without a tunnel.
"""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.analysis.cost_components import ComponentCost, MeasuredComponents, UnknownComponents
from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.report.sections import Section, amount_text
from tunnelbench.report.text import one_line

PARTS_NOTE = (
    "Router CPU of one packet. By difference: one fit to all variants of the tunnel, with the 95 % interval if there "
    "are more sizes and variants than unknowns. By calculation: the packet's bytes at the speed of openssl speed, "
    "between the nearest blocks. openssl speed encrypts, but the router decrypts packets on the way down. The "
    "calculation has no tunnel header, no padding and no keys of a digest (HMAC)."
)


def parts_sections(every: Sequence[MeasuredComponents | UnknownComponents]) -> list[Section]:
    """Return a section for each tunnel with variants; if their parts cannot be separated, it gives the reason."""
    return [_section(parts) for parts in every]


def _section(parts: MeasuredComponents | UnknownComponents) -> Section:
    title = one_line(f"Where a packet's time goes: {parts.kind}")
    variants = f"Variants: {'; '.join(parts.variants)}."
    if isinstance(parts, UnknownComponents):
        return Section(title, items=(one_line(variants), one_line(f"Unknown: {parts.reason}.")))
    costs = parts.shown_costs
    return Section(
        title=title,
        header=("Part", "Way", "Payload", "IP packet", "By difference [µs]", "By calculation [µs]"),
        rows=tuple(_row(cost) for cost in costs),
        items=tuple(one_line(remark) for remark in (variants, *_remarks(parts, costs))),
        notes=(PARTS_NOTE,),
    )


def _row(cost: ComponentCost) -> tuple[str, ...]:
    calculated = cost.by_calculation_s
    return (
        one_line(cost.component.label),
        cost.direction.label,
        str(cost.payload_bytes),
        f"{cost.packet_bytes:.0f}",
        "-" if cost.reported_s is None else amount_text(cost.reported_s.times(1e6)),
        "-" if calculated is None else significant(calculated * 1e6, 3),
    )


def _remarks(parts: MeasuredComponents, costs: Sequence[ComponentCost]) -> list[str]:
    found = []
    if parts.fitted.widening is None:
        found.append("The error is unknown: there are as many unknowns as variants and sizes. Add a size to the plan.")
    else:
        found.append(f"The parts add up to within {percent(parts.worst_misfit_share)} of every variant at every size.")
    found += [
        f"Cannot be separated, because no variant has one without the other: {part.label}."
        for part in parts.components
        if len(part.names) > 1
    ]
    if parts.aead_ciphers:
        found.append(f"No digest with {', '.join(parts.aead_ciphers)}: the cipher's part contains its authentication.")
    if below := [cost for cost in costs if cost.is_impossible]:
        found.append(f"Below zero, which shows that chance is larger than the cost; not printed: {_named(below)}.")
    small = [cost for cost in costs if cost.is_distinguishable is False]
    if small:
        found.append(f"Not distinguishable from zero, because the error is as large: {_named(small)}.")
    return found


def _named(costs: Sequence[ComponentCost]) -> str:
    return ", ".join(f"{cost.component.label} {cost.payload_bytes} {cost.direction.label}" for cost in costs)
