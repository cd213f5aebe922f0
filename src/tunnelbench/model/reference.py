"""Published results with their source, their method and the class of their comparability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

CPU_PART_COLUMNS = ("cpu_usr_pct", "cpu_sys_pct", "cpu_sirq_pct")
"""Columns for the parts of the router's CPU time [%], as `top` names them."""


IMPORTED_PREFIX = "imported-"
"""Beginning of the names of tables that the user imported."""


class Comparable(StrEnum):
    """States if the figures of a class of publications can be compared with those of a run."""

    YES = "yes"
    CARE = "care"
    """The comparison states the differences."""
    NO = "no"


@dataclass(frozen=True)
class Comparability:
    """A class of published figures by the way in which they were measured."""

    name: str
    """Name, such as `through-device`."""
    comparable: Comparable
    meaning: str
    """Description that is shown with each figure of the class."""

    @property
    def label(self) -> str:
        return f"{self.name}: {self.meaning}"


@dataclass(frozen=True)
class Reference:
    """A published table with its cells as published."""

    name: str
    title: str
    source: str
    """Author, title and place of publication."""
    url: str
    """Address; empty: not known."""
    date: str
    """Date in ISO 8601 as far as it is known, else a description of the time."""
    method: str
    notes: tuple[str, ...]
    """Other statements of the source, in sentences."""
    comparability: Comparability
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]
    """Text by column; an empty cell means that the source does not state the value."""
    trials_per_row: int | None = None
    """Number of trials behind each figure; None: not stated."""
    clock_mhz: float | None = None
    """Clock of the router's CPU [MHz], if all rows were measured on one router and its clock is known."""
    clock_source: str = ""
    """Source of the clock."""

    @property
    def is_imported(self) -> bool:
        """True if the user imported the table; False if it is part of TunnelBench."""
        return self.name.startswith(IMPORTED_PREFIX)
