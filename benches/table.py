"""The table of results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    figure: str
    ours: str
    peers: str
    ratio: str
    target: str
    met: bool | None
    """True if the target is met; None where there is no target."""


def spread(values: list[float], unit: float = 1.0, digits: int = 0) -> str:
    """Return the median with the lowest and the highest value."""
    low, high = min(values) / unit, max(values) / unit
    return f"{statistics.median(values) / unit:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def print_table(rows: Iterable[Row]) -> None:
    """Print the rows as a Markdown table, each as soon as it is known."""
    print("| figure | ours: median (min-max) | peer | ratio | target | |\n|---|---|---|---|---|---|")
    words = {True: "met", False: "**missed**", None: ""}
    for row in rows:
        print(
            f"| {row.figure} | {row.ours} | {row.peers} | {row.ratio} | {row.target} | {words[row.met]} |", flush=True
        )
