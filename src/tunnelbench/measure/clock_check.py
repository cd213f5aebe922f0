"""The check that the machine's clock was not set, and that it did not sleep, during a trial.

The figures come from CLOCK_MONOTONIC, which is never set. But tunnels use the wall clock (rekeying, replay windows,
certificates), and a machine that sleeps measures nothing.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tunnelbench.model.result import Check, Verdict

STEP_FROM_S = 0.128
"""Step from which on ntpd sets a clock at once instead of slewing it [s] (its `step` threshold; it slews by at most
500 ppm, 5 ms in 10 s)."""


def wall_offset_s() -> float:
    """Return the wall clock's lead over the monotonic clock [s]; the lead changes only if a clock is set or stops."""
    return time.time() - time.monotonic()


class ClockWatch:
    """Measures by how much the wall clock was set at most since it was started."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Take the present state of the clock as correct."""
        self._offset_s = wall_offset_s()
        self._step_s = 0.0

    def look(self) -> None:
        """Read the clock once more, so that a step is noticed even if the clock is set back before the end."""
        step_s = wall_offset_s() - self._offset_s
        self._step_s = max(self._step_s, step_s, key=abs)

    def check(self, *, is_long: bool = False) -> Check:
        """Judge the largest step."""
        self.look()
        return check_clock(self._step_s, is_long=is_long)


def check_clock(step_s: float, *, is_long: bool = False) -> Check:
    """Check `step_s`, the change of `wall_offset_s` over a trial [s]. After a step a soak is doubtful, not void."""
    if abs(step_s) < STEP_FROM_S:
        return Check("clock", Verdict.OK, "the clock was not set", rule=8)
    reason = f"the clock was set by {step_s:+.1f} s during the trial, or the machine slept"
    return Check("clock", Verdict.DOUBTFUL if is_long else Verdict.VOID, reason, rule=8)


def now() -> str:
    """Return the time of day in UTC, as ISO 8601 to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
