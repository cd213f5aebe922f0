"""`tunnelbench history`: list the figures of a testbed, run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import TESTER_RULE, is_tester_limited, trials_by_row
from tunnelbench.cli.common_options import emit, emit_json, json_option, open_store, read_store_option
from tunnelbench.cli.layout import columns, drawn
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import direction_label
from tunnelbench.model.result import TrialRecord, Verdict
from tunnelbench.model.text import printable
from tunnelbench.report.facts import SIMULATED_IN_CAPITALS


@click.command()
@click.argument("testbed")
@click.option("--tunnel", metavar="KIND", help="Only this kind of tunnel, such as openvpn; `none` is the baseline.")
@click.option("--newest", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Number of runs.")
@json_option
@read_store_option
def command(testbed: str, tunnel: str | None, newest: int, store_location: str | None, *, as_json: bool) -> None:
    """List the median TCP throughput of each tunnel on TESTBED in its newest runs, the newest first.

    Each tunnel has its row with the largest payload in each direction. Figures of different plans, machines or versions
    are not comparable; `tunnelbench compare` names such differences of two runs.
    """
    with open_store(store_location) as store:
        # A testbed file on the machine of a rack gives its name with the ending.
        runs = store.runs(testbed=testbed, newest=newest) or store.runs(testbed=f"{testbed}.toml", newest=newest)
        if not runs:
            message = f"the store has no run on testbed {printable(testbed)[:80]}"
            raise WrongInput(message, "tunnelbench list runs names the testbed of each run")
        trials_of = store.full_speed_trials([run.run_id for run in runs], tunnel)
        entries = [
            {
                "run_id": run.run_id,
                "started_at": run.started_at,
                "plan": run.plan_name,
                "status": run.status,
                "is_simulated": run.is_simulated,
                **figures(trials),
            }
            for run in runs
            for trials in trials_by_row(trials_of[run.run_id]).values()
        ]
    if as_json:
        emit_json(entries)
        return
    if any(run.is_simulated for run in runs):
        emit(f"{SIMULATED_IN_CAPITALS} in runs on testbed {printable(testbed)}\n")
    header = ("started (UTC)", "run", "plan", "tunnel", "payload", "direction", "Mbit/s", "trials")
    emit(drawn(columns([line(entry) for entry in entries], header, numbers=(4, 6, 7))))


def figures(trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """Return the figures of a row for programs. Only the median is computed: a history has thousands of rows."""
    spec, is_limited = trials[0].spec, is_tester_limited(trials)
    doubts = [check for record in trials for check in record.checks if check.verdict is Verdict.DOUBTFUL]
    return {
        "tunnel": spec.tunnel.name,
        "kind": spec.tunnel.kind,
        "payload_bytes": spec.payload_bytes,
        "direction": spec.direction.value,
        "throughput_mbps": median([record.tcp.throughput_bps / 1e6 for record in trials if record.tcp]),
        "is_lower_bound": is_limited,
        "is_doubtful": any(not (is_limited and check.rule == TESTER_RULE) for check in doubts),
        "trials": len(trials),
    }


def line(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of an entry."""
    mark = "≥ " * entry["is_lower_bound"]
    return (
        entry["started_at"][:16].replace("T", " "),
        entry["run_id"],
        entry["plan"],
        entry["tunnel"],
        str(entry["payload_bytes"]),
        direction_label(entry["direction"]),
        f"{mark}{significant(entry['throughput_mbps'])}{'?' * entry['is_doubtful']}",
        str(entry["trials"]),
    )
