"""Effect of background load on a run: the time waited for it to end, and the trials that it made void."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tunnelbench.model.result import TrialRecord, has_foreign_load
from tunnelbench.model.text import are, counted

SHORTEST_WAIT_S = 1.0
"""Waits below this are not reported, because the check for background load itself takes about as long."""


@dataclass(frozen=True)
class BackgroundLoadEffect:
    """Effect of background load on all trials of a run, the calibration included."""

    waited_s: float
    """Time that trials waited for background load to end [s]."""
    trials_held_up: int
    trials_left_out: int
    """Void trials, in which other processes took CPU time of the testbed."""

    def in_words(self) -> str:
        """Return sentences for the reader; empty if there was no effect."""
        found = [waited(self.waited_s)] if self.waited_s >= SHORTEST_WAIT_S else []
        if self.trials_left_out:
            left_out = self.trials_left_out
            found.append(f"{counted(left_out, 'trial')} {are(left_out)} left out because of background load.")
        return " ".join(found)


def background_load_effect(records: Iterable[TrialRecord]) -> BackgroundLoadEffect:
    """Add up the waits and the void trials of a run."""
    ordered = tuple(records)
    waits_s = [record.waited_for_quiet_s or 0.0 for record in ordered]
    return BackgroundLoadEffect(
        waited_s=sum(waits_s),
        trials_held_up=sum(wait_s >= SHORTEST_WAIT_S for wait_s in waits_s),
        trials_left_out=sum(has_foreign_load(record.checks) for record in ordered),
    )


def waited(waited_s: float) -> str:
    """Return a sentence that states the wait."""
    return f"The run waited {waited_s:.0f} s for background load to end."
