"""Lines by name: rates, delay and loss that the cable of the tunnel gets during a tunnel's trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

LINE_OPTION = "line"
LINE_OPTIONS: Mapping[str, str] = {LINE_OPTION: "none"}
"""The option, which every tunnel has, that names a line, with the word for a cable as the testbed has it."""


class LineName(StrEnum):
    """Name of a line, as plans name it."""

    NONE = "none"
    """No line: the cable as the testbed has it."""
    ADSL = "adsl"
    VDSL = "vdsl"
    LTE = "lte"
    FAST_ETHERNET = "fast-ethernet"
    GIGABIT = "gigabit"


@dataclass(frozen=True)
class Line:
    """The properties of a line. A delay and a loss need the kernel's sch_netem; the rates do not."""

    rate_in_mbps: float
    """Ethernet rate towards the client [Mbit/s]."""
    rate_out_mbps: float
    """Ethernet rate from the client [Mbit/s]."""
    delay_ms: float = 0.0
    """Delay each way [ms]."""
    loss_percent: float = 0.0
    """Packets that are lost at random each way [%]."""

    @property
    def needs_netem(self) -> bool:
        return self.delay_ms > 0 or self.loss_percent > 0

    @property
    def rates(self) -> str:
        """Rates in words."""
        return f"{self.rate_in_mbps:g} Mbit/s down and {self.rate_out_mbps:g} up"

    @property
    def path(self) -> str:
        """Delay and loss in words."""
        return f"{self.delay_ms:g} ms each way and {self.loss_percent:g} % loss"


LINES: Mapping[LineName, Line] = MappingProxyType(
    {
        LineName.ADSL: Line(16.0, 1.0, 15.0, 0.01),
        LineName.VDSL: Line(50.0, 10.0, 8.0, 0.01),
        LineName.LTE: Line(40.0, 10.0, 25.0, 0.1),
        LineName.FAST_ETHERNET: Line(100.0, 100.0),
        LineName.GIGABIT: Line(1000.0, 1000.0),
    }
)
"""Usual values of such lines, and not those of a provider: rates of common tariffs, half of a usual round trip to the
provider's first router as the delay. ADSL and VDSL correct most of their errors; a cell of LTE loses more."""


def line_of(options: Mapping[str, object]) -> LineName | None:
    """Return the line that a tunnel's options name; None: none, or one that a plan cannot have."""
    name = options.get(LINE_OPTION)
    return LineName(name) if isinstance(name, str) and name in LINES else None
