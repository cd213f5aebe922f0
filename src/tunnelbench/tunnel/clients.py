"""Several clients of one server: the devices, addresses and routes of the clients, which all run on one machine.

The server is the router under test, so the topology is `road-warrior`. Each client has a device, an inner address and a
traffic address of its own. Programs select a client by its device (SO_BINDTODEVICE, socket(7)).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.plan import MOST_CLIENTS
from tunnelbench.model.testbed import ROAD_WARRIOR
from tunnelbench.tunnel.base import Tunnel, TunnelOptions

REVERSE_PATH_FILE = "/proc/sys/net/ipv4/conf/{}/rp_filter"
LOOSE = "2"
"""Value with which a device accepts packets whose answers would leave by another device (RFC 3704, section 2.4)."""


class ServerOptions(TunnelOptions):
    """Base of the options of kinds whose server can have several clients."""

    clients: int | None = Field(
        default=None,
        ge=1,
        le=MOST_CLIENTS,
        description="clients of one server, which is the router (topology road-warrior); left out: two fixed ends",
    )

    handshakes: int | None = Field(
        default=None,
        ge=0,
        le=MOST_CLIENTS,
        description="further clients that set up their tunnels again and again in a plan with [handshake]; needs "
        "clients = 1",
    )

    @property
    def all_clients(self) -> int:
        """Number of clients that the server knows, those of the test `handshake` included."""
        return (self.clients or 0) + (self.handshakes or 0)

    @model_validator(mode="after")
    def _handshakes_have_one_client(self) -> Self:
        if self.handshakes is not None and self.clients != 1:
            raise ValueError("handshakes needs clients = 1, whose traffic flows meanwhile")
        return self

    @model_validator(mode="after")
    def _clients_send_ipv4(self) -> Self:
        if self.clients and self.inside is IpVersion.IPV6:
            raise ValueError('clients of one server have IPv4 traffic only: set inside = "ipv4"')
        return self


OptionsT = TypeVar("OptionsT", bound=ServerOptions)


class ServerTunnel(Tunnel[OptionsT]):
    """Base of the kinds whose server can have several clients. The end `router` stands for all clients."""

    grows_with_clients: ClassVar[bool] = True
    """True if the server's programs take the memory for a client when it connects, and not when they start."""

    def __enter__(self) -> Self:
        if self.options.clients and not self.ends.is_server_under_test:
            raise TunnelUnavailable(
                f'several clients connect to the router, which needs a testbed with topology = "{ROAD_WARRIOR}"'
            )
        return super().__enter__()

    @property
    def client_devices(self) -> tuple[str, ...]:
        return self.devices_at(self.ends.router) if self.options.clients else ()

    def inner_address_of(self, client: int) -> str:
        """Return the inner address of a client, counted from 0."""
        return str(ip_address(self.ends.router.inner_address) + client)

    def traffic_address_of(self, client: int) -> str:
        """Return the address of a client's traffic."""
        return str(ip_address(self.ends.router.source) + client)

    @abstractmethod
    @contextmanager
    def joined(self, number: int) -> Iterator[str]:
        """Set up the tunnel of a further client, 1 to `handshakes`, from nothing, and take it down after the block.

        Yields the client's device, through which packets can be sent. Raises TunnelRefused if it does not come up.
        """

    @property
    def server_inner_address(self) -> str:
        """Inner address of the server, which answers pings of all clients."""
        return self.ends.server.inner_address

    def _route(self) -> None:
        """Add the routes. Without a chosen device, the client's machine takes the first client's."""
        if not self.options.clients:
            super()._route()
            return
        caller, called = self.ends.router, self.ends.server
        for client, device in enumerate(self.client_devices):
            source = self.traffic_address_of(client)
            if client:  # the first one's address is on the loopback device, as without other clients
                caller.host.ip("addr", "add", f"{source}/32", "dev", device)
            caller.host.set_kernel_file(REVERSE_PATH_FILE.format(device), LOOSE)
            way = [caller.reaches, "dev", device, "src", source, "metric", str(client + 1)]
            caller.host.ip("route", "add", *way)
            self._stack.callback(caller.host.run, ["ip", "route", "del", *way], check=False)
            called.host.ip("route", "add", source, "via", self.inner_address_of(client), "dev", self.device_at(called))
            self._stack.callback(called.host.run, ["ip", "route", "del", source], check=False)
