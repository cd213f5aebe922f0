"""When a tunnel is not tried again: what failed three times in a row would spoil a night for the others."""

from __future__ import annotations

from tunnelbench.model.result import Outcome, TrialRecord, Verdict

MOST_FAILURES = 3
"""So many attempts in a row without a figure that counts, and the tunnel's other trials are left out."""

NOT_BEGUN = "not-begun"
"""Check of a trial for which an earlier one did not find what it needs."""

NOT_THE_TUNNELS_FAULT = frozenset({"foreign-load", "clock", "offered", NOT_BEGUN})
"""Checks that make a trial void and say nothing of its tunnel."""


class Patience:
    """Counts each tunnel's failures in a row.

    An attempt is one trial, or all the trials that one failure to bring the tunnel up has cost.
    """

    def __init__(self) -> None:
        self._failures: dict[str, list[TrialRecord]] = {}
        """Of each tunnel the records since the last that counts, one for each attempt."""

    def note(self, record: TrialRecord) -> None:
        """Take a record into account; they come in the order in which they were made."""
        failures = self._failures.setdefault(record.spec.tunnel.name, [])
        if record.counts:
            failures.clear()
        elif _says_something(record) and (not failures or failures[-1].started_at != record.started_at):
            failures.append(record)

    def why_over(self, tunnel_name: str) -> str:
        """Why a tunnel is not tried again; empty where it is."""
        failures = self._failures.get(tunnel_name, [])
        if len(failures) < MOST_FAILURES:
            return ""
        last = failures[-1]
        why = last.reason or "; ".join(check.reason for check in last.checks if check.verdict is Verdict.VOID)
        return f"not tried again after {MOST_FAILURES} failures in a row; the last: {why}"


def _says_something(record: TrialRecord) -> bool:
    """Whether a record without a figure that counts is about its tunnel."""
    if record.outcome is Outcome.GIVEN_UP:
        return False
    void = {check.name for check in record.checks if check.verdict is Verdict.VOID}
    return not void or not void <= NOT_THE_TUNNELS_FAULT
