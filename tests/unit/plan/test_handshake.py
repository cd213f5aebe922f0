"""`[handshake]` of a plan: expansion, names, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of, plan_of

from tunnelbench.model.plan import Direction, Test
from tunnelbench.model.testbed import TestbedSpec

HANDSHAKE = '[handshake]\nparallel = [0, 4]\nrate = 200\n[[tunnel]]\nkind = "openvpn"\nname = "O"\n'


def errors(folder: Path, text: str, topology: str = "road-warrior") -> list[str]:
    return errors_of(folder, text, TestbedSpec("lab", "netns", topology=topology))


def test_each_server_is_measured_with_each_number_of_handshakes(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, HANDSHAKE)
    assert [(tunnel.name, tunnel.clients, tunnel.handshakes) for tunnel in plan.tunnels] == [
        ("no tunnel", None, 0),
        ("O, 0 handshakes at once", 1, 0),
        ("O, 4 handshakes at once", 1, 4),
    ]
    assert {(trial.test, trial.load, trial.direction, trial.payload_bytes) for trial in plan.trials()} == {
        (Test.HANDSHAKE, "200", Direction.OUT, 1200)
    }
    assert plan.tcp is None


def test_a_name_may_have_the_number_in_another_place(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, HANDSHAKE.replace('"O"', '"{handshakes} times O"'))
    assert [tunnel.name for tunnel in plan.tunnels[1:]] == ["0 times O", "4 times O"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HANDSHAKE.replace("openvpn", "vxlan"),
            '"vxlan" has one client only; [handshake] needs boringtun, ipsec, openvpn',
        ),
        ("[udp]\n" + HANDSHAKE, "[handshake] has UDP traffic of its own: leave [udp] out"),
        *(
            (f"[{table}]\n" + HANDSHAKE, f"[handshake] has UDP traffic of its own: leave [{table}] out")
            for table in ("tcp", "connections", "soak")
        ),
        (
            '[[tunnel]]\nkind = "openvpn"\nhandshakes = 4\n',
            "3: tunnel[1].handshakes: only a plan with [handshake] makes handshakes: add this table",
        ),
        (
            HANDSHAKE.replace("openvpn", "none"),
            "1: handshake: no tunnel of the plan has clients: add a [[tunnel]] of boringtun, ipsec, openvpn, wireguard",
        ),
        ("[clients]\ncount = 1\n" + HANDSHAKE, "[clients] shares out TCP: leave [handshake] out"),
        *(
            (HANDSHAKE.replace("200", rate), f"must be packets per second from 1 to 50,000, such as 1000, not {value}")
            for rate, value in (('"flat-out"', '"flat-out"'), ("0", "0"), ("[0.5]", "0.5"), ("60000", "60000"))
        ),
        (HANDSHAKE.replace("[0, 4]", "33"), "handshake.parallel"),
        (HANDSHAKE + 'inside = "ipv6"\n', 'clients of one server have IPv4 traffic only: set inside = "ipv4"'),
        (HANDSHAKE + "processes = 2\n", 'clients of one server need mode = "tls", dev = "tun" and one process'),
        (HANDSHAKE + "clients = 2\n", "handshakes needs clients = 1, whose traffic flows meanwhile"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(text: str, message: str, tmp_path: Path) -> None:
    (found,) = errors(tmp_path, text)
    assert message in found


def test_the_key_of_the_direction_that_nat_blocks_is_named(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, HANDSHAKE.replace("rate", 'direction = "in"\nrate') + 'firewall = "stateful-nat"\n')
    assert found.endswith('set handshake.direction = "out"')


def test_handshakes_are_refused_where_the_router_is_not_the_server(tmp_path: Path) -> None:
    assert errors(tmp_path, HANDSHAKE) == []
    (found,) = errors(tmp_path, HANDSHAKE, "router-server")
    assert found.startswith("1: handshake: cannot run on testbed lab: its clients connect to the router, which needs")
