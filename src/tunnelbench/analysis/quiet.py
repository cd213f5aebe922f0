"""What other people's load cost a run: the time waited for quiet, and the trials that are left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tunnelbench.model.result import TrialRecord, Verdict

WORTH_TELLING_S = 1.0
"""Each look for quiet takes a moment of its own; less than this is no wait."""


@dataclass(frozen=True)
class Quiet:
    """Over all trials of a run, the calibration included."""

    waited_s: float
    """[s]"""
    trials_held_up: int
    trials_left_out: int
    """Void because other processes took the testbed's CPUs all the same."""

    def in_words(self) -> str:
        """A sentence for the reader; empty where there was nothing."""
        said = []
        if self.waited_s >= WORTH_TELLING_S:
            said.append(f"{self.waited_s:.0f} s went by in waiting for other load to end")
        if self.trials_left_out:
            trials = "1 trial is" if self.trials_left_out == 1 else f"{self.trials_left_out} trials are"
            said.append(f"{trials} left out because of other load")
        return "; ".join(said) + "." if said else ""


def quiet(records: Iterable[TrialRecord]) -> Quiet:
    """Add up what was stored of each trial."""
    ordered = tuple(records)
    waits_s = [record.waited_for_quiet_s or 0.0 for record in ordered]
    return Quiet(
        waited_s=sum(waits_s),
        trials_held_up=sum(wait_s >= WORTH_TELLING_S for wait_s in waits_s),
        trials_left_out=sum(_is_left_out(record) for record in ordered),
    )


def _is_left_out(record: TrialRecord) -> bool:
    return any(check.name == "foreign-load" and check.verdict is Verdict.VOID for check in record.checks)
