"""Discovery of a testbed with a real router: reads devices and addresses of its three hosts and changes nothing."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunnelbench.host.host import Host
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import Port, RouterSpec, TestbedSpec

PROPOSED_ROUTER = "198.18.2.1/24"
PROPOSED_SERVER = "198.18.2.2/24"
PROPOSED_GATEWAY = "198.18.7.1/24"
PROPOSED_NEIGHBOURS = {PROPOSED_ROUTER: PROPOSED_SERVER, PROPOSED_GATEWAY: "198.18.7.2/24"}
"""Addresses for a cable that has none yet, from the range for benchmarks (RFC 2544, appendix C.2.2), and those of the
other end of the same cable."""


@dataclass(frozen=True)
class CableEnd:
    """One end of a cable."""

    device: str
    interface: str
    """IPv4 address with its prefix."""
    is_there: bool
    """True if the device already has the address; False if the run adds it."""

    @property
    def address(self) -> str:
        return self.interface.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.device} {self.interface}"

    @property
    def network(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Interface(self.interface).network


@dataclass(frozen=True)
class GatewayEnds:
    """The gateway's ends of the cables to the router and to the server."""

    wan: CableEnd
    lan: CableEnd


@dataclass(frozen=True)
class CableEnds:
    """The ends of all cables: of two, or of three with a gateway between router and server."""

    client: CableEnd
    router_lan: CableEnd
    router_wan: CableEnd
    server: CableEnd
    gateway: GatewayEnds | None = None

    @property
    def cables(self) -> tuple[tuple[str, CableEnd, CableEnd], ...]:
        """Each cable's name with its two ends, from the client on."""
        lan = ("LAN", self.client, self.router_lan)
        if self.gateway is None:
            return (lan, ("WAN", self.router_wan, self.server))
        return (lan, ("WAN", self.router_wan, self.gateway.wan), ("gateway's LAN", self.gateway.lan, self.server))


def find(
    spec: TestbedSpec, client: Host, router: Host, server: Host, gateway: Host | None = None, *, management: str = ""
) -> CableEnds:
    """Find the devices and addresses that the testbed file leaves out.

    `management` is the gateway's address of the SSH connection. The device that has it is not taken for the one of the
    cable to the server, unless the file names it.

    Raises CannotHere with the keys that the file must have if they cannot be found.
    """
    if spec.router is None:
        raise ValueError(f"testbed {spec.name} has no router of its own")
    at_router, at_client, at_server = (parse_addresses(_addresses(host)) for host in (router, client, server))
    lan = _router_lan(spec.router.lan, spec.router.access.host, at_router, at_client)
    wan = _router_wan(spec.router.wan, lan, router, at_router)
    client_place = _tester("client", spec.client.port, lan, at_client)
    between = None
    if gateway is not None and spec.gateway is not None:
        between = _gateway(spec.gateway, wan, parse_addresses(_addresses(gateway)), management)
    if server is client:  # its card is taken
        at_server = {device: own for device, own in at_server.items() if device != client_place.device}
    server_place = _server(spec.server.port, between.lan if between else wan, client_place, at_server, server)
    found = CableEnds(client_place, lan, wan, server_place, between)
    for cable, one, other in found.cables:
        if one.network != other.network or one.address == other.address:
            raise CannotHere(
                f"the two ends of the {cable} have {one.interface} and {other.interface}: "
                "these are not two addresses of one network",
                "write addresses of one network into the testbed file",
            )
    return found


def _gateway(spec: RouterSpec, wan: CableEnd, found: Mapping[str, Sequence[str]], management: str) -> GatewayEnds:
    """Return the gateway's ends of its cables; `management` is as for `find`."""
    default = PROPOSED_NEIGHBOURS.get(wan.interface, "")
    if spec.wan.device:
        near = _place(spec.wan, spec.wan.device, found, default)
    else:
        near = _in_network(wan, found, spec.wan.address)
    if near is None:
        raise CannotHere(
            f"the gateway has no device with an address in {wan.network}",
            "write gateway.wan_device and gateway.wan_address into the testbed file",
        )
    devices = (
        [spec.lan.device]
        if spec.lan.device
        else [
            device
            for device, own in found.items()
            if device != near.device and management not in [each.partition("/")[0] for each in own]
        ]
    )
    far = _place(spec.lan, devices[0], found, PROPOSED_GATEWAY) if len(devices) == 1 else None
    if far is None or far.device == near.device:
        raise CannotHere(
            "the gateway's device on the cable to the server cannot be found",
            "write gateway.lan_device and gateway.lan_address into the testbed file",
        )
    return GatewayEnds(near, far)


def _in_network(other: CableEnd, found: Mapping[str, Sequence[str]], address: str = "") -> CableEnd | None:
    """Return the first device with an address, or this one, in the network of the other end of its cable; None if there
    is none."""
    for device, own in found.items():
        for each in own:
            if ipaddress.IPv4Interface(each).network == other.network and address in ("", each):
                return CableEnd(device, each, is_there=True)
    return None


def _addresses(host: Host) -> str:
    return host.ip("-o", "-4", "addr", "show").stdout


def parse_addresses(text: str) -> dict[str, list[str]]:
    """Parse `ip -o -4 addr show` of iproute2 or BusyBox into IPv4 addresses with prefixes by device, without lo.

    Leaves out what is no IPv4 address: a router may print anything.
    """
    found: dict[str, list[str]] = {}
    for device, interface in re.findall(r"^\d+: ([^\s@]+)(?:@\S+)?\s+inet (\S+)", text, re.MULTILINE):
        if device != "lo" and _is_interface(interface):
            found.setdefault(device, []).append(interface if "/" in interface else f"{interface}/32")
    return found


def _is_interface(text: str) -> bool:
    try:
        ipaddress.IPv4Interface(text)
    except ValueError:
        return False
    return True


def _place(port: Port, device: str, found: Mapping[str, Sequence[str]], default: str = "") -> CableEnd | None:
    """Return a device with its address: the address in the testbed file, or the first one of the device, or `default`;
    None if there is none of these."""
    own = found.get(device, [])
    if port.address:
        return CableEnd(device, port.address, port.address in own)
    if own:
        return CableEnd(device, own[0], is_there=True)
    return CableEnd(device, default, is_there=False) if default else None


def _router_lan(
    port: Port, target: str, at_router: Mapping[str, Sequence[str]], at_client: Mapping[str, Sequence[str]]
) -> CableEnd:
    """Return the device that has the address of the SSH connection, or an address in a network of the client."""
    if port.device:
        if place := _place(port, port.device, at_router):
            return place
    else:
        address = target.rpartition("@")[2]
        networks = [ipaddress.IPv4Interface(each).network for own in at_client.values() for each in own]
        for device, own in at_router.items():
            if any(each.partition("/")[0] == address for each in own) and (place := _place(port, device, at_router)):
                return place
        for device, own in at_router.items():
            for each in own:
                if ipaddress.IPv4Interface(each).network in networks:
                    return CableEnd(device, port.address or each, is_there=not port.address or port.address in own)
    raise CannotHere(
        "the router's LAN device cannot be found",
        "write router.lan_device and router.lan_address into the testbed file",
    )


def _router_wan(port: Port, lan: CableEnd, router: Host, at_router: Mapping[str, Sequence[str]]) -> CableEnd:
    device = port.device
    if not device:
        configured = router.run(["uci", "-q", "get", "network.wan.device"], check=False).stdout.strip()
        default = re.search(r"^default .*\bdev (\S+)", router.ip("route").stdout, re.MULTILINE)
        others = [name for name in at_router if name != lan.device]
        device = configured or (default[1] if default and default[1] != lan.device else "")
        device = device or (others[0] if len(others) == 1 else "")
    if not device or device == lan.device:
        raise CannotHere(
            "the router's WAN device cannot be found",
            "write router.wan_device into the testbed file; `ip link` on the router lists them",
        )
    place = _place(port, device, at_router, PROPOSED_ROUTER)
    if place is None:
        raise ValueError("there is a default")
    return place


def _tester(role: str, port: Port, router: CableEnd, found: Mapping[str, Sequence[str]]) -> CableEnd:
    """Return the tester's device that has an address in the router's network."""
    if port.device:
        if place := _place(port, port.device, found):
            return place
        raise CannotHere(
            f"the {role}'s {port.device} has no IPv4 address", f"write {role}.address into the testbed file"
        )
    if place := _in_network(router, found, port.address):
        return place
    raise CannotHere(
        f"the {role} has no device with an address in {router.network}",
        f"write {role}.device and {role}.address into the testbed file",
    )


def _server(port: Port, wan: CableEnd, client: CableEnd, found: Mapping[str, Sequence[str]], host: Host) -> CableEnd:
    """Return the server's device, or a free one (the one with a carrier) if the cable has no addresses yet."""
    if not port.device:
        try:
            return _tester("server", port, wan, found)
        except CannotHere:
            spare = {name: state for name, state in _wired(host).items() if name != client.device and name not in found}
            if len(spare) > 1:
                spare = {name: state for name, state in spare.items() if "LOWER_UP" in state.split(",")}
            if len(spare) != 1:
                raise
            port = Port(next(iter(spare)), port.address)
    place = _place(port, port.device, found, PROPOSED_NEIGHBOURS.get(wan.interface, ""))
    if place is None or place.address == wan.address:
        raise CannotHere(
            f"the server's {port.device} has no IPv4 address in {wan.network}",
            "write server.address into the testbed file",
        )
    return place


def _wired(host: Host) -> dict[str, str]:
    """Return the flags of the devices with an Ethernet address, without virtual devices."""
    listed = host.ip("-o", "link", "show").stdout
    found = re.findall(r"^\d+: ([^\s@:]+)(?:@[^\s:]+)?: <([^\s>]*)> .*link/ether", listed, re.MULTILINE)
    software = r"(br|docker|virbr|veth|tun|tap|wg|vnet|bond|dummy)"
    return {name: flags for name, flags in found if not re.match(software, name)}
