"""n2n, version 1: Ethernet frames between edges that a supernode introduces to each other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

from pydantic import Field

from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.frames import ethernet_bytes, udp_packet_bytes
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import End, Outer, Tunnel, TunnelOptions, is_so
from tunnelbench.tunnel.requirements import path, program, tun_device
from tunnelbench.tunnel.versions import version_of

SUPERNODE_PORT = 7654
SERVER_PORT = 7655
ROUTER_PORT = 7656
"""Port of the router's edge. It differs from the port of the server's edge, so that packets through the supernode are
distinguished from packets between the edges."""

N2N_HEADER_BYTES = 84
"""Length of version, type, transform, community, two MAC addresses, two sockets, counters (n2n.h, struct
n2n_packet_header)."""

COMMUNITY_BYTES = 14
"""Length of the community, a new one for each tunnel; N2N_COMMUNITY_SIZE in n2n.h is 16 with the zero at the end."""

LZO_END_BYTES = 3
"""Length of LZO1X's mark of the end."""

SETTLE_LIMIT_S = 5.0
"""Limit for the edges to register with each other [s]. Edges register at the first packet; this took milliseconds."""

IS_DIRECT = "Operational peers list size=1"


class Options(TunnelOptions):
    ipv4_only_inside = "edge of version 1 gives its device an IPv4 address only"
    ipv4_only_outside = "edge and supernode of version 1 know IPv4 addresses only"

    mtu: int = Field(
        default=1400,
        ge=576,
        le=1500,
        description="MTU of the tunnel's device [bytes]; above 1364 the largest packets travel in two fragments",
    )


class N2n(Tunnel[Options]):
    """Plan entry: `kind = "n2n"`, `mtu = 1364`. The supernode runs next to the server's edge and carries no data.

    Edges and supernode listen on all addresses, because version 1 has no option for one (`open_ports`). Community and
    key are new for each tunnel.
    """

    kind = "n2n"
    title = "n2n version 1 in user space: Ethernet frames in UDP, Twofish"
    options_type = Options
    tested_with = "n2n 1.3.2"
    plans = {"all": {"name": "n2n Twofish"}, "userspace": {"name": "n2n Twofish"}}
    added_bytes = {"": "130 up to packets of 224; above 131, and one for each 255 bytes that go beyond 5"}
    signs_of_restart = ("Pending peers list", "Peer removed")
    device = "n2n0"
    needs = (
        tun_device(),
        program("edge", "n2n"),
        program("supernode", "n2n"),
        # edge calls ifconfig by this path. OpenWrt had n2n in version 2, and its ifconfig is BusyBox's.
        path("/sbin/ifconfig", "/sbin/ifconfig", "net-tools"),
    )
    outer = Outer("udp", SERVER_PORT)
    open_ports = (SUPERNODE_PORT, SERVER_PORT)
    hides_payload = True

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        """Return the length if LZO finds nothing to shorten.

        LZO gets the output of Twofish, which is random: by chance, one in some hundred packets of 1200 bytes is a byte
        longer.
        """
        frame = ethernet_bytes(inner_packet_bytes)  # Twofish-CBC without IV and padding adds nothing
        return udp_packet_bytes(N2N_HEADER_BYTES + lzo_length_bytes(frame) + frame + LZO_END_BYTES)

    def versions(self, end: End) -> Mapping[str, str]:
        return {"n2n": version_of(end.host, ["edge", "-h"], r"n2n v\.(\S+)")}

    def negotiated(self) -> tuple[Check, ...]:
        """Check that each edge has the other's address; nothing is negotiated, for there is one cipher."""
        direct = self._is_direct()
        reason = (
            "each edge sends to the other directly"
            if direct
            else "an edge reaches the other only through the supernode"
        )
        return (is_so("direct", direct, reason),)

    def settle(self) -> None:
        """Wait until the edges send to each other, not through the supernode; after a time limit the wait ends, and the
        proof of the tunnel shows if they do."""
        deadline = time.monotonic() + SETTLE_LIMIT_S
        while not self._is_direct() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _is_direct(self) -> bool:
        edges = [daemon for daemon in self.daemons if daemon.name == "edge"]
        return all(IS_DIRECT in edge.output() for edge in edges)

    def _up(self) -> None:
        for end, _ in self.ends:
            if not (version := self.versions(end)["n2n"]).startswith("1."):
                raise TunnelUnavailable(
                    f"n2n on the {end.host.name} has version {version}; TunnelBench supports version 1 only"
                )
        community, key = secrets.token_hex(COMMUNITY_BYTES // 2), secrets.token_hex(16)
        server = self.ends.server
        supernode = self._start(server, ["supernode", "-l", str(SUPERNODE_PORT)])
        self._require(supernode, "Supernode ready")
        for end, port in ((server, SERVER_PORT), (self.ends.router, ROUTER_PORT)):
            words = self._write(end, "n2n.key", f"-c {community}\n-k {key}\n", secret=True)
            config = self._write(end, "n2n.conf", self._config(end, port))
            edge = self._start(end, ["edge", f"@{config}", f"@{words}"])
            # It makes, addresses and sets up its device before it says so.
            self._require(edge, "REGISTER_ACK")

    def _config(self, end: End, port: int) -> str:
        """Return edge's command line, which it also takes from a file; -r lets it forward packets of others."""
        return f"""\
-d {self.device}
-a {end.inner_address}
-s 255.255.255.0
-M {self.options.mtu}
-l {self.ends.server.wan_address}:{SUPERNODE_PORT}
-p {port}
-r
"""


def lzo_length_bytes(literal_bytes: int) -> int:
    """Return how many bytes LZO1X takes for the length of a run that it copies.

    A run of up to 238 bytes takes one byte. A longer one takes one byte, and one more for each 255 bytes, or part of
    them, beyond 18 (minilzo.c, `lzo1x_1_compress`, the last run).
    """
    return 1 if literal_bytes <= 238 else 2 + (literal_bytes - 19) // 255
