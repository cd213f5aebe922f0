"""`tunnelbench history`: list the figures of a testbed, run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.summary import Row, summarise
from tunnelbench.cli.common_options import emit, emit_json, json_option, open_store, read_store_option
from tunnelbench.cli.layout import columns, drawn
from tunnelbench.model.errors import WrongInput
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
        entries = [
            {
                "run_id": run.run_id,
                "started_at": run.started_at,
                "plan": run.plan_name,
                "status": run.status,
                "is_simulated": run.is_simulated,
                **figures(row),
            }
            for run in runs
            for row in largest(summarise(store.trials(run.run_id, with_raw=False)), tunnel)
        ]
    if as_json:
        emit_json(entries)
        return
    if any(run.is_simulated for run in runs):
        emit(f"{SIMULATED_IN_CAPITALS} in runs on testbed {printable(testbed)}\n")
    header = ("started (UTC)", "run", "plan", "tunnel", "payload", "direction", "Mbit/s", "trials")
    emit(drawn(columns([line(entry) for entry in entries], header, numbers=(4, 6, 7))))


def largest(rows: Sequence[Row], tunnel: str | None) -> list[Row]:
    """Return the rows with figures of the largest payload at full speed, without the calibration."""
    own = [row for row in rows if row.figures and not row.is_calibration and not row.load]
    most = max((row.payload_bytes for row in own), default=0)
    return [row for row in own if row.payload_bytes == most and tunnel in {None, row.tunnel.kind}]


def figures(row: Row) -> dict[str, Any]:
    """Return the figures of a row for programs."""
    found = row.figures
    return {
        "tunnel": row.tunnel.name,
        "kind": row.tunnel.kind,
        "payload_bytes": row.payload_bytes,
        "direction": row.direction.value,
        "throughput_mbps": found.throughput_bps.median / 1e6 if found else None,
        "is_lower_bound": bool(found and found.is_tester_limited),
        "is_doubtful": bool(row.doubtful_checks),
        "trials": found.throughput_bps.count if found else 0,
    }


def line(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of an entry."""
    value = entry["throughput_mbps"]
    mark = "≥ " * entry["is_lower_bound"]
    return (
        entry["started_at"][:16].replace("T", " "),
        entry["run_id"],
        entry["plan"],
        entry["tunnel"],
        str(entry["payload_bytes"]),
        {"in": "down", "out": "up"}[entry["direction"]],
        "" if value is None else f"{mark}{significant(value)}{'?' * entry['is_doubtful']}",
        str(entry["trials"]),
    )
