"""OpenVPN: its log as evidence, and its configuration files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.output.samples import sample, samples
from tests.unit.tunnel.cases import INNER_BYTES, IP_VERSIONS, Captured, Ping, TunnelCase, require_growth, router_log
from tests.unit.tunnel.cases import make_tunnel as make_any
from tests.unit.tunnel.fakes import FakeDaemon, commands, make_ends

from tunnelbench.host.cpu_features import AES_MASK_X86
from tunnelbench.model.errors import TunnelRefused, TunnelUnavailable
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel import certificates, create
from tunnelbench.tunnel.base import Tunnel
from tunnelbench.tunnel.certificates import Authority, Issued
from tunnelbench.tunnel.openvpn import OF_SOME_VERSIONS, OpenVpn, new_static_key
from tunnelbench.tunnel.openvpn_options import Cipher, Options
from tunnelbench.tunnel.openvpn_output import (
    first_complaint,
    has_peer_id,
    parse_compression,
    parse_data_channel,
    parse_engine,
    parse_library,
)
from tunnelbench.tunnel.openvpn_packets import CIPHER_BLOCK_BYTES, DIGEST_BYTES, fragments

LOGS = samples("openvpn-*/*-*.log")
ASKED = {
    "tls-aes-128-gcm": {"cipher": "AES-128-GCM"},
    "tls-chacha20-poly1305": {"cipher": "CHACHA20-POLY1305"},
    "tls-aes-128-cbc-sha1": {"cipher": "AES-128-CBC", "auth": "SHA1"},
    "tls-bf-cbc-sha1": {"cipher": "BF-CBC", "auth": "SHA1"},
    "tls-aes-128-cbc-none": {"cipher": "AES-128-CBC", "auth": "none"},
    "tls-none-sha1": {"cipher": "none", "auth": "SHA1"},
    "tls-none-none": {"cipher": "none", "auth": "none"},
    "tls-tcp-tap-aes-256-gcm": {"transport": "tcp", "dev": "tap", "cipher": "AES-256-GCM"},
    "static-key-aes-128-cbc-sha256": {"mode": "static-key", "cipher": "AES-128-CBC", "auth": "SHA256"},
    "static-key-none-none": {"mode": "static-key", "cipher": "none", "auth": "none"},
}
TAP = {"dev": "tap"}
STATIC = {"mode": "static-key"}
TLS_TCP = {"transport": "tcp"}
GCM = {"cipher": "AES-128-GCM"}
CBC_SHA1 = {"cipher": "AES-128-CBC", "auth": "SHA1"}
CBC_NONE = {"cipher": "AES-128-CBC", "auth": "none"}
BF_SHA1 = {"cipher": "BF-CBC", "auth": "SHA1"}
NONE_SHA1 = {"cipher": "none", "auth": "SHA1"}
NONE_NONE = {"cipher": "none", "auth": "none"}


def log_and_refusal(name: str, tunnel: Tunnel[Any], ping: Ping) -> Captured:
    yield from router_log(name, tunnel, ping)
    if name == "static-key-none-none":
        local = tunnel.ends.local
        key = str(local.folder / "refused.key")
        local.run(["openvpn", "--genkey", "secret", key])
        argv = ["openvpn", "--dev", "null", "--secret", key, "--cipher", "AES-128-GCM"]
        yield "static-key-aes-128-gcm-refused.log", local.run(argv, check=False).stdout


TUNNELS = (
    TunnelCase(
        "openvpn",
        lengths=(
            (GCM, 291),
            (CBC_SHA1, 324),
            (NONE_SHA1, 295),
            (NONE_NONE, 275),
            (BF_SHA1, 308),
            (CBC_NONE, 304),
            (TAP | GCM, 305),
            (TAP | CBC_SHA1, 340),
            (TAP | NONE_SHA1, 309),
            (TAP | NONE_NONE, 289),
            (TLS_TCP | GCM, 317),
            (TLS_TCP | CBC_SHA1, 350),
            (STATIC | CBC_SHA1, 320),
            (STATIC | NONE_SHA1, 295),
            (STATIC | NONE_NONE, 275),
            (STATIC | BF_SHA1, 304),
            (STATIC | CBC_NONE, 300),
            (STATIC | TAP | CBC_SHA1, 336),
            (GCM | {"outside": "ipv6"}, 311),
            (GCM | {"compress": "lzo"}, 292),
            (GCM | {"compress": "lz4"}, 292),
            (GCM | {"compress": "lz4-v2"}, 291),
            (GCM | {"compress": "stub"}, 292),
            (GCM | {"compress": "stub-v2"}, 291),
            (GCM | {"comp_lzo": "no"}, 292),
        ),
        seen=(
            ({}, "udp port 1194, exact, hidden"),
            ({"cipher": "none"}, "udp port 1194, exact, readable"),
            ({"cipher": "none", "comp_lzo": "yes"}, "udp port 1194, exact, readable"),
            (TLS_TCP, "tcp port 1194, a stream, hidden"),
        ),
        refused=(
            {"cipher": "AES-128-CTR"},
            {"cipher": "AES-128-CBC\nscript-security 3"},
            {"auth": "SHA1 "},
            {"transport": "sctp"},
            {"dev": "tun1"},
            {"mssfix": -1},
            {"mssfix": 65536},
            {"tun_mtu": 575},
            {"tun_mtu": 9001},
            {"link_mtu_bytes": 749},
            {"link_mtu_bytes": 9101},
            {"link_mtu_bytes": 1400, "tun_mtu": 1400},
            {"link_mtu_bytes": 1400, "clients": 1},
            {"tls_wrap": "tls-crypt-v2"},
            {"sndbuf": 2047},
            {"rcvbuf": 16_777_217},
            {"reneg_sec": -1},
            {"txqueuelen": 0},
            {"txqueuelen": 100_001},
            {"compress": "migrate"},
            {"comp_lzo": True},
            {"library": "gnutls"},
            {"content": "zeros"},
        ),
        accepted=(
            {"mssfix": 0, "tun_mtu": 576},
            {"mssfix": 65535, "tun_mtu": 9000},
            {"link_mtu_bytes": 750},
            {"link_mtu_bytes": 9100},
            {"txqueuelen": 1},
            {"txqueuelen": 100_000},
        ),
        exact=(
            {},
            {"cipher": "AES-128-CBC", "auth": "SHA256", "fragment": 500},
            {"cipher": "BF-CBC", "auth": "SHA1", "mode": "static-key", "outside": "ipv6"},
            {"cipher": "CHACHA20-POLY1305", "transport": "tcp", "dev": "tap", "outside": "ipv6"},
            {"cipher": "negotiated", "data_ciphers": "CHACHA20-POLY1305:AES-256-GCM", "fragment": 401},
            {"tls_wrap": "tls-crypt", "aes_instructions": False, "sndbuf": 262144, "providers": "legacy:default"},
            {"compress": "stub", "fast_io": True, "txqueuelen": 321, "fragment": 500},
            {"comp_lzo": "no", "dev": "tap", "library": "openssl"},
            *IP_VERSIONS,
        ),
        measured=(
            {"mode": "static-key", "cipher": "AES-128-CBC", "auth": "SHA1", "mssfix": 1400},
            {"transport": "tcp"},
            {"dev": "tap", "cipher": "CHACHA20-POLY1305"},
            {"cipher": "BF-CBC", "auth": "SHA1"},
        ),
        version_commands={"openvpn": ("openvpn", "--version")},
        samples=ASKED,
        capture=log_and_refusal,
    ),
)

UP = "link local: x\nListening for incoming TCP\nlink remote: x\nInitialization Sequence Completed\n"


def name_of(log: str) -> str:
    return Path(log).stem


def good_logs() -> list[str]:
    return [log for log in LOGS if name_of(log) in ASKED]


def make_tunnel(folder: Path, **options: Any) -> OpenVpn:
    return OpenVpn(Options.model_validate(options), make_ends(folder, lambda _: UP))


def test_every_captured_log_is_known() -> None:
    assert {name_of(log) for log in LOGS} == {*ASKED, "static-key-aes-128-gcm-refused"}


@pytest.mark.parametrize("log", good_logs())
def test_cipher_and_digest_in_use_are_read_from_the_log(log: str) -> None:
    asked = ASKED[name_of(log)]
    assert parse_data_channel(LOGS[log]) == (asked["cipher"], asked.get("auth", "unknown"))


@pytest.mark.parametrize("log", good_logs())
def test_a_tunnel_that_uses_what_was_asked_for_is_proven(log: str, tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path, **ASKED[name_of(log)])
    tunnel.router_daemons = [FakeDaemon(LOGS[log]).as_daemon]
    assert {check.verdict for check in tunnel.negotiated()} == {Verdict.OK}


@pytest.mark.parametrize(
    ("log", "asked", "reason"),
    [
        ("tls-none-sha1", {"cipher": "AES-128-CBC", "auth": "SHA1"}, "asked for AES-128-CBC, in use: none"),
        ("tls-aes-128-cbc-none", {"cipher": "AES-128-CBC", "auth": "SHA1"}, "asked for SHA1, in use: none"),
        ("tls-aes-128-cbc-sha1", {"cipher": "none", "auth": "SHA1"}, "asked for none, in use: AES-128-CBC"),
        ("tls-aes-128-gcm", {"cipher": "AES-256-GCM"}, "asked for AES-256-GCM, in use: AES-128-GCM"),
        ("tls-bf-cbc-sha1", {"cipher": "BF-CBC", "auth": "SHA256"}, "asked for SHA256, in use: SHA1"),
    ],
)
def test_a_tunnel_that_uses_something_else_is_void(
    log: str, asked: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    tunnel = make_tunnel(tmp_path, **asked)
    tunnel.router_daemons = [FakeDaemon(sample(f"openvpn-2.6.14/{log}.log")).as_daemon]
    assert [check.reason for check in tunnel.negotiated() if check.verdict is Verdict.VOID] == [reason]


@pytest.mark.parametrize("log", good_logs())
def test_two_ends_with_tls_agree_on_a_peer_id_in_2_6(log: str) -> None:
    assert has_peer_id(LOGS[log]) == name_of(log).startswith("tls")


def test_after_a_new_handshake_the_latest_cipher_counts() -> None:
    first, second = LOGS["openvpn-2.6.14/tls-aes-128-cbc-sha1.log"], LOGS["openvpn-2.6.14/tls-bf-cbc-sha1.log"]
    assert parse_data_channel(first + second) == ("BF-CBC", "SHA1")


def test_a_log_that_says_nothing_proves_nothing(tmp_path: Path) -> None:
    assert parse_data_channel("") == ("unknown", "unknown")
    tunnel = make_tunnel(tmp_path, cipher="none", auth="none")
    tunnel.router_daemons = [FakeDaemon("").as_daemon]
    assert [check.verdict for check in tunnel.negotiated()] == [Verdict.VOID, Verdict.VOID]


@given(st.text(alphabet=st.sampled_from("Outgoing Data Channel: cipher 'AES', auth '[null]'\n")))
def test_any_log_can_be_read(log: str) -> None:
    parse_data_channel(log)
    first_complaint(log)


def test_complaints_of_openvpn_are_reported() -> None:
    log = sample("openvpn-2.6.14/static-key-aes-128-gcm-refused.log")
    assert first_complaint(log).endswith("Cipher 'AES-128-GCM' mode not supported")


@pytest.mark.parametrize("log", good_logs())
def test_a_log_without_a_complaint_gives_none(log: str) -> None:
    assert first_complaint(LOGS[log]) == ""


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Authority("CA", {name: Issued(f"CERTIFICATE {name}", f"KEY {name}") for name in ("router", "server")})
    monkeypatch.setattr(certificates, "new_authority", lambda _local, _names: made)


def lines(tunnel: OpenVpn, end: str) -> list[str]:
    return tunnel.configuration[f"{end}/openvpn.conf"].splitlines()


@pytest.mark.usefixtures("authority")
def test_the_server_listens_before_the_client_calls_and_both_go_down_with_the_tunnel(tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path)
    with tunnel:
        daemons = [*tunnel.router_daemons, *tunnel.server_daemons]
        assert len(daemons) == 2
        assert not tunnel.has_died
        assert "proto udp4" in lines(tunnel, "router")
        assert "remote 198.18.2.2 1194" in lines(tunnel, "router")
        assert "local 198.18.2.2" in lines(tunnel, "server")
        assert {"tls-server", "dh none"} <= set(lines(tunnel, "server"))
        assert "tls-client" in lines(tunnel, "router")
    assert not any(daemon.is_running for daemon in daemons)


@pytest.mark.usefixtures("authority")
def test_keys_are_deleted_with_the_tunnel_and_never_kept_with_the_results(tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path)
    with tunnel:
        keys = list(tmp_path.rglob("*.key"))
        assert [key.read_text() for key in sorted(keys)] == ["KEY router", "KEY server"]
        assert {oct(key.stat().st_mode & 0o777) for key in keys} == {"0o600"}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert "KEY" not in "".join(tunnel.configuration.values())


@pytest.mark.usefixtures("authority")
def test_the_kernels_data_channel_is_always_off_and_no_script_can_run(tmp_path: Path) -> None:
    for options in ({}, {"transport": "tcp", "dev": "tap"}):
        with make_tunnel(tmp_path, **options) as tunnel:
            for end in ("router", "server"):
                assert {"disable-dco", "script-security 1"} <= set(lines(tunnel, end))


@pytest.mark.usefixtures("authority")
def test_both_ends_know_one_cipher_only(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, cipher="AES-128-CBC", auth="SHA256") as tunnel:
        for end in ("router", "server"):
            found = {line for line in lines(tunnel, end) if line.startswith(("data-ciphers", "auth", "cipher"))}
            assert found == {
                "data-ciphers AES-128-CBC",
                "data-ciphers-fallback AES-128-CBC",
                "cipher AES-128-CBC",
                "auth SHA256",
            }
            assert "ncp-disable" in lines(tunnel, end)


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"mssfix": 0}, "mssfix 0"),
        ({"mssfix": 1400}, "mssfix 1400"),
        ({"tun_mtu": 1400}, "tun-mtu 1400"),
        ({"link_mtu_bytes": 1400}, "link-mtu 1400"),
        ({"cipher": "BF-CBC"}, "providers legacy default"),
        ({"cipher": "CAST5-CBC"}, "providers legacy default"),
        ({"dev": "tap"}, "dev-type tap"),
        ({"sndbuf": 262144}, "sndbuf 262144"),
        ({"rcvbuf": 262144}, "rcvbuf 262144"),
        ({"reneg_sec": 0}, "reneg-sec 0"),
        ({"reneg_bytes": 1000000}, "reneg-bytes 1000000"),
        ({"fragment": 1300}, "fragment 1300"),
        ({"txqueuelen": 321}, "txqueuelen 321"),
        ({"fast_io": True}, "fast-io"),
        ({"compress": "lz4-v2"}, "compress lz4-v2"),
        ({"compress": "lzo"}, "allow-compression yes"),
        ({"comp_lzo": "adaptive"}, "comp-lzo adaptive"),
        ({"engine": "afalg"}, "engine afalg"),
        ({"providers": "legacy:default"}, "providers legacy default"),
    ],
)
def test_an_option_is_a_line_at_both_ends_and_absent_without_it(
    options: dict[str, Any], line: str, tmp_path: Path
) -> None:
    for asked, expected in ((options, True), ({}, False)):
        with make_tunnel(tmp_path, **asked) as tunnel:
            assert [line in lines(tunnel, end) for end in ("router", "server")] == [expected, expected]


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize("cipher", ["BF-CBC", "none"])
def test_keys_do_not_change_after_a_number_of_bytes_unless_the_plan_says_so(cipher: str, tmp_path: Path) -> None:
    with make_tunnel(tmp_path, cipher=cipher) as tunnel:
        assert ["reneg-bytes 0" in lines(tunnel, end) for end in ("router", "server")] == [True, True]


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize("has_own_clock", [True, False])
def test_before_a_trial_only_a_clock_of_the_run_is_set(has_own_clock: bool, tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        host = tunnel.ends.router.host
        host.has_own_clock = has_own_clock
        before = len(commands(host))
        tunnel.before_trial()
        found = commands(host)[before:]
        pids = [str(daemon.pid) for daemon in tunnel.router_daemons]
        assert [command.split()[-2:] for command in found] == ([["16", *pids]] if has_own_clock else [])


def test_a_static_key_has_no_tls_session_to_look_at_before_a_trial(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, **STATIC, cipher="AES-128-CBC") as tunnel:
        host = tunnel.ends.router.host
        host.has_own_clock = True
        before = len(commands(host))
        tunnel.before_trial()
        assert commands(host)[before:] == []


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize(("dev", "second"), [("tun", "198.18.3.2"), ("tap", "255.255.255.0")])
def test_a_tun_has_a_peer_and_a_tap_a_network(dev: str, second: str, tmp_path: Path) -> None:
    with make_tunnel(tmp_path, dev=dev) as tunnel:
        assert f"ifconfig 198.18.3.1 {second}" in lines(tunnel, "router")


@pytest.mark.usefixtures("authority")
def test_by_tcp_one_end_listens_and_the_other_connects(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, transport="tcp") as tunnel:
        assert "proto tcp4-server" in lines(tunnel, "server")
        assert "proto tcp4-client" in lines(tunnel, "router")


@pytest.mark.usefixtures("authority")
def test_another_program_is_started_at_both_ends(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, program="/opt/openvpn-2.7/openvpn") as tunnel:
        for end, _ in tunnel.ends:
            assert any(command.startswith("/opt/openvpn-2.7/openvpn --config ") for command in commands(end.host))


@pytest.mark.usefixtures("authority")
def test_a_daemon_that_gives_up_is_refused_with_its_own_words_and_leaves_nothing(tmp_path: Path) -> None:
    log = "2026-01-01 00:00:00 Options error: Unrecognized option or missing parameter(s)\nUse --help for more\n"
    tunnel = OpenVpn(Options(), make_ends(tmp_path, lambda _: log))
    with pytest.raises(TunnelRefused, match=r"openvpn gave up: .*Options error: Unrecognized option"), tunnel:
        pass
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert tunnel.has_died


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize("wrap", ["tls-auth", "tls-crypt"])
def test_the_key_around_the_control_channel_is_at_both_ends_and_gone_with_the_tunnel(wrap: str, tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path, tls_wrap=wrap)
    with tunnel:
        directions = []
        key = (tmp_path / "router" / "wrap.key").read_text()
        assert (tmp_path / "server" / "wrap.key").read_text() == key
        for end in ("router", "server"):
            assert f"{wrap} {tmp_path / end / 'wrap.key'}" in lines(tunnel, end)
            assert (tmp_path / end / "wrap.key").stat().st_mode & 0o777 == 0o600
            directions += [line for line in lines(tunnel, end) if line.startswith("key-direction")]
        assert directions == (["key-direction 1", "key-direction 0"] if wrap == "tls-auth" else [])
        assert key.splitlines()[1] not in "".join(tunnel.configuration.values())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("authority")
def test_without_aes_instructions_both_daemons_get_the_mask_and_the_proof_checks(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, aes_instructions=False) as tunnel:
        for end, _ in tunnel.ends:
            assert any(command.startswith(f"env {AES_MASK_X86} openvpn --config ") for command in commands(end.host))
        assert [daemon.name for daemon in tunnel.router_daemons] == ["openvpn"]
        (check,) = [check for check in tunnel.negotiated() if check.name == "aes-instructions"]
        assert check.verdict is Verdict.VOID, "a fake daemon has no such environment"


@pytest.mark.parametrize("option", [{"tls_wrap": "tls-auth"}, {"reneg_sec": 60}, {"reneg_bytes": 1000000}])
def test_what_only_tls_can_do_is_refused_with_a_static_key(option: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match='set mode = "tls"'):
        Options.model_validate({"mode": "static-key", "cipher": "AES-128-CBC", **option})


def test_a_cipher_without_its_instructions_is_not_the_one_that_is_measured_by_itself() -> None:
    options = {"cipher": "AES-128-CBC", "auth": "SHA1", "aes_instructions": False}
    assert OpenVpn.algorithms(Options.model_validate(options)) == ("sha1",)


@pytest.mark.usefixtures("authority")
@pytest.mark.parametrize(
    ("transport", "protocols"), [("udp", ("udp6", "udp6")), ("tcp", ("tcp6-client", "tcp6-server"))]
)
def test_outside_may_be_ipv6_which_is_there_as_long_as_the_tunnel(
    transport: str, protocols: tuple[str, str], tmp_path: Path
) -> None:
    with make_tunnel(tmp_path, outside="ipv6", transport=transport) as tunnel:
        assert {f"proto {protocols[0]}", "remote 2001:2::2 1194"} <= set(lines(tunnel, "router"))
        assert {f"proto {protocols[1]}", "local 2001:2::2"} <= set(lines(tunnel, "server"))
        for end, _ in tunnel.ends:
            assert f"ip addr add {end.wan_address6}/64 dev wan" in commands(end.host)
            assert f"ip addr del {end.wan_address6}/64 dev wan" not in commands(end.host)
    for end, _ in tunnel.ends:
        assert f"ip addr del {end.wan_address6}/64 dev wan" in commands(end.host)


OFFER = {"cipher": "negotiated", "data_ciphers": "AES-128-GCM:CHACHA20-POLY1305:AES-128-CBC"}


@pytest.mark.parametrize(
    ("log", "verdict", "extra_bytes"),
    [
        ("tls-chacha20-poly1305", Verdict.OK, 52),
        ("tls-aes-128-cbc-sha1", Verdict.OK, 85),
        ("tls-none-none", Verdict.VOID, 52),
    ],
)
@pytest.mark.usefixtures("authority")
def test_the_cipher_that_the_ends_agreed_on_is_read_back_and_counts(
    log: str, verdict: Verdict, extra_bytes: int, tmp_path: Path
) -> None:
    text = UP + sample(f"openvpn-2.6.14/{log}.log")
    with OpenVpn(Options.model_validate(OFFER), make_ends(tmp_path, lambda _: text)) as tunnel:
        assert "data-ciphers AES-128-GCM:CHACHA20-POLY1305:AES-128-CBC" in lines(tunnel, "server")
        check = tunnel.negotiated()[0]
        assert (check.name, check.verdict) == ("cipher", verdict)
        assert tunnel.outer_packet_bytes(239) == 239 + extra_bytes
    assert OpenVpn.algorithms(tunnel.options) == ()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cipher": "negotiated"}, "need each other"),
        ({"data_ciphers": "AES-128-GCM"}, "need each other"),
        ({"cipher": "negotiated", "data_ciphers": "AES-128-GCM:none"}, "no cipher 'none'"),
        ({"cipher": "negotiated", "data_ciphers": "AES-128-GCM\nscript-security 3"}, "there is no cipher"),
        ({"cipher": "negotiated", "data_ciphers": ""}, "no cipher ''"),
        (OFFER | {"mode": "static-key"}, "allows no negotiation"),
        ({"fragment": 1000, "transport": "tcp"}, "splits UDP datagrams"),
        ({"fast_io": True, "transport": "tcp"}, "fast_io is for UDP only"),
        ({"compress": "lzo", "comp_lzo": "yes"}, "two names of one setting"),
        ({"bridged": True}, "a bridge forwards Ethernet frames"),
        ({"bridged": True, "dev": "tap", "inside": "ipv6"}, "a bridge is set up for IPv4"),
        ({"bridged": True, "dev": "tap", "firewall": "stateful"}, "past firewall and rules"),
        ({"bridged": True, "dev": "tap", "rules": 3}, "past firewall and rules"),
        ({"library": "mbedtls", "engine": "afalg"}, "engine is a setting of OpenSSL"),
        ({"library": "mbedtls", "providers": "legacy:default"}, "providers is a setting of OpenSSL"),
        ({"library": "mbedtls", "aes_instructions": False}, "aes_instructions is a setting of OpenSSL"),
        ({"engine": "/tmp/mine.so"}, "must be a name"),
        ({"engine": "afalg\nup id"}, "must be a name"),
        ({"providers": "legacy default"}, "colons between"),
    ],
)
def test_options_that_mean_nothing_or_could_do_harm_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Options.model_validate(options)


def test_a_program_without_engines_is_reported_before_it_starts(tmp_path: Path) -> None:
    sorry = "Sorry, OpenSSL hardware crypto engine functionality is not available.\n"
    with pytest.raises(TunnelUnavailable, match="OpenSSL engines in openvpn is missing"):
        create(TunnelSpec("openvpn", "afalg", {"engine": "afalg"}), make_ends(tmp_path, lambda _: sorry))
    with_engines = make_ends(tmp_path, lambda _: "OpenSSL Crypto Engines")
    assert create(TunnelSpec("openvpn", "afalg", {"engine": "afalg"}), with_engines).options.engine == "afalg"


def test_the_engine_in_use_is_read_from_the_log() -> None:
    assert parse_engine("Initializing OpenSSL support for engine 'afalg'\n") == "afalg"
    assert parse_engine("OpenVPN 2.6.14\n") == "none"


def test_a_provider_that_the_program_has_not_loaded_is_void(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tunnel = make_tunnel(tmp_path, providers="legacy:default", engine="afalg")
    tunnel.router_daemons = [FakeDaemon("Initializing OpenSSL support for engine 'afalg'").as_daemon]
    mapped = "7f0 r-xp 00000000 00:1b 77 /usr/lib/x86_64-linux-gnu/ossl-modules/legacy.so\n"
    for maps, verdict in ((mapped, Verdict.OK), ("", Verdict.VOID)):
        monkeypatch.setattr(tunnel.ends.router.host, "read_machine", lambda _, maps=maps: maps)
        engine, provider = tunnel.negotiated()[1:]
        assert (engine.name, engine.verdict) == ("engine", Verdict.OK)
        assert (provider.name, provider.verdict) == ("provider", verdict)


@pytest.mark.usefixtures("authority")
def test_each_of_several_processes_has_a_device_port_addresses_and_some_routes(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, processes=2) as tunnel:
        assert [daemon.name for daemon in tunnel.router_daemons] == ["openvpn", "openvpn-2"]
        second = set(tunnel.configuration["router/openvpn-2.conf"].splitlines())
        assert {"dev tun1", "remote 198.18.2.2 1195", "ifconfig 198.18.3.3 198.18.3.4"} <= second
        assert {"dev tun0", "remote 198.18.2.2 1194"} <= set(lines(tunnel, "router"))
        assert "lport 1195" in tunnel.configuration["server/openvpn-2.conf"].splitlines()
        assert tunnel.devices_at(tunnel.ends.router) == ("tun0", "tun1")
        asked = commands(tunnel.ends.router.host)
        assert "tee /proc/sys/net/ipv4/fib_multipath_hash_policy" in asked
        ways = "nexthop via 198.18.3.2 dev tun0 nexthop via 198.18.3.4 dev tun1"
        assert f"ip route add 198.18.4.1 {ways}" in asked
        assert str(tunnel.outer) == "udp ports 1194-1195"
        assert [tunnel.outer.has_port(port) for port in (1193, 1194, 1195, 1196)] == [False, True, True, False]
        assert len([check for check in tunnel.negotiated() if check.name == "cipher"]) == 2
    assert commands(tunnel.ends.router.host).count("tee /proc/sys/net/ipv4/fib_multipath_hash_policy") == 2


def test_several_processes_take_a_tun() -> None:
    with pytest.raises(ValidationError, match='set dev = "tun"'):
        Options.model_validate({"processes": 2, "dev": "tap"})


def test_openvpn_prints_the_version_of_its_library_too(tmp_path: Path) -> None:
    ends = make_ends(tmp_path, lambda _: sample("openvpn-2.6.14/version.txt"))
    tunnel = OpenVpn(Options(), ends)
    assert tunnel.versions(ends.server) == {"openvpn": "2.6.14", "openssl": "3.0.19"}


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ("library versions: OpenSSL 3.0.19 27 Jan 2026, LZO 2.10\n", ("openssl", "3.0.19")),
        ("library versions: OpenSSL 1.1.1n  15 Mar 2022, LZO 2.10\n", ("openssl", "1.1.1n")),
        ("library versions: mbed TLS 2.28.3, LZO 2.10\n", ("mbedtls", "2.28.3")),
        ("library versions: LibreSSL 3.8.2, LZO 2.10\n", ("libressl", "3.8.2")),
        ("OpenVPN 2.6.14\n", ("openssl", "unknown")),
    ],
)
def test_the_crypto_library_is_named_as_it_is(text: str, library: tuple[str, str], tmp_path: Path) -> None:
    assert parse_library(text) == library
    tunnel = OpenVpn(Options(), make_ends(tmp_path, lambda _: f"OpenVPN 2.6.14 [SSL]\n{text}"))
    assert tunnel.versions(tunnel.ends.router) == {"openvpn": "2.6.14", library[0]: library[1]}


def prints(version: str) -> Callable[[Sequence[str]], str]:
    """Return the answers of a machine of x86-64 whose OpenVPN prints a version."""
    return lambda argv: "x86_64" if argv[0] == "uname" else version


def test_a_program_with_another_library_is_reported_before_it_starts(tmp_path: Path) -> None:
    mbedtls, openssl = (f"library versions: {each}, LZO 2.10" for each in ("mbed TLS 2.28.3", "OpenSSL 3.0.19 27 Jan"))
    for options, missing, present in (
        ({"library": "mbedtls"}, openssl, mbedtls),
        ({"library": "openssl"}, mbedtls, openssl),
        ({"aes_instructions": False}, mbedtls, openssl),
    ):
        spec = TunnelSpec("openvpn", "library", options)
        create(spec, make_ends(tmp_path, prints(present)))
        name = "mbed TLS" if missing == openssl else "OpenSSL"
        with pytest.raises(TunnelUnavailable, match=f"{name} in openvpn is missing"):
            create(spec, make_ends(tmp_path, prints(missing)))
    assert OpenVpn.algorithms(Options(library="mbedtls")) == ()


@pytest.mark.usefixtures("authority")
def test_a_version_ignores_the_options_that_it_does_not_know(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, cipher="BF-CBC", compress="lzo") as tunnel:
        for end in ("router", "server"):
            first, *others = lines(tunnel, end)
            assert first == f"ignore-unknown-option {' '.join(OF_SOME_VERSIONS)}"
            position = others.index("providers legacy default")
            assert others[position - 1] == "ignore-unknown-option providers"
    with make_tunnel(tmp_path, providers="legacy") as tunnel:  # a program without providers must end
        assert "ignore-unknown-option providers" not in lines(tunnel, "router")


def test_a_static_key_has_the_form_that_openvpn_reads() -> None:
    first, *body, last = new_static_key().splitlines()
    assert (first, last) == ("-----BEGIN OpenVPN Static key V1-----", "-----END OpenVPN Static key V1-----")
    assert len(bytes.fromhex("".join(body))) == 256
    assert {len(line) for line in body} == {32}
    assert new_static_key() != new_static_key()


@pytest.mark.parametrize(
    ("options", "log", "verdict", "reason"),
    [
        ({"fast_io": True}, "  fast_io = ENABLED\n", Verdict.OK, "asked for on, in use: on"),
        ({"fast_io": True}, "  fast_io = DISABLED\n", Verdict.VOID, "asked for on, in use: off"),
        ({"compress": "lzo"}, "LZO compression initializing\n", Verdict.OK, "asked for lzo, in use: lzo"),
        ({"comp_lzo": "yes"}, "LZ4 compression initializing\n", Verdict.VOID, "asked for lzo, in use: lz4"),
        ({"compress": "lz4-v2"}, "LZ4v2 compression initializing\n", Verdict.OK, "asked for lz4-v2, in use: lz4-v2"),
        ({"compress": "lz4"}, "", Verdict.VOID, "asked for lz4, in use: none"),
    ],
)
def test_a_setting_that_openvpn_may_ignore_is_read_from_its_log(
    options: dict[str, Any], log: str, verdict: Verdict, reason: str, tmp_path: Path
) -> None:
    tunnel = make_tunnel(tmp_path, **options)
    tunnel.router_daemons = [FakeDaemon(log).as_daemon]
    check = tunnel.negotiated()[-1]
    assert (check.verdict, check.reason) == (verdict, reason)


def test_stubs_compress_nothing_and_comp_lzo_may_pause(tmp_path: Path) -> None:
    assert parse_compression("Data Channel: cipher'AES'\n") == "none"
    for options, found in (
        ({}, (False, 0, False)),
        ({"compress": "stub"}, (False, 0, False)),
        ({"comp_lzo": "no"}, (False, 0, False)),
        ({"compress": "lz4"}, (True, 99, False)),
        ({"compress": "lz4", "dev": "tap"}, (True, 85, False)),
        ({"comp_lzo": "yes"}, (True, 99, False)),
        ({"comp_lzo": "adaptive"}, (True, 99, True)),
    ):
        tunnel = make_tunnel(tmp_path, **options)
        assert (tunnel.compresses, tunnel.longest_uncompressed_bytes, tunnel.pauses_compression) == found


@pytest.mark.parametrize("data", [{"content": "repeating"}, {"write_bytes": 1000}])
def test_data_that_a_packet_repeats_shrink_in_a_tunnel_that_compresses(data: dict[str, Any], tmp_path: Path) -> None:
    assert make_tunnel(tmp_path, compress="lzo").compression is None
    assert make_tunnel(tmp_path, **data).compression is None
    found = make_tunnel(tmp_path, compress="lzo", **data).compression
    assert found is not None
    assert (found.uncompressed_bytes is None) == ("write_bytes" in data)


@pytest.mark.parametrize(("transport", "outer_bytes"), [("udp", 1053), ("tcp", 1000)])
def test_data_that_must_shrink_are_compared_with_what_they_take_at_least(
    transport: str, outer_bytes: int, tmp_path: Path
) -> None:
    tunnel = make_tunnel(tmp_path, compress="lzo", content="repeating", transport=transport)
    assert tunnel.compression is not None
    assert tunnel.compression.uncompressed_bytes is not None
    assert tunnel.compression.longest_uncompressed_bytes == 99
    assert tunnel.compression.uncompressed_bytes(1000) == outer_bytes


def test_the_length_of_the_queue_is_read_back_from_the_devices_of_both_ends(tmp_path: Path) -> None:
    shown = "7: tun0: <UP> mtu 1500 qdisc fq_codel state UNKNOWN mode DEFAULT group default qlen 321\n"
    for wanted, verdict in ((321, Verdict.OK), (322, Verdict.VOID)):
        tunnel = OpenVpn(Options(txqueuelen=wanted), make_ends(tmp_path, lambda _: shown))
        checks = tunnel.negotiated()
        assert [check.verdict for check in checks] == [verdict, verdict]
        assert checks[1].reason == f"asked for {wanted} packets; the queue of tun0 on the server takes 321"


@pytest.mark.parametrize(
    ("options", "mtu_bytes", "longest", "verdict"),
    [
        (GCM, 1351, 1375, Verdict.OK),  # as OpenVPN 2.6.14 sets it
        (CBC_SHA1 | TAP, 1347, 1416, Verdict.OK),
        (GCM | {"fragment": 500}, 1351, 1375, Verdict.OK),
        (GCM, 1500, 1524, Verdict.VOID),  # as without the option
    ],
)
def test_the_mtu_of_both_devices_shows_that_openvpn_has_obeyed_link_mtu(
    options: dict[str, Any], mtu_bytes: int, longest: int, verdict: Verdict, tmp_path: Path
) -> None:
    shown = f"7: tun0: <UP> mtu {mtu_bytes} qdisc fq_codel state UNKNOWN mode DEFAULT group default qlen 500\n"
    asked = Options.model_validate({**options, "link_mtu_bytes": 1400})
    checks = OpenVpn(asked, make_ends(tmp_path, lambda _: shown)).negotiated()
    assert [(check.name, check.verdict) for check in checks] == [("link-mtu", verdict)] * 2
    assert checks[1].reason == (
        f"asked for datagrams of 1400 bytes; tun0 on the server has an MTU of {mtu_bytes}, which makes datagrams of "
        f"{longest}"
    )


@pytest.mark.parametrize("cipher", ["AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"])
def test_openvpn_with_a_static_key_refuses_ciphers_that_authenticate(cipher: str) -> None:
    with pytest.raises(ValidationError, match=f"refuses {cipher} with a static key; take a CBC cipher"):
        Options.model_validate({"mode": "static-key", "cipher": cipher})


def test_openvpn_with_a_static_key_must_name_its_cipher_since_the_default_cannot_be() -> None:
    with pytest.raises(ValidationError, match="refuses AES-256-GCM"):
        Options(mode="static-key")


@pytest.mark.parametrize("cipher", ["AES-128-CBC", "BF-CBC", "none"])
def test_openvpn_with_a_static_key_takes_others(cipher: str) -> None:
    assert Options.model_validate({"mode": "static-key", "cipher": cipher}).mode == "static-key"


@pytest.mark.parametrize("program", ["openvpn", "openvpn-2.7", "/usr/local/sbin/openvpn", "/opt/a+b/openvpn_x.y", "7z"])
def test_another_program_may_be_named_or_be_a_path(program: str) -> None:
    assert Options(program=program).program == program


@pytest.mark.parametrize(
    "program",
    [
        "", " ", "-openvpn", "--help", "open vpn", "openvpn ", " openvpn", "openvpn\n", "openvpn\nuser root",
        "\nopenvpn", "openvpn\t", "openvpn\0", "bin/openvpn", "./openvpn", "../openvpn", "$HOME/openvpn",
        "openvpn;reboot", "`reboot`", "/usr/bin/openvpn --up reboot", "/usr/bin/open\nvpn",
        "öpenvpn", "openvpn\u2028", "/",
    ],
)  # fmt: skip
def test_a_program_that_could_be_taken_for_something_else_is_refused(program: str) -> None:
    with pytest.raises(ValidationError, match="program"):
        Options(program=program)


@given(st.text() | st.from_regex(r"[-/. \n]?[a-z0-9/._ +-]*\s?"))
def test_no_program_is_taken_that_is_an_option_or_more_than_one_word(program: str) -> None:
    try:
        taken = Options(program=program).program
    except ValidationError:
        return
    assert not taken.startswith("-")
    assert taken.isascii()
    assert re.fullmatch(r"\S+", taken)
    assert not set(taken) & set("\0\n\"'`$;&|<>(){}*?!~#%\\")


def test_ciphers_have_the_blocks_of_their_family() -> None:
    blocks = {"aes": 16, "camellia": 16, "bf": 8, "cast5": 8, "des": 8}
    assert {cipher: blocks[cipher.lower().split("-")[0]] for cipher in CIPHER_BLOCK_BYTES} == CIPHER_BLOCK_BYTES


def test_the_longest_piece_of_a_split_packet_has_the_length_that_was_seen() -> None:
    assert make_any("openvpn", GCM | {"fragment": 1000}).outer_packet_bytes(INNER_BYTES) == 295


@given(
    st.fixed_dictionaries({
        "cipher": st.sampled_from(["AES-256-GCM", "CHACHA20-POLY1305", "AES-256-CBC", "BF-CBC", "none"]),
        "auth": st.sampled_from(sorted(DIGEST_BYTES)),
        "transport": st.sampled_from(["udp", "tcp"]),
        "dev": st.sampled_from(["tun", "tap"]),
    }),
    st.integers(20, 8900),
)  # fmt: skip
def test_openvpn_adds_to_a_packet_and_more_to_a_longer_one(options: dict[str, Any], inner_bytes: int) -> None:
    require_growth(make_any("openvpn", options), inner_bytes)


@given(st.integers(20, 9000), st.sampled_from([GCM, CBC_SHA1, BF_SHA1, NONE_SHA1, STATIC | CBC_SHA1, TAP | GCM]))
def test_no_piece_of_a_packet_is_a_longer_datagram_than_asked_for(inner_bytes: int, options: dict[str, Any]) -> None:
    outers = make_any("openvpn", options | {"fragment": 500}).outer_packets_bytes(inner_bytes)
    assert max(outers) <= 20 + 8 + 500


def test_what_a_packet_takes_on_the_wan_is_that_of_all_its_outer_packets() -> None:
    ethernet = 38
    assert make_any("openvpn", GCM).wire_bytes(1000, 1500) == 1052 + ethernet
    assert make_any("openvpn", GCM | {"outside": "ipv6"}).wire_bytes(1000, 1500) == 1072 + ethernet
    split = make_any("openvpn", GCM | {"fragment": 600})
    assert split.outer_packets_bytes(1000) == (56 + 500, 56 + 500)
    assert split.wire_bytes(1000, 1500) == 2 * (56 + 500 + ethernet)
    stream = make_any("openvpn", GCM | TLS_TCP | {"outside": "ipv6"})
    assert stream.wire_bytes(1000, 1500) == pytest.approx((1000 + 2 + 24) * 1538 / (1500 - 40 - 32))


@given(st.integers(1, 9000), st.integers(100, 2000))
def test_pieces_make_up_the_packet_and_are_alike_but_for_the_last(plain_bytes: int, largest_bytes: int) -> None:
    *others, last = fragments(plain_bytes, largest_bytes)
    assert sum(others) + last == plain_bytes
    assert len(set(others)) <= 1
    assert 0 < last <= max([largest_bytes, *others])
    assert all(piece % 4 == 0 for piece in others)


@pytest.mark.parametrize("block", [8, 16])
def test_a_cbc_cipher_adds_a_whole_block_where_the_packet_fills_its_blocks(block: int) -> None:
    cipher = {8: "BF-CBC", 16: "AES-128-CBC"}[block]
    tunnel = make_any("openvpn", {"cipher": cipher, "auth": "none"})
    packet_id = 4
    full = 10 * block - packet_id
    assert tunnel.outer_packet_bytes(full) == tunnel.outer_packet_bytes(full - 1) + block


def test_digests_are_as_long_as_they_are() -> None:
    known = {name: 0 if name == "none" else hashlib.new(name.lower()).digest_size for name in DIGEST_BYTES}
    assert known == DIGEST_BYTES


def test_every_cipher_and_digest_of_a_plan_has_a_length() -> None:
    ciphers = get_args(Cipher)
    assert {cipher for cipher in ciphers if cipher.endswith("-CBC")} == set(CIPHER_BLOCK_BYTES)
    for cipher in ciphers:
        for digest in DIGEST_BYTES:
            assert make_any("openvpn", {"cipher": cipher, "auth": digest}).outer_packet_bytes(100) > 100
