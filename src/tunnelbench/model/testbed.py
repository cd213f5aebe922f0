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


LOCAL = "local"


@dataclass(frozen=True)
class Access:
    """Where a machine is: this one, or one that is reached by SSH."""

    host: str = LOCAL
    """`local`, or what ssh takes: `root@192.168.1.1`, or a name of the user's ssh_config."""
    port: int | None = None
    identity: str = ""
    """File of a private key; empty: as the user's ssh has it."""
    config: str = ""
    """An ssh_config in place of the user's own; empty: the user's own."""

    @property
    def is_local(self) -> bool:
        return self.host == LOCAL


@dataclass(frozen=True)
class Port:
    """A network device of a machine and its address."""

    device: str = ""
    """Empty: to be found."""
    address: str = ""
    """IPv4 with the length of its prefix, such as `192.168.1.1/24`; where the device has another, this one is added for
    the run and removed again. Empty: the one that it has."""


@dataclass(frozen=True)
class RouterSpec:
    """The router under test."""

    access: Access
    lan: Port = field(default_factory=Port)
    wan: Port = field(default_factory=Port)
    price: str = ""
    """As people say it, such as `40 EUR`; empty: not told."""
    watts: float | None = None
    """What it takes from its supply [W]; None: not told."""


@dataclass(frozen=True)
class TesterSpec:
    """The client or the server."""

    __test__ = False  # as TestbedSpec

    access: Access = field(default_factory=Access)
    port: Port = field(default_factory=Port)
    namespace: bool = False
    """Whether its device is moved into a network namespace for the run."""


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

    board: str = ""
    """What QEMU emulates, of a testbed that has a virtual router."""
    far_board: str = ""
    """What QEMU emulates as the tunnel's far end; empty: that is a namespace of this machine."""
    cpu_share_percent: float | None = None
    """What a virtual router gets of one CPU of this machine [%]; None: all that it can use."""
    finds_cpu_share: bool = False
    """Whether that share is found before the run: as much as leaves the router the limit."""

    router: RouterSpec | None = None
    """A router of its own; None: the testbed makes one."""
    client: TesterSpec = field(default_factory=TesterSpec)
    server: TesterSpec = field(default_factory=lambda: TesterSpec(namespace=True))

    @property
    def boards(self) -> tuple[str, ...]:
        """Of all its virtual machines, the router's first."""
        return tuple(filter(None, (self.board, self.far_board)))

    @property
    def needs_guest(self) -> bool:
        """Whether it runs on another kernel than the machine's own."""
        return self.kernel != HOST_KERNEL
