"""What a user is told when something cannot be done.

A `UserError` is one sentence that names the culprit, and a hint that says what to do. Only `cli` turns it into an exit
code. A bug is never wrapped in one: it keeps its traceback.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    CHECK_FAILED = 1
    WRONG_INPUT = 2
    CANNOT = 3
    INTERRUPTED = 130
    TERMINATED = 143


class UserError(Exception):
    """One sentence for the user, and what to do about it."""

    exit_code = ExitCode.WRONG_INPUT

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class WrongInput(UserError):
    """A file, a flag or a value is wrong."""


class CannotHere(UserError):
    """This machine, or a host of the testbed, cannot do what was asked."""

    exit_code = ExitCode.CANNOT


class TunnelUnavailable(CannotHere):
    """This kind of tunnel, with these options, cannot come up here: a program or a kernel feature is missing."""


class TunnelRefused(CannotHere):
    """The tunnel came up (or not) and is not what it was asked to be: it failed the proof and is not timed."""


class TrialFailed(Exception):
    """A trial ended without a figure, for a reason outside the tunnel's proof; the trial is void."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.raw: dict[str, str] = {}
        """What the programs had printed by then, by name."""


class NotBegun(TrialFailed):
    """A trial was not begun, for want of what an earlier one should have found; that says nothing of its tunnel."""
