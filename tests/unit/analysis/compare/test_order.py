"""Expected order of tunnels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from tunnelbench.analysis.compare.order import is_lighter, order
from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.sides import ComparedFigure, Side, SideRow
from tunnelbench.reference import read_reference
from tunnelbench.tunnel import weights


def row(
    kind: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    mbps: float = 10.0,
    cost: float | None = None,
    payload_bytes: int = 1448,
) -> SideRow:
    return SideRow(
        kind=kind,
        name=" ".join((kind, *settings.values())),
        settings=settings,
        options={},
        payload_bytes=payload_bytes,
        effective_bytes=None,
        direction="in",
        traffic="tcp",
        figures={ComparedFigure.THROUGHPUT: {1: mbps}},
        cost_within=cost,
    )


PLAIN = {"cipher": "none", "digest": "none"}
DIGEST = {"cipher": "none", "digest": "sha1"}
CIPHER = {"cipher": "bf-cbc", "digest": "none"}
BOTH = {"cipher": "bf-cbc", "digest": "sha1"}


@pytest.mark.parametrize(
    ("lighter", "heavier"),
    [
        (row("none"), row("ipip")),
        (row("ipip"), row("gre")),
        (row("gre"), row("l2tpv2-ppp")),
        (row("l2tpv2-ppp"), row("openvpn", PLAIN)),
        (row("none"), row("tinc", BOTH)),
        (row("tinc", PLAIN), row("tinc", DIGEST)),
        (row("openvpn", CIPHER), row("openvpn", BOTH)),
    ],
)
def test_what_does_less_to_a_packet_is_expected_before_what_does_more(lighter: SideRow, heavier: SideRow) -> None:
    assert is_lighter(lighter, heavier, weights())
    assert not is_lighter(heavier, lighter, weights())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (row("openvpn", CIPHER), row("openvpn", DIGEST)),
        (row("openvpn", PLAIN), row("tinc", BOTH)),
        (row("none"), row("none")),
        (row("wireguard"), row("openvpn", PLAIN)),
        (row("fastd", PLAIN), row("fastd", BOTH)),
        (row("none"), replace(row("ipip"), options={"firewall": "stateful"})),
        (replace(row("none"), options={"rules": 9}), row("ipip")),
    ],
)
def test_of_others_nothing_is_expected(one: SideRow, other: SideRow) -> None:
    assert not is_lighter(one, other, weights())
    assert not is_lighter(other, one, weights())


def test_an_inversion_is_reported_with_the_cost_of_a_packet() -> None:
    gre, ipip = row("gre", mbps=11.0, cost=90.0), row("ipip", mbps=10.0, cost=100.0)
    found = order(Side("x", "x", (gre, ipip, row("gre", mbps=20.0, payload_bytes=76)), {}), weights())
    assert found.pairs == 1
    (inversion,) = found.inversions
    assert (inversion.lighter, inversion.heavier) == (ipip, gre)
    assert inversion.faster_by == pytest.approx(0.1)
    assert inversion.cost_ratio == pytest.approx(0.9)


def test_two_that_are_hardly_apart_are_in_no_order() -> None:
    assert order(Side("x", "x", (row("gre", mbps=10.05), row("ipip", mbps=10.0)), {}), weights()).inversions == ()


def test_the_table_of_2014_is_in_the_expected_order() -> None:
    found = order(side_of_reference(read_reference("wr841n-2014")), weights())
    assert found.pairs == 192
    assert found.inversions == ()
