"""The option `mtu` of tunnels, and the shipped plan that compares MTUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.test_filters import errors
from tests.unit.plan.texts import plan_of

from tunnelbench.plan import read_plan
from tunnelbench.tunnel import adapters, option_schemas
from tunnelbench.tunnel.fastd import LEAST_MTU_BYTES

WITHOUT_MTU = {"none", "openvpn"}
"""Kinds without the option: there is no device, or the option has the program's own name (tun_mtu)."""

SMALLER_LARGEST_MTU_BYTES = {"l2tpv2-ppp": 8900, "n2n": 1500, "nebula": 8900, "openconnect": 1434}
"""Largest `mtu` of the kinds that have a smaller one than 9000."""


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
    largest = SMALLER_LARGEST_MTU_BYTES.get(kind, 9000)
    least = LEAST_MTU_BYTES if kind == "fastd" else 576
    assert errors(tmp_path, f'[[tunnel]]\nkind = "{kind}"\nmtu = [{least}, {largest}]\n') == []
    (error,) = errors(tmp_path, f'[[tunnel]]\nkind = "{kind}"\nmtu = {largest + 1}\n')
    assert error == f"tunnel[1].mtu: must be at most {largest}, not {largest + 1}"


def test_the_shipped_plan_has_packets_that_are_cut_and_packets_that_are_not() -> None:
    plan = read_plan("mtu", option_schemas()).plan
    options = [tunnel.options for tunnel in plan.tunnels if tunnel.has_tunnel]
    mtus = [int(each.get("mtu") or each["tun_mtu"]) for each in options]
    assert min(mtus) < 1500 == max(mtus)
    assert plan.udp is not None
    assert plan.udp.payload_bytes == (1500 - 28,)
