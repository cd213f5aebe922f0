"""What all adapters share: how they are found, come up, go down, and say what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.output.samples import sample, samples
from tests.unit.tunnel.fakes import FakeDaemon, FakeHost, commands, make_ends

from tunnelbench.host.host import Host
from tunnelbench.model.errors import TunnelRefused, TunnelUnavailable, WrongInput
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel import PLANNED, adapter, adapters, create, openvpn_options, wireguard
from tunnelbench.tunnel.base import End, Ends, Outer, Requirement, Tunnel, equals
from tunnelbench.tunnel.none import NoTunnel, Options
from tunnelbench.tunnel.openvpn import OpenVpn
from tunnelbench.tunnel.versions import version_of
from tunnelbench.tunnel.wireguard import BoringTun, WireGuardGo


def test_every_adapter_is_found_by_its_kind_and_describes_itself() -> None:
    assert set(adapters()) == {
        "none", "vxlan", "wireguard", "wireguard-go", "boringtun", "tinc", "openvpn", "fastd",
        "ipsec-userspace", "nebula", "openconnect", "ssh", "gre", "ipip", "sit", "geneve", "l2tpv3",
        "ipsec", "l2tpv2-ppp", "n2n",
    }  # fmt: skip
    for kind in adapters():
        found = adapter(kind)
        assert found.kind == kind
        assert found.title
        assert found.tested_with
        assert found.__doc__
        assert f'`kind = "{kind}"`' in found.__doc__


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(WrongInput, match="there is no tunnel of kind gre2") as caught:
        adapter("gre2")
    assert "openvpn, sit, ssh, tinc" in caught.value.hint


@pytest.mark.parametrize("kind", PLANNED)
def test_a_kind_that_is_planned_is_a_row_with_its_reason(kind: str, tmp_path: Path) -> None:
    with pytest.raises(TunnelUnavailable, match=f"{kind} .* has no adapter yet"):
        create(TunnelSpec(kind, kind), make_ends(tmp_path))


def test_a_program_that_is_missing_is_named_with_its_package_and_its_host(tmp_path: Path) -> None:
    spec = TunnelSpec("openvpn", "other", {"program": "/nonexistent/openvpn"})
    with pytest.raises(TunnelUnavailable) as caught:
        create(spec, make_ends(tmp_path))
    assert caught.value.message == (
        "on the router: the program /nonexistent/openvpn is missing (apt-get install openvpn)"
    )


def test_what_the_server_lacks_is_told_too_and_all_of_it(tmp_path: Path) -> None:
    ends = make_ends(tmp_path)
    assert isinstance(ends.server.host, FakeHost)
    ends.server.host.programs = set()
    with pytest.raises(TunnelUnavailable) as caught:
        create(TunnelSpec("wireguard-go", "wireguard-go"), ends)
    assert caught.value.message == (
        "on the server: the program wireguard-go is missing (apt-get install wireguard-go); "
        "the program wg is missing (apt-get install wireguard-tools)"
    )


def test_a_kernel_that_lacks_a_kind_of_device_is_told(tmp_path: Path) -> None:
    with pytest.raises(TunnelUnavailable, match=r"the kernel's wireguard is missing \(modprobe wireguard"):
        create(TunnelSpec("wireguard", "wireguard"), make_ends(tmp_path))


def test_a_tunnel_that_can_come_up_is_made_with_its_options(tmp_path: Path) -> None:
    tunnel = create(TunnelSpec("vxlan", "vxlan", {"vni": 7}), make_ends(tmp_path))
    assert tunnel.options.vni == 7


class Cable(Tunnel[Options]):
    """A tunnel of nothing; it has no kind of its own, so that no plan can name it."""

    options_type = Options
    fails_at = ""

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return ()

    @property
    def outer(self) -> Outer:
        return Outer("udp", 7)

    @property
    def hides_payload(self) -> bool:
        return False

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return inner_packet_bytes

    def versions(self, end: End) -> Mapping[str, str]:
        return {}

    def _up(self) -> None:
        for end, _ in self.ends:
            self._write(end, "public.conf", "listen\n")
            self._write(end, "private.key", "SECRET\n", secret=True)
            self._add_device(end, "type", "dummy")
            self._address_device(end)
            daemon = self._start(end, ["/usr/sbin/cabled", "-f"])
            if self.fails_at == end.host.name:
                self._require(daemon, "ready", 0.1)


def up(folder: Path, **ends: Any) -> Cable:
    return Cable(Options(), replace(make_ends(folder), **ends))


def test_an_adapter_without_a_kind_is_not_for_plans() -> None:
    assert Cable not in adapters().values()


def test_a_tunnel_gets_devices_addresses_and_routes_at_both_ends(tmp_path: Path) -> None:
    with up(tmp_path) as tunnel:
        assert commands(tunnel.ends.router.host) == [
            "ip link add tun0 type dummy",
            "ip addr add 198.18.3.1/24 dev tun0",
            "ip link set tun0 up",
            "/usr/sbin/cabled -f",
            "ip route add 198.18.4.1 via 198.18.3.2 dev tun0",
        ]
        assert "ip route add 198.18.1.0/24 via 198.18.3.1 dev tun0" in commands(tunnel.ends.server.host)


def test_a_road_warrior_calls_the_router_which_is_under_test(tmp_path: Path) -> None:
    usual = make_ends(tmp_path)
    client = End(FakeHost("client", tmp_path / "client"), "198.18.1.2", "lan", "198.18.3.2", "198.18.4.1")
    caller = replace(client, source="198.18.6.1")
    ends = replace(usual, router=caller, server=usual.router, is_server_under_test=True)
    with Cable(Options(), ends) as tunnel:
        assert "ip route add 198.18.4.1 via 198.18.3.1 dev tun0 src 198.18.6.1" in commands(caller.host)
        assert tunnel.far_end is caller
        assert (tunnel.daemons_under_test, tunnel.far_daemons) == (tunnel.server_daemons, tunnel.router_daemons)
    with up(tmp_path) as tunnel:
        assert tunnel.far_end is tunnel.ends.server
        assert (tunnel.daemons_under_test, tunnel.far_daemons) == (tunnel.router_daemons, tunnel.server_daemons)


def test_the_testbed_prepares_the_tunnels_device_at_both_ends_before_anything_is_routed(tmp_path: Path) -> None:
    prepared: list[tuple[str, str, int]] = []

    def prepare(host: Host, device: str) -> None:
        routes = [command for command in commands(host) if "route add" in command]
        prepared.append((host.name, device, len(routes)))

    with up(tmp_path, prepare_device=prepare):
        assert prepared == [("router", "tun0", 0), ("server", "tun0", 0)]


def left(tunnel: Cable, folder: Path) -> list[str]:
    """What is still there of a tunnel."""
    files = [path.name for path in folder.rglob("*") if path.is_file()]
    daemons = [d.name for d in (*tunnel.router_daemons, *tunnel.server_daemons) if d.is_running]
    devices = [
        end.host.name
        for end, _ in tunnel.ends
        if "ip link add tun0 type dummy" in (done := commands(end.host)) and "ip link del tun0" not in done
    ]
    return files + daemons + devices


def test_a_tunnel_that_goes_down_undoes_all_in_reverse(tmp_path: Path) -> None:
    with up(tmp_path) as tunnel:
        assert left(tunnel, tmp_path)
    assert left(tunnel, tmp_path) == []
    assert [c for c in commands(tunnel.ends.router.host) if "del" in c] == [
        "ip route del 198.18.4.1",
        "ip link del tun0",
    ]


@pytest.mark.parametrize("end", ["router", "server"])
def test_a_tunnel_that_fails_to_come_up_leaves_nothing(end: str, tmp_path: Path) -> None:
    tunnel = up(tmp_path)
    tunnel.fails_at = end
    tunnel.kind = "cable"  # type: ignore[misc]
    with pytest.raises(TunnelRefused, match=r"cable: cabled printed no `ready` in 0\.1 s; last: no output"), tunnel:
        pass
    assert left(tunnel, tmp_path) == []


def test_an_interrupt_while_a_tunnel_comes_up_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(host: Host, device: str) -> None:
        raise KeyboardInterrupt

    tunnel = up(tmp_path, prepare_device=interrupt)
    with pytest.raises(KeyboardInterrupt), tunnel:
        pass
    assert left(tunnel, tmp_path) == []


def test_what_is_kept_of_a_configuration_holds_no_secret(tmp_path: Path) -> None:
    with up(tmp_path) as tunnel:
        assert tunnel.configuration == {"router/public.conf": "listen\n", "server/public.conf": "listen\n"}


def test_a_tunnel_has_died_when_one_of_its_programs_has(tmp_path: Path) -> None:
    with up(tmp_path) as tunnel:
        assert not tunnel.has_died
        assert isinstance(tunnel.ends.server.host, FakeHost)
        tunnel.ends.server.host.daemons[0].is_running = False
        assert tunnel.has_died


def test_without_a_tunnel_nothing_is_made_and_the_target_is_reached_over_the_wan(tmp_path: Path) -> None:
    with NoTunnel(Options(), make_ends(tmp_path)) as tunnel:
        assert commands(tunnel.ends.router.host) == ["ip route add 198.18.4.1 via 198.18.2.2 dev wan"]
    assert commands(tunnel.ends.server.host)[-1] == "ip route del 198.18.1.0/24"


@pytest.mark.parametrize(
    ("asked", "found", "verdict"),
    [
        ("AES-128-CBC", "aes-128-cbc", Verdict.OK),
        ("SHA1", "sha-1", Verdict.OK),
        ("AES_128_CBC", "AES-128-CBC", Verdict.OK),
        ("AES-128-CBC", "AES-256-CBC", Verdict.VOID),
        ("none", "unknown", Verdict.VOID),
    ],
)
def test_algorithms_are_compared_by_name_whatever_its_case_and_punctuation(
    asked: str, found: str, verdict: Verdict
) -> None:
    check = equals("cipher", asked, found)
    assert (check.verdict, check.reason) == (verdict, f"asked for {asked}, in use: {found}")


VERSIONS = {name: text for name, text in samples("*/version.txt").items() if not name.startswith("ocserv")}
KINDS = {"openssl": "tinc", "openssh": "ssh", "strongswan": "ipsec-userspace"}
"""Whose adapter tells of a program that is called otherwise."""
OTHER_NAMES = ("openssl", "ssh", "charon", "edge")
"""Programs that are not called as the package whose version they tell."""


@pytest.mark.parametrize("name", VERSIONS)
def test_versions_are_read_from_what_programs_print(name: str, tmp_path: Path) -> None:
    program, version = re.fullmatch(r"([a-z0-9-]+?)-(\d.*)/version\.txt", name).groups()  # type: ignore[union-attr]
    text = VERSIONS[name]
    programs = (program, f"{program}d", f"{program}-cli", *OTHER_NAMES)
    ends = make_ends(tmp_path, lambda argv: text if Path(argv[0]).name in programs else "")
    kind = KINDS.get(program, program)
    found = adapter(kind)(adapter(kind).options_type(), ends).versions(ends.router)
    assert found[program] == version


def test_openvpn_tells_the_version_of_its_library_too(tmp_path: Path) -> None:
    ends = make_ends(tmp_path, lambda _: sample("openvpn-2.6.14/version.txt"))
    tunnel = OpenVpn(openvpn_options.Options(), ends)
    assert tunnel.versions(ends.server) == {"openvpn": "2.6.14", "openssl": "3.0.19"}


def test_a_program_that_tells_no_version_has_an_unknown_one(tmp_path: Path) -> None:
    assert version_of(FakeHost("router", tmp_path), ["oddvpn", "--version"], r"oddvpn (\S+)") == "unknown"


def wireguard_go(ends: Ends) -> WireGuardGo:
    return WireGuardGo(wireguard.Options(), ends)


@pytest.mark.parametrize(
    ("listing", "verdict"),
    [
        ("PUBLICKEY=\t1741944413\n", Verdict.OK),
        ("PUBLICKEY=\t0\n", Verdict.VOID),
        ("", Verdict.VOID),
    ],
)
def test_wireguard_is_proven_by_a_handshake(listing: str, verdict: Verdict, tmp_path: Path) -> None:
    (check,) = wireguard_go(make_ends(tmp_path, lambda _: listing)).negotiated()
    assert check.verdict is verdict


@pytest.mark.parametrize(
    ("listing", "verdict"),
    [
        (sample("boringtun-0.7.1/transfer.txt"), Verdict.OK),
        ("PUBLICKEY=\t0\t148\n", Verdict.VOID),
        ("", Verdict.VOID),
    ],
)
def test_boringtun_is_proven_by_what_it_has_unsealed(listing: str, verdict: Verdict, tmp_path: Path) -> None:
    (check,) = BoringTun(wireguard.Options(), make_ends(tmp_path, lambda _: listing)).negotiated()
    assert check.verdict is verdict


def test_boringtun_where_it_is_missing_is_named_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(
        TunnelUnavailable, match=r"boringtun-cli is missing \(cargo install --locked --version 0\.7\.1 "
    ):
        create(TunnelSpec("boringtun", "boringtun"), make_ends(tmp_path))


def test_wireguards_devices_have_names_of_their_own_since_one_folder_holds_all_their_sockets(tmp_path: Path) -> None:
    ends = make_ends(tmp_path)
    names = {wireguard_go(which).device_at(end) for which in (ends, replace(ends, mark="fedcba")) for end, _ in ends}
    assert len(names) == 4
    assert all(len(name) <= 15 for name in names), "the kernel takes 15 characters"


def test_private_keys_of_wireguard_are_deleted_and_never_kept_with_the_results(tmp_path: Path) -> None:
    def answer(argv: Any) -> str:
        return "SECRET" if "genkey" in argv else "PUBLIC" if "pubkey" in argv else ""

    with wireguard_go(make_ends(tmp_path, answer)) as tunnel:
        assert len(list(tmp_path.rglob("private.key"))) == 2
        assert "SECRET" not in "".join(tunnel.configuration.values())
        for end, _ in tunnel.ends:
            assert "SECRET" not in "".join(commands(end.host))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_fake_daemon_stands_in_for_a_real_one() -> None:
    daemon = FakeDaemon("one\ntwo\n").as_daemon
    assert daemon.last_line() == "two"
    assert daemon.wait_for("one", 0)
