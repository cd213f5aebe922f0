"""The progress of a run at one moment, which the run publishes for people who watch it. It is no result."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

MOST_RATES = 40
"""Largest number of rates that are published."""


@dataclass(frozen=True)
class RunProgress:
    """The state of a run at one moment."""

    updated_at: str
    """UTC, ISO 8601, by the clock of the controller."""
    activity: str
    """The present step in words, such as `round 2: vxlan, 1448 bytes, down`."""
    trials_done: int
    left_s: float
    """Expected time until the run ends [s]."""
    trial_passed_s: float | None = None
    """Time since the traffic of the present trial began [s]; None: no trial is running."""
    trial_expected_s: float | None = None
    """Expected duration of the present trial [s]; None: no trial is running."""
    rates_bps: tuple[float, ...] = ()
    """Rates of the present trial on the wire, about one for each second, the newest last [bit/s]."""
    router_busy_share: float | None = None
    """Busy share of the router's CPUs in the last second, 0 to 1; None: not known before the trial ends."""

    def __post_init__(self) -> None:
        """Raises ValueError for figures that no run has."""
        named = (self.left_s, self.trial_passed_s, self.trial_expected_s, self.router_busy_share)
        figures = [self.trials_done, *self.rates_bps, *(each for each in named if each is not None)]
        if not all(isfinite(each) and each >= 0 for each in figures) or len(self.rates_bps) > MOST_RATES:
            raise ValueError("a run has no such progress")
