"""`[clients]` of a plan: expansion, names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of, plan_of

from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.plan import read_testbed
from tunnelbench.testbed import KINDS

CLIENTS = "[clients]\ncount = [1, 2, 5]\n"


REKEY = '[udp]\ntest = "rekey"\nrate = 200\n'


def names(folder: Path, text: str) -> list[tuple[str, int | None]]:
    return [(tunnel.name, tunnel.clients) for tunnel in plan_of(folder, text).tunnels]


def errors(folder: Path, text: str, topology: str = "road-warrior") -> list[str]:
    return errors_of(folder, text, TestbedSpec("lab", "netns", topology=topology))


def test_each_tunnel_is_measured_with_each_number_of_clients_and_the_baseline_once(tmp_path: Path) -> None:
    text = CLIENTS + '[[tunnel]]\nkind = "openvpn"\nname = "O"\n[[tunnel]]\nkind = "wireguard-go"\n'
    assert names(tmp_path, text) == [
        ("no tunnel", None),
        ("O, 1 client", 1),
        ("O, 2 clients", 2),
        ("O, 5 clients", 5),
        ("wireguard-go clients=1", 1),
        ("wireguard-go clients=2", 2),
        ("wireguard-go clients=5", 5),
    ]


def test_a_tunnel_may_have_a_number_and_a_name_of_its_own(tmp_path: Path) -> None:
    own = '[[tunnel]]\nkind = "openvpn"\nname = "{clients} at once"\nclients = 3\n'
    assert names(tmp_path, CLIENTS + own) == [("no tunnel", None), ("3 at once", 3)]
    assert names(tmp_path, '[[tunnel]]\nkind = "openvpn"\nname = "O"\n')[1] == ("O", None)


def test_a_name_shows_the_number_of_clients_and_the_outer_version(tmp_path: Path) -> None:
    block = '[[tunnel]]\nkind = "openvpn"\nname = "O"\nclients = 3\noutside = "ipv6"\n'
    assert names(tmp_path, block)[1] == ("O, 3 clients outside=ipv6", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            CLIENTS + '[[tunnel]]\nkind = "vxlan"\n',
            '"vxlan" has one client only; [clients] needs boringtun, ipsec, openvpn, wireguard, wireguard-go',
        ),
        (
            CLIENTS + '[[tunnel]]\nkind = "openvpn"\ndev = "tap"\n',
            '3: tunnel[1]: clients of one server need mode = "tls", dev = "tun" and one process',
        ),
        (
            CLIENTS + '[[tunnel]]\nkind = "wireguard"\ninside = "ipv6"\n',
            'clients of one server have IPv4 traffic only: set inside = "ipv4"',
        ),
        (
            CLIENTS + '[udp]\n[[tunnel]]\nkind = "openvpn"\n',
            "[clients] shares out TCP: leave [udp] out",
        ),
        *(
            (
                f'[{table}]\n[[tunnel]]\nkind = "openvpn"\nclients = [1, 2]\n',
                f"4: tunnel[1].clients: several clients share out TCP: leave [{table}] out",
            )
            for table in ("udp", "connections")
        ),
        (
            '[soak]\nrate = 100\n[[tunnel]]\nkind = "openvpn"\nclients = 2\n',
            "5: tunnel[1].clients: several clients share out TCP: leave [soak] out",
        ),
        (
            REKEY + CLIENTS + '[[tunnel]]\nkind = "openvpn"\nreneg_sec = 2\n',
            "leave [udp] out, or give the option clients to each [[tunnel]] in place of [clients]",
        ),
        *(
            (
                CLIENTS + f'[[tunnel]]\nkind = "openvpn"\nprocesses = {processes}\n',
                'clients of one server need mode = "tls", dev = "tun" and one process',
            )
            for processes in ("2", "[1, 2]")
        ),
        (
            CLIENTS + '[[tunnel]]\nkind = "none"\n[[tunnel]]\nkind = "none"\nrules = 1\n',
            "1: clients: no tunnel of the plan has clients: add a [[tunnel]] of boringtun, ipsec, openvpn, wireguard",
        ),
        *(
            (
                f'needs_gateway = true\n{table}[[tunnel]]\nkind = "openvpn"\n{option}',
                "1: needs_gateway: the clients of a server connect to the router, so that no tunnel ends on a gateway",
            )
            for table, option in ((CLIENTS, ""), ("[handshake]\n", ""), ("", "clients = 3\n"))
        ),
        ('[[tunnel]]\nkind = "none"\nclients = 1\n', "unknown key; [clients] is a table of its own"),
        ('[clients]\ncount = 33\n[[tunnel]]\nkind = "openvpn"\n', "2: clients.count"),
        ('[clients]\ncount = [2, 2]\n[[tunnel]]\nkind = "openvpn"\n', "2 is given twice"),
    ],
)
def test_what_has_no_clients_is_refused_with_the_reason(text: str, message: str, tmp_path: Path) -> None:
    (found,) = errors(tmp_path, text)
    assert message in found


@pytest.mark.parametrize(
    ("testbed", "shipped"),
    [
        (TestbedSpec("lab", "netns"), "netns-road-warrior"),
        (TestbedSpec("lab", "ssh"), "netns-road-warrior"),
        (read_testbed("malta", KINDS).testbed, "malta-road-warrior"),
    ],
)
@pytest.mark.parametrize("table", [CLIENTS, "[handshake]\n"])
def test_clients_are_refused_where_the_router_is_not_the_server(
    testbed: TestbedSpec, shipped: str, table: str, tmp_path: Path
) -> None:
    text = table + '[[tunnel]]\nkind = "openvpn"\n'
    assert errors_of(tmp_path, text, read_testbed(shipped, KINDS).testbed) == []
    (found,) = errors_of(tmp_path, text, testbed)
    key = table[1:].partition("]")[0]
    assert found.startswith(f"1: {key}: cannot run on testbed {testbed.name}: its clients connect to the router")
    assert found.endswith(f"the shipped testbed {shipped} has it")


SERVER = '[[tunnel]]\nkind = "openvpn"\nname = "O"\nclients = [1, 3]\nreneg_sec = 2\n'


def test_of_several_clients_all_but_the_first_change_keys_in_the_test_rekey(tmp_path: Path) -> None:
    tunnels = plan_of(tmp_path, REKEY + SERVER).tunnels
    assert [(tunnel.name, tunnel.others_rekey) for tunnel in tunnels] == [
        ("no tunnel", False),
        ("O, 1 client", False),
        ("O, 3 clients", True),
    ]
    assert errors(tmp_path, REKEY + SERVER) == []
    assert not any(tunnel.others_rekey for tunnel in plan_of(tmp_path, SERVER).tunnels), "TCP is that of all clients"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (
            REKEY + 'duration_s = 130\n[[tunnel]]\nkind = "wireguard"\nclients = [1, 2]\n',
            "7: tunnel[1].clients",
            (
                '"wireguard" has no option by which only other clients change their keys; the test "rekey" of several '
                "clients needs openvpn"
            ),
        ),
        (
            REKEY + '[[tunnel]]\nkind = "tinc"\nclients = 2\n',
            "6: tunnel[1].clients",
            '"tinc" has one client only; clients needs boringtun, ipsec, openvpn, wireguard, wireguard-go',
        ),
        (REKEY + SERVER.replace("reneg_sec = 2", ""), "4: tunnel[1]", "set clients and reneg_sec"),
        (REKEY + SERVER.replace("2", "0"), "4: tunnel[1]", "set clients and reneg_sec"),
        (
            REKEY.replace('"rekey"', '["rekey", "rate"]') + SERVER,
            "7: tunnel[1].clients",
            'leave [udp] out, or set udp.test = "rekey"',
        ),
        ("[soak]\nrate = 100\n" + REKEY + SERVER, "9: tunnel[1].clients", "share out TCP: leave [soak] out"),
    ],
)
def test_clients_that_cannot_be_in_the_test_rekey_are_refused(
    text: str, place: str, message: str, tmp_path: Path
) -> None:
    (found,) = errors(tmp_path, text)
    assert found.startswith(f"{place}: ")
    assert message in found


def test_several_clients_in_the_test_rekey_need_a_road_warrior(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, REKEY + SERVER, "router-server")
    assert found.startswith("7: tunnel[1].clients: cannot run on testbed lab: its clients connect to the router")
