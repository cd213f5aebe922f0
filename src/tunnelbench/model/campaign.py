"""A campaign: several plans on several testbeds, several times, as jobs that are evaluated together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class CampaignSpec:
    """The content of a campaign file."""

    name: str
    """Name in the queue; a queue has each name once."""
    plans: tuple[str, ...]
    """Names or paths of plans."""
    testbeds: tuple[str, ...]
    repetitions: int = 1
    priority: int = 0
    deadline_s: float | None = None
    """Time after the submission from which a job is not begun any more [s]; None: no limit."""

    def cells(self) -> Iterator[tuple[int, str, str]]:
        """Yield repetition (from 1), plan and testbed of each job in the order of submission.

        Every plan is on every testbed once before anything is repeated, and a plan reaches all testbeds before the next
        plan: a slow change of the surroundings then affects all plans and testbeds alike.
        """
        for repetition in range(1, self.repetitions + 1):
            for plan in self.plans:
                for testbed in self.testbeds:
                    yield repetition, plan, testbed
