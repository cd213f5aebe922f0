"""The jobs of a campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from procrastinate.jobs import Job

from tunnelbench.model.campaign import CampaignSpec
from tunnelbench.model.errors import WrongInput
from tunnelbench.racks.queue import MOST_JOBS, deadline_value, waiting_job


@dataclass(frozen=True)
class PlanOfJob:
    """A plan as jobs hold it."""

    name: str
    text: str
    expected_s: float
    """Expected duration of a run [s]."""


@dataclass(frozen=True)
class CampaignSubmission:
    """A campaign with the texts of its plans."""

    spec: CampaignSpec
    plans: Mapping[str, PlanOfJob]
    """The plans by their references in `spec`."""
    new_run_id: Callable[[], str]

    def __post_init__(self) -> None:
        count = sum(1 for _ in self.spec.cells())
        if count > MOST_JOBS:
            message = f"campaign {self.spec.name} has {count} jobs, which is too large"
            raise WrongInput(message, f"submit at most {MOST_JOBS} jobs at once")
        names = [plan.name for plan in self.plans.values()]
        if len(set(names)) < len(names):
            raise WrongInput(
                f"campaign {self.spec.name}: two plans have the same name, so that reports could not tell them apart",
                "rename the file of one of them",
            )

    @property
    def campaign(self) -> str:
        return self.spec.name

    def jobs(self) -> list[Job]:
        """Return the jobs in the order of `CampaignSpec.cells`."""
        deadline = deadline_value(self.spec.deadline_s)
        return [
            waiting_job(
                testbed,
                self.spec.priority,
                {
                    "plan_name": self.plans[plan].name,
                    "plan_text": self.plans[plan].text,
                    "testbed": testbed,
                    "run_id": self.new_run_id(),
                    "expected_s": self.plans[plan].expected_s,
                    "campaign": self.spec.name,
                    "repetition": repetition,
                    **deadline,
                },
            )
            for repetition, plan, testbed in self.spec.cells()
        ]
