"""Where a plan runs: kind of testbed, its links and who gets which CPU."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Link:
    """The two cables: client to router, and router to server. Both are alike."""

    rate_out_mbps: float | None = None
    """Ethernet rate from client towards server [Mbit/s]; None: as fast as the machine."""
    rate_in_mbps: float | None = None
    """Ethernet rate from server towards client [Mbit/s]; None: as fast as the machine."""
    delay_ms: float = 0.0
    """One-way delay added on each cable [ms]; needs the kernel's sch_netem."""
    mtu_bytes: int = 1500
    """MTU of both cables [bytes]."""

    @property
    def needs_cable(self) -> bool:
        """Whether the cable shapes traffic, and so needs a namespace of its own."""
        return self.rate_out_mbps is not None or self.rate_in_mbps is not None or self.delay_ms > 0


HOST_KERNEL = "host"
DEBIAN_KERNEL = "debian"


ROUTER_SERVER = "router-server"
ROAD_WARRIOR = "road-warrior"
TOPOLOGIES = {
    ROUTER_SERVER: "the tunnel joins router and server; the client behind the router knows nothing of it",
    ROAD_WARRIOR: "the tunnel joins client and router, which is its server and forwards to the server without one",
}
"""Who ends the tunnel; the router is under test in both."""


@dataclass(frozen=True)
class TestbedSpec:
    """What a testbed file says."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    name: str
    kind: str
    title: str = ""
    link: Link = field(default_factory=Link)
    router_cpu: int | None = None
    """The CPU that the router has for itself; None: the last one of the machine."""
    kernel: str = HOST_KERNEL
    """Whose kernel carries it: `host`, `debian` (Debian's own, booted as a guest) or the path of a kernel's image."""
    quiet_wait_s: int = 30
    """How long a trial waits for foreign load to end before it runs all the same and is void [s]."""
    topology: str = ROUTER_SERVER
    """One of TOPOLOGIES."""

    @property
    def needs_guest(self) -> bool:
        """Whether it runs on another kernel than the machine's own."""
        return self.kernel != HOST_KERNEL
