"""Facts about devices that their publications do not state, from `data/devices`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class DeviceFact:
    """The CPU of a device, and where that is written."""

    device: str
    cpu: str
    source: str


@cache
def device_facts() -> Sequence[DeviceFact]:
    """Return the facts in the order of the file."""
    text = (files("tunnelbench") / "data" / "devices" / "facts.csv").read_text(encoding="utf-8")
    return tuple(DeviceFact(**row) for row in csv.DictReader(text.splitlines(), strict=True))
