"""Devices and addresses of a real testbed, from what `ip` says at each end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.tunnel.fakes import FakeHost

from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import HostAccess, Port, RouterSpec, TestbedSpec, TesterSpec
from tunnelbench.testbed.discovery import CableEnd, GatewayEnds, find, parse_addresses

BUSYBOX = """\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
7: br-lan    inet 192.168.1.1/24 brd 192.168.1.255 scope global br-lan\\       valid_lft forever
"""
WAN = "3: wan@eth0    inet 10.0.0.7/24 brd 10.0.0.255 scope global wan\\       valid_lft 4000sec\n"
LAPTOP = "2: eth0    inet 192.168.1.100/24 brd 192.168.1.255 scope global dynamic eth0\n"
SPARE = "2: eth0: <UP> mtu 1500 qdisc mq state UP \\    link/ether 02:00:00:00:00:01 brd ff\n"
SPARE += "5: enx02: <UP> mtu 1500 qdisc mq state UP \\    link/ether 02:00:00:00:00:02 brd ff\n"
DEFAULT = "default via 10.0.0.1 dev wan  src 10.0.0.7 \n192.168.1.0/24 dev br-lan scope link\n"


def host(name: str, addresses: str, links: str = "", routes: str = "") -> FakeHost:
    def answer(argv: Sequence[str]) -> str:
        return {"addr": addresses, "link": links, "route": routes}.get(
            next((word for word in argv if word in ("addr", "link", "route")), ""), ""
        )

    return FakeHost(name, Path(), answer)


def spec(**changes: object) -> TestbedSpec:
    router = RouterSpec(HostAccess("root@192.168.1.1"), Port(*changes.get("lan", ())), Port(*changes.get("wan", ())))  # type: ignore[misc]
    server = TesterSpec(port=Port(*changes.get("server", ())), namespace=True)  # type: ignore[misc]
    return TestbedSpec("mine", "ssh", router=router, server=server)


def test_addresses_are_read_from_busybox_too_and_lo_is_left_out() -> None:
    assert parse_addresses(BUSYBOX + WAN) == {"br-lan": ["192.168.1.1/24"], "wan": ["10.0.0.7/24"]}


def test_both_cables_are_found_where_they_have_addresses() -> None:
    laptop = host("local", LAPTOP + "5: enx02    inet 10.0.0.9/24 scope global enx02\n")
    found = find(spec(), laptop, host("router", BUSYBOX + WAN, routes=DEFAULT), laptop)
    assert found.client == CableEnd("eth0", "192.168.1.100/24", is_there=True)
    assert found.router_lan == CableEnd("br-lan", "192.168.1.1/24", is_there=True)
    assert found.router_wan == CableEnd("wan", "10.0.0.7/24", is_there=True)
    assert found.server == CableEnd("enx02", "10.0.0.9/24", is_there=True)


UP, DOWN = "3: up    inet 10.0.0.9/24 scope global up\n", "4: down    inet 10.2.0.1/24 scope global down\n"


def with_gateway(lan: str = "", wan: str = "") -> TestbedSpec:
    return replace(spec(), gateway=RouterSpec(HostAccess("root@192.168.3.1"), Port(lan), Port(wan)))


def test_a_gateway_is_found_between_router_and_server() -> None:
    laptop = host("local", LAPTOP + "5: enx02    inet 10.2.0.2/24 scope global enx02\n")
    router = host("router", BUSYBOX + WAN, routes=DEFAULT)
    found = find(with_gateway(), laptop, router, laptop, host("gateway", UP + DOWN))
    up, down = CableEnd("up", "10.0.0.9/24", is_there=True), CableEnd("down", "10.2.0.1/24", is_there=True)
    assert found.gateway == GatewayEnds(up, down)
    assert found.server == CableEnd("enx02", "10.2.0.2/24", is_there=True)
    assert [name for name, _, _ in found.cables] == ["LAN", "WAN", "gateway's LAN"]


def test_a_gateway_without_addresses_gets_those_for_benchmarks_for_the_run() -> None:
    laptop, router = host("local", LAPTOP, links=SPARE), host("router", BUSYBOX)
    asked = replace(with_gateway("down", "up"), router=spec(wan=("wan",)).router)
    found = find(asked, laptop, router, laptop, host("gateway", ""))
    up, down = CableEnd("up", "198.18.2.2/24", is_there=False), CableEnd("down", "198.18.7.1/24", is_there=False)
    assert found.gateway == GatewayEnds(up, down)
    assert found.server == CableEnd("enx02", "198.18.7.2/24", is_there=False)


def test_the_device_by_which_ssh_reaches_the_gateway_is_not_taken_for_a_cable() -> None:
    laptop = host("local", LAPTOP + "5: enx02    inet 10.2.0.2/24 scope global enx02\n")
    router, ssh = host("router", BUSYBOX + WAN, routes=DEFAULT), "5: mgmt    inet 10.7.0.1/24 scope global mgmt\n"
    found = find(with_gateway(), laptop, router, laptop, host("gateway", UP + DOWN + ssh), management="10.7.0.1")
    assert found.gateway is not None
    assert found.gateway.lan == CableEnd("down", "10.2.0.1/24", is_there=True)
    with pytest.raises(CannotHere, match="the gateway's device on the cable to the server cannot be found"):
        find(with_gateway(), laptop, router, laptop, host("gateway", UP + ssh), management="10.7.0.1")


def test_the_clients_card_is_not_the_servers_if_both_lans_have_one_network() -> None:
    laptop, router = host("local", LAPTOP, links=SPARE), host("router", BUSYBOX + WAN, routes=DEFAULT)
    same = host("gateway", UP + "4: down    inet 192.168.1.2/24 scope global down\n")
    with pytest.raises(CannotHere, match="the server's enx02 has no IPv4 address"):
        find(with_gateway(), laptop, router, laptop, same)


@pytest.mark.parametrize(
    ("addresses", "hint"), [(DOWN, "gateway.wan_device"), (UP, "gateway.lan_device"), ("", "gateway.wan_device")]
)
def test_a_device_of_the_gateway_that_is_not_found_is_named(addresses: str, hint: str) -> None:
    laptop = host("local", LAPTOP + "5: enx02    inet 10.2.0.2/24 scope global enx02\n")
    router = host("router", BUSYBOX + WAN, routes=DEFAULT)
    with pytest.raises(CannotHere, match="the gateway") as caught:
        find(with_gateway(), laptop, router, laptop, host("gateway", addresses))
    assert hint in caught.value.hint


def test_a_cable_without_addresses_gets_those_for_benchmarks_for_the_run() -> None:
    laptop = host("local", LAPTOP, links=SPARE)
    found = find(spec(wan=("wan",)), laptop, host("router", BUSYBOX), laptop)
    assert found.router_wan == CableEnd("wan", "198.18.2.1/24", is_there=False)
    assert found.server == CableEnd("enx02", "198.18.2.2/24", is_there=False)


def test_of_several_spare_cards_the_one_with_a_cable_is_the_servers() -> None:
    more = "6: enp9: <BROADCAST,UP,LOWER_UP> mtu 1500 \\    link/ether 02:00:00:00:00:03 brd ff\n"
    laptop = host("local", LAPTOP, links=SPARE + more)
    found = find(spec(wan=("wan",)), laptop, host("router", BUSYBOX), laptop)
    assert found.server.device == "enp9"
    two = more.replace("6: enp9", "7: enp10")
    laptop = host("local", LAPTOP, links=SPARE + more + two)
    with pytest.raises(CannotHere, match="the server has no device"):
        find(spec(wan=("wan",)), laptop, host("router", BUSYBOX), laptop)


def test_the_files_address_is_added_where_the_device_has_another() -> None:
    laptop = host("local", LAPTOP, links=SPARE)
    asked = spec(wan=("wan", "172.16.0.1/30"), server=("enx02", "172.16.0.2/30"))
    found = find(asked, laptop, host("router", BUSYBOX + WAN), laptop)
    assert (found.router_wan.interface, found.router_wan.is_there) == ("172.16.0.1/30", False)
    assert (found.server.interface, found.server.is_there) == ("172.16.0.2/30", False)


@pytest.mark.parametrize(
    ("asked", "router", "words"),
    [
        (spec(), BUSYBOX, "the router's WAN device cannot be found"),
        (spec(wan=("wan",)), BUSYBOX + WAN, "the server has no device with an address in 10.0.0.0/24"),
        (spec(), "", "the router's LAN device cannot be found"),
        (spec(wan=("wan",), server=("enx02", "10.9.9.9/24")), BUSYBOX + WAN, "not two addresses of one network"),
    ],
)
def test_a_value_that_cannot_be_found_is_asked_for_by_its_key(asked: TestbedSpec, router: str, words: str) -> None:
    laptop = host("local", LAPTOP)
    with pytest.raises(CannotHere, match=words) as caught:
        find(asked, laptop, host("router", router), laptop)
    assert "testbed file" in caught.value.hint


def test_addresses_that_are_none_are_left_out() -> None:
    odd = "4: wan inet 300.1.1.1/24 x\n4: wan inet --help x\n4: wan inet 10.0.0.1/99 x\n4: wan inet 10.0.0.7/24 x\n"
    assert parse_addresses(odd) == {"wan": ["10.0.0.7/24"]}


@pytest.mark.parametrize("line", ["1: " + "@" * 1_000_000, "1: " + "a@" * 500_000], ids=["signs", "names"])
def test_a_long_line_of_a_router_is_read_at_once(line: str) -> None:
    assert parse_addresses(line) == {}
