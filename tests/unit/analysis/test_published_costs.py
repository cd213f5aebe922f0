"""The fit of fixed and per byte costs agrees with known costs, and on the published table of 2014."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest

from tunnelbench.analysis.algorithms import used_algorithms
from tunnelbench.analysis.cost import Amount, CostFit, Flow, MeasuredLoad, fit_cost
from tunnelbench.analysis.cost_components import PacketWork
from tunnelbench.model.frames import TCP_HEADERS_BYTES
from tunnelbench.model.plan import BASELINE_KIND
from tunnelbench.model.reference import CPU_PART_COLUMNS
from tunnelbench.reference import read_reference

FORWARDING, TUNNEL, CIPHER, DIGEST = PacketWork

ACKS_PER_SEGMENT = 0.5
"""Assumed, as none were counted: a receiver acknowledges at least every second full segment (RFC 1122, 4.2.3.2)."""

CPU_ERROR_SHARE = 0.05
"""Half width of a reading of `top` on a busy router, as a share of its CPU, according to the wiki of 2014."""


@dataclass(frozen=True)
class Variant:
    """A row of a published table: a tunnel with some kinds of work, and how busy it kept the router's CPU."""

    work: tuple[str, ...]
    payload_bytes: int
    throughput_bps: float
    cpu_share: float

    @property
    def load(self) -> MeasuredLoad:
        """The packets per second that follow from throughput and payload."""
        data_pps = self.throughput_bps / (8 * self.payload_bytes)
        acks_pps = data_pps * ACKS_PER_SEGMENT
        size = data_pps * (self.payload_bytes + TCP_HEADERS_BYTES) + acks_pps * TCP_HEADERS_BYTES
        flows = tuple(Flow(work, data_pps + acks_pps, size) for work in self.work)
        return MeasuredLoad(self.cpu_share, flows, CPU_ERROR_SHARE / self.cpu_share)


def fit_work(variants: Sequence[Variant]) -> CostFit:
    occurring = [work for work in PacketWork if any(work in variant.work for variant in variants)]
    return fit_cost([variant.load for variant in variants], occurring, errors_are_known=True)


def variant_of(row: Mapping[str, str]) -> Variant:
    tunnel = () if row["tunnel"] == BASELINE_KIND else (TUNNEL, *(PacketWork(kind) for kind in used_algorithms(row)))
    cpu_share = min(1.0, sum(float(row[column] or 0) for column in CPU_PART_COLUMNS) / 100)
    throughput_bps = float(row["throughput_mbps"]) * 1e6
    return Variant((FORWARDING, *tunnel), int(row["payload_bytes"]), throughput_bps, cpu_share)


def packet_us(fitted: CostFit, work: str, payload_bytes: int) -> Amount:
    return fitted.packet_s(work, payload_bytes + TCP_HEADERS_BYTES).times(1e6)


COSTS_US = {FORWARDING: (16.0, 0.02), TUNNEL: (130.0, 0.01), CIPHER: (40.0, 0.1), DIGEST: (100.0, 0.05)}


def variant(work: tuple[str, ...], payload_bytes: int) -> Variant:
    """Return a router that is always busy, at the rate that COSTS_US allow."""
    size, ack = payload_bytes + 52, 52
    packet_us = sum(
        fixed + per_byte * size + 0.5 * (fixed + per_byte * ack)
        for fixed, per_byte in (COSTS_US[PacketWork(each)] for each in work)
    )
    return Variant(work, payload_bytes, 1e6 / packet_us * payload_bytes * 8, 1.0)


EVERY = [
    variant(work, payload)
    for work in [
        (FORWARDING,),
        (FORWARDING, TUNNEL),
        (FORWARDING, TUNNEL, CIPHER),
        (FORWARDING, TUNNEL, DIGEST),
        (FORWARDING, TUNNEL, CIPHER, DIGEST),
    ]
    for payload in (76, 1448)
]


def test_the_fit_finds_costs_that_add_up() -> None:
    found = fit_work(EVERY)
    for work, (fixed, per_byte) in COSTS_US.items():
        assert found.fixed_s(work).value * 1e6 == pytest.approx(fixed)
        assert found.per_byte_s(work).value * 1e6 == pytest.approx(per_byte)
    assert packet_us(found, CIPHER, 1448).value == pytest.approx(40 + 0.1 * 1500)


def test_the_error_grows_if_the_costs_do_not_add_up() -> None:
    exact = packet_us(fit_work(EVERY), CIPHER, 1448).error
    odd = [*EVERY[:-1], Variant(EVERY[-1].work, 1448, EVERY[-1].throughput_bps * 0.6, 1.0)]
    worse = packet_us(fit_work(odd), CIPHER, 1448).error
    assert exact is not None
    assert worse is not None
    assert worse > 1.5 * exact > 0


def test_the_interval_contains_the_true_cost_in_nineteen_of_twenty_tables() -> None:
    """The readings scatter by 8 points, which is more than the error of 5 that is claimed for them."""
    chance, held = Random(7), 0
    for _ in range(200):
        read = [replace(one, cpu_share=one.cpu_share + chance.gauss(0, 0.08)) for one in EVERY]
        found = packet_us(fit_work(read), TUNNEL, 1448)
        assert found.error is not None
        held += abs(found.value - (130 + 0.01 * 1500)) <= found.error
    assert held >= 180


def test_one_size_does_not_separate_fixed_from_per_byte_cost() -> None:
    with pytest.raises(ValueError, match="observations"):
        fit_work([one for one in EVERY if one.payload_bytes == 76])


WR841N = {
    # microseconds for a data packet of 76 and of 1,448 bytes of payload, each with its error
    ("openvpn", FORWARDING): ((20, 2), (56, 16)),
    ("openvpn", TUNNEL): ((135, 18), (143, 39)),
    ("openvpn", CIPHER): ((96, 28), (225, 66)),
    ("openvpn", DIGEST): ((55, 27), (122, 59)),
    ("tinc", FORWARDING): ((20, 2), (56, 14)),
    ("tinc", TUNNEL): ((137, 16), (159, 36)),
    ("tinc", CIPHER): ((55, 24), (191, 58)),
    ("tinc", DIGEST): ((108, 26), (181, 59)),
}


@pytest.mark.parametrize(("tunnel", "work"), WR841N)
def test_the_table_of_2014_gives_the_documented_costs(tunnel: str, work: PacketWork) -> None:
    rows = [row for row in read_reference("wr841n-2014").rows if row["tunnel"] in {BASELINE_KIND, tunnel}]
    fitted = fit_work([variant_of(row) for row in rows])
    for payload, (value, error) in zip((76, 1448), WR841N[tunnel, work], strict=True):
        found = packet_us(fitted, work, payload)
        assert found.value == pytest.approx(value, abs=0.6)
        assert found.error == pytest.approx(error, abs=0.6)
