"""Whether the machine's clock was set, or the machine slept, while a trial ran.

The figures come from CLOCK_MONOTONIC, which is never set. Tunnels go by the wall clock, though (rekeying, replay
windows, certificates), and a machine that slept was no bench.
"""

from __future__ import annotations

import time

from tunnelbench.model.result import Check, Verdict

STEP_FROM_S = 0.128
"""From here on ntpd steps a clock, below it slews (its `step` threshold; at most 500 ppm, 5 ms in 10 s)."""


def wall_offset_s() -> float:
    """The wall clock's lead over the monotonic clock [s]: constant unless one of them is stopped or set."""
    return time.time() - time.monotonic()


def check_clock(step_s: float, *, is_long: bool = False) -> Check:
    """Judge by how much the offset changed over a trial [s]; one of hours or days is not thrown away for that."""
    if abs(step_s) < STEP_FROM_S:
        return Check("clock", Verdict.OK, "nobody set the clock", rule=8)
    reason = f"the clock was set by {step_s:+.1f} s during the trial, or the machine slept"
    return Check("clock", Verdict.DOUBTFUL if is_long else Verdict.VOID, reason, rule=8)
