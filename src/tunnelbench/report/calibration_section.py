"""Section of a comparison on the cycles that a real router takes for each instruction of the virtual one."""

from __future__ import annotations

from tunnelbench.analysis.compare.calibration import CalibratedRow, Calibration
from tunnelbench.analysis.number_format import significant
from tunnelbench.model.plan import direction_label
from tunnelbench.model.text import counted
from tunnelbench.report.sections import Section
from tunnelbench.report.text import one_line

CALIBRATION_NOTE = (
    "Instructions: of the virtual router, for one data packet with its ACKs. Published: throughput and CPU share of "
    "the real router. Cycles: clock x CPU share / data packets per second, which follow from the throughput and the "
    "payload of the run's segments. Predicted: the throughput at that CPU share, from the median cycles/instruction of "
    "all other rows. Programs, kernels and their compilers differ between both routers, and so do the instructions."
)


def calibration_section(found: Calibration | None) -> list[Section]:
    """Return the section; none if there is no calibration."""
    if found is None:
        return []
    worst = max(found.rows, key=lambda row: abs(row.error_share))
    place = " ".join(filter(None, (worst.tunnel, _place(worst))))
    return [
        Section(
            title="Calibration",
            items=tuple(
                one_line(text)
                for text in (
                    calibration_text(found),
                    f"The largest error is {_signed(worst.error_share)}: {place}.",
                    f"Source of the clock: {found.clock_source}." if found.clock_source else "",
                )
                if text
            ),
            header=(
                "Tunnel",
                "Row",
                "Instructions /packet",
                "Published Mbit/s",
                "Published CPU",
                "Cycles /packet",
                "Cycles /instruction",
                "Predicted Mbit/s",
                "Error",
            ),
            rows=tuple(_row(row) for row in found.rows),
            notes=(CALIBRATION_NOTE,),
        )
    ]


def calibration_text(found: Calibration) -> str:
    """Return the result of a calibration in two sentences."""
    low, middle, high = (
        significant(each, 3, like=found.cycles_per_instruction.median)
        for each in (
            found.cycles_per_instruction.low,
            found.cycles_per_instruction.median,
            found.cycles_per_instruction.high,
        )
    )
    return (
        f"At {found.clock_mhz:g} MHz, the published router took {middle} cycles ({low}-{high}) for each "
        f"instruction of the virtual one: median and range of {counted(len(found.rows), 'row')}. The throughput of "
        f"each row, predicted from the other rows, is wrong by {found.median_absolute_error_share * 100:.0f} % in the "
        "median."
    )


def _row(row: CalibratedRow) -> tuple[str, ...]:
    return (
        one_line(row.tunnel),
        _place(row),
        significant(row.packet_instructions, 4, thousands=True),
        significant(row.published_mbps, 3),
        f"{row.published_cpu_share * 100:.0f} %",
        significant(row.packet_cycles, 4, thousands=True),
        significant(row.cycles_per_instruction, 3),
        significant(row.predicted_mbps, 3),
        _signed(row.error_share),
    )


def _place(row: CalibratedRow) -> str:
    payload = "" if row.payload_bytes is None else str(row.payload_bytes)
    return " ".join(filter(None, (payload, direction_label(row.direction))))


def _signed(share: float) -> str:
    return f"{share * 100:+.0f} %"
