"""Behaviour of all adapters: discovery, coming up, going down, and messages about missing requirements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.output.samples import sample, samples
from tests.unit.tunnel.cases import tunnel_cases
from tests.unit.tunnel.fakes import FakeDaemon, FakeHost, commands, make_ends

from tunnelbench import tunnel as tunnel_package
from tunnelbench.host.command import Completed
from tunnelbench.host.host import Host
from tunnelbench.model.errors import TunnelRefused, TunnelUnavailable, WrongInput
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel import (
    PLANNED,
    adapter,
    adapters,
    compresses,
    create,
    encrypts,
    plan_entries,
    virtual_router_packages,
)
from tunnelbench.tunnel.base import End, Outer, Tunnel, equals
from tunnelbench.tunnel.none import Options
from tunnelbench.tunnel.requirements import Requirement, tun_device
from tunnelbench.tunnel.versions import version_of


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_every_adapter_describes_itself(kind: str) -> None:
    found = adapter(kind)
    assert found.kind == kind
    assert found.title
    assert found.tested_with
    assert found.added_bytes
    assert found.__doc__
    assert f'`kind = "{kind}"`' in found.__doc__


def test_a_virtual_router_has_the_packages_of_its_tunnels_without_key_makers() -> None:
    found = virtual_router_packages()
    assert {"openvpn", "ppp", "tinc", "wireguard-tools", "xl2tpd"} <= {*found}
    assert "openssl" not in found


def test_every_module_with_a_kind_is_discovered_and_has_a_test_file() -> None:
    defined = [
        kind
        for path in sorted(Path(tunnel_package.__file__).parent.glob("*.py"))
        for kind in re.findall(r'^    kind = "(.*)"', path.read_text(), re.MULTILINE)
    ]
    assert sorted(defined) == sorted(adapters()) == sorted(tunnel_cases())


def test_the_plan_all_has_every_kind_and_userspace_those_that_need_a_tun() -> None:
    kinds = {plan: [entry["kind"] for entry in entries] for plan, entries in plan_entries().items()}
    assert sorted(kinds["all"]) == sorted(adapters())
    with_tun = {
        kind
        for kind, tunnel in adapters().items()
        if any(each.what == tun_device().what for each in tunnel.requirements(tunnel.options_type()))
    }
    assert set(kinds["userspace"]) == {"none", *with_tun}
    assert [entries[0] for entries in kinds.values()] == ["none", "none"]


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(WrongInput, match="there is no tunnel of kind gre2") as caught:
        adapter("gre2")
    assert caught.value.hint == f"known: {', '.join(sorted(adapters()))}"


@pytest.mark.parametrize("kind", sorted(adapters()))
def test_options_alone_say_if_a_tunnel_encrypts(kind: str, tmp_path: Path) -> None:
    for options, _ in tunnel_cases()[kind].seen:
        tunnel = adapter(kind)(adapter(kind).options_type.model_validate(options), make_ends(tmp_path))
        spec = TunnelSpec(kind, kind, options)
        assert (encrypts(spec), compresses(spec)) == (tunnel.is_encrypted, tunnel.compresses)


def test_options_that_a_kind_does_not_have_are_a_sentence() -> None:
    with pytest.raises(WrongInput, match="its options are not those of the kind vxlan: colour: "):
        encrypts(TunnelSpec("vxlan", "vxlan", {"colour": "red"}))


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


def test_everything_that_the_server_lacks_is_reported_too(tmp_path: Path) -> None:
    ends = make_ends(tmp_path)
    assert isinstance(ends.server.host, FakeHost)
    ends.server.host.programs = set()
    with pytest.raises(TunnelUnavailable) as caught:
        create(TunnelSpec("wireguard-go", "wireguard-go"), ends)
    assert caught.value.message == (
        "on the server: the program wireguard-go is missing (apt-get install wireguard-go); "
        "the program wg is missing (apt-get install wireguard-tools)"
    )


def test_what_a_virtual_machine_lacks_is_not_installed_by_a_package(tmp_path: Path) -> None:
    ends = make_ends(tmp_path)
    assert isinstance(ends.router.host, FakeHost)
    ends.router.host.programs = set()
    ends.router.host.programs_key = "programs"
    with pytest.raises(TunnelUnavailable) as caught:
        create(TunnelSpec("wireguard-go", "wireguard-go"), ends)
    assert caught.value.message.startswith(
        "on the router: the program wireguard-go is missing (the testbed's key programs can name a folder with it); "
    )
    with pytest.raises(TunnelUnavailable, match="the kernel's wireguard is missing; "):
        create(TunnelSpec("wireguard", "wireguard"), ends)


def test_a_kernel_that_lacks_a_kind_of_device_is_reported(tmp_path: Path) -> None:
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


def test_the_testbed_prepares_the_device_at_both_ends_before_routing(tmp_path: Path) -> None:
    prepared: list[tuple[str, str, int]] = []

    def prepare(host: Host, device: str) -> None:
        routes = [command for command in commands(host) if "route add" in command]
        prepared.append((host.name, device, len(routes)))

    with up(tmp_path, prepare_device=prepare):
        assert prepared == [("router", "tun0", 0), ("server", "tun0", 0)]


def left(tunnel: Cable, folder: Path) -> list[str]:
    """Return the files, daemons and devices of a tunnel that still exist."""
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


def test_a_daemon_that_dies_while_its_device_is_awaited_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with up(tmp_path) as tunnel:
        tunnel.kind = "cable"  # type: ignore[misc]
        hosts = [end.host for end, _ in tunnel.ends]
        assert all(isinstance(host, FakeHost) for host in hosts)
        monkeypatch.setattr(FakeHost, "run", lambda *_, **__: Completed((), 1, "", ""))
        for host, ended_at_s in zip(hosts, (2.5, 2.0), strict=True):
            daemon = cast("FakeHost", host).daemons[0]
            daemon.is_running, daemon.ended_at_s, daemon.log = False, ended_at_s, f"1\n2\n3\n\033{host.name}\n"
        with pytest.raises(TunnelRefused) as caught:
            tunnel._await_device(tunnel.ends.router, timeout_s=3600)
        assert caught.value.message == (
            "cable: no device tun0 on the router: "
            r"cabled on the server ended while the tunnel came up; last: 2 / 3 / \x1bserver; "
            r"cabled on the router ended 0.50 s later; last: 2 / 3 / \x1brouter"
        )


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


VERSIONS = [
    (kind, tool, command, name)
    for kind, case in tunnel_cases().items()
    for tool, command in (case.version_commands or {}).items()
    for name in samples(f"{tool}-[0-9]*/version.txt", may_lack=True)
]


@pytest.mark.parametrize(("kind", "tool", "command", "name"), VERSIONS)
def test_versions_are_read_from_what_programs_print(
    kind: str, tool: str, command: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    text = sample(name)
    ends = make_ends(tmp_path, lambda argv: text if tuple(argv) == command else "")
    tunnel = adapter(kind)(adapter(kind).options_type(), ends)
    found = {**tunnel.versions(ends.router), **tunnel.versions(ends.server)}
    assert name == f"{tool}-{found[tool]}/version.txt"


def test_every_captured_version_is_read_by_a_test() -> None:
    assert set(samples("*/version.txt")) == {name for _, _, _, name in VERSIONS}


def test_every_program_that_prints_a_version_has_a_captured_one() -> None:
    named = {tool for case in tunnel_cases().values() for tool in case.version_commands or {}}
    assert named == {tool for _, tool, _, _ in VERSIONS}


def test_a_program_that_prints_no_version_has_an_unknown_one(tmp_path: Path) -> None:
    assert version_of(FakeHost("router", tmp_path), ["oddvpn", "--version"], r"oddvpn (\S+)") == "unknown"


def test_a_fake_daemon_stands_in_for_a_real_one() -> None:
    daemon = FakeDaemon("one\ntwo\n").as_daemon
    assert daemon.last_line() == "two"
    assert daemon.wait_for("one", 0)
