"""ocserv and openconnect: AnyConnect's protocol, over DTLS or TLS; the router is the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from tunnelbench.model.frames import AEAD_TAG_BYTES, tcp_packet_bytes, udp_packet_bytes
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import End, Outer, Tunnel, TunnelOptions, equals
from tunnelbench.tunnel.requirements import key_maker, program, tun_device
from tunnelbench.tunnel.versions import UNKNOWN, version_of

PORT = 443

TLS_RECORD_BYTES, DTLS_RECORD_BYTES = 5, 13
"""Length of a record's header (RFC 5246, section 6.2; RFC 6347, section 4.1)."""

EXPLICIT_NONCE_BYTES = {"aes-128-gcm": 8, "aes-256-gcm": 8, "chacha20-poly1305": 0}
"""Length of the nonce in each record of TLS 1.2 (RFC 5288; RFC 7905)."""

CSTP_HEADER_BYTES, CSTP_DTLS_HEADER_BYTES = 8, 1
"""Length of the header inside a record (draft-mavrogiannopoulos-openconnect, sections 2.3 and 2.4)."""

LEASES = ("198.18.6.0", "255.255.255.0")
"""Network and mask from which ocserv gives addresses; both devices get the tunnel's own addresses instead."""


class Options(TunnelOptions):
    ipv4_only_inside = "ocserv is set up to give IPv4 addresses only"
    ipv4_only_outside = ""

    mode: Literal["dtls", "tls"] = Field(default="dtls", description="what carries the packets: UDP, or TCP")
    cipher: Literal["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"] = Field(
        default="aes-256-gcm", description="cipher of DTLS 1.2 or TLS 1.2"
    )
    mtu: int = Field(default=1400, ge=576, le=1434, description="MTU of the tunnel's device [bytes]")


class OpenConnect(Tunnel[Options]):
    """Plan entry: `kind = "openconnect"`, `mode = "tls"`. TLS is of version 1.2 in both modes, without compression."""

    kind = "openconnect"
    title = "ocserv and openconnect in user space: DTLS or TLS"
    options_type = Options
    tested_with = "ocserv 1.1.6 and openconnect 9.01 with GnuTLS 3.7"
    plans = {
        "all": {"name": "AnyConnect over DTLS, AES-128-GCM", "cipher": "aes-128-gcm"},
        "userspace": {
            "name": "AnyConnect over {mode}, AES-128-GCM",
            "mode": ["dtls", "tls"],
            "cipher": "aes-128-gcm",
        },
    }
    added_bytes = {"DTLS, GCM / ChaCha20": "66 / 58", "TLS, GCM / ChaCha20": "89 / 81"}
    signs_of_restart = ("dead peer", "reconnect", "DTLS handshake timed out", "DTLS handshake failed")
    needs = (
        tun_device(),
        program("ocserv", openwrt="ocserv"),
        program("openconnect", openwrt="openconnect"),
        key_maker("openssl"),
    )
    hides_payload = True

    @property
    def outer(self) -> Outer:
        # The router's openconnect sends a packet by TLS when the socket of DTLS is full: up to 6 % of the packets.
        version = self.outside.number
        if self.options.mode == "dtls":
            return Outer("udp", PORT, version, second_protocol="tcp")
        return Outer("tcp", PORT, version)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        sealed = EXPLICIT_NONCE_BYTES[self.options.cipher] + inner_packet_bytes + AEAD_TAG_BYTES
        if self.options.mode == "dtls":
            return udp_packet_bytes(DTLS_RECORD_BYTES + CSTP_DTLS_HEADER_BYTES + sealed, self.outer.ip_header_bytes)
        return tcp_packet_bytes(TLS_RECORD_BYTES + CSTP_HEADER_BYTES + sealed, self.outer.ip_header_bytes)

    def device_at(self, end: End) -> str:
        return "tun0" if end is self.ends.router else "vpns0"

    def versions(self, end: End) -> Mapping[str, str]:
        if end is self.ends.router:
            argv, name, pattern = ["openconnect", "--version"], "openconnect", r"OpenConnect version v?(\S+)"
        else:
            argv, name, pattern = ["ocserv", "--version"], "ocserv", r"ocserv (\S+)"
        library = version_of(end.host, argv, r"GnuTLS(?: version:)? ([\d.]*\d)")
        return {name: version_of(end.host, argv, pattern), "gnutls": library}

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the cipher in the router's log with what was asked for."""
        found = parse_cipher(self.router_daemons[0].output(), self.options.mode)
        return (equals("cipher", self.options.cipher, found),)

    def _up(self) -> None:
        files = self._write_certificates()
        router, server = self.ends.router, self.ends.server
        config = self._write(server, "ocserv.conf", self._server_config(**files[server.host.name]))
        pid_file = str(server.host.folder / "ocserv.pid")
        ocserv = self._start(
            server, ["ocserv", "--foreground", "--debug", "2", "--config", config, "--pid-file", pid_file]
        )
        self._require(ocserv, "initialized ocserv")
        client = self._start(router, self._client_command(**files[router.host.name]))
        if self.options.mode == "dtls":
            self._require(client, "Established DTLS connection")
        self._require(client, "Configured as")
        for end, _ in self.ends:
            device = self.device_at(end)
            self._await_device(end)
            end.host.ip("addr", "flush", "dev", device)
            end.host.ip("link", "set", device, "mtu", str(self.options.mtu))
            self._address_device(end)

    @property
    def _priority(self) -> str:
        """GnuTLS priorities of one cipher and one version."""
        cipher = {"aes-128-gcm": "AES-128-GCM", "aes-256-gcm": "AES-256-GCM", "chacha20-poly1305": "CHACHA20-POLY1305"}
        return f"NORMAL:-CIPHER-ALL:+{cipher[self.options.cipher]}:-VERS-ALL:+VERS-TLS1.2:+VERS-DTLS1.2"

    def _server_config(self, ca: str, cert: str, key: str) -> str:
        folder = self.ends.server.host.folder
        lines = [
            'auth = "certificate"',
            "cert-user-oid = 2.5.4.3",
            f"ca-cert = {ca}",
            f"server-cert = {cert}",
            f"server-key = {key}",
            f"listen-host = {self._outer_address(self.ends.server)}",
            f"tcp-port = {PORT}",
            *([f"udp-port = {PORT}"] if self.options.mode == "dtls" else []),
            f'tls-priorities = "{self._priority}"',
            f"socket-file = {folder}/ocserv.socket",
            "run-as-user = root",
            "run-as-group = root",
            "isolate-workers = false",
            "use-occtl = false",
            "device = vpns",
            f"ipv4-network = {LEASES[0]}",
            f"ipv4-netmask = {LEASES[1]}",
            "ping-leases = false",
            "try-mtu-discovery = false",
            "compression = false",
            "rekey-time = 0",
            "keepalive = 32400",
            "dpd = 90",
            "dtls-legacy = false",
        ]
        return "\n".join(lines) + "\n"

    def _client_command(self, ca: str, cert: str, key: str) -> list[str]:
        server = self.ends.server
        # --verbose would print the cookie of the session. `true` takes the place of the script that sets addresses,
        # routes and the resolver.
        # fmt: off
        return ["openconnect", "--protocol=anyconnect", "--non-inter",
                "--no-system-trust", "--cafile", ca, "--certificate", cert, "--sslkey", key,
                "--gnutls-priority", self._priority, "--resolve", f"{server.host.name}:{self._outer_address(server)}",
                "--interface", self.device_at(self.ends.router), "--script", "/bin/true",
                "--mtu", str(self.options.mtu), *(["--no-dtls"] if self.options.mode == "tls" else []),
                f"https://{server.host.name}"]
        # fmt: on


def parse_cipher(log: str, mode: str) -> str:
    """Return the cipher of the last connection of a mode in openconnect's log, `unknown` if there is none."""
    beginning = "established dtls connection " if mode == "dtls" else "connected to https on "
    found = UNKNOWN
    for line in log.splitlines():
        _, _, suite = line.lower().partition(beginning)[2].partition("ciphersuite ")
        if "-(" in suite:
            found = line.rpartition("-(")[2].partition(")")[0]
    return found
