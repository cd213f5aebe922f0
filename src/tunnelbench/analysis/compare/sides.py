"""A run or a reference in one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tunnelbench.model.reference import Comparability


class Figure(StrEnum):
    """What is compared."""

    THROUGHPUT = "Mbit/s"
    PACKETS = "packets/s"
    SHARE = "share of baseline"
    """Throughput over that without a tunnel in the same round."""
    COST = "CPU s/Mpackets"
    COST_SHARE = "CPU over baseline's"
    """CPU seconds per packet over those without a tunnel in the same round."""
    NDR = "NDR packets/s"
    PDR = "PDR packets/s"
    CARRIED = "carried packets/s"
    """Of UDP: what came through at a load."""
    DELAY_P50 = "delay p50 us"
    DELAY_P99 = "delay p99 us"

    @property
    def is_better_when_high(self) -> bool:
        return self not in {Figure.COST, Figure.COST_SHARE} and not self.is_delay

    @property
    def is_relative(self) -> bool:
        """Whether it is a ratio to the same round's baseline: what the machine did to both is not in it."""
        return self in {Figure.SHARE, Figure.COST_SHARE}

    @property
    def is_delay(self) -> bool:
        return self in {Figure.DELAY_P50, Figure.DELAY_P99}

    @property
    def is_rate(self) -> bool:
        """Whether a tester that is the limit makes it the tester's own."""
        return self in {Figure.THROUGHPUT, Figure.SHARE, Figure.NDR, Figure.PDR, Figure.CARRIED}


@dataclass(frozen=True)
class SideRow:
    """All repeats of one tunnel with one payload in one direction."""

    kind: str
    name: str
    settings: Mapping[str, str]
    """`cipher`, `digest`, `transport` as far as they are known, in lower case."""
    options: Mapping[str, Any]
    """Every option of a run's tunnel."""
    payload_bytes: int | None
    """As asked for; None: not stated."""
    effective_bytes: float | None
    """What a full segment carried; None: not known."""
    direction: str
    """`in`, `out`, `both`; empty: not stated."""
    traffic: str
    """`tcp`, `udp`; empty: not stated."""
    figures: Mapping[Figure, Mapping[int, float]]
    """In the figure's unit: of a run by round, one of each trial that counts; of a reference one figure."""
    is_tester_limited: bool = False
    remarks: tuple[str, ...] = ()
    test: str = ""
    """Of UDP: which test at which load, such as `search` or `latency 50%`; else empty."""
    cost_within: float | None = None
    """The router's CPU time per packet, as this result counts packets: to be set beside its other rows alone."""
    expected: Figure = Figure.THROUGHPUT
    """What it lacks where it has no figure."""

    @property
    def place(self) -> tuple[int | None, str, str]:
        return self.payload_bytes, self.direction, self.test


@dataclass(frozen=True)
class Side:
    """One of the two results."""

    name: str
    title: str
    rows: tuple[SideRow, ...]
    facts: Mapping[str, str]
    """What it was taken on and with."""
    testers: tuple[SideRow, ...] = ()
    """What the testers did back to back."""
    comparability: Comparability | None = None
    """Of a reference; None: a run."""
    remarks: tuple[str, ...] = field(default_factory=tuple)
    tunnel: str = ""
    """The only one that was asked for; empty: all."""

    def only(self, tunnel: str) -> Side:
        """What it says of the tunnel of that name: no rows where it has none."""
        rows = tuple(row for row in self.rows if row.name == tunnel)
        return replace(self, rows=rows, tunnel=tunnel, title=f"{self.title}: {tunnel}")


def settings_of(options: Mapping[str, Any]) -> Mapping[str, str]:
    said = {
        "cipher": options.get("cipher"),
        "digest": options.get("digest") or options.get("auth"),
        "transport": options.get("transport"),
    }
    known = {name: str(value).lower().replace("sha-", "sha") for name, value in said.items() if value}
    if known.get("cipher", "").endswith(("-gcm", "-poly1305")):
        known.pop("digest", None)  # the cipher authenticates
    return known
