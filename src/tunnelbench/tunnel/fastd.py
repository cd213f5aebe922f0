"""fastd: a small daemon of community networks that carries packets or frames in UDP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, udp_packet_bytes
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import End, Outer, Tunnel, TunnelOptions, equals
from tunnelbench.tunnel.requirements import key_maker, program, tun_device
from tunnelbench.tunnel.versions import UNKNOWN, library_version, openssl_version, version_of

PORT = 10000

LEAST_MTU_BYTES = 1240
"""Least MTU of a tunnel's device [bytes]. The handshake of fastd 22 does not fit into its buffers below about 1210, and
it ends with "oversized buffer alloc (1248 > 1232)"."""

PLAIN_METHOD_BYTES = {"null": 1, "null@l2tp": 8}
"""Header of packets without a cipher [bytes]: a type, or an L2TPv3 session's over UDP (RFC 3931, section 4.1.2.1)."""

SEALED_METHOD_BYTES = 24
"""Header of all other packets: type 1, nonce 6, flags 1, tag 16 (fastd's method documentation, "common" format)."""

Method = Literal[
    "null", "null@l2tp",
    # authenticated only
    "null+salsa20+umac", "null+salsa2012+umac", "null+aes128-ctr+umac",
    "null+salsa20+gmac", "null+salsa2012+gmac", "null+aes128-gmac",
    # one cipher for the packet and its tag
    "aes128-gcm", "aes128-ctr+umac", "aes128-ctr+poly1305",
    "salsa20+umac", "salsa20+gmac", "salsa20+poly1305",
    "salsa2012+umac", "salsa2012+gmac", "salsa2012+poly1305",
    # one for the packet and another, or the same again, for its tag
    "aes128-ctr+aes128-ctr+umac", "aes128-ctr+salsa20+umac", "aes128-ctr+salsa2012+umac",
    "aes128-ctr+aes128-gmac", "aes128-ctr+salsa20+gmac", "aes128-ctr+salsa2012+gmac",
    "salsa20+aes128-ctr+umac", "salsa20+salsa20+umac", "salsa20+salsa2012+umac",
    "salsa20+aes128-gmac", "salsa20+salsa20+gmac", "salsa20+salsa2012+gmac",
    "salsa2012+aes128-ctr+umac", "salsa2012+salsa20+umac", "salsa2012+salsa2012+umac",
    "salsa2012+aes128-gmac", "salsa2012+salsa20+gmac", "salsa2012+salsa2012+gmac",
]  # fmt: skip
"""All methods of Debian's build of fastd 22 (`fastd --verify-config`); each was seen to carry packets."""


LONGEST_SESSION_S = 3300.0
"""Time after which fastd has made a new session [s]: after 50 to 55 minutes (KEY_REFRESH in its constants.h)."""


class Options(TunnelOptions):
    ipv4_only_inside = ipv4_only_outside = ""

    method: Method = Field(
        default="salsa2012+umac",
        description="cipher and authentication of the packets; null is neither, null+... authenticates only",
    )
    mode: Literal["tun", "tap"] = Field(default="tun", description="IP packets, or Ethernet frames")
    mtu: int = Field(default=1406, ge=LEAST_MTU_BYTES, le=9000, description="MTU of the tunnel's device [bytes]")

    @property
    def rekey_interval_s(self) -> float:
        return LONGEST_SESSION_S


class Fastd(Tunnel[Options]):
    """Plan entry: `kind = "fastd"`, `method = "aes128-ctr+umac"`."""

    kind = "fastd"
    title = "fastd in user space: IP packets or Ethernet frames in UDP"
    options_type = Options
    tested_with = "fastd 22"
    plans = {
        "all": {"name": "fastd {method}", "method": ["null@l2tp", "salsa2012+umac"]},
        "userspace": {"name": "fastd {method}", "method": ["null@l2tp", "salsa2012+umac", "aes128-gcm"]},
    }
    added_bytes = {
        "`null`": "29",
        "`null@l2tp`": "36",
        "all others, `null+...` too": "52",
        '`mode = "tap"`': "14 more",
    }
    signs_of_restart = ("disestablished", "resetting peer", "timed out")
    signs_of_rekey = ("new session with",)
    device = "fastd0"
    needs = (tun_device(), program("fastd", openwrt="fastd"), key_maker("openssl"))

    @property
    def outer(self) -> Outer:
        return Outer("udp", PORT, self.outside.number)

    @property
    def hides_payload(self) -> bool:
        return not self.options.method.startswith("null")

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        frame = inner_packet_bytes + (ETHERNET_HEADER_BYTES if self.options.mode == "tap" else 0)
        head = PLAIN_METHOD_BYTES.get(self.options.method, SEALED_METHOD_BYTES)
        return udp_packet_bytes(head + frame, self.outer.ip_header_bytes)

    def versions(self, end: End) -> Mapping[str, str]:
        return {
            "fastd": version_of(end.host, ["fastd", "--version"], r"fastd v(\S+)"),
            "openssl": openssl_version(end.host),
            "libsodium": library_version(end.host, "fastd", "libsodium"),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the session in the router's log with what was asked for."""
        return (equals("method", self.options.method, parse_method(self.router_daemons[0].output())),)

    def _up(self) -> None:
        secrets = {end.host.name: self._new_secret() for end, _ in self.ends}
        public_keys = {name: self._public_key(secret) for name, secret in secrets.items()}
        # The server starts first, so that the router's first handshake finds it.
        for end, other in reversed(list(self.ends)):
            key = self._write(end, "fastd.key", secret_line(secrets[end.host.name]), secret=True)
            config = self._write(end, "fastd.conf", self._config(end, other, public_keys[other.host.name]))
            daemon = self._start(end, ["fastd", "--log-level", "verbose", "--config", key, "--config", config])
            self._require(daemon, "dropped capabilities")  # its device is there now
            self._address_device(end)
        for daemon in self.daemons:
            self._require(daemon, "new session")

    def _config(self, end: End, other: End, public_key: str) -> str:
        return f"""\
mode {self.options.mode};
interface "{self.device}";
method "{self.options.method}";
mtu {self.options.mtu};
bind {self._outer_socket(end, PORT)};
peer "{other.host.name}" {{
    key "{public_key}";
    remote {self._outer_socket(other, PORT)};
}}
"""

    def _new_secret(self) -> str:
        return self.ends.local.run(["fastd", "--generate-key", "--machine-readable"]).stdout.strip()

    def _public_key(self, secret: str) -> str:
        argv = ["fastd", "--config", "-", "--show-key", "--machine-readable"]
        return self.ends.local.run(argv, stdin=secret_line(secret)).stdout.strip()


def secret_line(secret: str) -> str:
    """Return the line of configuration that is not kept with the results."""
    return f'secret "{secret}";\n'


def parse_method(log: str) -> str:
    """Return the method of the last session in fastd's log, `unknown` if there is none."""
    found = re.findall(r"new session with (?:(?!new session).)* established using method `([^'`\n]+)'", log)
    return found[-1] if found else UNKNOWN
