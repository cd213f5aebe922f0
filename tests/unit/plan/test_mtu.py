"""The option `mtu` of tunnels, and the shipped plan that compares MTUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.test_filters import errors
from tests.unit.plan.texts import plan_of

from tunnelbench.plan import read_plan
from tunnelbench.tunnel import adapters, option_schemas

WITHOUT_MTU = {"none", "openvpn"}
"""Kinds without the option: there is no device, or the option has the program's own name (tun_mtu)."""


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_every_tunnel_has_an_mtu_that_expands_as_any_list(kind: str, tmp_path: Path) -> None:
    text = f'[[tunnel]]\nkind = "{kind}"\nmtu = [1280, 1400]\n'
    if kind in WITHOUT_MTU:
        (error,) = errors(tmp_path, text)
        assert error.startswith("tunnel[1].mtu: unknown key")
        return
    own = [tunnel for tunnel in plan_of(tmp_path, text).tunnels if tunnel.kind == kind]
    assert [tunnel.options["mtu"] for tunnel in own] == [1280, 1400]
    assert [tunnel.name for tunnel in own] == [f"{kind} mtu=1280", f"{kind} mtu=1400"]


def test_the_shipped_plan_has_packets_that_are_cut_and_packets_that_are_not() -> None:
    plan = read_plan("mtu", option_schemas()).plan
    options = [tunnel.options for tunnel in plan.tunnels if tunnel.has_tunnel]
    mtus = [int(each.get("mtu") or each["tun_mtu"]) for each in options]
    assert min(mtus) < 1500 == max(mtus)
    assert plan.udp is not None
    assert plan.udp.payload_bytes == (1500 - 28,)
