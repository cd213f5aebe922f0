"""Whether a program's memory grows: a straight line through its samples, and how sure its slope is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tunnelbench.analysis.least_squares import fit, student_t_quantile

MOST_SAMPLES = 1024
"""Kept of each program; then every other one is left out, and half as many are taken."""

BLOCKS = 16
"""Neighbouring samples depend on each other: the line goes through the means of so many blocks."""

PAGE_BYTES = 4096
"""Memory comes in pages: what grows by less is not seen."""

HARMLESS_BYTES = 1 << 20
"""Of growth in a week: a router of 32 MiB (TL-WR841N) has a few to spare."""

WEEK_S = 7 * 86_400
CONFIDENCE = 0.95


class Growth(StrEnum):
    """What can be said of a program's memory."""

    GROWS = "grows"
    STEADY = "does not grow"
    UNKNOWN = "too short to tell"


@dataclass(frozen=True)
class MemoryTrend:
    """Resident memory of one program since it last began."""

    program: str
    first_bytes: int
    last_bytes: int
    observed_s: float
    slope_bytes_per_s: float | None
    error_bytes_per_s: float | None
    """Half the 95 % interval of the slope, at least a page over the time; None: too few samples. Both are of the second
    half: programs take memory while they warm up."""

    @property
    def growth(self) -> Growth:
        """`grows` where the slope is above its error; `does not grow` where slope and error together stay below 1 MiB
        in a week."""
        slope, error = self.slope_bytes_per_s, self.error_bytes_per_s
        if slope is None or error is None:
            return Growth.UNKNOWN
        if slope > error:
            return Growth.GROWS
        return Growth.STEADY if (slope + error) * WEEK_S < HARMLESS_BYTES else Growth.UNKNOWN


@dataclass
class _Kept:
    """Samples of one program, thinned out so that they stay few."""

    times_s: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    every: int = 1
    skipped: int = 0
    last_s: float = 0.0
    last_bytes: int = 0

    def take(self, at_s: float, size: int) -> None:
        self.last_s, self.last_bytes = at_s, size
        if self.skipped:
            self.skipped -= 1
            return
        self.times_s.append(at_s)
        self.sizes.append(size)
        if len(self.sizes) >= MOST_SAMPLES:
            del self.times_s[1::2], self.sizes[1::2]
            self.every *= 2
        self.skipped = self.every - 1


def is_our_own(program: str) -> bool:
    """Whether it is a tester's program, not one of the tunnel."""
    return not program.startswith(("router/", "server/"))


class Samples:
    """The memory of programs over time; what was before a restart or a gap is another process's."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def begin_anew(self, *, with_our_own: bool) -> None:
        """Other processes have those names now: the tunnel's, or all."""
        self._kept = {name: kept for name, kept in self._kept.items() if is_our_own(name) and not with_our_own}

    def take(self, at_s: float, sizes: Mapping[str, int]) -> None:
        """One look."""
        for program, size in sizes.items():
            self._kept.setdefault(program, _Kept()).take(at_s, size)

    def trends(self) -> tuple[MemoryTrend, ...]:
        """Of every program."""
        return tuple(
            trend_of(program, kept.times_s, kept.sizes, kept.last_s, kept.last_bytes)
            for program, kept in self._kept.items()
        )


def trend_of(
    program: str, times_s: Sequence[float], sizes: Sequence[int], last_s: float, last_bytes: int
) -> MemoryTrend:
    """The line through the second half of the samples."""
    slope, error = None, None
    half = len(times_s) // 2
    times, values = times_s[half:], sizes[half:]
    if len(times) >= BLOCKS and times[-1] > times[0]:
        bounds = [len(times) * number // BLOCKS for number in range(BLOCKS + 1)]
        blocks = list(itertools.pairwise(bounds))
        middle = sum(times) / len(times)
        rows = [[1.0, sum(times[a:b]) / (b - a) - middle] for a, b in blocks]
        means = [sum(values[a:b]) / (b - a) for a, b in blocks]
        line = fit(rows, means, [1.0] * BLOCKS)
        slope = line.values[1]
        spread = math.sqrt(line.covariance[1][1]) * (line.scatter or 0.0)
        spread *= student_t_quantile((1 + CONFIDENCE) / 2, BLOCKS - 2)
        error = max(spread, PAGE_BYTES / (times[-1] - times[0]))
    return MemoryTrend(program, sizes[0], last_bytes, last_s - times_s[0], slope, error)
