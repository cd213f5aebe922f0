"""Base of both kinds of IPsec by strongSwan: IKEv2 with a key that both ends know, and one proposal for ESP.

In one kind charon itself makes the ESP packets, in the other the kernel.
"""

from __future__ import annotations

import re
import secrets
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from pydantic import Field

from tunnelbench.host.command import DEFAULT_TIMEOUT_S, CommandFailed
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.frames import AEAD_TAG_BYTES, UDP_HEADER_BYTES
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import DeviceMtuOptions, End, Outer, Tunnel, equals
from tunnelbench.tunnel.private_run import FOLDER, private_run, private_run_programs
from tunnelbench.tunnel.requirements import key_maker, path, program
from tunnelbench.tunnel.versions import UNKNOWN, openssl_version, version_of

PORT = 4500
"""Port of ESP in UDP (RFC 3948)."""

CHARON = "/usr/lib/ipsec/charon"
CHARON_PLUGINS = "/usr/lib/ipsec/plugins"
OPENWRT_CHARON = (
    "strongswan-charon strongswan-mod-kdf strongswan-mod-kernel-netlink strongswan-mod-random "
    "strongswan-mod-socket-default strongswan-mod-vici"
)

ESP_HEADER_BYTES = 8
"""Length of SPI and sequence number (RFC 4303)."""

PADDING_TRAILER_BYTES = 2
"""Bytes of padding length and next header."""

ESP_ALIGNMENT_BYTES = 4

AEAD_IV_BYTES = 8
"""Length of the IV in each packet (RFC 4106 for GCM, RFC 7634 for ChaCha20-Poly1305)."""

CBC_BLOCK_BYTES = 16

CHECK_VALUE_BYTES = {"sha1": 12, "sha256": 16, "sha512": 32}
"""Length to which digests are cut (RFC 2404, RFC 4868)."""

PROPOSALS = {
    "aes-128-gcm": "aes128gcm16", "aes-256-gcm": "aes256gcm16", "chacha20-poly1305": "chacha20poly1305",
    "aes-128-cbc": "aes128", "aes-256-cbc": "aes256", "none": "null",
}  # fmt: skip
"""Names of the ciphers in swanctl.conf."""

CHARON_CIPHER_NAMES = {
    "aes-128-gcm": "AES_GCM_16-128", "aes-256-gcm": "AES_GCM_16-256", "chacha20-poly1305": "CHACHA20_POLY1305",
    "aes-128-cbc": "AES_CBC-128", "aes-256-cbc": "AES_CBC-256", "none": "NULL",
}  # fmt: skip
CHARON_DIGEST_NAMES = {"sha1": "HMAC_SHA1_96", "sha256": "HMAC_SHA2_256_128", "sha512": "HMAC_SHA2_512_256"}
"""Names of ciphers and digests in charon's list of security associations."""


CHARONS_TABLE = "220"
"""Table of charon's routes, and the priority of its rule (charon.routing_table, charon.routing_table_prio)."""

INITIATE_LIMIT_S = 40.0
"""Time limit for the first security association [s]: the kernel loads and tests its ciphers for it, which takes 15 s in
an emulated guest."""


class EspOptions(DeviceMtuOptions):
    """Cipher and digest of ESP."""

    ipv4_only_inside = ipv4_only_outside = ""

    cipher: Literal["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "aes-128-cbc", "aes-256-cbc", "none"] = Field(
        default="aes-128-gcm", description="cipher of ESP"
    )
    digest: Literal["sha1", "sha256", "sha512"] = Field(
        default="sha256", description="digest of ESP; GCM and Poly1305 need none"
    )

    @property
    def is_aead(self) -> bool:
        """True if the cipher also authenticates."""
        return self.cipher.endswith(("-gcm", "-poly1305"))


EspOptionsT = TypeVar("EspOptionsT", bound=EspOptions)


ONLY_CONNECTION = "tunnel"
"""Name of the only connection of a tunnel with two fixed ends."""


@dataclass(frozen=True)
class IkeConnection:
    """A connection of one end in swanctl.conf: an association of IKE, with one of ESP of the same name."""

    name: str
    local_id: str
    remote_id: str
    local_networks: str
    """Addresses and networks of this side of the tunnel, as swanctl.conf lists them (traffic selectors)."""
    remote_networks: str
    if_id: int = 0
    """Number of the xfrm device to which the associations of ESP belong; 0: none."""


class StrongSwan(Tunnel[EspOptionsT]):
    """A tunnel that two charon daemons negotiate."""

    signs_of_restart = ("deleting IKE_SA", "initiating IKE_SA", "giving up after", "retransmit ")
    device = "ipsec0"
    needs = (
        path("charon", CHARON, "strongswan-charon", openwrt=OPENWRT_CHARON),
        path(
            "charon's OpenSSL",
            f"{CHARON_PLUGINS}/libstrongswan-openssl.so",
            "libstrongswan-standard-plugins",
            openwrt="strongswan-mod-openssl",
        ),
        program("swanctl", "strongswan-swanctl", openwrt="strongswan-swanctl"),
        key_maker("openssl"),
        *private_run_programs(),
    )

    plugins: ClassVar[str]
    """Plugins of charon, in addition to those that both kinds need."""
    settings: ClassVar[str] = ""
    """Additional lines of charon's section of strongswan.conf."""

    @property
    @abstractmethod
    def in_udp(self) -> bool:
        """True if ESP travels in UDP."""

    @property
    def outer(self) -> Outer:
        return Outer("udp" if self.in_udp else "esp", PORT if self.in_udp else None, self.outside.number)

    @property
    def hides_payload(self) -> bool:
        return self.options.cipher != "none"

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        options = self.options
        is_cbc = options.cipher.endswith("-cbc")
        block = CBC_BLOCK_BYTES if is_cbc else ESP_ALIGNMENT_BYTES
        padded = -(-(inner_packet_bytes + PADDING_TRAILER_BYTES) // block) * block
        if options.is_aead:
            around = AEAD_IV_BYTES + AEAD_TAG_BYTES
        else:
            around = (CBC_BLOCK_BYTES if is_cbc else 0) + CHECK_VALUE_BYTES[options.digest]
        udp_bytes = UDP_HEADER_BYTES if self.in_udp else 0
        return self.outer.ip_header_bytes + udp_bytes + ESP_HEADER_BYTES + around + padded

    def versions(self, end: End) -> Mapping[str, str]:
        return {
            "strongswan": version_of(end.host, [CHARON, "--version"], r"strongSwan (\S+)"),
            "openssl": openssl_version(end.host),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the associations in charon's list on the router with what was asked for."""
        asked = CHARON_CIPHER_NAMES[self.options.cipher]
        if not self.options.is_aead:
            asked += f"/{CHARON_DIGEST_NAMES[self.options.digest]}"
        listings = [self._swanctl(self.ends.router, "--list-sas", "--ike", name) for name in self._initiated()]
        return tuple(equals("esp", asked, parse_esp(listing, in_udp=self.in_udp)) for listing in listings)

    def _prepare_end(self, end: End) -> None:
        """Make what charon needs at one end before it loads the connection."""

    def _connections(self, end: End, other: End) -> Iterable[IkeConnection]:
        """Return the connections of one end: one, with the networks that the two ends reach."""
        here, there = other.reached(self.inside), end.reached(self.inside)
        return (IkeConnection(ONLY_CONNECTION, end.host.name, other.host.name, here, there),)

    def _initiated(self) -> Iterable[str]:
        """Return the names of the connections that are established while the tunnel comes up."""
        return (ONLY_CONNECTION,)

    def _up(self) -> None:
        shared = secrets.token_hex(32)
        for end, other in reversed(list(self.ends)):
            self._prepare_end(end)
            self._write(end, f"{FOLDER}/strongswan.conf", strongswan_conf(end, self.plugins, self.settings))
            key = self._write(end, "secrets.key", secrets_text(shared), secret=True)
            text = "".join(self._connection_text(each, end, other) for each in self._connections(end, other))
            connections = self._write(end, "swanctl.conf", f"connections {{\n{text}}}\n")
            # swanctl loads plugins of charon's build, not those that it would look for.
            self._write(end, "swanctl-program.conf", "swanctl {\n    load = random openssl\n}\n")
            self._remove_rule_at_exit(end)
            enter = private_run(end, self._stack)
            charon = [*enter, "env", "STRONGSWAN_CONF=/run/strongswan.conf", CHARON]
            self._require(self._start(end, charon, name="charon"), "worker threads")
            self._swanctl(end, "--load-creds", "--file", key)
            self._swanctl(end, "--load-conns", "--file", connections)
            self._address_device(end)
            if self.inside is IpVersion.IPV6:
                self._address_inside(end)  # charon itself may add a route through the device
        for name in self._initiated():
            self._initiate(name)

    def _initiate(self, name: str, limit_s: float = INITIATE_LIMIT_S) -> None:
        """Establish a connection from the end `router`. Raises TunnelRefused if that fails."""
        try:
            self._swanctl(self.ends.router, "--initiate", "--child", name, "--timeout", f"{limit_s:.0f}")
        except CommandFailed:
            raise TunnelRefused(f"{self.kind}: no association; last: {self.router_daemons[0].last_line()}") from None

    def _remove_rule_at_exit(self, end: End) -> None:
        """Remove charon's routing rule when the tunnel goes down, because a charon that is killed leaves it.

        If the rule stayed, the kernel would check it for each packet of the next tunnels. A rule that was there before
        belongs to another charon.
        """
        for family in ("-4", "-6") if IpVersion.IPV6 in {self.inside, self.outside} else ("-4",):
            if f"lookup {CHARONS_TABLE}" not in end.host.run(["ip", family, "rule", "show"], check=False).stdout:
                words = ["pref", CHARONS_TABLE, "table", CHARONS_TABLE]
                self._stack.callback(end.host.run, ["ip", family, "rule", "del", *words], check=False)

    def _swanctl(self, end: End, *arguments: str) -> str:
        settings = f"STRONGSWAN_CONF={end.host.folder / 'swanctl-program.conf'}"
        socket = f"unix://{end.host.folder / FOLDER / 'charon.vici'}"
        argv = ["env", settings, "swanctl", *arguments, "--uri", socket]
        return end.host.run(argv, timeout_s=INITIATE_LIMIT_S + DEFAULT_TIMEOUT_S).stdout

    def _connection_text(self, connection: IkeConnection, end: End, other: End) -> str:
        """Return the section of a connection of one end in swanctl.conf."""
        proposal = PROPOSALS[self.options.cipher] + ("" if self.options.is_aead else f"-{self.options.digest}")
        # Each end has one proposal, so that there is nothing to fall back to, and no new keys in mid-trial.
        if_id = connection.if_id
        own_device = f"                if_id_in = {if_id}\n                if_id_out = {if_id}\n" if if_id else ""
        return f"""\
    {connection.name} {{
        version = 2
        local_addrs = {self._outer_address(end)}
        remote_addrs = {self._outer_address(other)}
        proposals = aes256-sha256-ecp256
        encap = {"yes" if self.in_udp else "no"}
        mobike = no
        rekey_time = 0
        local {{
            auth = psk
            id = {connection.local_id}
        }}
        remote {{
            auth = psk
            id = {connection.remote_id}
        }}
        children {{
            {connection.name} {{
                local_ts = {connection.local_networks}
                remote_ts = {connection.remote_networks}
                esp_proposals = {proposal}
                rekey_time = 0
{own_device}            }}
        }}
    }}
"""


def strongswan_conf(end: End, plugins: str, settings: str) -> str:
    """Return charon's settings. It uses only the WAN's device, and logs to stderr, because it does not flush stdout."""
    return f"""\
charon {{
    load = random nonce openssl kdf {plugins} socket-default vici
    interfaces_use = {end.wan_device}
{settings}    filelog {{
        stderr {{
            default = 1
            ike_name = yes
        }}
    }}
    plugins {{
        vici {{
            socket = unix:///run/charon.vici
        }}
    }}
}}
"""


def secrets_text(shared: str) -> str:
    """Return the key that both ends know, as a file of swanctl."""
    return f'secrets {{\n    ike-tunnel {{\n        secret = "{shared}"\n    }}\n}}\n'


def parse_esp(listing: str, *, in_udp: bool) -> str:
    """Return cipher and digest of the installed association by `swanctl --list-sas`, `unknown` if there is none."""
    mode = "TUNNEL-in-UDP" if in_udp else "TUNNEL"
    found = re.findall(rf"INSTALLED, {mode}, ESP:(\S+)", listing)
    return found[-1] if found else UNKNOWN
