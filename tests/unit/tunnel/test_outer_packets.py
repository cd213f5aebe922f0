"""Lengths of outer packets. Each figure in the cases was read off a capture on the WAN."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tunnel.cases import INNER_BYTES, Options, make_tunnel, require_growth, tunnel_cases

from tunnelbench.tunnel import adapters

LENGTHS = [(kind, options, length) for kind, case in tunnel_cases().items() for options, length in case.lengths]
SEEN = [(kind, options, seen) for kind, case in tunnel_cases().items() for options, seen in case.seen]


def test_every_adapter_has_lengths_that_were_seen() -> None:
    assert {kind for kind, _, _ in LENGTHS} == {kind for kind, _, _ in SEEN} == set(adapters())


@pytest.mark.parametrize(("kind", "options", "outer_bytes"), LENGTHS)
def test_an_outer_packet_is_as_long_as_it_was_seen_to_be(kind: str, options: Options, outer_bytes: int) -> None:
    assert make_tunnel(kind, options).outer_packet_bytes(INNER_BYTES) == outer_bytes


@given(st.sampled_from(LENGTHS), st.integers(20, 8900))
def test_a_tunnel_adds_to_a_packet_and_more_to_a_longer_one(
    measured: tuple[str, Options, int], inner_bytes: int
) -> None:
    require_growth(make_tunnel(*measured[:2]), inner_bytes)


@pytest.mark.parametrize(("kind", "options", "seen"), SEEN)
def test_a_tunnel_says_what_is_to_be_seen_on_the_wan(kind: str, options: Options, seen: str) -> None:
    tunnel = make_tunnel(kind, options)
    exact = "exact" if tunnel.has_exact_outer_packets else "a stream"
    assert f"{tunnel.outer}, {exact}, {'hidden' if tunnel.hides_payload else 'readable'}" == seen
