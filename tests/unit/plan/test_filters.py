"""The options `firewall` and `rules`, which every tunnel has: expansion, names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import plan_of

from tunnelbench.model.firewall import Firewall, RouterFilter, filter_of
from tunnelbench.plan import check_file, read_plan
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import adapters, option_schemas


def errors(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return [f"{error.key}: {error.message}" for error in check_file(str(path), option_schemas(), KINDS)]


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_every_tunnel_has_each_filter(kind: str, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f'[[tunnel]]\nkind = "{kind}"\nfirewall = ["none", "stateful", "stateful-nat"]\n')
    own = [tunnel for tunnel in plan.tunnels if tunnel.kind == kind]
    assert [tunnel.packet_filter.firewall for tunnel in own] == [*Firewall]
    named = "no tunnel" if kind == "none" else kind
    assert [tunnel.name for tunnel in own] == [f"{named} firewall={each}" for each in Firewall]
    assert [tunnel.name for tunnel in plan.tunnels if tunnel.is_baseline] == [
        "no tunnel firewall=none" if kind == "none" else "no tunnel"
    ]


def test_values_that_change_nothing_are_not_options(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '[[tunnel]]\nkind = "vxlan"\nname = "V"\nfirewall = "none"\nrules = 0\n')
    assert not plan.tunnels[1].options.keys() & {"firewall", "rules"}
    assert plan.tunnels[1].name == "V"


def test_a_filter_is_in_the_name_even_where_the_plan_does_not_ask_for_it(tmp_path: Path) -> None:
    block = '[[tunnel]]\nkind = "vxlan"\nname = "{name}"\nfirewall = ["none", "stateful-nat"]\nrules = [0, 7]\n'
    names = [tunnel.name for tunnel in plan_of(tmp_path, block.replace("{name}", "V")).tunnels[1:]]
    assert names == ["V", "V rules=7", "V firewall=stateful-nat", "V firewall=stateful-nat rules=7"]
    names = [tunnel.name for tunnel in plan_of(tmp_path, block.replace("{name}", "V {firewall}")).tunnels[1:]]
    assert names == ["V none", "V none rules=7", "V stateful-nat", "V stateful-nat rules=7"]


def test_forwarding_with_a_filter_is_neither_the_baseline_nor_a_tunnel(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '[[tunnel]]\nkind = "none"\nfirewall = "stateful"\n')
    assert [(each.name, each.is_baseline, each.has_tunnel) for each in plan.tunnels] == [
        ("no tunnel", True, False),
        ("no tunnel firewall=stateful", False, False),
    ]


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ('firewall = "on"', 'tunnel[1].firewall: "on" is not one of none, stateful, stateful-nat'),
        (
            'firewall = "statefull"',
            'tunnel[1].firewall: "statefull" is not one of none, stateful, stateful-nat; did you mean stateful?',
        ),
        ("rules = 1001", "tunnel[1].rules: must be at most 1000, not 1001"),
        ("rules = -1", "tunnel[1].rules: must be at least 0, not -1"),
    ],
)
def test_other_values_are_refused(keys: str, error: str, tmp_path: Path) -> None:
    assert errors(tmp_path, f'[[tunnel]]\nkind = "vxlan"\n{keys}\n') == [error]


def test_udp_that_the_server_begins_is_refused_behind_nat(tmp_path: Path) -> None:
    block = '[[tunnel]]\nkind = "vxlan"\nfirewall = ["stateful", "stateful-nat"]\n'
    (error,) = errors(tmp_path, f"[udp]\n{block}")
    assert error.endswith('set udp.direction = "out"')
    assert errors(tmp_path, f'[udp]\ndirection = "out"\n{block}') == []
    assert errors(tmp_path, f"[tcp]\n{block}") == []


def test_a_soak_is_refused_with_a_filter(tmp_path: Path) -> None:
    soak = '[soak]\nrate = 1000\n[[tunnel]]\nkind = "vxlan"\n'
    (error,) = errors(tmp_path, f"{soak}rules = 5\n")
    assert error.endswith("a plan with [soak] cannot have it: no check of soaks proves it")
    assert errors(tmp_path, f"{soak}rules = 0\n") == []


def test_the_shipped_plan_compares_every_filter() -> None:
    plan = read_plan("firewall", option_schemas()).plan
    assert {tunnel.packet_filter.firewall for tunnel in plan.tunnels} == {*Firewall}
    assert {tunnel.packet_filter.rules for tunnel in plan.tunnels} == {0, 100}
    assert plan.tunnels[0].is_baseline


def test_values_that_no_plan_has_count_as_no_filter() -> None:
    assert filter_of({"firewall": "fw4", "rules": "9"}) == filter_of({"firewall": 1, "rules": True}) == RouterFilter()
