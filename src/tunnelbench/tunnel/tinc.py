"""tinc 1.0: a mesh, here with two members."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from tunnelbench.host.daemon import Daemon
from tunnelbench.host.parsing import count, parsing, whole
from tunnelbench.model.frames import ethernet_bytes, udp_packet_bytes
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel.base import DeviceMtuOptions, End, Outer, Tunnel, equals
from tunnelbench.tunnel.requirements import key_maker, program, tun_device
from tunnelbench.tunnel.versions import UNKNOWN, openssl_version, version_of

PORT = 655

SEQUENCE_BYTES = 4

MAC_BYTES = 4
"""Length to which the digest is cut: the default of MACLength."""

ZLIB_BEST = 9
"""Highest level of zlib; higher numbers select LZO (tinc.conf(5), Compression)."""

ZLIB_GROWTH_BYTES = 11
"""Bytes that zlib adds to data that do not compress: a header of 2, a stored block's of 5, a checksum of 4 (RFC 1950;
RFC 1951, section 3.2.4)."""

LZO_GROWTH_BYTES = 3 + 2
LZO_RUN_BYTES = 255
"""Bytes that LZO1X adds to data that do not compress: a mark of the end, and the length of the copied run, which takes
a byte and another for each 255 beyond 18."""

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
"""File for OPENSSL_CONF (config(5)). It also names the default provider, because OpenSSL does not load that one if the
file names another."""

MTU_PROBING_LIMIT_S = 40.0
"""Limit for finding the path's MTU [s]. tinc stops after thirty rounds of probes, each a little over a second; with
compression it needs them all."""
FIRST_PROBE_LIMIT_S = 3.0
"""Limit for the first probe to arrive [s]."""


USUAL_KEY_EXPIRE_S = 3600
"""tinc's own KeyExpire [s]."""
KEY_LOOK_INTERVAL_S = 5.0
"""Interval at which tinc looks for expired keys under traffic [s], its PingTimeout (main_loop in net.c of 1.0.36).
Without traffic, it may be a second longer."""


class Options(DeviceMtuOptions):
    """Options of `tinc`; its own defaults (AES-256-CBC, SHA-256) are named, since they have changed over time."""

    ipv4_only_inside = ipv4_only_outside = ""
    rekey_option = "key_expire_s"
    rekey_delay_s = KEY_LOOK_INTERVAL_S

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
        description="0 none, 1 to 9 zlib's levels, 10 and 11 LZO's fast and best; only data with content = repeating "
        "shrink",
    )
    key_expire_s: int | None = Field(
        default=None, ge=1, le=604_800, description="interval between changes of keys [s]; left out: 3600"
    )
    legacy: bool = Field(default=False, description="activate OpenSSL's legacy provider, where OpenSSL 3 keeps bf-cbc")

    @property
    def rekey_interval_s(self) -> float:
        return self.key_expire_s or USUAL_KEY_EXPIRE_S


PLAN_ENTRY = {"name": "tinc AES-128-CBC, SHA-1", "cipher": "aes-128-cbc", "digest": "sha1"}


class Tinc(Tunnel[Options]):
    """Plan entry: `kind = "tinc"`, `cipher = "aes-128-cbc"`, `digest = "sha1"`."""

    kind = "tinc"
    weight = 4
    is_on_virtual_router = True
    title = "tinc 1.0 in user space: router or switch"
    options_type = Options
    tested_with = "tinc 1.0.36 with OpenSSL 3.0"
    plans = {"all": PLAN_ENTRY, "userspace": PLAN_ENTRY}
    added_bytes = {
        "CBC": "28, 4 of the digest, and 18 padded with the packet to the block by at least 1",
        "no cipher": "46, and 4 of the digest",
        "`compression` 1-9, random content": "11 more, inside the cipher",
        "`compression` 10, 11, random content": "5 more, and one for each 255 bytes of the frame, inside the cipher",
    }
    signs_of_restart = ("Closing connection with", "Connection closed by", "didn't respond to PING")
    """Log lines which show that the control connection was cut; without it neither end finds the other one again."""
    signs_of_rekey = ("Expiring symmetric keys",)
    """tinc logs a change of keys from -d2 on; by default, keys change every hour (KeyExpire)."""
    needs = (tun_device(), program("tincd", "tinc", openwrt="tinc"), key_maker("openssl"))

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        return tuple(name for name in (options.cipher, options.digest) if name != "none")

    @property
    def outer(self) -> Outer:
        return Outer("udp", PORT, self.outside.number)

    @property
    def hides_payload(self) -> bool:
        # zlib's output is a stream of bits in which no byte of the packet appears; LZO copies literals.
        return self.options.cipher != "none" or 1 <= self.options.compression <= ZLIB_BEST

    @property
    def is_encrypted(self) -> bool:
        return self.options.cipher != "none"

    @property
    def compresses(self) -> bool:
        return self.options.compression > 0

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        """Return the length; with compression, that of content of 300 bytes or more that does not compress."""
        # The packet keeps the Ethernet header that it has inside tinc in router mode, too (net_packet.c: a VPN packet
        # begins with it in protocol 17).
        frame = ethernet_bytes(inner_packet_bytes)
        if self.options.compression > ZLIB_BEST:
            frame += LZO_GROWTH_BYTES + max(0, frame - 19) // LZO_RUN_BYTES
        elif self.compresses:
            frame += ZLIB_GROWTH_BYTES
        plain = SEQUENCE_BYTES + frame
        block = CIPHER_BLOCK_BYTES[self.options.cipher]
        sealed = (plain // block + 1) * block if block else plain
        mac = 0 if self.options.digest == "none" else MAC_BYTES
        return udp_packet_bytes(sealed + mac, self.outer.ip_header_bytes)

    def versions(self, end: End) -> Mapping[str, str]:
        return {
            "tinc": version_of(end.host, ["tincd", "--version"], r"tinc version (\S+)"),
            "openssl": openssl_version(end.host),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """Compare tinc's list of nodes with what was asked for."""
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
        """Wait until both daemons have found the path's MTU; until then they send larger packets by TCP.

        tinc probes three random sizes a second, for some seconds. If the probes do not arrive or do not end, the wait
        ends; the proof of the tunnel then detects the protocol that carries the data.
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
        """Return the list of nodes that tinc prints on SIGUSR2."""
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
            self._require(daemon, "Ready")
            self._address_device(end)
        self._require(self.router_daemons[0], "activated")

    def _config(self, end: End, other: End) -> str:
        is_switch = self.options.mode == "switch"
        lines = [
            f"Name = {end.host.name}",
            f"Interface = {self.device}",
            "DeviceType = " + ("tap" if is_switch else "tun"),
            f"Mode = {self.options.mode}",
            f"AddressFamily = {self.outside}",
            f"BindToAddress = {self._outer_address(end)}",
        ]
        if self.options.key_expire_s is not None:
            lines.append(f"KeyExpire = {self.options.key_expire_s}")
        if end is self.ends.router:
            lines.append(f"ConnectTo = {other.host.name}")
        return "\n".join(lines) + "\n"

    def _host_file(self, end: End, public_key: str) -> str:
        """Return the host file of this end, which both ends have; tinc sends to a node with the settings of the node's
        file."""
        (other,) = (other for one, other in self.ends if one is end)
        lines = [
            f"Address = {self._outer_address(end)}",
            f"Port = {PORT}",
            f"Cipher = {self.options.cipher}",
            f"Digest = {self.options.digest}",
            f"Compression = {self.options.compression}",
        ]
        if self.options.mode == "router":
            own = f"{end.inner_address6}/128" if self.inside is IpVersion.IPV6 else f"{end.inner_address}/32"
            lines += [f"Subnet = {own}", f"Subnet = {other.reached(self.inside)}"]
        return "\n".join(lines) + "\n" + public_key


@dataclass(frozen=True)
class Node:
    """Another node in tinc's list."""

    cipher: str
    digest: str
    minimum_mtu_bytes: int
    maximum_mtu_bytes: int
    compression: int = -1
    """Level of compression of data sent to it; -1: unknown."""

    @property
    def mtu_is_known(self) -> bool:
        return 0 < self.maximum_mtu_bytes <= self.minimum_mtu_bytes


@parsing("tinc's list of nodes")
def parse_node(listing: str, name: str) -> Node:
    """Return a node of tinc 1.0's list; cipher and digest are `unknown` if it is not listed.

    A line looks like ` server at 198.18.2.2 port 655 cipher 419 digest 64 maclength 4 compression 0 options c status
    001a nexthop server via server pmtu 1443 (min 1443 max 1443)`.
    """
    match = re.search(
        rf"^.*?\b{re.escape(name)} at .* cipher (-?\d+) digest (-?\d+) .*compression (\d+) .*\(min (\d+) max (\d+)\)",
        listing,
        re.MULTILINE,
    )
    if not match:
        return Node(UNKNOWN, UNKNOWN, 0, 0)
    names = {number: name for name, number in OPENSSL_NIDS.items()}
    cipher, digest = (names.get(whole(number), f"OpenSSL NID {number}") for number in match.group(1, 2))
    return Node(cipher, digest, count(match[4]), count(match[5]), count(match[3]))
