"""Time from the start of a tunnel's programs to the first answered packet, from the stored steps of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from tunnelbench.analysis.statistics import Estimate, estimate
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.step import STEPS_KEY, Step

START_STEPS = (Step.BRING_UP, Step.REACH)
"""Steps of a run that begin with the set-up of both ends and end with the first answer through the tunnel."""
STEP_AFTER_START = Step.PROOF
"""Step that shows that an answer came."""


@dataclass(frozen=True)
class TunnelStart:
    """Time to start one tunnel."""

    tunnel: TunnelSpec
    start_s: Estimate
    """Time from the start of the set-up to the first answered packet, over the blocks of trials [s]."""


def tunnel_starts(records: Sequence[TrialRecord]) -> tuple[TunnelStart, ...]:
    """Return the time to start each tunnel, in the order of the run.

    Only records that were read with the raw results have it, so that an imported run has none.
    """
    found: dict[str, list[float]] = {}
    tunnels: dict[str, TunnelSpec] = {}
    for record in records:
        tunnel = record.spec.tunnel
        if tunnel.has_tunnel and (start_s := _start_s(record.raw.get(STEPS_KEY))) is not None:
            tunnels.setdefault(tunnel.name, tunnel)
            found.setdefault(tunnel.name, []).append(start_s)
    return tuple(TunnelStart(tunnels[name], estimate(values)) for name, values in found.items())


def _start_s(steps_s: object) -> float | None:
    """Return the seconds of the first steps; None: the trial did not begin a block, or no packet was answered."""
    if not isinstance(steps_s, Mapping) or STEP_AFTER_START not in steps_s:
        return None
    known = [*_seconds(steps_s.get(step) for step in START_STEPS)]
    return sum(known) if len(known) == len(START_STEPS) else None


def _seconds(values: Iterable[object]) -> Iterable[float]:
    return (float(value) for value in values if isinstance(value, (int, float)) and isfinite(value))
