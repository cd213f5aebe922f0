"""Growth of a program's memory: a straight line through its samples, and the error of its slope."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tunnelbench.analysis.least_squares import fit, student_t_quantile
from tunnelbench.analysis.statistics import CONFIDENCE

MOST_SAMPLES = 1024
"""Most memory samples that are kept for each program. At this number every second one is dropped."""

BLOCKS = 16
"""Number of blocks into which the samples are divided; the line is fitted to the mean of each block. Single samples
depend on their neighbours."""

ROUTER_PAGE_BYTES = 4096
"""Assumed size of a memory page. Growth by less is not visible."""

HARMLESS_BYTES = 1 << 20
"""Growth in a week that does no harm: a router with 32 MiB (TL-WR841N) has a few MiB free."""

WEEK_S = 7 * 86_400


class Growth(StrEnum):
    """Statement about a program's memory."""

    GROWS = "grows"
    STEADY = "does not grow"
    UNKNOWN = "too short to tell"


@dataclass(frozen=True)
class MemoryTrend:
    """Resident memory of one program since its last start."""

    program: str
    first_bytes: int
    last_bytes: int
    observed_s: float
    slope_bytes_per_s: float | None
    error_bytes_per_s: float | None
    """Half the 95 % interval of the slope, and at least a page over the time; None: too few samples.

    Slope and error are those of the second half of the samples, because programs take memory while they warm up.
    """

    @property
    def growth(self) -> Growth:
        """`grows` if the slope exceeds its error, `does not grow` if slope plus error is below 1 MiB in a week."""
        slope, error = self.slope_bytes_per_s, self.error_bytes_per_s
        if slope is None or error is None:
            return Growth.UNKNOWN
        if slope > error:
            return Growth.GROWS
        return Growth.STEADY if (slope + error) * WEEK_S < HARMLESS_BYTES else Growth.UNKNOWN


@dataclass
class _ThinnedSamples:
    """Samples of one program, of which some are dropped so that their number stays limited."""

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


class MemorySamples:
    """Memory of programs over time, since the last restart or gap; after either, new processes run."""

    def __init__(self) -> None:
        self._kept: dict[str, _ThinnedSamples] = {}

    def discard(self, *, include_testers: bool) -> None:
        """Discard the samples of the tunnel's programs and, with `include_testers`, those of TunnelBench's own programs
        too."""
        for name in [*self._kept]:
            if include_testers or name.startswith(("router/", "server/")):  # others are TunnelBench's own programs
                del self._kept[name]

    def take(self, at_s: float, sizes: Mapping[str, int]) -> None:
        """Add a sample of each program."""
        for program, size in sizes.items():
            self._kept.setdefault(program, _ThinnedSamples()).take(at_s, size)

    def trends(self) -> tuple[MemoryTrend, ...]:
        """Return the trend of every program."""
        return tuple(
            trend_of(program, kept.times_s, kept.sizes, kept.last_s, kept.last_bytes)
            for program, kept in self._kept.items()
        )


def trend_of(
    program: str, times_s: Sequence[float], sizes: Sequence[int], last_s: float, last_bytes: int
) -> MemoryTrend:
    """Fit a line to the second half of the samples."""
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
        error = max(spread, ROUTER_PAGE_BYTES / (times[-1] - times[0]))
    return MemoryTrend(program, sizes[0], last_bytes, last_s - times_s[0], slope, error)
