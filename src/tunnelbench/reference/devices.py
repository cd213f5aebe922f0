"""Facts about devices and CPUs that their publications do not state, from `data/devices`.

`devices.csv` has a line for each device, `cpus.csv` one for each CPU or system on a chip. Each line names its source,
which states all facts of the line. An empty cell means that the source does not state the fact.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

NAME_SEPARATOR = ";"
"""Stands between several names or sources in a cell."""


@dataclass(frozen=True)
class FactLine:
    """The facts of a device or a CPU from one source."""

    name: str
    other_names: tuple[str, ...]
    """Names that mean the same device or CPU."""
    facts: Mapping[str, str]
    """Text of each fact that the source states, by its column."""
    source: str


CPU_FACTS = ("architecture", "cores", "clock_mhz", "turbo_mhz", "crypto", "released")
DEVICE_FACTS = ("cpu", "ethernet", "memory_mib", "released")
NUMBERS = frozenset({"cores", "clock_mhz", "turbo_mhz", "memory_mib"})
"""Facts that are whole numbers."""


def device_lines() -> Sequence[FactLine]:
    """Return the facts of devices in the order of the file."""
    return _lines("devices.csv", DEVICE_FACTS)


def cpu_lines() -> Sequence[FactLine]:
    """Return the facts of CPUs in the order of the file."""
    return _lines("cpus.csv", CPU_FACTS)


@cache
def _lines(name: str, columns: Sequence[str]) -> Sequence[FactLine]:
    text = (files("tunnelbench") / "data" / "devices" / name).read_text(encoding="utf-8")
    return tuple(
        FactLine(
            name=row["name"],
            other_names=tuple(other.strip() for other in row["other_names"].split(NAME_SEPARATOR) if other.strip()),
            facts={column: row[column] for column in columns if row[column]},
            source=row["source"],
        )
        for row in csv.DictReader(text.splitlines(), strict=True)
    )
