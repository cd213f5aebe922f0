"""L2TPv3 (RFC 3931) of the kernel: Ethernet in UDP or straight in IP, set up by hand, no control channel."""

from __future__ import annotations

import re
import secrets
from typing import Literal

from pydantic import Field

from tunnelbench.model.frames import UDP_HEADER_BYTES, ethernet_bytes
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import DeviceMtuOptions, Outer, equals
from tunnelbench.tunnel.kernel import KernelTunnel
from tunnelbench.tunnel.requirements import kernel_feature

TUNNEL_ID = "42"
SESSION_ID = "43"

IP_PROTOCOL = "l2tp"
"""Protocol number 115 (RFC 3931, section 4.1.1)."""

DATA_HEADER_BYTES = {"udp": 8, "ip": 4}
"""Length of the session's number, over UDP with flags and a reserved word before it (RFC 3931, sections 4.1.1.1 and
4.1.2.1)."""

COOKIE_BYTES = 4

SUBLAYER_BYTES = 4
"""Length of the default sublayer, which the kernel adds by default (RFC 3931, section 4.6)."""


class Options(DeviceMtuOptions):
    ipv4_only_inside = ipv4_only_outside = ""

    encapsulation: Literal["udp", "ip"] = Field(default="udp", description="what carries its packets")
    cookie: bool = Field(default=False, description="a cookie of 4 bytes in every packet")
    sublayer: bool = Field(default=True, description="the default sublayer, 4 bytes in every packet")
    port: int = Field(default=1701, ge=1, le=65535, description="UDP port at both ends")


class L2tpV3(KernelTunnel[Options]):
    """Plan entry: `kind = "l2tpv3"`, `encapsulation = "ip"`."""

    kind = "l2tpv3"
    title = "L2TPv3 of the kernel: Ethernet in UDP or IP, no cipher"
    options_type = Options
    tested_with = "Linux 6.1 (Debian 12)"
    plans = {"all": {"name": "L2TPv3"}}
    added_bytes = {"over UDP / IP": "54 / 42; 4 less without `sublayer`, 4 more with `cookie`"}
    device = "l2tpeth0"
    needs = (
        kernel_feature(
            "l2tp",
            lambda host: host.knows_netlink_family("l2tp"),
            "l2tp_eth",
            "l2tp_ip",
            openwrt="kmod-l2tp-eth kmod-l2tp-ip ip-full",
        ),
    )

    @property
    def outer(self) -> Outer:
        in_udp, version = self.options.encapsulation == "udp", self.outside.number
        return Outer("udp", self.options.port, version) if in_udp else Outer(IP_PROTOCOL, ip_version=version)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        options = self.options
        headers = DATA_HEADER_BYTES[options.encapsulation] + (UDP_HEADER_BYTES if options.encapsulation == "udp" else 0)
        headers += COOKIE_BYTES if options.cookie else 0
        headers += SUBLAYER_BYTES if options.sublayer else 0
        return self.outer.ip_header_bytes + headers + ethernet_bytes(inner_packet_bytes)

    def counted_bytes(self, inner_packet_bytes: int) -> int:
        """Return the length of the frame with the session's header (net/l2tp/l2tp_eth.c)."""
        headers = self.outer.ip_header_bytes + (UDP_HEADER_BYTES if self.options.encapsulation == "udp" else 0)
        return self.outer_packet_bytes(inner_packet_bytes) - headers

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the kernel's account of the router's tunnel with what was asked for."""
        shown = self.ends.router.host.ip("l2tp", "show", "tunnel").stdout
        found = re.search(r"encap (\w+)", shown)
        return (equals("encapsulation", self.options.encapsulation, found[1] if found else "none"),)

    def _up(self) -> None:
        options, cookie = self.options, secrets.token_hex(COOKIE_BYTES)
        for end, other in self.ends:
            words = ["encap", options.encapsulation]
            if options.encapsulation == "udp":
                words += ["udp_sport", str(options.port), "udp_dport", str(options.port)]
            # fmt: off
            end.host.ip("l2tp", "add", "tunnel", "tunnel_id", TUNNEL_ID, "peer_tunnel_id", TUNNEL_ID, *words,
                        "local", self._outer_address(end), "remote", self._outer_address(other))
            self._stack.callback(end.host.run, ["ip", "l2tp", "del", "tunnel", "tunnel_id", TUNNEL_ID], check=False)
            words = ["cookie", cookie, "peer_cookie", cookie] if options.cookie else []
            end.host.ip("l2tp", "add", "session", "name", self.device, "tunnel_id", TUNNEL_ID,
                        "session_id", SESSION_ID, "peer_session_id", SESSION_ID, *words,
                        "l2spec_type", "default" if options.sublayer else "none")
            # Its device goes with the session, and not by `ip link del`.
            self._stack.callback(end.host.run, ["ip", "l2tp", "del", "session", "tunnel_id", TUNNEL_ID,
                                                "session_id", SESSION_ID], check=False)
            # fmt: on
            self._address_device(end)
