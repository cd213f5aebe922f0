"""Stops trying a tunnel after failures in a row, so that it does not delay the other tunnels for hours."""

from __future__ import annotations

from tunnelbench.model.result import Outcome, TrialRecord, Verdict

MOST_FAILURES = 3
"""Number of failed attempts in a row after which the remaining trials of a tunnel are left out."""

NOT_BEGUN = "not-begun"
"""Name of the check of a trial that cannot begin because it needs the result of an earlier trial."""

NOT_THE_TUNNELS_FAULT = frozenset({"foreign-load", "router-clock", "clock", "offered", NOT_BEGUN})
"""Checks that make a trial void for a reason other than its tunnel."""


class CircuitBreaker:
    """Counts each tunnel's failures in a row.

    An attempt is one trial, or all trials that are void because the tunnel did not come up.
    """

    def __init__(self) -> None:
        self._failures: dict[str, list[TrialRecord]] = {}
        """Failed records since the last valid record, by tunnel, one for each attempt."""

    def note(self, record: TrialRecord) -> None:
        """Count a trial's record as a success or a failure; records come in the order of their trials."""
        failures = self._failures.setdefault(record.spec.tunnel.name, [])
        if record.counts:
            failures.clear()
        elif shows_fault(record) and (not failures or failures[-1].started_at != record.started_at):
            failures.append(record)

    def why_over(self, tunnel_name: str) -> str:
        """Return the reason why a tunnel is not tried again; empty if it may be tried."""
        failures = self._failures.get(tunnel_name, [])
        if len(failures) < MOST_FAILURES:
            return ""
        why = "; ".join(failures[-1].void_reasons)
        return f"not tried again after {MOST_FAILURES} failures in a row; the last: {why}"


def shows_fault(record: TrialRecord) -> bool:
    """Return True if a record without a valid figure shows a fault of its tunnel."""
    if record.outcome is Outcome.GIVEN_UP:
        return False
    void = {check.name for check in record.checks if check.verdict is Verdict.VOID}
    return not void or not void <= NOT_THE_TUNNELS_FAULT
