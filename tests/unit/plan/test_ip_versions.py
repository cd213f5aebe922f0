"""The options `inside` and `outside`, which every tunnel has: expansion, names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.test_filters import errors
from tests.unit.plan.texts import errors_of, plan_of

from tunnelbench.model.conditions import Conditions, conditions_of
from tunnelbench.model.ip_versions import IpVersion, with_port
from tunnelbench.model.testbed import Link, TestbedSpec
from tunnelbench.plan import read_plan
from tunnelbench.tunnel import adapters, option_schemas

CARRIED_BY_IPV6 = {"wireguard", "gre", "vxlan", "ipsec", "fastd", "tinc", "openvpn"}
"""Kinds that at least must be able to travel in packets of IPv6."""


@pytest.mark.parametrize("kind", sorted(adapters()))
@pytest.mark.parametrize("option", ["inside", "outside"])
def test_a_tunnel_has_both_versions_or_check_gives_the_reason(kind: str, option: str, tmp_path: Path) -> None:
    text = f'[[tunnel]]\nkind = "{kind}"\n{option} = ["ipv4", "ipv6"]\n'
    schema = option_schemas()[kind]
    reason = schema.ipv4_only_inside if option == "inside" else schema.ipv4_only_outside
    if reason:
        assert errors(tmp_path, text) == [f'tunnel[1].{option}: "ipv6" is not possible: {reason}']
        assert option == "inside" or kind not in CARRIED_BY_IPV6
        return
    own = [tunnel for tunnel in plan_of(tmp_path, text).tunnels if tunnel.kind == kind]
    assert [getattr(tunnel.conditions, option) for tunnel in own] == [*IpVersion]
    named = "no tunnel" if kind == "none" else kind
    assert [tunnel.name for tunnel in own] == [f"{named} {option}={version}" for version in IpVersion]


def test_the_usual_version_is_no_option_of_its_own(tmp_path: Path) -> None:
    block = '[[tunnel]]\nkind = "{}"\nname = "T"\ninside = "ipv4"\noutside = "ipv4"\n'
    assert not plan_of(tmp_path, block.format("vxlan")).tunnels[1].options.keys() & {"inside", "outside"}
    # Runs of earlier versions have stored this option of OpenVPN.
    assert plan_of(tmp_path, block.format("openvpn")).tunnels[1].options["outside"] == "ipv4"


def test_an_ip_version_is_in_the_name_even_where_the_plan_does_not_ask_for_it(tmp_path: Path) -> None:
    block = '[[tunnel]]\nkind = "vxlan"\nname = "{name}"\ninside = ["ipv4", "ipv6"]\noutside = ["ipv4", "ipv6"]\n'
    names = [tunnel.name for tunnel in plan_of(tmp_path, block.replace("{name}", "V")).tunnels[1:]]
    assert names == ["V", "V outside=ipv6", "V inside=ipv6", "V inside=ipv6 outside=ipv6"]
    names = [tunnel.name for tunnel in plan_of(tmp_path, block.replace("{name}", "V in {outside}")).tunnels[1:]]
    assert names == ["V in ipv4", "V in ipv6", "V in ipv4 inside=ipv6", "V in ipv6 inside=ipv6"]


def test_forwarding_of_ipv6_is_neither_the_baseline_nor_a_tunnel(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, '[[tunnel]]\nkind = "none"\ninside = "ipv6"\n')
    assert [(each.name, each.is_baseline, each.has_tunnel) for each in plan.tunnels] == [
        ("no tunnel", True, False),
        ("no tunnel inside=ipv6", False, False),
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('inside = "ipv5"', 'tunnel[1].inside: "ipv5" is not one of ipv4, ipv6; did you mean ipv6?'),
        ("outside = 6", "tunnel[1].outside: 6 is not one of ipv4, ipv6"),
        ('inside = "ipv6"\nmtu = 1279', 'tunnel[1]: inside = "ipv6" needs mtu = 1280 or more, not 1279 (RFC 8200)'),
        ('inside = "ipv6"\nrules = 1', "tunnel[1]: firewall and rules filter IPv4 only: leave them out, or set inside"),
    ],
)
def test_what_no_tunnel_can_have_is_refused(text: str, error: str, tmp_path: Path) -> None:
    (found,) = errors(tmp_path, f'[[tunnel]]\nkind = "wireguard"\n{text}\n')
    assert found.startswith(error)


@pytest.mark.parametrize("option", ["inside", "outside"])
def test_ipv6_is_refused_on_cables_below_1280_bytes(option: str, tmp_path: Path) -> None:
    def found(version: str, mtu_bytes: int) -> list[str]:
        text = f'[[tunnel]]\nkind = "vxlan"\n{option} = "{version}"\n'
        return errors_of(tmp_path, text, TestbedSpec("lab", "netns", link=Link(mtu_bytes=mtu_bytes)))

    (error,) = found("ipv6", 1279)
    assert error == (
        f"3: tunnel[1].{option}: IPv6 needs cables of 1280 bytes or more (RFC 8200), and those of testbed lab have "
        "1279: set link.mtu_bytes to 1280 or more, or take ipv4"
    )
    assert found("ipv6", 1280) == found("ipv4", 1279) == []


def test_a_link_mtu_that_may_leave_too_little_for_ipv6_inside_is_refused(tmp_path: Path) -> None:
    def found(link_mtu_bytes: int, version: str = "ipv6") -> list[str]:
        block = f'kind = "openvpn"\ninside = "{version}"\nlink_mtu_bytes = {link_mtu_bytes}\n'
        return errors(tmp_path, f"[[tunnel]]\n{block}")

    (error,) = found(1449)
    assert error == (
        'tunnel[1]: inside = "ipv6" needs a device of 1280 bytes or more (RFC 8200), which link_mtu_bytes = 1449 may '
        "not leave: set it to 1450 or more, or set tun_mtu = 1280 or more in its place"
    )
    assert found(1450) == found(750, "ipv4") == []


@pytest.mark.parametrize(
    ("traffic", "words"),
    [
        (
            "[udp]\nframe_bytes = 64",
            "sizes of udp.frame_bytes: they are frames with IPv4 headers; give udp.payload_bytes in bytes",
        ),
        *(
            (
                f'{table}payload_bytes = ["imix", 18]',
                f'sizes of {key}, "imix": the mix has frames with IPv4 headers; give {key} in bytes',
            )
            for table, key in (("[udp]\n", "udp.payload_bytes"), ("[soak]\nrate = 10\n", "soak.payload_bytes"))
        ),
    ],
)
def test_sizes_that_are_defined_for_ipv4_are_refused_with_ipv6_inside(traffic: str, words: str, tmp_path: Path) -> None:
    block = '[[tunnel]]\nkind = "vxlan"\ninside = ["ipv4", "ipv6"]\n'
    (error,) = errors(tmp_path, f"{traffic}\n{block}")
    assert error.startswith('tunnel[1].inside: "ipv6" cannot have the ')
    assert error.endswith(words)
    assert errors(tmp_path, f"[udp]\npayload_bytes = 1200\n{block}") == []


def test_the_shipped_plan_compares_every_pair_of_versions() -> None:
    plan = read_plan("family", option_schemas()).plan
    pairs = {(tunnel.conditions.inside, tunnel.conditions.outside) for tunnel in plan.tunnels if tunnel.has_tunnel}
    assert pairs == {(inside, outside) for inside in IpVersion for outside in IpVersion}
    assert {tunnel.kind for tunnel in plan.tunnels} == {"none", *CARRIED_BY_IPV6}
    assert plan.tunnels[0].is_baseline


def test_values_that_no_plan_has_count_as_ipv4() -> None:
    assert conditions_of({"inside": 6, "outside": "IPv6"}) == Conditions()


def test_an_ipv6_address_with_a_port_is_in_brackets() -> None:
    assert with_port("2001:2::1", 1194) == "[2001:2::1]:1194"
    assert with_port("198.18.2.1", 1194) == "198.18.2.1:1194"
