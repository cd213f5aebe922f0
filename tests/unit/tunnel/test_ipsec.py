"""IPsec of the kernel: its associations and charon's list as evidence, and its device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.output.samples import samples
from tests.unit.tunnel.cases import IP_VERSIONS, TunnelCase
from tests.unit.tunnel.fakes import FakeHost, commands, make_ends

from tunnelbench.model.result import Verdict, worst
from tunnelbench.tunnel.ipsec import KERNEL_CIPHER_NAMES, KERNEL_DIGEST_NAMES, Ipsec, Options, has_esp, parse_states

STATES = {Path(name).stem.removeprefix("xfrm-state-"): text for name, text in samples("linux-*/xfrm-state-*").items()}
LISTINGS = {
    Path(name).stem.removeprefix("kernel-list-sas-"): text
    for name, text in samples("strongswan-*/kernel-list-sas-*.txt").items()
}
ASKED: dict[str, dict[str, Any]] = {
    "default": {},
    "udp": {"udp": True},
    "aes-128-cbc-sha1": {"cipher": "aes-128-cbc", "digest": "sha1"},
    "aes-256-cbc-sha256": {"cipher": "aes-256-cbc"},
    "aes-256-gcm": {"cipher": "aes-256-gcm"},
    "none-sha1": {"cipher": "none", "digest": "sha1"},
}
TUNNELS = (
    TunnelCase(
        "ipsec",
        lengths=(
            ({}, 296),
            ({"udp": True}, 304),
            ({"cipher": "aes-128-cbc", "digest": "sha1"}, 312),
            ({"cipher": "aes-256-cbc", "digest": "sha256"}, 316),
            ({"cipher": "none", "digest": "sha1"}, 284),
            ({"cipher": "none"}, 288),
            ({"cipher": "chacha20-poly1305"}, 296),
            ({"cipher": "aes-256-cbc", "digest": "sha512"}, 332),
            ({"outside": "ipv6"}, 316),
        ),
        seen=(
            ({}, "esp, exact, hidden"),
            ({"udp": True}, "udp port 4500, exact, hidden"),
            ({"cipher": "none"}, "esp, exact, readable"),
            ({"outside": "ipv6"}, "esp over IPv6, exact, hidden"),
        ),
        refused=({"cipher": "3des"},),
        exact=({"cipher": "aes-128-cbc", "digest": "sha1", "udp": True}, *IP_VERSIONS),
        needs_kernel=True,
    ),
)

UP = "00[JOB] spawning 16 worker threads\n"


def make_tunnel(folder: Path, name: str = "default", **options: Any) -> Ipsec:
    def answer(argv: Any) -> str:
        return LISTINGS[name] if "--list-sas" in argv else STATES[name] if "nokeys" in argv else UP

    return Ipsec(Options.model_validate(options), make_ends(folder, answer))


@pytest.mark.parametrize("name", ASKED)
def test_associations_of_charon_and_kernel_by_what_was_asked_for_are_proven(name: str, tmp_path: Path) -> None:
    checks = make_tunnel(tmp_path, name, **ASKED[name]).negotiated()
    assert len(checks) == 7
    assert {check.reason for check in checks if check.verdict is not Verdict.OK} == set()


@pytest.mark.parametrize(("name", "other"), [(name, other) for name in ASKED for other in ASKED if name != other])
def test_associations_by_anything_else_are_void(name: str, other: str, tmp_path: Path) -> None:
    assert worst(make_tunnel(tmp_path, other, **ASKED[name]).negotiated()) is Verdict.VOID


def test_an_association_that_carries_nothing_is_void(tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path)
    (way_out,) = (state for state in parse_states(STATES["default"]) if state.destination == "198.18.2.2")
    idle = STATES["default"].replace(f" {way_out.packets}(packets)", " 0(packets)")
    verdicts = {check.name: check.verdict for check in tunnel._kernel_checks(parse_states(idle))}
    assert verdicts["kernel-packets-out"] is Verdict.VOID


def test_a_kernel_without_associations_proves_nothing(tmp_path: Path) -> None:
    checks = make_tunnel(tmp_path)._kernel_checks(parse_states(""))
    assert [check.verdict for check in checks] == [Verdict.VOID] * 6
    assert checks[0].reason == "asked for rfc4106(gcm(aes)), in use: unknown"


def test_every_cipher_and_digest_of_a_plan_has_its_name() -> None:
    fields = Options.model_fields
    assert set(get_args(fields["cipher"].annotation)) == set(KERNEL_CIPHER_NAMES)
    assert set(get_args(fields["digest"].annotation)) == set(KERNEL_DIGEST_NAMES)


@pytest.mark.parametrize("text", STATES.values())
def test_no_key_is_asked_of_the_kernel(text: str) -> None:
    assert text.count("<<Keys hidden>>") >= 2


@pytest.mark.parametrize(
    ("options", "mtu"),
    [
        ({}, 1446),
        ({"udp": True}, 1438),
        ({"cipher": "aes-128-cbc", "digest": "sha1"}, 1438),
        ({"cipher": "aes-256-cbc", "udp": True}, 1422),
        ({"cipher": "none", "digest": "sha1"}, 1458),
    ],
)
def test_the_device_takes_what_fits_a_frame(options: dict[str, Any], mtu: int, tmp_path: Path) -> None:
    with make_tunnel(tmp_path, **options) as tunnel:
        for end, _ in tunnel.ends:
            assert commands(end.host)[:3] == [
                "ip link show dev wan",
                "ip link add ipsec0 type xfrm dev wan if_id 42",
                f"ip link set ipsec0 mtu {mtu}",
            ]
    assert tunnel.outer_packet_bytes(mtu) <= 1500 < tunnel.outer_packet_bytes(mtu + 1)


@pytest.mark.parametrize(("options", "mtus"), [({}, (8946,)), ({"mtu": 1300}, (1300, 1300))])
def test_a_cable_for_longer_packets_or_the_plan_gives_the_device_another_mtu(
    options: dict[str, Any], mtus: tuple[int, ...], tmp_path: Path
) -> None:
    def answer(argv: Any) -> str:
        return "3: wan: <BROADCAST,UP> mtu 9000 qdisc noqueue" if "show" in argv else UP

    with Ipsec(Options.model_validate(options), make_ends(tmp_path, answer)) as tunnel:
        for end, _ in tunnel.ends:
            set_to = [line for line in commands(end.host) if line.startswith("ip link set ipsec0 mtu ")]
            assert set_to == [f"ip link set ipsec0 mtu {mtu}" for mtu in mtus]
    assert tunnel.outer_packet_bytes(8946) <= 9000 < tunnel.outer_packet_bytes(8947)


def test_the_policies_belong_to_the_device_and_nobody_else_routes(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        configuration = tunnel.configuration
    for end in ("router", "server"):
        assert "if_id_in = 42\n                if_id_out = 42\n" in configuration[f"{end}/swanctl.conf"]
        assert "encap = no" in configuration[f"{end}/swanctl.conf"]
        assert "install_routes = no" in configuration[f"{end}/run/strongswan.conf"]
        assert "libipsec" not in configuration[f"{end}/run/strongswan.conf"]


def server_of(clients: int, handshakes: int, folder: Path) -> Ipsec:
    ends = make_ends(folder, lambda _: UP)
    ends = replace(ends, router=replace(ends.router, source="198.18.6.1"), is_server_under_test=True)
    return Ipsec(Options(clients=clients, handshakes=handshakes or None), ends)


def test_each_client_has_a_device_and_a_connection_and_the_server_one_device(tmp_path: Path) -> None:
    with server_of(2, 0, tmp_path) as tunnel:
        client, server = (tunnel.configuration[f"{end}/swanctl.conf"] for end in ("router", "server"))
        added = [line for line in commands(tunnel.ends.router.host) if line.startswith("ip link add")]
        assert added == [f"ip link add ipsec{n} type xfrm dev wan if_id {42 + n}" for n in range(2)]
        (only,) = [line for line in commands(tunnel.ends.server.host) if line.startswith("ip link add")]
        assert only == "ip link add ipsec0 type xfrm dev wan if_id 42"
        assert tunnel.client_devices == ("ipsec0", "ipsec1")
        initiated = [line for line in commands(tunnel.ends.router.host) if "--initiate" in line]
        assert [line.partition("--child ")[2].split()[0] for line in initiated] == ["client0", "client1"]
    assert client.count("if_id_in = 42\n") == client.count("if_id_in = 43\n") == 1
    assert server.count("if_id_in = 42\n") == 2
    assert "local_ts = 198.18.6.2/32, 198.18.3.2/32\n" in client
    assert "remote_ts = 198.18.6.2/32, 198.18.3.2/32\n" in server


def test_a_further_client_comes_and_goes_by_itself(tmp_path: Path) -> None:
    with server_of(1, 2, tmp_path) as tunnel:
        host = tunnel.ends.router.host
        assert tunnel.client_devices == ("ipsec0",)
        before = len(commands(host))
        with tunnel.joined(2) as device:
            assert device == "ipsec2"
        first, last = commands(host)[before:]
        assert "--initiate --child client2" in first
        assert "--terminate --ike client2" in last


@pytest.mark.parametrize(
    ("line", "is_restart"),
    [
        ("05[IKE] <client1|3> deleting IKE_SA client1[3] between 198.18.1.2", False),
        ("05[IKE] <client0|1> deleting IKE_SA client0[1] between 198.18.1.2", True),
        ("05[IKE] <7> giving up after 5 retransmits", True),
        ("05[IKE] <7> received retransmit of request with ID 0, retransmitting response", False),
    ],
)
def test_only_the_client_that_is_counted_has_restarted(
    line: str, is_restart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunnel = server_of(1, 2, tmp_path)
    monkeypatch.setattr(tunnel, "_said_since", lambda *_: iter([line]))
    assert tunnel.restart_since(()) == (line if is_restart else "")


def test_a_kernel_is_asked_for_esp_without_a_key(tmp_path: Path) -> None:
    host = FakeHost("router", tmp_path)
    assert has_esp(host)
    assert commands(host)[0].endswith("auth digest_null  enc cipher_null ")
    assert "delete" in commands(host)[1]
