"""Testbed `simulated`: no machine at all. A model with a seed draws the figures, and no packet is sent.

It tests racks, queue, store and reports at scale. `measure/simulation.py` is the model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tunnelbench.host.host import Host, LocalHost
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.result import SIMULATED
from tunnelbench.model.testbed import SIMULATED_KIND, KindSettings, TestbedSpec
from tunnelbench.testbed.base import BackToBack, Testbed


class SimulatedTestbed(Testbed):
    """A testbed without hosts."""

    kind = SIMULATED_KIND
    settings = KindSettings({"simulation": ()})

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        super().__init__(spec, run_id, folder)
        self.local = LocalHost("local", folder / "local", sorted(os.sched_getaffinity(0)))
        self.notes = (f"{SIMULATED_CAUTION} The seed of the model is {spec.simulation.seed}.",)

    def look(self) -> Mapping[str, Any]:
        """Return the fact that marks the run as simulated."""
        return {SIMULATED: f"yes, seed {self.spec.simulation.seed}"}

    def set_up(self) -> None:
        """Do nothing, because there is nothing to set up."""

    def take_down(self) -> None:
        """Do nothing."""

    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        """Raise CannotHere: there are no devices."""
        raise CannotHere("a simulated testbed has no devices")

    def back_to_back(self) -> AbstractContextManager[BackToBack]:
        """Raise CannotHere: there are no testers."""
        raise CannotHere("a simulated testbed has no testers")


SIMULATED_CAUTION = "Simulated: a model drew all figures, no packet was sent, and nothing was measured."
"""Sentence that stands on each report of a simulated run."""
