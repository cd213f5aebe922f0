"""What forwarding, the crossing of a tunnel, its cipher and its digest cost, from variants with and without them.

A tunnel without cipher and digest costs the forwarding and the crossing (into user space and back, another header);
one with a cipher costs that on top, and so on. Each part has its own fixed and per byte cost, all fitted at once, so
that four variants at two sizes say whether the parts simply add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.cost import TCP_HEADERS_BYTES, Amount, CostFit, Flow, Load, fit_cost
from tunnelbench.model.plan import BASELINE_KIND
from tunnelbench.model.reference import Reference

FORWARDING = "forwarding"
CROSSING = "tunnel"
CIPHER = "cipher"
DIGEST = "digest"

NO_ALGORITHM = "none"
"""How plans and tables spell that there is no cipher or no digest."""

ACKS_PER_SEGMENT = 0.5
"""Where they were not counted: a receiver acknowledges at least every second full segment (RFC 1122, 4.2.3.2)."""

CPU_ERROR_SHARE = 0.05
"""Half width of what can be read off `top` on a busy router, in shares of its CPU, as the wiki of 2014 has it."""


@dataclass(frozen=True)
class Variant:
    """One row: a tunnel with or without its parts, and how busy it kept the router's CPU."""

    parts: tuple[str, ...]
    payload_bytes: int
    throughput_bps: float
    """TCP payload received."""
    cpu_share: float
    """Of one CPU, 0 to 1."""
    cpu_error_share: float = CPU_ERROR_SHARE

    @property
    def data_pps(self) -> float:
        """Full segments per second that the throughput takes."""
        return self.throughput_bps / (8 * self.payload_bytes)

    @property
    def load(self) -> Load:
        """As packets per second: a second of the router is busy for `cpu_share` of a second."""
        acks = self.data_pps * ACKS_PER_SEGMENT
        packets = self.data_pps + acks
        size = self.data_pps * (self.payload_bytes + TCP_HEADERS_BYTES) + acks * TCP_HEADERS_BYTES
        flows = tuple(Flow(part, packets, size) for part in self.parts)
        return Load(self.cpu_share, flows, self.cpu_error_share / self.cpu_share)


def fit_parts(variants: Sequence[Variant]) -> CostFit:
    """The cost of every part that occurs; ValueError where the variants do not tell them apart."""
    occurring = {part for variant in variants for part in variant.parts}
    parts = [part for part in (FORWARDING, CROSSING, CIPHER, DIGEST) if part in occurring]
    return fit_cost([variant.load for variant in variants], parts, errors_are_known=True)


def published_parts(reference: Reference, tunnel: str) -> CostFit:
    """From the rows of a published table: those of one tunnel, and those without a tunnel.

    ValueError where they do not tell the parts apart, or do not say how busy the CPU was.
    """
    own = [row for row in reference.rows if row["tunnel"] in (BASELINE_KIND, tunnel)]
    return fit_parts([_variant(row) for row in own])


def _variant(row: Mapping[str, str]) -> Variant:
    parts = [FORWARDING]
    if row["tunnel"] != BASELINE_KIND:
        parts.append(CROSSING)
    if row["cipher"].lower() not in ("", NO_ALGORITHM):
        parts.append(CIPHER)
    if row["auth"].lower() not in ("", NO_ALGORITHM):
        parts.append(DIGEST)
    split = [float(row[column]) for column in CPU_COLUMNS if row.get(column)]
    if not split:
        raise ValueError("a row does not say how busy the CPU was")
    return Variant(
        parts=tuple(parts),
        payload_bytes=int(row["payload_bytes"]),
        throughput_bps=float(row["throughput_mbps"]) * 1e6,
        cpu_share=min(1.0, sum(split) / 100),
    )


CPU_COLUMNS = ("cpu_usr_pct", "cpu_sys_pct", "cpu_sirq_pct")


def packet_us(fitted: CostFit, part: str, payload_bytes: int) -> Amount:
    """What one part takes for one data packet of a payload [microseconds]."""
    return fitted.packet_s(part, payload_bytes + TCP_HEADERS_BYTES).times(1e6)
