"""Makes the report section of soaks: losses and their times, restarts, rekeys, gaps, and growth of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.memory import Growth, MemoryTrend
from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.soak import Moment, SoakSummary
from tunnelbench.model.text import counted
from tunnelbench.report.figures import table_figures
from tunnelbench.report.sections import Section
from tunnelbench.report.text import length, one_line

MOMENTS_NAMED = 5
"""Largest number of moments of one kind that are named; the format `series` has all."""

MEMORY_NOTE = (
    "Memory: slope of the second half since the program began, with the 95 % interval. Memory does not grow if slope "
    "and error together stay below 1 MiB in a week."
)


def soak_section(summaries: Sequence[SoakSummary]) -> list[Section]:
    """Return a section with one row for each soak; none if there is no soak."""
    if not summaries:
        return []
    return [
        Section(
            "Soaks",
            header=("Soak", *(figure.heading for figure in table_figures("soak"))),
            rows=tuple((one_line(_name(summary)), *_row(summary)) for summary in summaries),
            items=tuple(one_line(f"{_name(summary)}: {text}") for summary in summaries for text in _remarks(summary)),
            notes=(" ".join([*(figure.help for figure in table_figures("soak") if figure.help), MEMORY_NOTE]),),
        )
    ]


def _name(summary: SoakSummary) -> str:
    spec = summary.spec
    way = " echo" if summary.is_echo else ""
    return f"{spec.tunnel.name}, {spec.payload} {spec.direction.label}{way}, {spec.load}{_unit(spec.load)}"


def _unit(load: str) -> str:
    return " of the NDR" if load.endswith("%") else " packets/s"


def _row(summary: SoakSummary) -> list[str]:
    columns = [(figure, figure.of_table or figure.of_trial) for figure in table_figures("soak")]
    return [figure.printed(read(summary)).median for figure, read in columns if read]


def _remarks(summary: SoakSummary) -> Iterator[str]:
    if not summary.is_complete:
        why = f" ({summary.ended})" if summary.ended else ""
        yield f"not finished: {length(summary.measured_s)} of {length(summary.planned_s)} were measured{why}"
    if oddities := _oddities(summary):
        yield oddities
    if summary.is_echo:
        yield (
            f"round trip: median {_us(summary.delay_p50_ns)} µs, worst {_us(summary.delay_max_ns)} µs; 99 % of "
            f"the worst second under {_us(summary.delay_p99_worst_ns)} µs"
        )
    if summary.gap_list:
        yield _named(
            "gap", summary.gaps, [Moment(gap.at_s, f"for {length(gap.duration_s)}") for gap in summary.gap_list]
        )
    if summary.restarts:
        yield _named("restart", summary.restarts, summary.restart_list)
    if summary.rekeys:
        yield _named("rekey", summary.rekeys, [Moment(each.at_s, "") for each in summary.rekey_list])
    for trend in summary.memory:
        yield memory_text(trend)


def _oddities(summary: SoakSummary) -> str:
    counts = {
        "late": summary.late_packets or 0,
        "duplicated": summary.duplicated_packets,
        "reordered": summary.reordered_packets,
        "corrupted": summary.corrupted_packets,
        "dropped by the testers' sockets": summary.tester_dropped_packets,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _named(kind: str, count: int, moments: Sequence[Moment]) -> str:
    named = "; ".join(
        f"{length(each.at_s)} ({each.text})" if each.text else length(each.at_s) for each in moments[:MOMENTS_NAMED]
    )
    more = f"; and {count - MOMENTS_NAMED} more" if count > MOMENTS_NAMED else ""
    return f"{counted(count, kind)} at {named}{more}"


def memory_text(trend: MemoryTrend) -> str:
    """Return a text on one program's memory: its size, its growth [KiB/h], and whether it grows."""
    size = (
        f"{trend.program} {_kib(trend.last_bytes)} after {length(trend.observed_s)}, {_kib(trend.first_bytes)} at first"
    )
    if trend.slope_bytes_per_s is None or trend.error_bytes_per_s is None:
        return f"memory of {size}: {Growth.UNKNOWN}"
    slope, error = (each * 3600 / 1024 for each in (trend.slope_bytes_per_s, trend.error_bytes_per_s))
    return f"memory of {size}: {significant(slope, 3)} +- {significant(error, 3)} KiB/h, {trend.growth}"


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f} KiB"


def _us(delay_ns: float | None) -> str:
    return "-" if delay_ns is None else significant(delay_ns / 1e3, 3)
