"""Bases of tunnels that the kernel carries by itself: no program, no cipher, no key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import Field

from tunnelbench.host.parsing import json_of, parsing
from tunnelbench.model.frames import ethernet_bytes, udp_packet_bytes
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import DeviceMtuOptions, End, Outer, Tunnel, TunnelOptions, equals
from tunnelbench.tunnel.requirements import Requirement, ipv6, link_type
from tunnelbench.tunnel.versions import kernel_version

OptionsT = TypeVar("OptionsT", bound=TunnelOptions)


class KernelTunnel(Tunnel[OptionsT]):
    """A tunnel of the kernel without a cipher."""

    hides_payload = False

    def versions(self, end: End) -> Mapping[str, str]:
        return kernel_version(end.host)


class KernelDevice(KernelTunnel[OptionsT]):
    """A tunnel whose two ends are devices that `ip link add` makes."""

    link_type: ClassVar[str]
    """Type of the device, as `ip link` calls it."""
    module: ClassVar[str] = ""
    """Kernel module of the device, if it has another name than the type."""
    probe_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments without which `ip link add` makes no device of this type."""

    @classmethod
    def requirements(cls, options: OptionsT) -> tuple[Requirement, ...]:
        needed = link_type(cls.link_type_of(options), cls.module_of(options), *cls.probe_arguments)
        return (needed, ipv6()) if IpVersion.IPV6 in {options.inside, options.outside} else (needed,)

    @classmethod
    def link_type_of(cls, options: OptionsT) -> str:
        """Return the type of the device with these options."""
        return cls.link_type

    @classmethod
    def module_of(cls, options: OptionsT) -> str:
        """Return the kernel module of the device with these options; empty if it has the name of the type."""
        return cls.module

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the router's device with what was asked for."""
        shown = self.ends.router.host.ip("-j", "-d", "link", "show", self.device).stdout
        with parsing(f"the output of `ip -j -d link show {self.device}`"):
            (link,) = json_of(shown, list)
            return self._read_back(link["linkinfo"])

    @abstractmethod
    def _read_back(self, found: Mapping[str, Any]) -> tuple[Check, ...]:
        """Compare the `linkinfo` of the router's device with what was asked for."""

    @abstractmethod
    def _arguments(self, end: End, other: End) -> list[str]:
        """Return the arguments of `ip link add` behind the type, for the device of `end`."""

    def _up(self) -> None:
        for end, other in self.ends:
            self._add_device(end, "type", self.link_type_of(self.options), *self._arguments(end, other))
            self._address_device(end)


class OverlayOptions(DeviceMtuOptions):
    """Options of a virtual Ethernet in UDP."""

    ipv4_only_inside = ipv4_only_outside = ""

    vni: int = Field(default=42, ge=0, le=2**24 - 1, description="network identifier")
    port: int = Field(ge=1, le=65535, description="UDP port at both ends")


OverlayOptionsT = TypeVar("OverlayOptionsT", bound=OverlayOptions)


class Overlay(KernelDevice[OverlayOptionsT]):
    """A virtual Ethernet in UDP between two fixed ends."""

    listens_on_all_addresses = True
    probe_arguments = ("external",)  # a device that collects metadata needs no addresses
    header_bytes: ClassVar[int]
    """Length of the header between UDP and the Ethernet frame [bytes]."""

    @property
    def outer(self) -> Outer:
        return Outer("udp", self.options.port, self.outside.number)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return udp_packet_bytes(self.header_bytes + ethernet_bytes(inner_packet_bytes), self.outer.ip_header_bytes)

    def _read_back(self, found: Mapping[str, Any]) -> tuple[Check, ...]:
        return (equals("vni", str(self.options.vni), str(found["info_data"]["id"])),)

    def _arguments(self, end: End, other: End) -> list[str]:
        return ["id", str(self.options.vni), "remote", self._outer_address(other), "dstport", str(self.options.port)]
