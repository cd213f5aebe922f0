"""ocserv and openconnect: the client's log as evidence, the configuration of both, and their secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.output.samples import sample, samples
from tests.unit.tunnel.cases import TunnelCase
from tests.unit.tunnel.fakes import FakeDaemon, commands, make_ends

from tunnelbench.model.result import Verdict
from tunnelbench.tunnel import certificates
from tunnelbench.tunnel.certificates import Authority, Issued
from tunnelbench.tunnel.openconnect import OpenConnect, Options, parse_cipher

TUNNELS = (
    TunnelCase(
        "openconnect",
        lengths=(
            ({}, 305),
            ({"cipher": "chacha20-poly1305"}, 297),
            ({"mode": "tls"}, 328),
            ({"outside": "ipv6"}, 325),
            ({"mode": "tls", "cipher": "chacha20-poly1305"}, 320),
        ),
        seen=(
            ({}, "udp port 443 or tcp port 443, exact, hidden"),
            ({"mode": "tls"}, "tcp port 443, a stream, hidden"),
            ({"outside": "ipv6"}, "udp port 443 or tcp port 443 over IPv6, exact, hidden"),
        ),
        refused=({"mode": "esp"}, {"mtu": 1435}, {"inside": "ipv6"}),
        exact=(
            {"cipher": "aes-128-gcm"},
            {"cipher": "chacha20-poly1305"},
            {"mode": "tls", "cipher": "chacha20-poly1305"},
            {"outside": "ipv6"},
        ),
        may_change_machine=True,
        version_commands={"openconnect": ("openconnect", "--version"), "ocserv": ("ocserv", "--version")},
        samples={
            f"{mode}-{cipher}": {"mode": mode, "cipher": cipher}
            for mode in ("dtls", "tls")
            for cipher in ("aes-128-gcm", "chacha20-poly1305")
        },
    ),
)

LOGS = samples("openconnect-*/*.log")
UP = "initialized ocserv\nEstablished DTLS connection\nConfigured as\n"


@pytest.fixture(autouse=True)
def authority(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Authority("CA", {name: Issued(f"CERTIFICATE {name}", f"KEY {name}") for name in ("router", "server")})
    monkeypatch.setattr(certificates, "new_authority", lambda _local, _names: made)


def make_tunnel(folder: Path, **options: Any) -> OpenConnect:
    return OpenConnect(Options.model_validate(options), make_ends(folder, lambda _: UP))


def asked(name: str) -> dict[str, str]:
    mode, _, cipher = Path(name).stem.partition("-")
    return {"mode": mode, "cipher": cipher}


@pytest.mark.parametrize("name", LOGS)
def test_a_connection_by_what_was_asked_for_is_proven(name: str, tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path, **asked(name))
    tunnel.router_daemons = [FakeDaemon(LOGS[name]).as_daemon]
    (check,) = tunnel.negotiated()
    assert check.verdict is Verdict.OK, check.reason


@pytest.mark.parametrize("log", ["", *LOGS.values()])
def test_a_connection_by_anything_else_is_void(log: str, tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path, cipher="aes-256-gcm")
    tunnel.router_daemons = [FakeDaemon(log).as_daemon]
    (check,) = tunnel.negotiated()
    assert check.verdict is Verdict.VOID


def test_the_cipher_of_tls_is_none_of_dtls() -> None:
    assert parse_cipher(sample("openconnect-9.01-3/tls-aes-128-gcm.log"), "dtls") == "unknown"


@pytest.mark.parametrize("name", LOGS)
def test_a_connection_that_comes_up_is_no_restart_and_its_log_holds_no_cookie(name: str) -> None:
    assert not any(sign in LOGS[name] for sign in OpenConnect.signs_of_restart)
    assert "webvpn" not in LOGS[name]


@pytest.mark.parametrize(("mode", "has_udp"), [("dtls", True), ("tls", False)])
def test_udp_is_offered_for_dtls_alone(mode: str, has_udp: bool, tmp_path: Path) -> None:
    with make_tunnel(tmp_path, mode=mode) as tunnel:
        server = tunnel.configuration["server/ocserv.conf"].splitlines()
        (client,) = (line for line in commands(tunnel.ends.router.host) if line.startswith("openconnect "))
    assert ("udp-port = 443" in server) is has_udp
    assert ("--no-dtls" in client) is not has_udp
    assert "--script /bin/true" in client, "nothing may set routes or the resolver"


def test_both_devices_get_the_tunnels_own_addresses(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, mtu=1300) as tunnel:
        assert "ip addr add 198.18.3.1/24 dev tun0" in commands(tunnel.ends.router.host)
        assert "ip link set vpns0 mtu 1300" in commands(tunnel.ends.server.host)
        assert "ip addr add 198.18.3.2/24 dev vpns0" in commands(tunnel.ends.server.host)


def test_secrets_are_deleted_and_never_kept_with_the_results(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        keys = list(tmp_path.rglob("*.key"))
        assert [key.stat().st_mode & 0o777 for key in keys] == [0o600, 0o600]
        assert "KEY" not in "".join(tunnel.configuration.values())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_each_end_has_the_version_of_its_own_program_and_library(tmp_path: Path) -> None:
    texts = {name: sample(f"{name}/version.txt") for name in ("openconnect-9.01-3", "ocserv-1.1.6")}
    ends = make_ends(tmp_path, lambda argv: next(text for name, text in texts.items() if name.startswith(argv[0])))
    tunnel = OpenConnect(Options(), ends)
    assert tunnel.versions(ends.router) == {"openconnect": "9.01-3", "gnutls": "3.7.9"}
    assert tunnel.versions(ends.server) == {"ocserv": "1.1.6", "gnutls": "3.7.9"}
