"""What every testbed offers: three hosts in a row, their addresses, and a way to read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tunnelbench.host.command import undisturbed
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.testbed import ROAD_WARRIOR, ROUTER_SERVER, TestbedSpec


@dataclass(frozen=True)
class Addresses:
    """IPv4 addresses of the path, all from the range for benchmarks (RFC 2544, appendix C.2.2; RFC 5735)."""

    client_lan: str = "198.18.1.2"
    router_lan: str = "198.18.1.1"
    lan_network: str = "198.18.1.0/24"
    router_wan: str = "198.18.2.1"
    server_wan: str = "198.18.2.2"
    router_inner: str = "198.18.3.1"
    server_inner: str = "198.18.3.2"
    target: str = "198.18.4.1"
    """The server's address that traffic goes to: which way the router sends it is the tunnel's matter."""
    client_inner: str = "198.18.3.2"
    """Where the client itself ends the tunnel."""
    far_lan: str = "198.18.7.1"
    server_far: str = "198.18.7.2"
    """Of the cable between the tunnel's far end and the server, where these are two machines."""
    client_inside: str = "198.18.6.1"
    """As `target`, of such a client: its own traffic has an address that is reached through the tunnel alone."""
    router_wan6: str = "2001:2::1"
    server_wan6: str = "2001:2::2"
    client_lan6: str = "2001:2:0:1::2"
    router_lan6: str = "2001:2:0:1::1"
    """IPv6's range for benchmarks (RFC 5180, section 8, as corrected by erratum 1752), while a tunnel uses it."""


SLOW_START_S = 0.3
"""What setting up a test, and seeing its first packets, may take at most unnoticed [s]."""


@dataclass(frozen=True)
class BackToBack:
    """A link from tester to tester, the router left out."""

    client_address: str
    server_address: str
    client_device: str
    server_device: str


class Testbed(ABC):
    """client - router - server. The client's and the server's side are the testers, the router is under test.

    A context manager: leaving it takes down all that entering set up, on every way out.
    """

    __test__ = False

    kind: ClassVar[str]

    client: Host
    router: Host
    server: Host
    local: LocalHost
    """The machine of the controller."""
    lan_device = "lan"
    """The client's device on the cable to the router."""
    wan_device = "wan"
    """The far end's device on the cable to the router."""
    server_device = "far"
    """The server's device on the cable to the far end, where that is a machine of its own."""
    router_lan_device = "lan"
    router_wan_device = "wan"

    has_own_router = False
    """Whether the router is a machine of its own, and not a part of this one."""

    topologies: ClassVar[tuple[str, ...]] = (ROUTER_SERVER,)
    """Those that this kind of testbed can be."""

    slow_start_s = SLOW_START_S
    """Longer where programs start slowly."""

    def __init__(self, spec: TestbedSpec, run_id: str, folder: Path) -> None:
        if spec.topology not in self.topologies:
            raise WrongInput(
                f"testbed {spec.name}: a testbed of kind {self.kind} cannot have topology = {spec.topology!r}",
                f"it can have {' or '.join(self.topologies)}",
            )
        self.spec = spec
        self.run_id = run_id
        self.folder = folder
        self.mark = run_id[-6:]
        """A few characters of the run, for names that must be unique on a machine."""
        self.addresses = Addresses()
        self.notes: tuple[str, ...] = ()
        """What a reader of the results must know of this testbed."""

    @property
    def far_host(self) -> Host:
        """Who has the far end of the tunnel: the server, unless a machine of its own stands before it."""
        return self.server

    @property
    def has_own_far_end(self) -> bool:
        """Whether the tunnel ends on a machine that only forwards what comes out of it."""
        return self.far_host is not self.server

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All that the traffic passes."""
        return (self.client, self.router, *((self.far_host,) if self.has_own_far_end else ()), self.server)

    @property
    def is_road_warrior(self) -> bool:
        """Whether the tunnel joins client and router, and not router and server."""
        return self.spec.topology == ROAD_WARRIOR

    @property
    def client_address(self) -> str:
        """The client's end of the traffic."""
        return self.addresses.client_inside if self.is_road_warrior else self.addresses.client_lan

    @property
    def tunnel_cable(self) -> tuple[Host, str]:
        """Who is at the end of the cable that carries the tunnel, beside the router, and its device there."""
        return (self.client, self.lan_device) if self.is_road_warrior else (self.far_host, self.wan_device)

    @abstractmethod
    def set_up(self) -> None:
        """Make it; an error leaves nothing behind."""

    @abstractmethod
    def take_down(self) -> None:
        """Remove all that `set_up` made; does no harm when called twice."""

    @abstractmethod
    def prepare_tunnel_device(self, host: Host, device: str) -> None:
        """Make a tunnel's device behave like Ethernet (rule 1): one frame is one packet."""

    @abstractmethod
    def back_to_back(self) -> AbstractContextManager[BackToBack]:
        """Join the testers directly while the block runs, for their calibration (rule 6)."""

    def look(self) -> Mapping[str, Any]:
        """Look at what is there before anything is changed; returns what is to be stored of the testbed's own hosts."""
        return {}

    def hold(self, seconds: float) -> None:  # noqa: B027 # most testbeds are nobody else's
        """Say that the testbed is needed for so long: where it is lent, it falls back to its owner some time later."""

    def recover(self) -> None:  # noqa: B027 # and have no host that could be lost
        """After a host was lost: wait until it is back, bounded, and make the testbed anew on it.

        Raises CannotHere where it does not come back.
        """

    def __enter__(self) -> Self:
        try:
            self.set_up()
        except BaseException:
            with undisturbed():
                self.take_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with undisturbed():
            self.take_down()
