"""Figures of an answer as text."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.analysis.answer.tunnels import TunnelAnswer
from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.udp import SMALL_PAYLOAD_BYTES
from tunnelbench.model.text import joined

LOWER_BOUND = "≥ "
UPPER_BOUND = "< "
MOST_NAMES = 3
"""Number of tunnels that a sentence names."""


def mbps(estimate: Estimate, *, is_lower_bound: bool) -> str:
    """Return a throughput in Mbit/s with three significant digits; digits before the decimal point are never
    rounded."""
    return _three_digits(estimate.median / 1e6, is_lower_bound)


def cpu_percent(share: float) -> str:
    """Return a share of one CPU in per cent, with two significant digits below 10 % and without decimals above."""
    value = share * 100
    return f"{value:,.0f} %" if value >= 10 else f"{significant(value, 2)} %"


def thousands(estimate: Estimate, *, is_lower_bound: bool) -> str:
    """Return a packet rate in thousands per second, with three significant digits."""
    return _three_digits(estimate.median / 1e3, is_lower_bound)


def _three_digits(value: float, is_lower_bound: bool) -> str:
    text = f"{value:,.0f}" if value >= 100 else significant(value, 3)
    return LOWER_BOUND * is_lower_bound + text


def large_packets(tunnels: Sequence[TunnelAnswer]) -> str:
    """Return the words for the largest payload of a run: `large packets`, or its size if even that is small."""
    size = tunnels[0].large_payload_bytes
    return "large packets" if size > SMALL_PAYLOAD_BYTES else f"{size} bytes"


def by_direction(texts: Sequence[tuple[str, str]], unit: str) -> str:
    """Join figures, each with its direction: the first one with the unit, such as `501 Mbit/s down and 448 up`."""
    return joined([f"{text}{unit * (not place)} {way}" for place, (text, way) in enumerate(texts)])


def carried(tunnel: TunnelAnswer) -> str:
    """Return the throughput of a tunnel by direction, such as `501 Mbit/s down and 448 up`; empty if not measured."""
    ways = tunnel.directions.items()
    return by_direction(
        [
            (mbps(found.throughput_bps, is_lower_bound=found.is_lower_bound), way)
            for way, found in ways
            if found.throughput_bps
        ],
        " Mbit/s",
    )


def cpu_taken(tunnel: TunnelAnswer) -> str:
    """Return the CPU shares of a tunnel, such as `15 % of one CPU of the router for traffic down and 12 % up`.

    The text is empty if no share was measured.
    """
    ways = tunnel.directions.items()
    shares = [(cpu_percent(found.cpu_share.median), way) for way, found in ways if found.cpu_share]
    return by_direction(shares, " of one CPU of the router for traffic")


def times(factor: float) -> str:
    """Return a factor above 1 with two significant digits, such as `1.4 times`; from 1 to 1.1 with three."""
    return f"{significant(factor, 3 if factor < 1.1 else 2)} times"


def cpu_times(factors: Sequence[tuple[str, float]]) -> str:
    """Return factors of CPU time by direction, such as `1.4 times as much CPU down and 1.2 times as much up`."""
    texts = [(times(factor), way) for way, factor in factors]
    if len(texts) > 1 and len({text for text, _ in texts}) == 1:
        return f"{texts[0][0]} as much CPU {joined([way for _, way in texts])}"
    return joined([f"{text} as much{' CPU' * (not place)} {way}" for place, (text, way) in enumerate(texts)])


def named(names: Sequence[str]) -> list[str]:
    """Return the first few names, followed by how many other names there are."""
    rest = len(names) - MOST_NAMES
    return [*names[:MOST_NAMES], *([f"{rest} more"] if rest > 0 else [])]
