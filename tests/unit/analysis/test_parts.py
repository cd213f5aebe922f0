"""What cipher, digest and tunnel cost, from variants with and without them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tunnelbench.analysis.parts import (
    CIPHER,
    CROSSING,
    DIGEST,
    FORWARDING,
    Variant,
    fit_parts,
    packet_us,
    published_parts,
)
from tunnelbench.reference import read_reference

COSTS_US = {FORWARDING: (16.0, 0.02), CROSSING: (130.0, 0.01), CIPHER: (40.0, 0.1), DIGEST: (100.0, 0.05)}


def variant(parts: tuple[str, ...], payload_bytes: int) -> Variant:
    """A router that is busy all the time, at the rate that COSTS_US allow."""
    size, ack = payload_bytes + 52, 52
    packet_us = sum(
        fixed + per_byte * size + 0.5 * (fixed + per_byte * ack)
        for fixed, per_byte in (COSTS_US[part] for part in parts)
    )
    return Variant(parts, payload_bytes, 1e6 / packet_us * payload_bytes * 8, 1.0)


EVERY = [
    variant(parts, payload)
    for parts in [
        (FORWARDING,),
        (FORWARDING, CROSSING),
        (FORWARDING, CROSSING, CIPHER),
        (FORWARDING, CROSSING, DIGEST),
        (FORWARDING, CROSSING, CIPHER, DIGEST),
    ]
    for payload in (76, 1448)
]


def test_parts_that_add_up_are_found_again() -> None:
    found = fit_parts(EVERY)
    for part, (fixed, per_byte) in COSTS_US.items():
        assert found.fixed_s(part).value * 1e6 == pytest.approx(fixed)
        assert found.per_byte_s(part).value * 1e6 == pytest.approx(per_byte)
    assert packet_us(found, CIPHER, 1448).value == pytest.approx(40 + 0.1 * 1500)


def test_the_error_is_that_of_the_reading_and_larger_where_the_parts_do_not_add_up() -> None:
    exact = packet_us(fit_parts(EVERY), CIPHER, 1448).error
    odd = [*EVERY[:-1], Variant(EVERY[-1].parts, 1448, EVERY[-1].throughput_bps * 0.6, 1.0)]
    worse = packet_us(fit_parts(odd), CIPHER, 1448).error
    assert exact is not None
    assert worse is not None
    assert worse > 1.5 * exact > 0


def test_of_many_equal_tables_the_interval_holds_the_truth_in_nineteen_of_twenty() -> None:
    """Read off with a scatter of 8 points, which is more than the 5 that a reading is said to be good to."""
    chance, held = Random(7), 0
    for _ in range(200):
        read = [replace(one, cpu_share=one.cpu_share + chance.gauss(0, 0.08)) for one in EVERY]
        found = packet_us(fit_parts(read), CROSSING, 1448)
        assert found.error is not None
        held += abs(found.value - (130 + 0.01 * 1500)) <= found.error
    assert held >= 180


def test_variants_of_one_size_do_not_tell_fixed_from_per_byte() -> None:
    with pytest.raises(ValueError, match="observations"):
        fit_parts([one for one in EVERY if one.payload_bytes == 76])


WR841N = {
    # microseconds for a data packet of 76 and of 1,448 bytes of payload, each with its error
    ("openvpn", FORWARDING): ((20, 3), (56, 16)),
    ("openvpn", CROSSING): ((134, 18), (144, 40)),
    ("openvpn", CIPHER): ((92, 29), (227, 68)),
    ("openvpn", DIGEST): ((57, 28), (121, 61)),
    ("tinc", FORWARDING): ((20, 2), (56, 14)),
    ("tinc", CROSSING): ((137, 16), (159, 36)),
    ("tinc", CIPHER): ((55, 24), (191, 58)),
    ("tinc", DIGEST): ((108, 26), (181, 59)),
}


@pytest.mark.parametrize(("tunnel", "part"), WR841N)
def test_the_table_of_2014_says_what_tunnel_cipher_and_digest_cost_there(tunnel: str, part: str) -> None:
    fitted = published_parts(read_reference("wr841n-2014"), tunnel)
    for payload, (value, error) in zip((76, 1448), WR841N[tunnel, part], strict=True):
        found = packet_us(fitted, part, payload)
        assert found.value == pytest.approx(value, abs=0.6)
        assert found.error == pytest.approx(error, abs=0.6)


def test_a_table_that_does_not_say_how_busy_the_cpu_was_is_refused() -> None:
    with pytest.raises(ValueError, match="how busy"):
        published_parts(read_reference("alix-2d3-2010"), "openvpn")
