"""Report section on the instructions of a router of fixed speed for one packet."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.analysis.number_format import estimate_text
from tunnelbench.analysis.packet_instructions import PacketInstructions
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.model.text import counted
from tunnelbench.report.sections import Section
from tunnelbench.report.text import one_line

NOTE = (
    "Median, and range over the rounds. The difference between a low and a very low rate: idle work, such as clock "
    "ticks, keep-alives and pings, is subtracted. Each byte: the difference between the smallest and the largest "
    "payload. Against no tunnel: the quotient within each round."
)


def instructions_section(every: Sequence[PacketInstructions]) -> list[Section]:
    """Return the section on instructions for each packet; an empty list if the run did not count instructions."""
    if not any(each.by_payload for each in every):
        return []
    payloads = sorted({payload for each in every for payload in each.by_payload})
    return [
        Section(
            title="Instructions for one packet",
            header=(
                "Tunnel",
                "Way",
                *(f"{payload} bytes" for payload in payloads),
                "Each byte",
                *(f"Against no tunnel, {payload} bytes" for payload in payloads),
                "Idle [10^6/s]",
            ),
            rows=tuple(_row(each, payloads) for each in every),
            items=tuple(
                one_line(
                    f"{each.tunnel.name}, {each.direction.label}: packets were lost or waited in "
                    f"{counted(each.left_out_trials, 'trial')}, which are left out."
                )
                for each in every
                if each.left_out_trials
            ),
            notes=(NOTE,),
        )
    ]


def _row(each: PacketInstructions, payloads: Sequence[int]) -> tuple[str, ...]:
    return (
        one_line(each.tunnel.name),
        each.direction.label,
        *(_range(each.by_payload.get(payload), 4) for payload in payloads),
        _range(each.per_byte, 3),
        *(_range(each.over_baseline.get(payload), 3) for payload in payloads),
        _range(each.idle_mips, 3),
    )


def _range(found: Estimate | None, digits: int) -> str:
    return "-" if found is None else estimate_text(found, digits)
