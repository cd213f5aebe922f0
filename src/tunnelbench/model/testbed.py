"""The testbed on which a plan runs: its kind, links, machines and CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tunnelbench.model.frames import ETHERNET_MTU_BYTES


@dataclass(frozen=True)
class Link:
    """Settings of the two cables, client to router and router to server, which are equal."""

    rate_out_mbps: float | None = None
    """Ethernet rate from client towards server [Mbit/s]; None: as fast as the machine."""
    rate_in_mbps: float | None = None
    """Ethernet rate from server towards client [Mbit/s]; None: as fast as the machine."""
    delay_ms: float = 0.0
    """One-way delay added on each cable [ms]; needs the kernel's sch_netem."""
    mtu_bytes: int = ETHERNET_MTU_BYTES
    """MTU of both cables [bytes]."""
    has_mtu: bool = False
    """True if the testbed file gives the MTU, so that the devices of a router behind SSH get it for the run."""

    @property
    def needs_cable(self) -> bool:
        """True if the cable shapes traffic, and therefore needs a namespace of its own."""
        return self.rate_out_mbps is not None or self.rate_in_mbps is not None or self.delay_ms > 0


LOCAL = "local"


@dataclass(frozen=True)
class HostAccess:
    """The access to a machine: it is this machine, or SSH reaches it."""

    host: str = LOCAL
    """`local`, or a destination of ssh: `root@192.168.1.1`, or a name of the user's ssh_config."""
    port: int | None = None
    identity: str = ""
    """File of a private key; empty: the key that the user's ssh takes."""
    config: str = ""
    """File of an ssh_config that replaces the user's own; empty: the user's own."""

    @property
    def is_local(self) -> bool:
        return self.host == LOCAL


@dataclass(frozen=True)
class Port:
    """A network device of a machine and its address."""

    device: str = ""
    """Name of the device; empty: TunnelBench looks for it."""
    address: str = ""
    """IPv4 address with its prefix length, such as `192.168.1.1/24`; empty: the device's own address. If the device has
    another address, this one is added for the run."""


@dataclass(frozen=True)
class RouterSpec:
    """The router under test, or a gateway."""

    access: HostAccess
    lan: Port = field(default_factory=Port)
    wan: Port = field(default_factory=Port)
    price: str = ""
    """Price in words, such as `40 EUR`; empty: not stated."""
    watts: float | None = None
    """Power that the router takes from its supply [W]; None: not stated."""


@dataclass(frozen=True)
class TesterSpec:
    """The client or the server."""

    __test__ = False  # as TestbedSpec

    access: HostAccess = field(default_factory=HostAccess)
    port: Port = field(default_factory=Port)
    namespace: bool = False
    """True if its device moves into a network namespace for the run."""


@dataclass(frozen=True)
class LabgridPlace:
    """A place of labgrid: a router with its address and its power switch, which one user at a time acquires."""

    name: str
    coordinator: str = ""
    """HOST or HOST:PORT of labgrid's coordinator; empty: the environment variable LG_COORDINATOR, or this machine."""
    wait_s: int = 600
    """Longest wait of a run for the place [s]."""
    power_after_s: int = 120
    """Time without an answer after which the router's power is switched off and on, once in a run [s]."""


HOST_KERNEL = "host"
DEBIAN_KERNEL = "debian"


ROUTER_SERVER = "router-server"
ROAD_WARRIOR = "road-warrior"
GATEWAY_PAIR = "gateway-pair"
TOPOLOGIES = {
    ROUTER_SERVER: "the tunnel joins router and server; the client behind the router is not an end of it",
    ROAD_WARRIOR: "the tunnel joins client and router, which is its server and forwards to the server without one",
    GATEWAY_PAIR: "the tunnel joins the router and a gateway; client and server, behind them, are not ends of it",
}
"""Topologies by the machines that end the tunnel; the router is under test in all."""


SIMULATED_KIND = "simulated"
"""Kind of testbed that draws its figures from a model and sends no packet."""


@dataclass(frozen=True)
class SimulationModel:
    """The model from which a simulated testbed draws its figures."""

    seed: int = 0
    """Seed of the random numbers; testbeds of different seeds are devices of different speeds."""
    baseline_mbps: float = 100.0
    """Approximate throughput without a tunnel with the largest payload [Mbit/s]."""
    trial_s: float = 0.0
    """Time that each trial takes [s]."""


@dataclass(frozen=True)
class KindSettings:
    """The settings of testbed files that one kind of testbed supports."""

    supported: Mapping[str, tuple[str, ...]]
    """Allowed values of each supported key, such as `link.delay_ms`; an empty list allows all values. A table stands
    for all its keys."""
    required: Mapping[str, str] = field(default_factory=dict)
    """An example of each key that a file of this kind must have."""
    has_soaks: bool = False
    """True if plans with [soak] can run."""

    def allowed(self, key: str) -> tuple[str, ...] | None:
        """Return the allowed values of a dotted key, empty if all are allowed; None: the key is not supported."""
        if key in COMMON_SETTINGS or any(each.startswith(f"{key}.") for each in self.supported):
            return ()
        return self.supported.get(key, self.supported.get(key.partition(".")[0]))


COMMON_SETTINGS = ("kind", "title", "quiet_wait_s", "link")
"""Keys that every kind of testbed has; the keys of `link` differ by the kind."""


@dataclass(frozen=True)
class TestbedSpec:
    """The content of a testbed file."""

    __test__ = False  # not a test class, although its name starts with Test

    name: str
    kind: str
    title: str = ""
    link: Link = field(default_factory=Link)
    router_cpu: int | None = None
    """Number of the CPU that only the router uses; None: the last CPU of the machine."""
    kernel: str = HOST_KERNEL
    """Kernel of the testbed: `host`, `debian` (Debian's kernel, booted as a guest) or the path of a kernel image."""
    quiet_wait_s: int = 30
    """Longest wait of a trial for background load to end [s]; then the trial runs and is void."""
    topology: str = ROUTER_SERVER
    """One of TOPOLOGIES."""

    board: str = ""
    """Board that QEMU emulates as the router; empty: the router is not virtual."""
    far_board: str = ""
    """Board that QEMU emulates as the tunnel's far end; empty: the far end is a namespace of this machine."""
    programs: str = ""
    """Folder on this machine with programs that a virtual router gets; empty: it has Debian's."""
    far_programs: str = ""
    """Folder on this machine with programs that a virtual far end of the tunnel gets; empty: it has Debian's."""
    speed_mips: float | None = None
    """Speed of a virtual router's CPU [million instructions per second]; None: as fast as QEMU emulates it."""
    profile: bool = False
    """True if the instructions of a virtual router of fixed speed are counted by kernel function and program."""

    simulation: SimulationModel = field(default_factory=SimulationModel)
    """Model of a simulated testbed; without effect on all others."""

    router: RouterSpec | None = None
    """Real router; None: the testbed makes one."""
    gateway: RouterSpec | None = None
    """Real gateway in front of the server, which ends the tunnel; its WAN is the cable to the router. None: there is
    none, or the testbed makes it."""
    client: TesterSpec = field(default_factory=TesterSpec)
    server: TesterSpec = field(default_factory=lambda: TesterSpec(namespace=True))
    place: LabgridPlace | None = None
    """Place of labgrid that gives the router's address; None: `router` has the address."""

    @property
    def boards(self) -> tuple[str, ...]:
        """Boards (emulated hardware) of all virtual machines, the router's first."""
        return tuple(filter(None, (self.board, self.far_board)))

    @property
    def has_gateway(self) -> bool:
        """True if the tunnel's far end is a machine of its own in front of the server."""
        return self.topology == GATEWAY_PAIR

    @property
    def is_simulated(self) -> bool:
        """True if the testbed draws its figures from a model."""
        return self.kind == SIMULATED_KIND

    @property
    def needs_guest(self) -> bool:
        """True if the testbed runs on another kernel than the machine's own."""
        return self.kernel != HOST_KERNEL
