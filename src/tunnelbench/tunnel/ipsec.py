"""IPsec of the kernel: its ESP behind a device of its own (xfrm interface), keys from strongSwan by IKEv2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain

from pydantic import Field

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.host import Host
from tunnelbench.host.parsing import count, parsing
from tunnelbench.model.frames import ETHERNET_MTU_BYTES
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import PROGRAM_START_LIMIT_S, End, equals, is_so
from tunnelbench.tunnel.clients import ServerOptions, ServerTunnel
from tunnelbench.tunnel.requirements import Requirement, kernel_feature, link_type
from tunnelbench.tunnel.strongswan import EspOptions, IkeConnection, StrongSwan
from tunnelbench.tunnel.versions import UNKNOWN, kernel_version

IF_ID = 42
"""Number (if_id) by which the kernel assigns IPsec policies and security associations to the tunnel's xfrm device; the
devices of further clients have the next numbers."""

CLIENT_IN_LOG = re.compile(r"\bclient(\d{1,4})[|\[]")
"""Name of a client's connection in charon's log, before the number of the association."""

REPEATED_REQUEST = "received retransmit of request"
"""Part of the line of charon at the server if a client that it does not know yet has repeated its first packet."""

TERMINATE_LIMIT_S = "5"
"""Longest wait of swanctl for the answer to the end of an association [s]; it is deleted in any case."""

MTUS_BYTES = range(100, 100_000)
"""MTUs of a cable that are believed [bytes]: a router may print anything."""

KERNEL_CIPHER_NAMES = {
    "aes-128-gcm": "rfc4106(gcm(aes))", "aes-256-gcm": "rfc4106(gcm(aes))",
    "chacha20-poly1305": "rfc7539esp(chacha20,poly1305)",
    "aes-128-cbc": "cbc(aes)", "aes-256-cbc": "cbc(aes)", "none": "ecb(cipher_null)",
}  # fmt: skip
KERNEL_DIGEST_NAMES = {"sha1": "hmac(sha1)", "sha256": "hmac(sha256)", "sha512": "hmac(sha512)"}
"""Names of the ciphers and digests in the kernel."""


class Options(EspOptions, ServerOptions):
    udp: bool = Field(default=False, description="ESP in UDP, as behind a NAT, instead of straight in IP")


def has_esp(host: Host, source: str = "127.0.0.1", destination: str = "127.0.0.2") -> bool:
    """Return True if the kernel accepts an association that has neither cipher nor key; the test may load modules."""
    ends = ["dst", destination, "proto", "esp", "spi", "0x101"]
    null = ["auth", "digest_null", "", "enc", "cipher_null", ""]
    added = ["ip", "xfrm", "state", "add", "src", source, *ends, "mode", "tunnel", *null]
    if host.run(added, check=False).returncode != 0:
        return False
    host.run(["ip", "xfrm", "state", "delete", *ends], check=False)
    return True


def has_esp_over_ipv6(host: Host) -> bool:
    """Return True if the kernel accepts such an association between IPv6 addresses."""
    return has_esp(host, "::1", "::2")


ESP_OVER_IPV6 = kernel_feature("ESP over IPv6", has_esp_over_ipv6, "esp6", openwrt="kmod-ipsec6")


class Ipsec(StrongSwan[Options], ServerTunnel[Options]):
    """Plan entry: `kind = "ipsec"`, `cipher = "aes-128-cbc"`, `digest = "sha1"`, `udp = true`.

    IKEv2 with a key that both ends know; ESP of the kernel in tunnel mode, routed through an xfrm interface. Its MTU
    is the largest whose packets fit the MTU of the WAN, unless the plan sets another. With several clients, one charon
    and one device at each end serve all of them, but each client has a device of its own at its end.
    """

    kind = "ipsec"
    title = "IPsec of the kernel: ESP, keys by strongSwan"
    options_type = Options
    tested_with = "strongSwan 5.9.8, Linux 6.1 (Debian 12)"
    plans = {"all": {"name": "IPsec {cipher}", "cipher": ["aes-128-gcm", "chacha20-poly1305"]}}
    added_bytes = {"": "8 less than `ipsec-userspace`", "`udp`": "the same as `ipsec-userspace`"}
    plugins = "kernel-netlink"
    settings = "    install_routes = no\n    dos_protection = no\n"  # it slows down several clients of one address
    needs = (
        link_type("xfrm", "xfrm_interface", "if_id", "1", openwrt="kmod-xfrm-interface ip-full"),
        kernel_feature("ESP", has_esp, "esp4", openwrt="kmod-ipsec4"),
        *StrongSwan.needs,
    )

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return (*cls.needs, ESP_OVER_IPV6) if options.outside is IpVersion.IPV6 else cls.needs

    @property
    def in_udp(self) -> bool:
        return self.options.udp

    def versions(self, end: End) -> Mapping[str, str]:
        return {**kernel_version(end.host), **super().versions(end)}

    def negotiated(self) -> tuple[Check, ...]:
        """Compare charon's account and the kernel's associations with what was asked for.

        Only charon reports the length of the key: the kernel is asked for everything but keys.
        """
        shown = self.ends.router.host.ip("-s", "xfrm", "state", "list", "nokeys").stdout
        states = parse_states(shown)
        checks = (self._kernel_checks(states, IF_ID + number) for number in range(self.options.clients or 1))
        return (*super().negotiated(), *chain.from_iterable(checks))

    def _kernel_checks(self, states: list[State], if_id: int = IF_ID) -> tuple[Check, ...]:
        """Return the checks of the two associations that belong to a device of the end `router`."""
        options = self.options
        asked = KERNEL_CIPHER_NAMES[options.cipher] + (
            "" if options.is_aead else f" {KERNEL_DIGEST_NAMES[options.digest]}"
        )
        checks = []
        ways = (("out", self._outer_address(self.ends.server)), ("in", self._outer_address(self.ends.router)))
        for way, destination in ways:
            own = (each for each in states if each.destination == destination and each.if_id == if_id)
            state = next(own, NO_STATE)
            checks += [
                equals(f"kernel-esp-{way}", asked, state.algorithms),
                equals(f"kernel-encapsulation-{way}", "udp" if options.udp else "none", state.encapsulation),
                is_so(
                    f"kernel-packets-{way}",
                    state.packets > 0,
                    f"{state.packets} packets went {way} by the kernel's association",
                ),
            ]
        return tuple(checks)

    def devices_at(self, end: End) -> tuple[str, ...]:
        return tuple(map(device_of, range((self.options.clients or 1) if end is self.ends.router else 1)))

    def restart_since(self, sizes: tuple[int, ...]) -> str:
        """Return the first sign of a restart, as other kinds do, without those of the clients that come and go."""
        counted = self.options.clients or 1
        for line in self._said_since(self.daemons, sizes, self.signs_of_restart):
            client = CLIENT_IN_LOG.search(line)
            is_of_nobody = client is None and self.options.handshakes and REPEATED_REQUEST in line
            if not is_of_nobody and (client is None or int(client[1]) < counted):
                return line
        return ""

    @contextmanager
    def joined(self, number: int) -> Iterator[str]:
        name = client_name(number)
        try:
            self._initiate(name, PROGRAM_START_LIMIT_S)
            yield device_of(number)
        finally:
            with suppress(CommandFailed):  # there is no association
                self._swanctl(self.ends.router, "--terminate", "--ike", name, "--force", "--timeout", TERMINATE_LIMIT_S)

    def _prepare_end(self, end: End) -> None:
        """Make the devices. Those of clients get their addresses, too."""
        shown_bytes = end.host.device_mtu_bytes(end.wan_device)
        wan_mtu_bytes = shown_bytes if shown_bytes and shown_bytes in MTUS_BYTES else ETHERNET_MTU_BYTES
        mtu = max(inner for inner in range(wan_mtu_bytes) if self.outer_packet_bytes(inner) <= wan_mtu_bytes)
        for number in range((self.options.all_clients or 1) if end is self.ends.router else 1):
            device = device_of(number)
            self._add_device(end, "type", "xfrm", "dev", end.wan_device, "if_id", str(IF_ID + number), device=device)
            end.host.ip("link", "set", device, "mtu", str(self.options.mtu or mtu))
            if number:
                end.host.ip("addr", "add", f"{self.inner_address_of(number)}/24", "dev", device)
                end.host.ip("link", "set", device, "up")
            if device not in self.devices_at(end):
                self.ends.prepare_device(end.host, device)

    def _connections(self, end: End, other: End) -> Iterable[IkeConnection]:
        if not self.options.clients:
            return tuple(replace(each, if_id=IF_ID) for each in super()._connections(end, other))
        return tuple(self._connection_of(number, end) for number in range(self.options.all_clients))

    def _connection_of(self, number: int, end: End) -> IkeConnection:
        """Return a client's connection, as it is at one end. The client's pings go to the server's inner address."""
        caller, called = self.ends.router, self.ends.server
        client = f"{self.traffic_address_of(number)}/32, {self.inner_address_of(number)}/32"
        server = f"{caller.reaches}, {called.inner_address}/32"
        name = client_name(number)
        if end is caller:
            return IkeConnection(name, name, called.host.name, client, server, IF_ID + number)
        return IkeConnection(name, called.host.name, name, server, client, IF_ID)

    def _initiated(self) -> Iterable[str]:
        return tuple(map(client_name, range(self.options.clients))) if self.options.clients else super()._initiated()


def device_of(number: int) -> str:
    """Return the name of the device of a client, counted from 0; the first is that of a tunnel without clients."""
    return f"ipsec{number}"


def client_name(number: int) -> str:
    """Return the name and the identity of a client, counted from 0, and of its connection."""
    return f"client{number}"


@dataclass(frozen=True)
class State:
    """A security association of the kernel."""

    destination: str
    algorithms: str
    """Algorithms of ESP, the cipher first."""
    encapsulation: str
    """`udp` or `none`."""
    packets: int
    if_id: int


NO_STATE = State("", UNKNOWN, UNKNOWN, 0, 0)


@parsing("the list of `ip xfrm state`")
def parse_states(shown: str) -> list[State]:
    """Return the associations in the output of `ip -s xfrm state list nokeys`."""
    states = []
    for block in re.split(r"^(?=src )", shown, flags=re.MULTILINE):
        if head := re.match(r"src \S+ dst (\S+)\n\s+proto esp ", block):
            cipher = re.findall(r"^[ \t]+(?:aead|enc) (\S+)", block, re.MULTILINE)
            digest = re.findall(r"^[ \t]+auth(?:-trunc)? (\S+)", block, re.MULTILINE)
            if_id = re.search(r"^\tif_id 0x([0-9a-f]{1,8})$", block, re.MULTILINE)
            packets = re.search(r"lifetime current:\s+\d+\(bytes\), (\d+)\(packets\)", block)
            states.append(
                State(
                    head[1],
                    " ".join(cipher + digest) or UNKNOWN,
                    "udp" if "encap type espinudp " in block else "none",
                    count(packets[1]) if packets else 0,
                    int(if_id[1], 16) if if_id else 0,
                )
            )
    return states
