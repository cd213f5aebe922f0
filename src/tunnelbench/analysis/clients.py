"""The shares of the clients of one server, one row for each tunnel, payload and direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tunnelbench.analysis.statistics import Estimate, estimate, estimate_known
from tunnelbench.analysis.summary import Row, trials_by_row
from tunnelbench.model.result import TrialRecord


@dataclass(frozen=True)
class ClientsRow:
    """Medians over the trials of one row."""

    row: Row
    shares: tuple[Estimate, ...]
    """Share of each client in the sum of the throughputs, 0 to 1, in the order of the clients' devices."""
    jain_index: Estimate

    @property
    def least_share(self) -> float:
        return min(share.median for share in self.shares)

    @property
    def greatest_share(self) -> float:
        return max(share.median for share in self.shares)


def clients_rows(rows: Sequence[Row], records: Sequence[TrialRecord]) -> list[ClientsRow]:
    """Return the rows of tunnels whose server has clients, if a trial counts."""
    trials = trials_by_row(records)
    found = []
    for row in rows:
        counting = [record.tcp for record in trials.get(row.key, []) if record.counts and record.tcp]
        shares = [trial.client_shares for trial in counting if trial.client_shares]
        index = estimate_known(trial.jain_index for trial in counting)
        if index and shares:
            found.append(ClientsRow(row, tuple(estimate(each) for each in zip(*shares, strict=False)), index))
    return found
