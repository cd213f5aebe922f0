"""A short trial that shows if this machine holds the fixed speed of a virtual router, and which speed it holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tunnelbench.qemu.fixed_speed import SPEEDS_MIPS, MachineWork

SPEED_TRIAL_S = 2.5
"""Length of the trial on this machine's clock [s]."""

WORK_IN_BACKGROUND = (
    f"timeout {SPEED_TRIAL_S + 1.5:.0f} sh -c 'while :; do busybox true; done' >/dev/null 2>&1 </dev/null &"
)
"""Shell script that returns at once and keeps a virtual CPU busy for longer than the trial, by starting programs. Each
instruction then costs this machine more than in a loop that only computes, as in a tunnel's program."""

LOST_LIMIT_SHARE = 0.01
"""Share of the trial that the clock of a busy router may lose, as in the check `router-clock`."""

HEADROOM = 2.0
"""Quotient of the instructions that this machine emulates in the trial and a speed that it holds for a whole run.

Small packets through a tunnel's program cost this machine about twice as much as the work of the trial: the code of
kernel, program and libraries is larger than the caches of QEMU, and QEMU emulates the network devices besides.
"""


@dataclass(frozen=True)
class SpeedTrial:
    """Instructions that a busy virtual CPU of fixed speed executed in a short time."""

    speed_mips: float
    executed_mips: float
    """Instructions per second of this machine's time [10^6]."""
    lost_share: float
    """Share of the time that its clock lost."""
    used_share: float
    """CPU time that QEMU took, as a share of one CPU."""

    @property
    def is_held(self) -> bool:
        return self.lost_share <= LOST_LIMIT_SHARE

    @property
    def is_scarce(self) -> bool:
        """True if the speed leaves this machine so little CPU time that trials with packets may be void."""
        return self.is_held and self.used_share * HEADROOM > 1

    @property
    def held_mips(self) -> float | None:
        """The highest of SPEEDS_MIPS that this machine can hold, at most the speed of the trial; None: none of them."""
        if self.is_held:
            return self.speed_mips
        return next((mips for mips in SPEEDS_MIPS if mips * HEADROOM <= self.executed_mips), None)

    def result(self) -> str:
        """Return the result in one clause."""
        if self.is_held:
            held = f"this machine holds {self.speed_mips:g} MIPS with {self.used_share:.0%} of a CPU"
            return held + (", so that packets may be too much for it" if self.is_scarce else "")
        found = f"this machine emulated {self.executed_mips:.3g} million instructions per second"
        held = "no speed that QEMU offers" if self.held_mips is None else f"{self.held_mips:g} MIPS"
        return f"{found}, not {self.speed_mips:g}: it holds {held}"

    def advice(self, command: str) -> str:
        """Return what the user can do if this machine does not reach the speed with ease. "": it does.

        `command` is a command with the option --set, for an example.
        """
        if self.is_held and not self.is_scarce:
            return ""
        end_others = "end other programs on this machine"
        mips = next((mips for mips in SPEEDS_MIPS if mips < self.speed_mips), None) if self.is_held else self.held_mips
        if mips is None:
            return end_others
        setting = f"speed_mips = {mips:g} in a testbed file"
        return f"{end_others}, or set {setting}, or for one run: {command} --set speed_mips={mips:g}"

    def text(self, command: str) -> str:
        """Return result and advice in one line."""
        advice = self.advice(command)
        return f"warning: {self.result()}; {advice}" if advice else self.result()


def try_speed(
    work: Callable[[], MachineWork],
    cpu_s: Callable[[], float],
    speed_mips: float,
    duration_s: float = SPEED_TRIAL_S,
) -> SpeedTrial:
    """Return what a virtual machine executes in `duration_s`; its CPU must be busy meanwhile.

    `cpu_s` returns the CPU time of QEMU so far [s]. Raises OSError if QEMU has ended.
    """
    before, spent_s = work(), cpu_s()
    time.sleep(duration_s)
    return judge_speed(before, work(), speed_mips, cpu_s() - spent_s)


def judge_speed(before: MachineWork, after: MachineWork, speed_mips: float, used_s: float) -> SpeedTrial:
    """Return the result from two readings of a machine whose CPU was busy, and QEMU's CPU time between them [s]."""
    passed_s = after.clock_s - before.clock_s
    executed = (after.instructions or 0) - (before.instructions or 0)
    lost_s = (after.lag_s or 0.0) - (before.lag_s or 0.0)
    return SpeedTrial(speed_mips, executed / passed_s / 1e6, lost_s / passed_s, used_s / passed_s)
