"""n2n, version 1: Ethernet frames between edges that a supernode introduces to each other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping

from pydantic import Field

from tunnelbench.model.errors import TunnelUnavailable
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
    path,
    program,
    tun_device,
)
from tunnelbench.tunnel.versions import version_of

SUPERNODE_PORT = 7654
SERVER_PORT = 7655
ROUTER_PORT = 7656
"""Another than the server's: what the supernode passes on goes to and from the router's port, too, and would look like
what the edges send each other."""

HEADER_BYTES = 84
"""Version, type, transform, community, two MAC addresses, two sockets, counters (n2n.h, struct n2n_packet_header)."""

LZO_END_BYTES = 3
"""LZO1X's mark of the end."""

SETTLE_LIMIT_S = 5.0
"""The edges register with each other at the first packet; it took milliseconds."""

IS_DIRECT = "Operational peers list size=1"


class Options(TunnelOptions):
    """Options of `n2n`."""

    mtu: int = Field(
        default=1400,
        ge=576,
        le=1500,
        description="MTU of the tunnel's device [bytes]; above 1364 the largest packets travel in two fragments",
    )


class N2n(Tunnel[Options]):
    """Plan entry: `kind = "n2n"`, `mtu = 1364`. The supernode runs beside the server's edge and carries no data."""

    kind = "n2n"
    title = "n2n version 1 in user space: Ethernet frames in UDP, Twofish"
    options_type = Options
    tested_with = "n2n 1.3.2"
    signs_of_restart = ("Pending peers list", "Peer removed")
    device = "n2n0"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        # edge calls ifconfig by this path.
        ifconfig = path("/sbin/ifconfig", "/sbin/ifconfig", "net-tools")
        return (tun_device(), program("edge", "n2n"), program("supernode", "n2n"), ifconfig)

    @property
    def outer(self) -> Outer:
        return Outer("udp", SERVER_PORT)

    @property
    def hides_payload(self) -> bool:
        return True

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        """Where LZO finds nothing to shorten. It is given what Twofish made, which is random: by chance, one in some
        hundred packets of 1200 bytes is a byte longer."""
        frame = ETHERNET_HEADER_BYTES + inner_packet_bytes  # Twofish-CBC without IV and padding: as long as before
        return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + HEADER_BYTES + lzo_length_bytes(frame) + frame + LZO_END_BYTES

    def versions(self, end: End) -> Mapping[str, str]:
        return {"n2n": version_of(end.host, ["edge", "-h"], r"n2n v\.(\S+)")}

    def negotiated(self) -> tuple[Check, ...]:
        """Nothing is negotiated, there is one cipher; that each edge has the other's address is what counts."""
        direct = self._is_direct()
        reason = "each edge knows the other" if direct else "an edge knows the other by way of the supernode alone"
        return (Check("direct", Verdict.OK if direct else Verdict.VOID, reason, rule=3),)

    def settle(self) -> None:
        """Wait until the edges send to each other, not through the supernode; the proof judges what is left."""
        deadline = time.monotonic() + SETTLE_LIMIT_S
        while not self._is_direct() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _is_direct(self) -> bool:
        edges = [daemon for daemon in (*self.router_daemons, *self.server_daemons) if daemon.name == "edge"]
        return all(IS_DIRECT in edge.output() for edge in edges)

    def _up(self) -> None:
        for end, _ in self.ends:
            if not (version := self.versions(end)["n2n"]).startswith("1."):
                raise TunnelUnavailable(
                    f"on the {end.host.name}: its n2n is {version}, and the adapter knows version 1"
                )
        key = secrets.token_hex(16)
        server = self.ends.server
        supernode = self._start(server, ["supernode", "-l", str(SUPERNODE_PORT)])
        self._require(supernode, "Supernode ready", timeout_s=START_LIMIT_S)
        for end, port in ((server, SERVER_PORT), (self.ends.router, ROUTER_PORT)):
            words = self._write(end, "n2n.key", f"-k {key}\n", secret=True)
            config = self._write(end, "n2n.conf", self._config(end, port))
            edge = self._start(end, ["edge", f"@{config}", f"@{words}"])
            # It makes, addresses and sets up its device before it says so.
            self._require(edge, "REGISTER_ACK", timeout_s=START_LIMIT_S)

    def _config(self, end: End, port: int) -> str:
        """Words of edge's command line, which it takes from a file as well; -r lets it carry others' packets, too."""
        return f"""\
-d {self.device}
-a {end.inner_address}
-s 255.255.255.0
-M {self.options.mtu}
-c tunnelbench
-l {self.ends.server.wan_address}:{SUPERNODE_PORT}
-p {port}
-r
"""


def lzo_length_bytes(literal_bytes: int) -> int:
    """LZO1X tells the length of what it copies in a byte, and above 238 in one for 18 and one for each 255 beyond that
    (minilzo.c, `lzo1x_1_compress`, the last run)."""
    return 1 if literal_bytes <= 238 else 2 + (literal_bytes - 19) // 255
