"""Published results: what was measured, by whom, how, and what it may be compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Comparable(StrEnum):
    """Whether figures of a class may stand beside those of a run."""

    YES = "yes"
    CARE = "care"
    """A comparison says what is unlike."""
    NO = "no"


@dataclass(frozen=True)
class Comparability:
    """How a class of figures was come by."""

    name: str
    """Such as `through-device`."""
    comparable: Comparable
    meaning: str
    """In words, to stand wherever such a figure is shown."""

    @property
    def label(self) -> str:
        return f"{self.name}: {self.meaning}"


@dataclass(frozen=True)
class Reference:
    """A published table, its cells as published."""

    name: str
    title: str
    source: str
    """Author, title, and where it was published."""
    url: str
    """Empty: not known."""
    date: str
    """ISO 8601 as far as it is known, else what is known instead."""
    method: str
    comparability: Comparability
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]
    """Text by column; an empty cell is not stated."""
