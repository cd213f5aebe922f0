"""Names of the steps of a run whose durations are stored in the raw results of the next trial."""

from __future__ import annotations

from enum import StrEnum

STEPS_KEY = "steps_s"
"""Key of the raw results that has the durations of the steps [s], by their names."""


class Step(StrEnum):
    """A step of a run whose duration is stored with the next trial."""

    BRING_UP = "bring-up"
    REACH = "reach"
    SETTLE = "settle"
    PROOF = "proof"
    WARM_UP = "warm-up"
    MEASURE = "measure"
    PROOF_AFTER = "proof-after"
    TAKE_DOWN = "take-down"
