"""Errors that a user sees.

A `UserError` has one sentence that names the cause, and a hint that says what to do. Only `cli` turns it into an exit
code. A bug is never wrapped in a `UserError`: it keeps its traceback.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    CHECK_FAILED = 1
    WRONG_INPUT = 2
    CANNOT = 3
    TRY_LATER = 75
    """EX_TEMPFAIL of sysexits.h: the same command may succeed later."""
    INTERRUPTED = 130
    TERMINATED = 143


class UserError(Exception):
    """An error with one sentence for the user, and a hint that says what to do."""

    exit_code = ExitCode.WRONG_INPUT

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class WrongInput(UserError):
    """An error in a file, a flag or a value."""


class WrongState(WrongInput):
    """Something that exists is in a state in which it cannot be changed like this."""


class CannotHere(UserError):
    """An error because this machine, or a host of the testbed, cannot do what the user asked for."""

    exit_code = ExitCode.CANNOT


class StoreLost(CannotHere):
    """The store is damaged, or was deleted, moved or replaced while it was open: stored results may not be in it."""


class StoreAway(CannotHere):
    """The store does not answer, such as a server that starts, hangs or cannot be reached: it may answer later."""

    exit_code = ExitCode.TRY_LATER


class StoreAwayAtEnd(StoreAway, StoreLost):
    """The store did not answer when a run ended: results may not be in it."""


class MeasuredElsewhere(CannotHere):
    """Another process measures the run."""

    exit_code = ExitCode.TRY_LATER


class TunnelUnavailable(CannotHere):
    """A program or a kernel feature is missing, so that this tunnel with these options cannot come up."""


class TunnelRefused(CannotHere):
    """The tunnel failed its proof, because it did not come up or is not what the plan says; it is not timed."""


class KeptForDebugging(CannotHere):
    """A trial failed, and the run ended with its testbed and tunnel still up, as `run --keep` asks."""


class TrialFailed(Exception):
    """A trial ended without a figure, for a reason other than the tunnel's proof; the trial is void."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.raw: dict[str, str] = {}
        """Output of the programs up to the failure, by name of the program."""


class NotBegun(TrialFailed):
    """A trial did not start because an earlier trial did not find the figure that it needs; the tunnel itself may
    work."""
