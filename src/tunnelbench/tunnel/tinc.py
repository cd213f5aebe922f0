"""tinc 1.0: a mesh of two."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from tunnelbench.host.command import Daemon
from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel.base import (
    ETHERNET_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    START_LIMIT_S,
    UDP_HEADER_BYTES,
    End,
    Outer,
    Requirement,
    Tunnel,
    TunnelOptions,
    equals,
    key_maker,
    program,
    tun_device,
)
from tunnelbench.tunnel.versions import openssl_version, version_of

PORT = 655

SEQUENCE_BYTES = 4

MAC_BYTES = 4
"""MACLength's default: the digest is cut to so many bytes."""

ZLIB_BEST = 9
"""The highest of zlib's levels; tinc takes the numbers above it for LZO (tinc.conf(5), Compression)."""

ZLIB_GROWTH_BYTES = 11
"""Of what does not compress: a header of 2, a stored block's of 5, a checksum of 4 (RFC 1950; RFC 1951, 3.2.4)."""

LZO_GROWTH_BYTES = 3 + 2
LZO_RUN_BYTES = 255
"""LZO1X where it finds nothing to shorten: a mark of the end, and the length of what is copied, which takes a byte and
another for each 255 that go beyond 18."""

CIPHER_BLOCK_BYTES = {
    "aes-128-cbc": 16, "aes-192-cbc": 16, "aes-256-cbc": 16,
    "camellia-128-cbc": 16, "camellia-256-cbc": 16,
    "bf-cbc": 8, "des-ede3-cbc": 8,
    "none": 0,
}  # fmt: skip

OPENSSL_NIDS = {
    # openssl/obj_mac.h; tinc prints these numbers in its list of nodes
    "none": 0, "sha1": 64, "sha256": 672, "sha512": 674, "md5": 4,
    "bf-cbc": 91, "des-ede3-cbc": 44, "aes-128-cbc": 419, "aes-192-cbc": 423, "aes-256-cbc": 427,
    "camellia-128-cbc": 751, "camellia-256-cbc": 753,
}  # fmt: skip


LEGACY_CONF = """\
openssl_conf = settings
[settings]
providers = providers
[providers]
default = active
legacy = active
[active]
activate = 1
"""
"""For OPENSSL_CONF (config(5)); the default provider must be named, too, once another is."""

MTU_PROBING_LIMIT_S = 40.0
"""tinc takes what it has after thirty rounds of probes, of some more than a second; with compression it needs them."""
FIRST_PROBE_LIMIT_S = 3.0
"""For the first probe that arrives."""


class Options(TunnelOptions):
    """Options of `tinc`; its own defaults (AES-256-CBC, SHA-256) are named, since they have changed over time."""

    cipher: Literal[
        "aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "camellia-128-cbc", "camellia-256-cbc",
        "bf-cbc", "des-ede3-cbc", "none",
    ] = Field(default="aes-256-cbc", description="cipher of the UDP packets")  # fmt: skip
    digest: Literal["sha1", "sha256", "sha512", "md5", "none"] = Field(
        default="sha256", description="digest of the UDP packets"
    )
    mode: Literal["router", "switch"] = Field(default="router", description="IP packets, or Ethernet frames")
    compression: int = Field(
        default=0,
        ge=0,
        le=11,
        description="0 none, 1 to 9 zlib's levels, 10 and 11 LZO's fast and best; the traffic of a trial is random and "
        "does not shrink: this measures what trying costs",
    )
    legacy: bool = Field(default=False, description="activate OpenSSL's legacy provider, where OpenSSL 3 keeps bf-cbc")


class Tinc(Tunnel[Options]):
    """Plan entry: `kind = "tinc"`, `cipher = "aes-128-cbc"`, `digest = "sha1"`."""

    kind = "tinc"
    title = "tinc 1.0 in user space: router or switch"
    options_type = Options
    tested_with = "tinc 1.0.36 with OpenSSL 3.0"
    signs_of_rekey = ("Expiring symmetric keys",)
    """Told from -d2 on; KeyExpire's default is an hour."""

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return (tun_device(), program("tincd", "tinc"), key_maker("openssl"))

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        return tuple(name for name in (options.cipher, options.digest) if name != "none")

    @property
    def outer(self) -> Outer:
        return Outer("udp", PORT)

    @property
    def hides_payload(self) -> bool:
        # What zlib makes of a packet is bits, of which no byte is one of the packet's; LZO copies literals.
        return self.options.cipher != "none" or 1 <= self.options.compression <= ZLIB_BEST

    @property
    def compresses(self) -> bool:
        return self.options.compression > 0

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        """With compression, of content that does not compress, from some 300 bytes on."""
        # In router mode, too, the packet keeps the Ethernet header that it has inside tinc (net_packet.c: a VPN packet
        # begins with it in protocol 17).
        frame = ETHERNET_HEADER_BYTES + inner_packet_bytes
        if self.options.compression > ZLIB_BEST:
            frame += LZO_GROWTH_BYTES + max(0, frame - 19) // LZO_RUN_BYTES
        elif self.compresses:
            frame += ZLIB_GROWTH_BYTES
        plain = SEQUENCE_BYTES + frame
        block = CIPHER_BLOCK_BYTES[self.options.cipher]
        sealed = (plain // block + 1) * block if block else plain
        mac = 0 if self.options.digest == "none" else MAC_BYTES
        return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + sealed + mac

    def versions(self, end: End) -> Mapping[str, str]:
        return {
            "tinc": version_of(end.host, ["tincd", "--version"], r"tinc version (\S+)"),
            "openssl": openssl_version(end.host),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """What tinc's list of nodes says of the peer."""
        router = self.router_daemons[0]
        node = parse_node(self._nodes(router), self.ends.server.host.name)
        checks = [
            equals("cipher", self.options.cipher, node.cipher),
            equals("digest", self.options.digest, node.digest),
            equals("compression", str(self.options.compression), str(node.compression)),
        ]
        # The list names what was asked for even where the library has refused it.
        if refusal := re.search(r"Error during initiali[sz]ation of key.*", router.output()):
            checks.append(Check("keys", Verdict.VOID, f"tinc says: {refusal[0]}", rule=3))
        return tuple(checks)

    def settle(self) -> None:
        """Wait until both daemons have found the path's MTU: until then they send what is larger than proven by TCP.

        They probe three random sizes a second, which takes some seconds. One whose probes do not arrive at all, or
        that finds no end, is left to the proof, which sees on what way its data go.
        """
        started_s = time.monotonic()
        watched = (
            (self.router_daemons[0], self.ends.server.host.name),
            (self.server_daemons[0], self.ends.router.host.name),
        )
        for daemon, peer in watched:
            while not (node := parse_node(self._nodes(daemon), peer)).mtu_is_known:
                limit_s = MTU_PROBING_LIMIT_S if node.minimum_mtu_bytes else FIRST_PROBE_LIMIT_S
                if time.monotonic() - started_s > limit_s:
                    break
                time.sleep(0.1)

    def _nodes(self, daemon: Daemon) -> str:
        """The list of nodes that tinc prints on SIGUSR2."""
        seen = len(daemon.output())
        daemon.signal(signal.SIGUSR2)
        deadline = time.monotonic() + 2
        while "End of nodes." not in (listing := daemon.output()[seen:]) and time.monotonic() < deadline:
            time.sleep(0.01)
        return listing

    def _up(self) -> None:
        hosts = {}
        for end, _ in self.ends:
            private_key = self.ends.local.run(["openssl", "genrsa", "-traditional", "2048"]).stdout
            self._write(end, "tinc/rsa_key.priv", private_key, secret=True)
            public_key = self.ends.local.run(["openssl", "rsa", "-RSAPublicKey_out"], stdin=private_key).stdout
            hosts[end.host.name] = self._host_file(end, public_key)
        for end, other in reversed(list(self.ends)):
            for name, text in hosts.items():
                self._write(end, f"tinc/hosts/{name}", text)
            config = self._write(end, "tinc/tinc.conf", self._config(end, other))
            folder = config.removesuffix("/tinc.conf")
            argv = ["tincd", "-c", folder, f"--pidfile={folder}/pid", "-D", "-d2"]
            if self.options.legacy:
                argv = ["env", "OPENSSL_CONF=" + self._write(end, "openssl.cnf", LEGACY_CONF), *argv]
            daemon = self._start(end, argv, name="tincd")
            self._require(daemon, "Ready", timeout_s=START_LIMIT_S)
            self._address_device(end)
        self._require(self.router_daemons[0], "activated", timeout_s=START_LIMIT_S)

    def _config(self, end: End, other: End) -> str:
        is_switch = self.options.mode == "switch"
        lines = [
            f"Name = {end.host.name}",
            f"Interface = {self.device}",
            "DeviceType = " + ("tap" if is_switch else "tun"),
            f"Mode = {self.options.mode}",
            "AddressFamily = ipv4",
            f"BindToAddress = {end.wan_address}",
        ]
        if end is self.ends.router:
            lines.append(f"ConnectTo = {other.host.name}")
        return "\n".join(lines) + "\n"

    def _host_file(self, end: End, public_key: str) -> str:
        """What both ends know of this one; tinc sends to a node as the node's own file asks."""
        (other,) = (other for one, other in self.ends if one is end)
        lines = [
            f"Address = {end.wan_address}",
            f"Port = {PORT}",
            f"Cipher = {self.options.cipher}",
            f"Digest = {self.options.digest}",
            f"Compression = {self.options.compression}",
        ]
        if self.options.mode == "router":
            lines += [f"Subnet = {end.inner_address}/32", f"Subnet = {other.reaches}"]
        return "\n".join(lines) + "\n" + public_key


@dataclass(frozen=True)
class Node:
    """What tinc says of another node."""

    cipher: str
    digest: str
    minimum_mtu_bytes: int
    maximum_mtu_bytes: int
    compression: int = -1
    """Of what is sent to it; -1: not told."""

    @property
    def mtu_is_known(self) -> bool:
        return 0 < self.maximum_mtu_bytes <= self.minimum_mtu_bytes


def parse_node(listing: str, name: str) -> Node:
    """A node in tinc 1.0's list of nodes; cipher and digest are `unknown` where it is not listed.

    A line: ` server at 198.18.2.2 port 655 cipher 419 digest 64 maclength 4 compression 0 options c status 001a
    nexthop server via server pmtu 1443 (min 1443 max 1443)`
    """
    match = re.search(
        rf"^.*?\b{re.escape(name)} at .* cipher (-?\d+) digest (-?\d+) .*compression (\d+) .*\(min (\d+) max (\d+)\)",
        listing,
        re.MULTILINE,
    )
    if not match:
        return Node("unknown", "unknown", 0, 0)
    names = {number: name for name, number in OPENSSL_NIDS.items()}
    cipher, digest = (names.get(int(number), f"OpenSSL NID {number}") for number in match.group(1, 2))
    return Node(cipher, digest, int(match[4]), int(match[5]), int(match[3]))
