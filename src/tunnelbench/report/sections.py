"""Sections below the tables: advice, limits of each row, cost of a packet, speed of ciphers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.analysis.advice import Advice
from tunnelbench.analysis.ciphers import cipher_remarks
from tunnelbench.analysis.cost import Amount
from tunnelbench.analysis.cost_model import CLAIMED_ERROR_SHARE, IMIX_FRAMES, CostModel, NoModel, Prediction
from tunnelbench.analysis.limits import LimitFinding
from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.summary import Row
from tunnelbench.model.cipher_speed import BLOCK_BYTES, CipherSpeed
from tunnelbench.model.plan import Direction
from tunnelbench.report.text import one_line


@dataclass(frozen=True)
class Section:
    """A heading, and below it a small table, a list, or both. Its text is without line breaks and markup."""

    title: str
    items: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """Rows with as many cells as the header; the first cell is text, the others are figures."""
    notes: tuple[str, ...] = ()
    """Paragraphs that say how to read it."""


def advice_section(advice: Sequence[Advice]) -> list[Section]:
    """Return a section of advice; none if there is no advice."""
    return [Section("Advice", items=tuple(one_line(each.text) for each in advice))] if advice else []


def limits_section(rows: Sequence[Row], limits: Sequence[Sequence[LimitFinding]]) -> list[Section]:
    """Return a section with one item for each row with figures."""
    items = tuple(
        one_line(f"{row.tunnel.name}, {row.payload_bytes} {row.direction.label}: {_findings(found)}")
        for row, found in zip(rows, limits, strict=True)
        if found
    )
    return [Section("What limits", items=items)] if items else []


def _findings(found: Sequence[LimitFinding]) -> str:
    return "; ".join(f"{finding.limit}: {finding.evidence}" for finding in found)


def cost_section(models: Sequence[CostModel | NoModel]) -> list[Section]:
    """Return a section on the cost of a packet in each tunnel; none if no tunnel has a model."""
    drawn = [model for model in models if isinstance(model, CostModel)]
    if not drawn:
        return []
    rows = tuple(_cost_row(model, direction) for model in drawn for direction in model.directions)
    of_models = [remark for model in models for remark in _remarks(model)]
    return [
        Section(
            title="What a packet costs the router",
            header=(
                "Tunnel",
                "Way",
                "Fixed [µs]",
                "Per byte [ns]",
                *(f"{size} packets/s" for size in SHOWN_BYTES),
                "IMIX packets/s",
                "IMIX Mbit/s",
            ),
            rows=rows,
            items=tuple(one_line(remark) for remark in (*_tally(drawn), *_falling(drawn), *of_models)),
            notes=(COST_NOTE,),
        )
    ]


SHOWN_BYTES = (64, 1518)
"""Frame sizes that have columns [bytes]; the JSON has more."""

COST_NOTE = (
    "Router CPU of a packet = fixed + per byte x its length (inner IP packet), each with its 95 % interval. Packets/s: "
    "what one CPU would carry in that direction if it were always busy and the cost of a packet stayed the same, with "
    "frames of this size on Ethernet. IMIX: 7 frames of 64, 4 of 594, 1 of 1518 bytes. * outside the measured sizes; "
    "^ the largest size that the tunnel takes."
)


def _cost_row(model: CostModel, direction: Direction) -> tuple[str, ...]:
    predictions = [model.predict([(size, 1)], direction) for size in SHOWN_BYTES]
    mix = model.predict(IMIX_FRAMES, direction)
    return (
        one_line(model.tunnel.name),
        direction.label,
        amount_text(model.fitted.fixed_s(direction).times(1e6)),
        amount_text(model.fitted.per_byte_s(direction).times(1e9)),
        *(_rate(each, each.packets_per_s) for each in (*predictions, mix)),
        _rate(mix, mix.bits_per_s / 1e6),
    )


def amount_text(amount: Amount) -> str:
    value = significant(amount.value, 3)
    return value if amount.error is None else f"{value}+-{significant(amount.error, 2)}"


def _rate(prediction: Prediction, value: float) -> str:
    mark = "*" * prediction.is_extrapolated + "^" * (prediction.largest_bytes is not None)
    return f"{significant(value, 3)}{mark}" if prediction.packet_s.value > 0 else "unknown"


def _tally(models: Sequence[CostModel]) -> list[str]:
    ways = [case for model in models for case in model.left_out]
    sizes = [case for model in models for case in model.sizes_left_out]
    if not ways:
        return ["The line goes through two sizes, so that nothing checks it. Add sizes to the plan: four are enough."]
    each_way, together = (f"{sum(case.is_within_claim for case in cases)} of {len(cases)}" for cases in (ways, sizes))
    claim = f"{CLAIMED_ERROR_SHARE:.0%}"
    tried = "Each size was left out in turn and predicted from the others"
    return [f"{tried}: {each_way} within {claim} for each direction, {together} for both directions together."]


def _falling(models: Sequence[CostModel]) -> list[str]:
    """Name tunnels and directions whose CPU time per byte is negative and has no error estimate; one text or none."""
    named = [
        f"{model.tunnel.name} {direction.label}"
        for model in models
        for direction in model.directions
        if (cost := model.fitted.per_byte_s(direction)).error is None and cost.value < 0
    ]
    return [f"A larger packet costs less, which shows that chance is larger than the cost: {'; '.join(named)}."] * bool(
        named
    )


def _remarks(model: CostModel | NoModel) -> list[str]:
    if isinstance(model, NoModel):
        return [f"{model.tunnel.name}: no cost model: {model.reason}"]
    found = []
    if model.left_out:
        worst = max(model.left_out, key=lambda case: abs(case.error_share))
        side = "over" if worst.error_share > 0 else "under"
        verdict = "" if model.is_straight else "; the straight line is less accurate than claimed"
        way = worst.direction.label if worst.direction else "down and up together"
        found.append(
            f"{model.tunnel.name}: worst {worst.payload_bytes} {way}, {percent(abs(worst.error_share))} "
            f"{side} the measurement{verdict}"
        )
    slow, fast = model.drift
    if slow / fast > 1 + CLAIMED_ERROR_SHARE:
        found.append(
            f"{model.tunnel.name}: by round, a packet cost {significant(fast, 3)} to {significant(slow, 3)} times as "
            "much as in the median round; this drift is removed before the fit"
        )
    return found


CIPHER_NOTE = (
    "MB/s (10^6 bytes) by block, from one run of openssl speed -elapsed on each machine; hosts that share a machine "
    "share its figures. One direction, without packets and without the cost of a tunnel."
)

DOUBTFUL_MARK = " (doubtful)"


def cipher_section(speeds: Sequence[CipherSpeed], rows: Sequence[Row]) -> list[Section]:
    """Return a section on ciphers and digests without a tunnel; none if none was measured."""
    if not speeds:
        return []
    machines = {speed.machine for speed in speeds}
    return [
        Section(
            title="Ciphers and digests by themselves",
            header=("Algorithm", "Acceleration", "Threads", *(f"{block} bytes" for block in BLOCK_BYTES)),
            rows=tuple(
                (
                    one_line(speed.algorithm if len(machines) == 1 else f"{speed.algorithm}, {speed.machine}"),
                    one_line(speed.acceleration) + DOUBTFUL_MARK * speed.is_doubtful,
                    str(speed.threads),
                    *(_megabytes(speed.bytes_per_s.get(block)) for block in BLOCK_BYTES),
                )
                for speed in speeds
                if speed.bytes_per_s
            ),
            items=tuple(one_line(remark) for remark in cipher_remarks(speeds, rows)),
            notes=(CIPHER_NOTE,),
        )
    ]


def _megabytes(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else significant(bytes_per_s / 1e6, 3)
