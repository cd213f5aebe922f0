#!/usr/bin/env python3
"""Measure what testers gain that merge packets after they have arrived, and that the router pays nothing for it.

    .venv/bin/python benches/merging.py [--rounds 8] [--duration-s 2]

Two testbeds of namespaces are measured in turn without a tunnel: one whose testers merge packets, and one whose testers
do not. Ratios are the medians of the rounds. It needs root.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.lab.merged import mbps, measure_in_turn, router_us

from options import at_least_one
from table import Row, print_table, spread

GAIN_TARGETS = {1448: 1.1, 76: 1.2}
"""Least gain by payload [bytes]."""
MOST_COST = 1.05
"""Largest cost of a packet for the router, compared with testers that do not merge."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=at_least_one, default=8)
    parser.add_argument("--duration-s", type=at_least_one, default=2)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="tb-") as folder:
        found = measure_in_turn(Path(folder), options.rounds, options.duration_s)
    for (payload_bytes, direction), both in found.items():
        what, least = f"{payload_bytes} bytes {direction.label}", GAIN_TARGETS[payload_bytes]
        ours, other = (spread([mbps(record) for record in records]) for records in (both.merged, both.plain))
        rows.append(Row(f"{what}: Mbit/s", ours, other, f"{both.gain:.2f}", f">= {least:g}", both.gain >= least))
        us = [[router_us(record) for record in records] for records in (both.merged, both.plain)]
        ours, other = (spread(each, digits=3) for each in us)
        is_met = both.router_cost <= MOST_COST
        figure = f"{what}: router's us a packet"
        rows.append(Row(figure, ours, other, f"{both.router_cost:.3f}", f"<= {MOST_COST:g}", is_met))
    print_table(rows)


if __name__ == "__main__":
    main()
