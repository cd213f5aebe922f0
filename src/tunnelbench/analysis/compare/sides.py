"""One shape for a run and for a published result, so that either can be a side of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tunnelbench.analysis.algorithms import NO_ALGORITHM, algorithms_of
from tunnelbench.model.conditions import Conditions, conditions_of
from tunnelbench.model.plan import CLIENTS_OPTION, HANDSHAKES_OPTION, direction_label
from tunnelbench.model.reference import Comparability
from tunnelbench.model.result import SIMULATED


class ComparedFigure(StrEnum):
    """A figure that a comparison has a row for, with its unit."""

    THROUGHPUT = "Mbit/s"
    PACKETS = "packets/s"
    SHARE = "share of baseline"
    """Throughput over the baseline's throughput in the same round."""
    COST = "CPU s/Mpackets"
    COST_SHARE = "CPU over baseline's"
    """CPU time per packet over the baseline's CPU time per packet in the same round."""
    INSTRUCTIONS = "instructions/packet"
    """Instructions of a router of fixed speed per packet, its idle work included."""
    WORK = "instructions/packet without idle"
    """Instructions of a router of fixed speed for one packet, from the difference between two rates."""
    NDR = "NDR packets/s"
    PDR = "PDR packets/s"
    CARRIED = "carried packets/s"
    """UDP packets per second that arrived at the load that the test offered."""
    DELAY_P50 = "delay p50 us"
    DELAY_P99 = "delay p99 us"
    GAP = "longest gap ms"
    """Longest time without an arrival while the tunnel changes its keys, or while other tunnels are set up."""
    HANDSHAKES = "tunnels/s"
    """Tunnels that other clients set up per second."""
    SETUP = "set-up p50 ms"
    """Time from the start of such a tunnel to the answer to its first packet."""
    CONNECTIONS = "connections/s"
    """New TCP connections per second."""
    OPEN = "open connections"
    """Most TCP connections that were open at the same time."""

    @property
    def is_better_when_high(self) -> bool:
        return self not in COSTS and not self.is_delay

    @property
    def is_relative(self) -> bool:
        """True if it is a ratio to the baseline of the same round, so that the speed of the machine cancels out."""
        return self in {ComparedFigure.SHARE, ComparedFigure.COST_SHARE}

    @property
    def is_delay(self) -> bool:
        return self in DELAYS

    @property
    def is_rate(self) -> bool:
        """True if it describes the tester instead of the router when a tester is the limit."""
        return self.is_better_when_high


COSTS = frozenset({ComparedFigure.COST, ComparedFigure.COST_SHARE, ComparedFigure.INSTRUCTIONS, ComparedFigure.WORK})
"""Figures that state the work of the router for a packet."""

LOAD_FIGURES = frozenset(
    {ComparedFigure.THROUGHPUT, ComparedFigure.CARRIED, ComparedFigure.CONNECTIONS, ComparedFigure.OPEN}
)
"""Figures that a plan can set: a paced load that the router carries has the rate of the plan."""

DELAYS = frozenset({ComparedFigure.DELAY_P50, ComparedFigure.DELAY_P99, ComparedFigure.GAP, ComparedFigure.SETUP})


@dataclass(frozen=True)
class SideRow:
    """All repeats of one tunnel with one payload in one direction."""

    kind: str
    name: str
    settings: Mapping[str, str]
    """`cipher`, `digest` and `transport`, as far as they are known, in lower case."""
    options: Mapping[str, Any]
    """Every option of a run's tunnel."""
    payload_bytes: int | None
    """Payload as asked for [bytes]; None: not stated."""
    effective_bytes: float | None
    """Payload of a full segment; None: unknown."""
    direction: str
    """`in`, `out`, `both`; empty: not stated."""
    traffic: str
    """`tcp`, `udp`; empty: not stated."""
    figures: Mapping[ComparedFigure, Mapping[int, float]]
    """Values in the figure's unit by round: one for each trial of a run that counts, one for a row of a reference."""
    is_tester_limited: bool = False
    remarks: tuple[str, ...] = ()
    test: str = ""
    """UDP test and its load, such as `search` or `latency 50%`; empty for TCP."""
    cost_within: float | None = None
    """The router's CPU time per packet, as this result counts packets. Compare it only with rows of the same result."""
    expected: ComparedFigure = ComparedFigure.THROUGHPUT
    """Figure that is reported as missing if the row has no figure."""
    cpu_share: float | None = None
    """Published share of the router's CPU time, 0 to 1; None: a run, or not stated."""
    segment_instructions: float | None = None
    """Instructions of a router of fixed speed for one data packet with its ACKs: median of the TCP trials."""
    clock_lost_share: float | None = None
    """Largest share of a trial that the clock of a router of fixed speed lost; None: any other router."""
    has_fixed_speed: bool = False
    """True if the instructions of a virtual router of fixed speed were counted."""
    is_router_full: bool = False
    """True if the router of fixed speed was busy for all of the time on its own clock: median of the trials."""
    is_paced: bool = False
    """True if the plan states the rate of the load."""
    label_facts: tuple[str, ...] = ()
    """Version, comment, device, CPU and transport of a published row, as far as stated; empty: a row of a run."""

    @property
    def trials(self) -> int:
        """Number of trials that count: the largest number of values of one figure."""
        return max(map(len, self.figures.values()), default=0)

    @property
    def conditions(self) -> tuple[Conditions, object, object]:
        """Conditions of the trials and numbers of clients; rows are comparable if they are equal."""
        return conditions_of(self.options), self.options.get(CLIENTS_OPTION), self.options.get(HANDSHAKES_OPTION)

    @property
    def place(self) -> tuple[int | None, str, str]:
        """Payload, direction and test; rows of different tunnels are comparable if these three are equal."""
        return self.payload_bytes, self.direction, self.test

    @property
    def place_in_words(self) -> str:
        """Payload, direction and test for a message, such as `1448 down`."""
        size = "" if self.payload_bytes is None else str(self.payload_bytes)
        return " ".join(filter(None, (size, self.direction_label, self.test)))

    @property
    def direction_label(self) -> str:
        """Word for readers: `down`, `up`, `both`; empty: not stated."""
        return direction_label(self.direction)


@dataclass(frozen=True)
class Side:
    """One of the two results."""

    name: str
    title: str
    rows: tuple[SideRow, ...]
    facts: Mapping[str, str]
    """Machine, programs and settings that the result was measured with."""
    testers: tuple[SideRow, ...] = ()
    """Rows of the calibration, in which the testers were connected directly."""
    comparability: Comparability | None = None
    """Class of a reference; None: a run."""
    remarks: tuple[str, ...] = field(default_factory=tuple)
    tunnel: str = ""
    """Name of the only tunnel that was asked for; empty: all tunnels."""
    clock_mhz: float | None = None
    """Clock of the router's CPU in a reference [MHz]; None: a run, or not known."""
    clock_source: str = ""

    @property
    def is_simulated(self) -> bool:
        """True if a model drew the figures, and nothing was measured."""
        return SIMULATED in self.facts

    def tunnels_like(self, wanted: str) -> list[str]:
        """Return the tunnel with this name, else those of this kind, else those whose names begin with this text.

        Tunnels without a cipher come last. Capital letters make no difference in kinds and beginnings.
        """
        of = {row.name: row for row in self.rows}
        if wanted in of:
            return [wanted]
        small = wanted.lower()
        found = [name for name, row in of.items() if row.kind.lower() == small] or [
            name for name in of if small and name.lower().startswith(small)
        ]
        return sorted(found, key=lambda name: of[name].settings.get("cipher") == NO_ALGORITHM)

    def only(self, tunnel: str) -> Side:
        """Keep the rows of the tunnel of that name; no rows remain if there is no such tunnel."""
        rows = tuple(row for row in self.rows if row.name == tunnel)
        return replace(self, rows=rows, tunnel=tunnel, title=f"{self.title}: {tunnel}")


def settings_of(options: Mapping[str, Any]) -> Mapping[str, str]:
    """Return cipher, digest and transport of a tunnel as far as they are stated, in one spelling."""
    transport = {"transport": str(options["transport"])} if options.get("transport") else {}
    stated = {**algorithms_of(options), **transport}
    return {name: value.lower().replace("sha-", "sha") for name, value in stated.items()}


def versions_by_program(stated: Iterable[tuple[str, str, str]]) -> Mapping[str, str]:
    """Return the versions by `program (end)`, from triples of program, end and version."""
    found: dict[str, dict[str, None]] = {}
    for program, end, version in stated:
        found.setdefault(f"{program} ({end})", {})[version] = None
    return {key: ", ".join(versions) for key, versions in found.items()}
