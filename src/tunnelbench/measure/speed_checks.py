"""The checks of a virtual router whose CPU has a fixed speed. They do no I/O."""

from __future__ import annotations

from tunnelbench.model.counters import Window
from tunnelbench.model.result import Check, Verdict

LATE_LIMIT_SHARE = 0.01
"""Share of the window by which the router's clock may lose or gain time."""

IDLE_LATE_LIMIT_SHARE = 0.1
"""Share of the router's idle time that its clock may lose or gain in addition. The virtual CPU starts late after each
wait, and a router with idle time does not work faster while its clock catches up."""

PACED_LATE_LIMIT_SHARE = 0.5
"""The same share for a load that the plan paces, if no times are measured: the router waits for each packet, and late
waits change neither the number of packets nor the work of a packet as long as it has time left."""

FULL_SHARE = 0.95
"""Busy share of a router of fixed speed from which the router is surely the limit. The share refers to the time on the
router's own clock. The load of the testers' CPUs does not matter then."""


def router_clock(window: Window, *, is_paced: bool = False) -> tuple[Check, ...]:
    """Check that the router's CPU had its speed; no check of a router that has no fixed speed.

    QEMU lets the clock of the router fall behind if this machine is too slow. Afterwards, the clock catches up: a busy
    router then executes more instructions per second than its speed, until the two clocks agree again.
    """
    if window.router_clock_lost_s is None:
        return ()
    lost_share = window.router_clock_lost_s / window.duration_s
    idle_share = max(0.0, 1 - (window.router_own_share or 0.0))
    limit_share = LATE_LIMIT_SHARE + (PACED_LATE_LIMIT_SHARE if is_paced else IDLE_LATE_LIMIT_SHARE) * idle_share
    verdict, reason = Verdict.OK, "the router's clock kept the time of this machine"
    if abs(lost_share) >= 0.0005:
        way = "lost" if lost_share > 0 else "gained"
        reason = f"the router's clock {way} {abs(lost_share):.1%} of the time"
    if lost_share > limit_share:
        verdict, reason = Verdict.VOID, f"{reason}: the host was too slow for this speed"
    elif lost_share < -limit_share:
        verdict, reason = Verdict.VOID, f"{reason}: it caught up after the host was too slow for this speed"
    return (Check("router-clock", verdict, reason, rule=14),)


def withstands_load(window: Window | None, *, is_paced: bool) -> bool:
    """Return True if background load cannot have changed the figures of a trial whose other checks are ok.

    The router has a fixed speed, and the testers either offered a fixed load or could offer more than it can forward.
    """
    return window is not None and window.router_clock_lost_s is not None and (is_paced or is_surely_the_limit(window))


def is_surely_the_limit(window: Window | None) -> bool:
    """Return True if the router has a fixed speed and used it up, so that no tester can have been the limit."""
    return window is not None and (window.router_own_share or 0.0) >= FULL_SHARE
