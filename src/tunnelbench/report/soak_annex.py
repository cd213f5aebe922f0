"""Long runs below the main table: what was lost, when, what happened to the tunnel, and whether memory grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.memory import Growth, MemoryTrend
from tunnelbench.analysis.numbers import percent, significant
from tunnelbench.analysis.soak import Moment, SoakSummary
from tunnelbench.report.annexes import Annex
from tunnelbench.report.text import one_line

MOMENTS_NAMED = 5
"""Of each kind; the series has them all."""

HEADER = (
    "Soak",
    "Time",
    "Offered [packets/s]",
    "Received [packets/s]",
    "Lost",
    "Loss",
    "Lossy seconds",
    "Longest without loss",
    "Worst second",
    "CPU mean/most",
    "Restarts",
    "Rekeys",
    "Gaps",
)


NOTE = (
    "Lost: on the path, in the seconds in which packets were sent; drops of the testers' sockets left out. A gap is "
    "time in which nobody measured: neither carried nor lost, and a stretch without loss ends at it. Memory: slope of "
    "the second half since the program began, with the 95 % interval; it does not grow where slope and error together "
    "stay below 1 MiB in a week."
)


def soak_annex(summaries: Sequence[SoakSummary]) -> list[Annex]:
    """One row for each soak; nothing where there is none."""
    if not summaries:
        return []
    return [
        Annex(
            "Soaks",
            header=HEADER,
            rows=tuple(tuple(one_line(cell) for cell in _row(summary)) for summary in summaries),
            items=tuple(one_line(f"{_name(summary)}: {text}") for summary in summaries for text in _remarks(summary)),
            notes=(NOTE,),
        )
    ]


def _name(summary: SoakSummary) -> str:
    spec = summary.spec
    way = " echo" if summary.is_echo else ""
    return f"{spec.tunnel.name}, {spec.payload} {spec.direction}{way}, {spec.load}{_unit(spec.load)}"


def _unit(load: str) -> str:
    return " of the NDR" if load.endswith("%") else " packets/s"


def _row(summary: SoakSummary) -> tuple[str, ...]:
    worst = summary.worst_second
    return (
        _name(summary),
        length(summary.measured_s),
        significant(summary.offered_pps),
        significant(summary.received_pps),
        str(summary.lost_packets),
        percent(summary.loss_ratio),
        str(summary.seconds_with_loss),
        length(summary.longest_loss_free_s),
        f"{summary.worst_second_lost_packets} at {length(worst.at_s)}" if worst else "-",
        f"{_share(summary.router_busy_share)}/{_share(summary.router_busy_max_share)}",
        str(summary.restarts),
        str(summary.rekeys),
        f"{summary.gaps}: {length(summary.gaps_s)}" if summary.gaps else "0",
    )


def _remarks(summary: SoakSummary) -> Iterator[str]:
    if not summary.is_complete:
        why = f" ({summary.ended})" if summary.ended else ""
        yield f"not finished: {length(summary.measured_s)} of {length(summary.planned_s)} were measured{why}"
    if oddities := _oddities(summary):
        yield oddities
    if summary.is_echo:
        yield (
            f"round trip: median {_us(summary.delay_p50_ns)} us, worst {_us(summary.delay_max_ns)} us; 99 % of "
            f"the worst second under {_us(summary.delay_p99_worst_ns)} us"
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
    return f"{count} {kind}{'s' * (count != 1)} at {named}{more}"


def memory_text(trend: MemoryTrend) -> str:
    """Whether one program's memory grows."""
    size = (
        f"{trend.program} {_kib(trend.last_bytes)} after {length(trend.observed_s)}, {_kib(trend.first_bytes)} at first"
    )
    if trend.slope_bytes_per_s is None or trend.error_bytes_per_s is None:
        return f"memory of {size}: {Growth.UNKNOWN}"
    slope, error = (each * 3600 / 1024 for each in (trend.slope_bytes_per_s, trend.error_bytes_per_s))
    return f"memory of {size}: {significant(slope, 3)} +- {significant(error, 3)} KiB/h, {trend.growth}"


def _kib(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.0f} KiB"


def length(seconds: float) -> str:
    """A time such as `2 d 3:04:05`, `3:04:05` or `12.5 s`."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days} d {hours}:{minutes:02}:{rest:02}" if days else f"{hours}:{minutes:02}:{rest:02}"


def _us(delay_ns: float | None) -> str:
    return "-" if delay_ns is None else significant(delay_ns / 1e3, 3)


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)
