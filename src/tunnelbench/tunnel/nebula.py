"""nebula: an overlay network of certificates, here with two members."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from tunnelbench.model.frames import AEAD_TAG_BYTES, udp_packet_bytes
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import End, Outer, Tunnel, TunnelOptions, handshake
from tunnelbench.tunnel.requirements import program, tun_device
from tunnelbench.tunnel.versions import version_of

PORT = 4242

NEBULA_HEADER_BYTES = 16
"""Length of version and type, subtype, index of the receiver, counter (nebula's header/header.go)."""

VALID = "200h"
"""Validity of certificates, longer than the longest run, a week."""


class Options(TunnelOptions):
    ipv4_only_inside = "nebula 1 gives its members IPv4 addresses only"
    ipv4_only_outside = ""

    cipher: Literal["aes", "chachapoly"] = Field(
        default="aes", description="cipher of the packets: AES-256-GCM, or ChaCha20-Poly1305"
    )
    mtu: int = Field(default=1300, ge=576, le=8900, description="MTU of the tunnel's device [bytes]")


class Nebula(Tunnel[Options]):
    """Plan entry: `kind = "nebula"`, `cipher = "chachapoly"`. No lighthouse is used, because each end has the address
    of the other."""

    kind = "nebula"
    title = "nebula in user space: an overlay network of two members"
    options_type = Options
    tested_with = "nebula 1.6.1"
    plans = {
        "all": {"name": "nebula AES-256-GCM", "cipher": "aes"},
        "userspace": {"name": "nebula {cipher}", "cipher": ["aes", "chachapoly"]},
    }
    added_bytes = {"both ciphers": "60"}
    signs_of_restart = ("Handshake message sent", "Handshake timed out", "Close tunnel received", "state:dead")
    device = "nebula0"
    needs = (
        tun_device(),
        program("nebula", openwrt="nebula"),
        program("nebula-cert", "nebula", openwrt="nebula-cert"),
    )
    hides_payload = True

    @property
    def outer(self) -> Outer:
        return Outer("udp", PORT, self.outside.number)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return udp_packet_bytes(NEBULA_HEADER_BYTES + inner_packet_bytes + AEAD_TAG_BYTES, self.outer.ip_header_bytes)

    def versions(self, end: End) -> Mapping[str, str]:
        return {"nebula": version_of(end.host, ["nebula", "-version"], r"Version: (\S+)")}

    def negotiated(self) -> tuple[Check, ...]:
        """Check that a handshake took place; ends with different ciphers do not understand each other."""
        happened = "Handshake message received" in self.router_daemons[0].output()
        return (handshake(happened=happened),)

    def _up(self) -> None:
        certificates = self._certificates()
        for end, other in reversed(list(self.ends)):
            certificate, key = certificates[end.host.name]
            files = {
                "ca": self._write(end, "ca.crt", certificates["ca"][0]),
                "cert": self._write(end, "end.crt", certificate),
                "key": self._write(end, "end.key", key, secret=True),
            }
            # JSON is a part of YAML.
            config = self._write(end, "nebula.yaml", json.dumps(self._config(end, other, files), indent=1) + "\n")
            self._require(self._start(end, ["nebula", "-config", config]), "Nebula interface is active")

    def _config(self, end: End, other: End, files: Mapping[str, str]) -> Mapping[str, object]:
        anything = [{"port": "any", "proto": "any", "host": "any"}]
        return {
            "pki": files,
            "static_host_map": {other.inner_address: [self._outer_socket(other, PORT)]},
            "lighthouse": {"am_lighthouse": False, "hosts": []},
            "listen": {"host": self._outer_address(end), "port": PORT},
            "punchy": {"punch": False},
            "cipher": self.options.cipher,
            "tun": {
                "dev": self.device,
                "mtu": self.options.mtu,
                # nebula makes this route itself; the route of the base class has no metric and is preferred.
                "unsafe_routes": [{"route": _network(end.reaches), "via": other.inner_address, "metric": 100}],
            },
            "logging": {"level": "info", "format": "text"},
            "firewall": {"outbound": anything, "inbound": anything},
        }

    def _certificates(self) -> dict[str, tuple[str, str]]:
        """Return certificate and key of each end, and the authority's certificate, whose key is deleted."""
        local = self.ends.local
        with tempfile.TemporaryDirectory(dir=local.folder) as folder_name:
            folder = Path(folder_name)
            authority = ["-out-crt", str(folder / "ca.crt"), "-out-key", str(folder / "ca.key")]
            local.run(["nebula-cert", "ca", "-name", "tunnelbench", "-duration", VALID, *authority])
            issued = {"ca": ((folder / "ca.crt").read_text(), "")}
            for end, other in self.ends:
                certificate, key = folder / "end.crt", folder / "end.key"
                # fmt: off
                local.run(["nebula-cert", "sign", "-name", end.host.name, "-ip", f"{end.inner_address}/24",
                           "-subnets", _network(other.reaches),
                           "-ca-crt", str(folder / "ca.crt"), "-ca-key", str(folder / "ca.key"),
                           "-out-crt", str(certificate), "-out-key", str(key)])
                # fmt: on
                issued[end.host.name] = (certificate.read_text(), key.read_text())
                certificate.unlink()
                key.unlink()
        return issued


def _network(destination: str) -> str:
    """Return an address or network as a network."""
    return destination if "/" in destination else f"{destination}/32"
