"""The option `content`, which every tunnel has: expansion, names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.test_filters import errors
from tests.unit.plan.texts import errors_of, plan_of

from tunnelbench.model.conditions import Conditions, Content, conditions_of
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.tunnel import adapters

BLOCK = '[[tunnel]]\nkind = "{kind}"\ncontent = ["random", "repeating"]\n'


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_every_tunnel_has_random_and_repeating_data(kind: str, tmp_path: Path) -> None:
    own = [tunnel for tunnel in plan_of(tmp_path, BLOCK.format(kind=kind)).tunnels if tunnel.kind == kind]
    assert [tunnel.conditions.content for tunnel in own] == [*Content]
    named = "no tunnel" if kind == "none" else kind
    assert [tunnel.name for tunnel in own] == [f"{named} content={content}" for content in Content]


def test_random_data_are_no_option_and_repeating_ones_are_in_the_name(tmp_path: Path) -> None:
    text = BLOCK.format(kind="vxlan") + 'name = "V"\n'
    usual, other = plan_of(tmp_path, text).tunnels[1:]
    assert (usual.name, other.name) == ("V", "V content=repeating")
    assert "content" not in usual.options
    assert other.options["content"] == "repeating"
    named = plan_of(tmp_path, text.replace('"V"', '"V, {content}"')).tunnels[1:]
    assert [tunnel.name for tunnel in named] == ["V, random", "V, repeating"]


def test_data_that_no_plan_has_count_as_random() -> None:
    assert conditions_of({"content": 7}) == conditions_of({"content": "zeros"}) == Conditions()


def test_connections_carry_no_data_that_could_be_chosen(tmp_path: Path) -> None:
    text = f"[tcp]\n[{{table}}]\n{BLOCK.format(kind='openvpn')}"
    found = errors(tmp_path, text.format(table="connections"))
    assert found == ['tunnel[1].content: "repeating" is for TCP and UDP with data: leave [connections] out']
    assert errors(tmp_path, text.format(table="udp")) == []
    assert errors(tmp_path, '[connections]\n[[tunnel]]\nkind = "openvpn"\ncontent = "random"\n') == []


@pytest.mark.parametrize(
    ("option", "model"),
    [
        ('firewall = ["none", "stateful"]', "a router without a packet filter"),
        ("rules = 3", "a router without a packet filter"),
        ('inside = "ipv6"', "IPv4 only"),
        ('outside = ["ipv4", "ipv6"]', "IPv4 only"),
    ],
)
def test_a_simulated_testbed_refuses_conditions_that_its_model_lacks(option: str, model: str, tmp_path: Path) -> None:
    text = f'[[tunnel]]\nkind = "vxlan"\n{option}\n'
    (found,) = errors_of(tmp_path, text, TestbedSpec("model", "simulated"))
    assert found.startswith(f"3: tunnel[1].{option.partition(' ')[0]}: cannot run on testbed model")
    assert found.endswith(f"a simulated testbed has a model of {model}")


def test_a_simulated_testbed_has_no_model_of_data_that_shrink(tmp_path: Path) -> None:
    (found,) = errors_of(tmp_path, BLOCK.format(kind="openvpn"), TestbedSpec("model", "simulated"))
    assert found.endswith("a simulated testbed has a model of data that no tunnel compresses")
