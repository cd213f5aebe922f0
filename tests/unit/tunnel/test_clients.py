"""Several clients of one server: configuration, keys, addresses and routes of OpenVPN and WireGuard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.tunnel.fakes import FakeDaemon, commands, make_ends

from tunnelbench.host.daemon import Daemon
from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.tunnel import certificates, wireguard
from tunnelbench.tunnel.base import Ends
from tunnelbench.tunnel.certificates import Authority, Issued
from tunnelbench.tunnel.openvpn import OpenVpn
from tunnelbench.tunnel.openvpn_options import Options
from tunnelbench.tunnel.wireguard import WireGuardGo

READY = "Initialization Sequence Completed\nlink local\n"


def road_warrior(folder: Path) -> Ends:
    """Ends whose callers are clients of the end `server`."""
    ends = make_ends(folder, lambda argv: "KEY" if argv[0] == "wg" else READY)
    return replace(ends, router=replace(ends.router, source="198.18.6.1"), is_server_under_test=True)


@pytest.fixture(autouse=True)
def issued(monkeypatch: pytest.MonkeyPatch) -> None:
    def new_authority(_local: object, names: Sequence[str]) -> Authority:
        return Authority("CA", {name: Issued(f"CERTIFICATE {name}", f"KEY {name}") for name in names})

    monkeypatch.setattr(certificates, "new_authority", new_authority)
    monkeypatch.setattr(wireguard, "SOCKET_LISTENS_S", 0.0)


def test_an_openvpn_server_pushes_the_address_of_each_client(tmp_path: Path) -> None:
    with OpenVpn(Options(clients=2), road_warrior(tmp_path)) as tunnel:
        server = tunnel.configuration["server/openvpn.conf"].splitlines()
        folder = tmp_path / "server" / "clients"
        assert {"mode server", "topology subnet", 'push "topology subnet"', "ccd-exclusive"} <= set(server)
        assert f"client-config-dir {folder}" in server
        assert (folder / "client-2").read_text() == (
            "ifconfig-push 198.18.3.2 255.255.255.0\niroute 198.18.6.2 255.255.255.255\n"
        )
        for number, name in enumerate(("openvpn", "openvpn-2")):
            client = tunnel.configuration[f"router/{name}.conf"].splitlines()
            assert {f"dev tun{number}", "client", "nobind", "remote 198.18.2.2 1194"} <= set(client)
            assert not any(line.startswith("ifconfig") for line in client), "the server pushes it"
        assert "KEY" not in "".join(tunnel.configuration.values())
        assert len(list(tmp_path.rglob("*.key"))) == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_no_file_of_the_clients_changes_after_one_of_them_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = road_warrior(tmp_path)
    host, events = ends.router.host, list[str]()
    write, start = host.write, host.start

    def noted_write(name: str, content: str) -> Path:
        events.append(name)
        return write(name, content)

    def noted_start(argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        events.append("start")
        return start(argv, has_input=has_input, name=name)

    monkeypatch.setattr(host, "write", noted_write)
    monkeypatch.setattr(host, "start", noted_start)
    with OpenVpn(Options(clients=3), ends):
        assert "ca.crt" not in events[events.index("start") :]


def test_each_client_has_a_device_and_an_address_and_the_server_a_route_to_it(tmp_path: Path) -> None:
    ends = road_warrior(tmp_path)
    with OpenVpn(Options(clients=2), ends) as tunnel:
        assert tunnel.client_devices == tunnel.devices_at(ends.router) == ("tun0", "tun1")
        assert tunnel.devices_at(ends.server) == ("tun0",)
        asked = commands(ends.router.host)
        assert "ip route add 198.18.4.1 dev tun0 src 198.18.6.1 metric 1" in asked
        assert "ip route add 198.18.4.1 dev tun1 src 198.18.6.2 metric 2" in asked
        assert "ip addr add 198.18.6.2/32 dev tun1" in asked
        assert "ip addr add 198.18.6.1/32 dev tun0" not in asked, "it is the testbed's"
        assert "ip route add 198.18.6.2 via 198.18.3.2 dev tun0" in commands(ends.server.host)
        assert tunnel.outer.ports == 1


def test_a_wireguard_server_has_a_peer_for_each_client_and_learns_its_address(tmp_path: Path) -> None:
    ends = road_warrior(tmp_path)
    with WireGuardGo(wireguard.Options(clients=2), ends) as tunnel:
        assert tunnel.client_devices == ("wgr-abcdef", "wgr1-abcdef")
        server = tunnel.configuration["server/wgs-abcdef"]
        assert server.count("peer KEY allowed-ips") == 2
        assert "198.18.3.2/32,198.18.6.2/32" in server
        assert "endpoint" not in server
        assert "endpoint 198.18.2.2:51820" in tunnel.configuration["router/wgr1-abcdef"]
        assert "ip addr add 198.18.3.2/24 dev wgr1-abcdef" in commands(ends.router.host)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_clients_call_the_ipv6_address_of_their_server(tmp_path: Path) -> None:
    with OpenVpn(Options(clients=2, outside=IpVersion.IPV6), road_warrior(tmp_path)) as tunnel:
        assert {"proto udp6", "local 2001:2::2"} <= set(tunnel.configuration["server/openvpn.conf"].splitlines())
        assert {"proto udp6", "remote 2001:2::2 1194"} <= set(
            tunnel.configuration["router/openvpn-2.conf"].splitlines()
        )
    with WireGuardGo(wireguard.Options(clients=2, outside=IpVersion.IPV6), road_warrior(tmp_path)) as wg:
        assert "endpoint [2001:2::2]:51820" in wg.configuration["router/wgr1-abcdef"]
        assert "allowed-ips 0.0.0.0/0" in wg.configuration["router/wgr1-abcdef"]


def test_the_handshake_of_every_client_is_required(tmp_path: Path) -> None:
    answers = {"wgr-abcdef": "KEY\t1741944413\n", "wgr1-abcdef": "KEY\t0\n"}
    ends = make_ends(tmp_path, lambda argv: answers.get(argv[2], ""))
    (found,) = WireGuardGo(wireguard.Options(clients=2), ends).negotiated()
    assert found.reason == "no handshake took place"


def test_without_a_road_warrior_there_are_no_clients(tmp_path: Path) -> None:
    with (
        pytest.raises(TunnelUnavailable, match='needs a testbed with topology = "road-warrior"'),
        OpenVpn(Options(clients=1), make_ends(tmp_path)),
    ):
        pass


def test_a_further_client_of_openvpn_starts_only_when_it_joins_and_leaves_no_log(tmp_path: Path) -> None:
    ends = road_warrior(tmp_path)
    with OpenVpn(Options(clients=1, handshakes=2), ends) as tunnel:
        assert "connect-freq-initial 100000 1" in tunnel.configuration["server/openvpn.conf"].splitlines()
        assert tunnel.client_devices == ("tun0",)
        started = [argv for argv in commands(ends.router.host) if argv.startswith("openvpn --config")]
        assert len(started) == 1
        with tunnel.joined(2) as device:
            assert device == "tun2"
            last = commands(ends.router.host)[-1]
            assert last == f"openvpn --config {tmp_path / 'router' / 'client-3.conf'}"
        assert "dev tun2" in tunnel.configuration["router/client-3.conf"].splitlines()
    with OpenVpn(Options(clients=1), road_warrior(tmp_path)) as tunnel:
        assert "\nconnect-freq-initial" not in tunnel.configuration["server/openvpn.conf"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_further_client_of_wireguard_forgets_the_server_and_names_it_again(tmp_path: Path) -> None:
    ends = road_warrior(tmp_path)
    with WireGuardGo(wireguard.Options(clients=1, handshakes=1), ends) as tunnel:
        assert tunnel.client_devices == ("wgr-abcdef",)
        with tunnel.joined(1) as device:
            assert device == "wgr1-abcdef"
            assert commands(ends.router.host)[-1] == (
                "wg set wgr1-abcdef peer KEY remove peer KEY allowed-ips 0.0.0.0/0 endpoint 198.18.2.2:51820"
            )
        assert "198.18.3.2/32,198.18.6.2/32" in tunnel.configuration["server/wgs-abcdef"]


SERVER_LOG = (
    "2026-11-27 07:00:00 us=1 client-1/198.18.2.1:1001 Control Channel: TLSv1.3, cipher TLSv1.3\n"
    "2026-11-27 07:00:02 us=2 client-2/198.18.2.1:1002 Control Channel: TLSv1.3, cipher TLSv1.3\n"
    "2026-11-27 07:00:02 us=3 client-13/198.18.2.1:1013 Control Channel: TLSv1.3, cipher TLSv1.3\n"
    "2026-11-27 07:00:03 us=4 198.18.2.1:1003 Control Channel: TLSv1.3, cipher TLSv1.3\n"
)


def test_only_the_clients_after_the_first_begin_changes_of_keys_if_the_others_rekey(tmp_path: Path) -> None:
    def intervals(options: Options) -> list[str]:
        with OpenVpn(options, road_warrior(tmp_path)) as tunnel:
            texts = [text for name, text in tunnel.configuration.items() if name.endswith(".conf")]
            return [line for text in texts for line in text.splitlines() if line.startswith("reneg-sec")]

    every = "reneg-sec 7"
    assert intervals(Options(clients=3, reneg_sec=7, others_rekey=True)) == ["reneg-sec 0", "reneg-sec 0", every, every]
    assert intervals(Options(clients=3, reneg_sec=7)) == [every, "reneg-sec 0", "reneg-sec 0", "reneg-sec 0"]
    assert intervals(Options(clients=1, reneg_sec=7, others_rekey=True)) == [every, "reneg-sec 0"]


def test_the_servers_log_names_the_client_of_each_change_of_keys(tmp_path: Path) -> None:
    with OpenVpn(Options(clients=2, reneg_sec=7, others_rekey=True), road_warrior(tmp_path)) as tunnel:
        tunnel.router_daemons, tunnel.server_daemons = [], [FakeDaemon(SERVER_LOG).as_daemon]
        found = tunnel.rekeys_since((0,))
        assert [tunnel.is_of_another_client(line) for line in found] == [False, True, True, False]
        assert "client-2/198.18.2.1:1002 Control Channel" in found[1]
