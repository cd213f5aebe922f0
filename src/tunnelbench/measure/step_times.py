"""Measures how long the steps of a run take, such as bringing a tunnel up; `benches/run.py` reads these times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tunnelbench.model.step import Step


class StepTimes:
    """Durations of the steps since the last record [s]."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measured(self, step: Step) -> Iterator[None]:
        """Add the duration of the block to a step, even where the block fails."""
        start_s = time.monotonic()
        try:
            yield
        finally:
            self._seconds[step] = self._seconds.get(step, 0.0) + time.monotonic() - start_s

    def take(self) -> dict[str, float]:
        """Return the durations by name, and start again from zero."""
        taken, self._seconds = self._seconds, {}
        return {step: round(seconds, 4) for step, seconds in taken.items()}
