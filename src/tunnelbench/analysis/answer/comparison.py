"""Comparison of the recommended tunnel with the others: only a difference beyond the spreads is a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tunnelbench.analysis.answer.tunnels import TunnelAnswer
from tunnelbench.analysis.answer.udp import UdpAnswer
from tunnelbench.analysis.answer.words import named
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.model.text import joined

AnswerT = TypeVar("AnswerT", TunnelAnswer, UdpAnswer)
IsBetter = Callable[[AnswerT, AnswerT, str], bool | None]
"""Function that returns whether the spreads show that a tunnel is better than another in a direction; None: unknown."""


@dataclass(frozen=True)
class DirectionComparison:
    """Comparison of the recommended tunnel with the other tunnels of its group in one direction."""

    direction: str
    """`down` or `up`."""
    is_best: bool
    """True if the spreads show that the recommended tunnel is better than every other one."""
    too_close: tuple[str, ...]
    """Names of the tunnels whose spread overlaps that of the recommended tunnel, so that no difference is shown."""
    better: tuple[str, ...]
    """Names of the tunnels that are better than the recommended one by more than the spreads."""
    untested: tuple[str, ...] = ()
    """Names of the tunnels that cannot be compared, because one of the two figures is from a single trial."""
    doubtful: tuple[str, ...] = ()
    """Names of the compared tunnels whose figure is doubtful, the recommended one included."""


def shows_less(one: Estimate | None, other: Estimate | None) -> bool | None:
    """Return True if one figure is below another by more than the spreads; None if one is unknown.

    A single trial has no spread and shows no difference.
    """
    if one is None or other is None:
        return None
    return min(one.count, other.count) > 1 and one.median < other.median and not one.ties_with(other)


def is_cheaper(one: TunnelAnswer, other: TunnelAnswer, way: str) -> bool | None:
    """Return whether a tunnel is shown to take less CPU time than another one in a direction; None if unknown."""
    return shows_less(one.directions[way].cpu_share, other.directions[way].cpu_share)


def cpu_factors(cheap: TunnelAnswer, dear: TunnelAnswer) -> list[tuple[str, float]]:
    """Return by direction how many times the CPU time of a tunnel another one takes, where the spreads show more."""
    pairs = [(way, own.cpu_share, dear.directions[way].cpu_share) for way, own in cheap.directions.items()]
    return [
        (way, other.median / own.median)
        for way, own, other in pairs
        if own and other and own.median > 0 and shows_less(own, other)
    ]


def carries_more_small(one: TunnelAnswer, other: TunnelAnswer, way: str) -> bool | None:
    """Return whether a tunnel is shown to carry more small packets than another one; None if unknown."""
    rival = other.directions[way]
    is_more = shows_less(rival.small_pps, one.directions[way].small_pps)
    return is_more and not rival.is_small_lower_bound


def carries_more_udp(one: UdpAnswer, other: UdpAnswer, way: str) -> bool | None:
    """Return whether a tunnel is shown to carry more UDP packets than another one; None if unknown."""
    rival = other.directions[way]
    is_more = shows_less(rival.rate_pps, one.directions[way].rate_pps)
    return is_more and not rival.is_lower_bound


def cpu_trials(answer: TunnelAnswer, way: str) -> int:
    """Return the number of trials behind the CPU time of a tunnel in a direction."""
    share = answer.directions[way].cpu_share
    return share.count if share else 0


def udp_trials(answer: UdpAnswer, way: str) -> int:
    """Return the number of trials behind the rate of a tunnel in a direction."""
    rate = answer.directions[way].rate_pps
    return rate.count if rate else 0


def compare(
    best: AnswerT, others: Sequence[AnswerT], is_better: IsBetter[AnswerT], trials: Callable[[AnswerT, str], int]
) -> tuple[DirectionComparison, ...]:
    """Compare a tunnel with the others in each direction in which they were measured."""
    found = []
    for way in best.directions:
        close: list[str] = []
        better: list[str] = []
        untested: list[str] = []
        known: list[AnswerT] = [other for other in others if is_better(best, other, way) is not None]
        for other in known:
            if min(trials(best, way), trials(other, way)) < 2:
                untested.append(other.name)
            elif is_better(other, best, way):
                better.append(other.name)
            elif not is_better(best, other, way):
                close.append(other.name)
        if known:
            doubtful = [best.name] * best.directions[way].is_doubtful
            doubtful += [other.name for other in known if other.directions[way].is_doubtful]
            is_best = not (close or better or untested or doubtful)
            lists = (tuple(names) for names in (close, better, untested, doubtful))
            found.append(DirectionComparison(way, is_best, *lists))
    return tuple(found)


def claim(
    names: Sequence[str], does: str, less: str, found: Sequence[DirectionComparison], *, kind: str, figures: str
) -> str:
    """Return the sentence that names the first of some tunnels as the best one, and no more than the comparison shows.

    `does` is what the best tunnel does, such as `takes the least CPU`; `less` is what a better tunnel does, such as
    `takes less`. `kind` is that of all tunnels, such as `encrypted tunnel`, and `figures` what is compared.
    """
    name, count = names[0], len(names)
    if count == 1:
        return f"{name} is the only {kind} with {figures}."
    head = f"Of the {count} {kind}s, {name}"
    won = [each.direction for each in found if each.is_best]
    if found and all(each.untested and not (each.better or each.too_close) for each in found):
        return f"{head} {does}, but one trial each cannot prove it."
    head += f" {does} for traffic {joined(won)}" if won else f" probably {does}"
    return "; ".join([head, *_not_won([each for each in found if not each.is_best], less, count)]) + "."


def _not_won(found: Sequence[DirectionComparison], less: str, count: int) -> Iterator[str]:
    """Yield the result of each direction in which no tunnel is clearly best; directions with equal results share one
    text."""
    ways: dict[str, list[str]] = {}
    for each in found:
        parts = [f"{joined(named(each.better))} {less}"] if each.better else []
        close = joined(["it", *named(each.too_close)])
        if len(each.too_close) == count - 1:
            close = "both" if count == 2 else f"all {count}"
        parts += [f"{close} differ by no more than their trials do"] if each.too_close else []
        parts += ["one trial is too few to tell"] if each.untested else []
        if each.doubtful:
            figures = "the figure of {} is" if len(each.doubtful) == 1 else "the figures of {} are"
            parts.append(f"{figures.format(joined(named(each.doubtful)))} doubtful")
        ways.setdefault(" and ".join(parts), []).append(each.direction)
    for text, own in ways.items():
        yield f"{joined(own)}, {text}"
