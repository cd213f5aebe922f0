"""Base of tunnel adapters. An adapter gets the two ends of a tunnel and has no access to the testbed."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.daemon import Daemon, deaths
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.host.ipv6 import add_ipv6_address
from tunnelbench.host.signals import undisturbed
from tunnelbench.model import frames
from tunnelbench.model.conditions import (
    LARGEST_WINDOW_BYTES,
    LARGEST_WRITE_BYTES,
    MOST_ROUTER_CPUS,
    USUAL_WRITE_BYTES,
    Compression,
    Content,
    can_shrink,
    require_window,
)
from tunnelbench.model.errors import KeptForDebugging, TrialFailed, TunnelRefused
from tunnelbench.model.firewall import MOST_RULES, Firewall
from tunnelbench.model.ip_versions import INSIDE_OPTION, OUTSIDE_OPTION, SMALLEST_IPV6_MTU_BYTES, IpVersion, with_port
from tunnelbench.model.lines import LineName
from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel import certificates
from tunnelbench.tunnel.requirements import Requirement

PROGRAM_START_LIMIT_S = 20.0
"""Limit for a program to start [s]. strongSwan's daemon charon took more than 5 s in an emulated guest on a busy
machine."""


FAILURES = (CommandFailed, KeptForDebugging, TrialFailed, TunnelRefused)
"""Errors after which a user may want to examine the tunnel; not an interrupt."""


@contextmanager
def undone_unless_kept(keep: bool) -> Iterator[ExitStack]:
    """Yield a stack that closes after the block; with `keep`, it stays open after a failure, for a user to examine what
    was set up."""
    stack = ExitStack()
    try:
        yield stack
    except BaseException as error:
        if not (keep and isinstance(error, FAILURES)):
            stack.close()
        raise
    stack.close()


class TunnelOptions(BaseModel):
    """Base of an adapter's options: a plan's keys, their types and defaults.

    The options of this class set up the conditions of the trials: the router's packet filter, and the IP versions. If
    a plan gives one of them the usual value, the option has its default, so that a tunnel has the same options with and
    without these keys.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    ipv4_only_inside: ClassVar[str] = "this kind of tunnel is set up for IPv4 packets only"
    """Reason why the tunnel cannot carry IPv6; empty if it can."""
    ipv4_only_outside: ClassVar[str] = "the packets that carry this kind of tunnel are set up for IPv4 only"
    """Reason why packets of IPv6 cannot carry the tunnel; empty if they can."""
    rekey_option: ClassVar[str] = ""
    """Option that sets the time between two changes of keys; empty without one."""
    rekey_delay_s: ClassVar[float] = 0.0
    """Longest time after the end of that interval in which the tunnel notices it under traffic [s]."""
    rekey_bytes_option: ClassVar[str] = ""
    """Option that sets the amount of data between two changes of keys; empty without one."""
    rekey_bytes_delay_s: ClassVar[float] = 0.0
    """Longest time in which the tunnel notices that it has carried this amount [s]."""

    @property
    def rekey_interval_s(self) -> float:
        """Time between two changes of keys that the tunnel reports [s]; infinite: time changes no keys."""
        return math.inf

    @property
    def rekey_bytes(self) -> float:
        """Amount of data between two changes of keys that the tunnel reports [bytes]; infinite: data change no
        keys."""
        return math.inf

    firewall: Firewall | None = Field(
        default=None, description="the router tracks connections, and with stateful-nat hides the client's address"
    )
    rules: int | None = Field(
        default=None,
        ge=0,
        le=MOST_RULES,
        description="rules of a packet filter that the router compares each forwarded packet with",
    )

    line: LineName | None = Field(
        default=None,
        description="line that carries the tunnel: its rates, delay and loss; none or left out: the testbed's cable",
    )

    cpus: int | None = Field(default=None, ge=1, le=MOST_ROUTER_CPUS, description="CPUs of the router; left out: 1")

    content: Content | None = Field(
        default=None,
        description="data of the traffic: random, which cannot be compressed, or repeating; left out: random",
    )

    window_bytes: int | None = Field(
        default=None,
        ge=0,
        le=LARGEST_WINDOW_BYTES,
        description="size of the socket buffers of iperf3 at both ends [bytes]; 0 or left out: the system's",
    )
    write_bytes: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_WRITE_BYTES,
        description=f"data that iperf3 hands to the kernel at a time [bytes]; left out: {USUAL_WRITE_BYTES}",
    )

    inside: IpVersion | None = Field(
        default=None, description="IP version of the traffic, and so of the packets in the tunnel; left out: ipv4"
    )
    outside: IpVersion | None = Field(
        default=None, description="IP version of the packets on the WAN that carry the tunnel; left out: ipv4"
    )

    @field_validator("firewall", "line")
    @classmethod
    def _without_none(cls, value: Firewall | LineName | None) -> Firewall | LineName | None:
        return None if value in {Firewall.NONE, LineName.NONE} else value

    @field_validator("cpus")
    @classmethod
    def _without_one(cls, cpus: int | None) -> int | None:
        return None if cpus == 1 else cpus

    @field_validator("content")
    @classmethod
    def _without_random(cls, content: Content | None) -> Content | None:
        return None if content is Content.RANDOM else content

    @field_validator("window_bytes")
    @classmethod
    def _without_the_systems(cls, window_bytes: int | None) -> int | None:
        return require_window(window_bytes) if window_bytes else None

    @field_validator("write_bytes")
    @classmethod
    def _without_the_usual(cls, write_bytes: int | None) -> int | None:
        return None if write_bytes == USUAL_WRITE_BYTES else write_bytes

    @field_validator("rules")
    @classmethod
    def _without_zero(cls, rules: int | None) -> int | None:
        return rules or None

    @field_validator(INSIDE_OPTION, OUTSIDE_OPTION)
    @classmethod
    def _without_ipv4(cls, version: IpVersion | None, info: ValidationInfo) -> IpVersion | None:
        name = info.field_name or ""
        reason = cls.ipv4_only_inside if name == INSIDE_OPTION else cls.ipv4_only_outside
        if version is IpVersion.IPV6 and reason:
            raise ValueError(f'"{version}" is not possible: {reason}')
        usual: IpVersion | None = cls.model_fields[name].default
        return version if version is IpVersion.IPV6 else usual

    @model_validator(mode="after")
    def _suits_ipv6(self) -> Self:
        if self.inside is not IpVersion.IPV6:
            return self
        if self.firewall or self.rules:
            raise ValueError('firewall and rules filter IPv4 only: leave them out, or set inside = "ipv4"')
        for name in ("mtu", "tun_mtu"):
            mtu_bytes = getattr(self, name, None)
            if mtu_bytes is not None and mtu_bytes < SMALLEST_IPV6_MTU_BYTES:
                raise ValueError(
                    f'inside = "ipv6" needs {name} = {SMALLEST_IPV6_MTU_BYTES} or more, not {mtu_bytes} (RFC 8200)'
                )
        return self


class DeviceMtuOptions(TunnelOptions):
    """Base of the options of a tunnel whose device has an MTU of its own making, which a plan may change."""

    mtu: int | None = Field(
        default=None,
        ge=576,
        le=9000,
        description="MTU of the tunnel's device [bytes]; left out: the one that kernel or program gives it",
    )


@dataclass(frozen=True)
class End:
    """One end of a tunnel."""

    host: Host
    wan_address: str
    wan_device: str
    inner_address: str
    reaches: str
    """Address or network behind the other end; packets to it are routed through the tunnel."""
    wan_address6: str = ""
    """IPv6 address for tunnels whose outer packets are IPv6; the WAN device has this address while such a tunnel is
    up."""
    source: str = ""
    """Source address of the end's own traffic into the tunnel; empty if it only forwards."""
    inner_address6: str = ""
    """IPv6 address of the end's tunnel device, if the traffic is IPv6."""
    reaches6: str = ""
    """`reaches` of IPv6 traffic."""
    source6: str = ""
    """`source` of IPv6 traffic."""

    def outer_address(self, version: IpVersion) -> str:
        """Return the address on the WAN of an IP version."""
        return self.wan_address6 if version is IpVersion.IPV6 else self.wan_address

    def reached(self, version: IpVersion) -> str:
        """Return the address or network behind the other end, of an IP version."""
        return self.reaches6 if version is IpVersion.IPV6 else self.reaches

    def inner_source(self, version: IpVersion) -> str:
        """Return the source address of the end's own traffic into the tunnel, of an IP version."""
        return self.source6 if version is IpVersion.IPV6 else self.source


@dataclass(frozen=True)
class Ends:
    """Both ends, and the machine on which keys are made."""

    router: End
    """The end that opens the connection: the router, or a road warrior that connects to the router."""
    server: End
    """The end that accepts the connection: the server, or the router to which a road warrior connects."""
    local: LocalHost
    mark: str
    """A few characters of the run's id, for names that must be unique on a machine."""
    prepare_device: Callable[[Host, str], None]
    """Function that makes a tunnel's device, given by host and name, behave like Ethernet."""
    is_server_under_test: bool = False
    """True if the end `server` is the router under test, as with a road warrior."""
    is_target_behind_server: bool = False
    """True if the end `server` forwards to the target of the traffic, and is not the target itself."""
    keep: bool = False
    """True if a tunnel that fails stays up, for a user to examine."""

    def __iter__(self) -> Any:
        return iter(((self.router, self.server), (self.server, self.router)))


@dataclass(frozen=True)
class Outer:
    """Packets that carry the tunnel's data on the WAN."""

    protocol: str
    """`udp`, `tcp`, another of IP_PROTOCOLS, or `plain`: no tunnel, the traffic itself."""
    port: int | None = None
    """Port of the server; None if the protocol has no ports."""
    ip_version: int = 4
    ports: int = 1
    """Number of ports from `port` on; more than 1 for parallel tunnels."""
    second_protocol: str = ""
    """Protocol of a second connection to the same port, encrypted as well, by which the program sends the data packets
    that the first one cannot take at once; empty without one."""

    def has_port(self, port: int) -> bool:
        return self.port is not None and self.port <= port < self.port + self.ports

    @property
    def ip_header_bytes(self) -> int:
        """Length of the outer IP header [bytes]."""
        return frames.IPV4_HEADER_BYTES if self.ip_version == 4 else frames.IPV6_HEADER_BYTES

    def __str__(self) -> str:
        if self.protocol == "plain":
            return "plain IP" if self.ip_version == 4 else "plain IPv6"
        words = self.protocol if self.port is None else f"{self.protocol} port {self.port}"
        if self.port is not None and self.ports > 1:
            words = f"{self.protocol} ports {self.port}-{self.port + self.ports - 1}"
        if self.second_protocol:
            words += f" or {self.second_protocol} port {self.port}"
        return words if self.ip_version == 4 else f"{words} over IPv6"


OptionsT = TypeVar("OptionsT", bound=TunnelOptions)


SIGNS_OF_TOO_LONG = ("essage too long", "EMSGSIZE")
"""Parts of lines that daemons print when a packet exceeds the path's MTU (EMSGSIZE, errno(3))."""


class Tunnel(ABC, Generic[OptionsT]):
    """A tunnel between two ends, as a context manager that removes the tunnel at its exit.

    A subclass with a `kind` is registered when it is defined. Its method `_up` brings both ends up. Callbacks that
    `_up` adds to `self._stack` run in reverse order when the tunnel goes down.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    """Description for lists, one line."""
    options_type: ClassVar[type[TunnelOptions]]
    needs: ClassVar[tuple[Requirement, ...]]
    """Requirements of each end, if they are the same with all options."""
    tested_with: ClassVar[str]
    """Versions with which this adapter was seen to work."""
    plans: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Entry, without `kind`, for each shipped plan that the adapters fill: `all`, and `userspace` if a program in user
    space carries the data."""
    added_bytes: ClassVar[Mapping[str, str]] = {}
    """Bytes that the tunnel adds to a packet, in words, by options; the key is empty if the options make no
    difference."""
    bytes_per_packet: ClassVar[int | None] = None
    """Bytes that the tunnel adds to a packet over IPv4, if options and packet make no difference; the audit of
    published tables uses it. None: the audit takes 0, so that a limit is too high rather than too low."""
    weight: ClassVar[int | None] = None
    """Place in the expected order of throughput: 0 without a tunnel, higher for more work on each packet. Kinds of the
    same weight have no expected order. None: no expectation."""
    is_on_virtual_router: ClassVar[bool] = False
    """True if the images of virtual routers have the Debian packages of the tunnel."""
    listens_on_all_addresses: ClassVar[bool] = False
    """True if the program or the kernel cannot bind to one address at the far end."""
    works_on_all_cpus: ClassVar[bool] = False
    """True if the kernel also uses other CPUs for the tunnel than the one on which its packets arrive."""
    signs_of_restart: ClassVar[tuple[str, ...]] = ()
    """Parts of log lines which show that a daemon of the tunnel restarted or lost its peer."""
    signs_of_rekey: ClassVar[tuple[str, ...]] = ()
    """Parts of log lines which show that the two ends have agreed on new keys."""
    device: ClassVar[str] = "tun0"
    """Name of the tunnel's device at both ends; `device_at` may give other names."""

    _registry: ClassVar[dict[str, type[Tunnel[Any]]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            Tunnel._registry[cls.kind] = cls

    def __init__(self, options: OptionsT, ends: Ends) -> None:
        self.options = options
        self.ends = ends
        self.configuration: dict[str, str] = {}
        """Configuration files without secrets, by end and file name."""
        self.router_daemons: list[Daemon] = []
        self.server_daemons: list[Daemon] = []
        self._stack = ExitStack()

    # Facts of an adapter

    @classmethod
    def requirements(cls, options: OptionsT) -> tuple[Requirement, ...]:
        """Return the requirements of each end with these options."""
        return cls.needs

    @classmethod
    def algorithms(cls, options: OptionsT) -> tuple[str, ...]:
        """Return the ciphers and digests of its data packets that its programs compute with this machine's OpenSSL, as
        OpenSSL names them, in small letters; those that another library computes would have another speed."""
        return ()

    @property
    @abstractmethod
    def outer(self) -> Outer:
        """Packets that are expected on the WAN."""

    @property
    def inside(self) -> IpVersion:
        """IP version of the packets in the tunnel."""
        return self.options.inside or IpVersion.IPV4

    @property
    def outside(self) -> IpVersion:
        """IP version of the packets that carry the tunnel."""
        return self.options.outside or IpVersion.IPV4

    @property
    def content(self) -> Content:
        """Data of the traffic through the tunnel."""
        return self.options.content or Content.RANDOM

    @property
    def compression(self) -> Compression | None:
        """Effect of the tunnel on the lengths of the data of its traffic; None: they stay as long as they are."""
        if not self.compresses or not can_shrink(self.content, self.options.write_bytes or USUAL_WRITE_BYTES):
            return None
        if self.content is not Content.REPEATING:
            return Compression()
        return Compression(self._uncompressed_bytes, self.longest_uncompressed_bytes)

    def _uncompressed_bytes(self, inner_packet_bytes: int) -> int:
        # A stream puts several packets into one outer packet, and then takes fewer bytes for headers.
        is_exact = self.has_exact_packets_under_load
        return sum(self.outer_packets_bytes(inner_packet_bytes)) if is_exact else inner_packet_bytes

    @property
    @abstractmethod
    def hides_payload(self) -> bool:
        """True if the payload cannot be read on the WAN."""

    @property
    def is_encrypted(self) -> bool:
        """True if a cipher hides the payload; a compression hides it too, but anybody can undo a compression."""
        return self.hides_payload

    @abstractmethod
    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        """Return the length of the outer IP packet that carries an inner IP packet, both with IP headers [bytes].

        For a tunnel over TCP, it is the length of an outer packet that carries only the record of this inner packet.
        """

    def outer_packets_bytes(self, inner_packet_bytes: int) -> tuple[int, ...]:
        """Return the lengths of all outer IP packets of an inner one; several if the tunnel splits it [bytes]."""
        return (self.outer_packet_bytes(inner_packet_bytes),)

    def counted_bytes(self, inner_packet_bytes: int) -> int:
        """Return the largest number of bytes that the far end's device may count for an inner IP packet that
        arrives."""
        return frames.ethernet_bytes(inner_packet_bytes)

    @property
    def has_exact_outer_packets(self) -> bool:
        """True if each inner packet travels in outer packets of its own."""
        return self.outer.protocol != "tcp"

    @property
    def has_exact_packets_under_load(self) -> bool:
        """True if each inner packet travels in outer packets of its own under load, too: no second connection merges
        packets."""
        return self.has_exact_outer_packets and self.outer.second_protocol != "tcp"

    @property
    def compresses(self) -> bool:
        """True if the length of an outer packet depends on the content; `outer_packet_bytes` then gives the length of
        content that cannot be compressed."""
        return False

    @property
    def longest_uncompressed_bytes(self) -> int:
        """Length of the longest inner packet that a tunnel which compresses sends as it is, whatever its content
        [bytes]; 0: there is none."""
        return 0

    @property
    def pauses_compression(self) -> bool:
        """True if a tunnel that compresses stops for a while after data that it could not compress."""
        return False

    def wire_bytes(self, inner_packet_bytes: int, mtu_bytes: int) -> float:
        """Return the length of an inner IP packet on the WAN's Ethernet with that MTU, preamble and gap included
        [bytes]."""
        header_bytes = self.outer.ip_header_bytes
        outers = self.outer_packets_bytes(inner_packet_bytes)
        if self.has_exact_outer_packets:
            return sum(frames.wire_bytes(outer, mtu_bytes, header_bytes) for outer in outers)
        behind_bytes = header_bytes + frames.TIMESTAMPED_TCP_HEADER_BYTES
        return sum(frames.stream_wire_bytes(outer - behind_bytes, mtu_bytes, header_bytes) for outer in outers)

    @abstractmethod
    def versions(self, end: End) -> Mapping[str, str]:
        """Return the versions of program and crypto library at one end: {"openvpn": "2.6.14", "openssl": "3.0.19"}."""

    @property
    def open_ports(self) -> tuple[int, ...]:
        """UDP ports at the far end that a program or the kernel opens on all addresses."""
        return (self.outer.port,) if self.listens_on_all_addresses and self.outer.port else ()

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the settings that the running tunnel reports with those of the plan."""
        return ()

    @property
    def daemons(self) -> list[Daemon]:
        """Programs at both ends, the router's first."""
        return self.router_daemons + self.server_daemons

    @property
    def has_died(self) -> bool:
        """True if one of its programs has ended."""
        return not all(daemon.is_running for daemon in self.daemons)

    @property
    def daemons_under_test(self) -> list[Daemon]:
        """Programs on the router that is measured."""
        return self.server_daemons if self.ends.is_server_under_test else self.router_daemons

    @property
    def far_daemons(self) -> list[Daemon]:
        """Programs at the end that is not under test."""
        return self.router_daemons if self.ends.is_server_under_test else self.server_daemons

    @property
    def end_under_test(self) -> End:
        """End of the tunnel that is the router that is measured."""
        return self.ends.server if self.ends.is_server_under_test else self.ends.router

    @property
    def far_end(self) -> End:
        """End of the tunnel that is not under test."""
        return self.ends.router if self.ends.is_server_under_test else self.ends.server

    def log_sizes(self) -> tuple[int, ...]:
        """Return how much each daemon has printed so far [bytes], for `restart_since` and `rekeys_since`."""
        return tuple(daemon.log_size_bytes for daemon in self.daemons)

    def restart_since(self, sizes: tuple[int, ...]) -> str:
        """Return the log line, with the daemon's name, in which a daemon reported a restart after `log_sizes` had
        returned `sizes`; or nothing."""
        return next(self._said_since(self.daemons, sizes, self.signs_of_restart), "")

    def too_long_since(self, sizes: tuple[int, ...]) -> str:
        """Return the first log line, after the daemon's name, in which a daemon reports that a packet was too long for
        its socket (EMSGSIZE). Only lines after the sizes that `log_sizes` had returned count. "": there is none.
        """
        return next(self._said_since(self.daemons, sizes, SIGNS_OF_TOO_LONG), "")

    def keep_alives(self) -> tuple[bool, ...]:
        """Return one value for each keep-alive packet that the tunnel's programs have sent so far: True if it was
        answered. The last keep-alive is left out while its answer may still arrive. The result is empty if this kind of
        tunnel does not log keep-alives.
        """
        return ()

    def rekeys_since(self, sizes: tuple[int, ...], *, is_frequent: bool = False) -> list[str]:
        """Return a log line for each change of keys after `log_sizes` had returned `sizes`; none if this kind of
        tunnel does not log them. With `is_frequent`, a kind that must start a program for the answer may skip it."""
        return list(self._said_since(self.router_daemons, sizes, self.signs_of_rekey))

    def is_of_another_client(self, rekey: str) -> bool:
        """Return True if a line of `rekeys_since` reports new keys of another client than the first one of a server."""
        return False

    def _said_since(self, daemons: Sequence[Daemon], sizes: tuple[int, ...], signs: tuple[str, ...]) -> Iterator[str]:
        for daemon, size in zip(daemons, sizes, strict=False):  # the router's come first
            for line in daemon.printed_since(size).splitlines() if signs else ():
                if any(sign in line for sign in signs):
                    end = self.ends.router if daemon in self.router_daemons else self.ends.server
                    yield f"{daemon.name} on the {end.host.name}: {line.strip()}"

    def device_at(self, end: End) -> str:
        """Return the name of the tunnel's device at one end."""
        return self.device

    def devices_at(self, end: End) -> tuple[str, ...]:
        """Return the names of all devices of the tunnel at one end; several if connections are distributed over
        them."""
        return (self.device_at(end),)

    def inner_mtu_bytes(self) -> int | None:
        """Return the MTU of the tunnel's device [bytes]; a larger packet is cut before it. None: unknown."""
        return self.ends.router.host.device_mtu_bytes(self.device_at(self.ends.router))

    @property
    def client_devices(self) -> tuple[str, ...]:
        """Names of the clients' devices, if the tunnel's server has clients in place of one fixed peer; else empty."""
        return ()

    @property
    def is_bridged(self) -> bool:
        """True if a bridge of the router joins its LAN and the tunnel's device, so that it forwards frames and does not
        route packets."""
        return False

    def settle(self) -> None:
        """Wait until a tunnel that answers pings is in its final state; most kinds of tunnels need no such wait."""

    def before_trial(self) -> None:
        """Bring the programs into the same state before each trial; most kinds of tunnels have one state."""

    @classmethod
    def left_files(cls, mark: str) -> Iterable[Path]:
        """Return files that a killed run leaves outside its own folder, by the run's mark."""
        return ()

    def gateway(self, other: End) -> str:
        """Return the other end's address to which packets are sent."""
        return other.inner_address6 if self.inside is IpVersion.IPV6 else other.inner_address

    # Coming up and going down

    @abstractmethod
    def _up(self) -> None:
        """Bring both ends up, addresses included; return when the tunnel reports that it is up."""

    def _route(self) -> None:
        for end, other in self.ends:
            way = ["via", self.gateway(other), "dev", self.device_at(end)]
            reached = end.reached(self.inside)
            end.host.ip("route", "add", reached, *way, *source_words(end, self.inside))
            self._stack.callback(end.host.run, ["ip", "route", "del", reached], check=False)

    def __enter__(self) -> Self:
        try:
            if self.outer.ip_version == 6:
                for end, _ in self.ends:
                    add_ipv6_address(end.host, f"{end.wan_address6}/64", end.wan_device, self._stack)
            self._up()
            if self.inside is IpVersion.IPV6:
                for end, _ in self.ends:
                    self._address_inside(end)
            for end, _ in self.ends:
                self._prepare_device(end)
            self._route()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _prepare_device(self, end: End) -> None:
        for device in self.devices_at(end):
            self.ends.prepare_device(end.host, device)

    @undisturbed
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.ends.keep and isinstance(error, FAILURES):
            return
        self._stack.close()

    # Helpers of adapters

    def _start(self, end: End, argv: list[str], *, name: str = "") -> Daemon:
        """Start a daemon at one end, called by its first word or `name`; it is stopped when the tunnel goes down."""
        daemon = end.host.start(argv, name=name)
        self._stack.callback(daemon.stop)
        (self.router_daemons if end is self.ends.router else self.server_daemons).append(daemon)
        return daemon

    def _add_device(self, end: End, *arguments: str, device: str = "") -> None:
        """Run `ip link add DEVICE ...`; the device, by default the end's, is deleted when the tunnel goes down."""
        device = device or self.device_at(end)
        end.host.ip("link", "add", device, *arguments)
        self._stack.callback(end.host.run, ["ip", "link", "del", device], check=False)

    def _await_device(self, end: End, timeout_s: float = PROGRAM_START_LIMIT_S) -> None:
        """Wait until a daemon has made the device of one end. Raises TunnelRefused when a daemon ends first."""
        device = self.device_at(end)
        deadline = time.monotonic() + timeout_s
        while end.host.run(["ip", "link", "show", "dev", device], check=False).returncode != 0:
            if ended := self._deaths():
                raise TunnelRefused(f"{self.kind}: no device {device} on the {end.host.name}: {ended}")
            if time.monotonic() > deadline:
                raise TunnelRefused(f"{self.kind}: no device {device} on the {end.host.name} in {timeout_s:g} s")
            time.sleep(0.02)

    def _deaths(self) -> str:
        """Name the daemons of both ends that have ended; empty if all run."""
        groups = ((self.ends.router, self.router_daemons), (self.ends.server, self.server_daemons))
        return deaths("while the tunnel came up", *((end.host.name, daemons) for end, daemons in groups))

    def _address_device(self, end: End) -> None:
        """Give the device of one end its inner address, and set it up."""
        device = self.device_at(end)
        end.host.ip("addr", "add", f"{end.inner_address}/24", "dev", device)
        if isinstance(self.options, DeviceMtuOptions) and self.options.mtu is not None:
            end.host.ip("link", "set", device, "mtu", str(self.options.mtu))
        end.host.ip("link", "set", device, "up")

    def _address_inside(self, end: End) -> None:
        """Give the device of one end its IPv6 address, beside the IPv4 address that its program may need."""
        add_ipv6_address(end.host, f"{end.inner_address6}/64", self.device_at(end), self._stack)

    def _outer_address(self, end: End) -> str:
        """Return the address of one end on the WAN, of the tunnel's outer IP version."""
        return end.outer_address(self.outside)

    def _outer_socket(self, end: End, port: int) -> str:
        """Return the address of one end on the WAN with a port, as programs read it."""
        return with_port(self._outer_address(end), port)

    def _write(self, end: End, name: str, content: str, *, secret: bool = False) -> str:
        """Write a file at one end and return its path there; it is deleted when the tunnel goes down.

        Its text is kept with the results unless it is a secret.
        """
        path = end.host.write(name, content)
        self._stack.callback(end.host.remove, path)
        if not secret:
            self.configuration[f"{end.host.name}/{name}"] = content
        return str(path)

    def _write_certificates(self) -> dict[str, dict[str, str]]:
        """Write certificates of a new CA, whose key is deleted, and return the paths of `ca`, `cert`, `key` by end."""
        authority = certificates.new_authority(self.ends.local, [end.host.name for end, _ in self.ends])
        return {
            end.host.name: {
                "ca": self._write(end, "ca.crt", authority.certificate),
                "cert": self._write(end, "end.crt", authority.issued[end.host.name].certificate),
                "key": self._write(end, "end.key", authority.issued[end.host.name].key, secret=True),
            }
            for end, _ in self.ends
        }

    def _require(self, daemon: Daemon, text: str, timeout_s: float = PROGRAM_START_LIMIT_S) -> None:
        """Wait until a daemon prints `text`. Raises TunnelRefused when it does not, or ends first."""
        if not daemon.wait_for(text, timeout_s):
            silent = f"{daemon.name} printed no `{text}` in {timeout_s:g} s; last: {daemon.last_lines()}"
            raise TunnelRefused(f"{self.kind}: {self._deaths() or silent}")


def source_words(end: End, version: IpVersion = IpVersion.IPV4) -> list[str]:
    """Return the words of a route that give the end's own packets their source address."""
    source = end.inner_source(version)
    return ["src", source] if source else []


def equals(name: str, asked: str, found: str) -> Check:
    """Check that the daemon uses the requested value; case, `-` and `_` in names of algorithms are ignored."""
    return is_so(name, _plain(asked) == _plain(found), f"asked for {asked}, in use: {found}")


def is_so(name: str, passed: bool, reason: str) -> Check:
    """Return the check of a condition that the running tunnel must fulfil; the verdict is void if it does not."""
    return Check(name, Verdict.OK if passed else Verdict.VOID, reason, rule=3)


def handshake(*, happened: bool) -> Check:
    """Return the check that the ends of a tunnel have agreed on their keys."""
    return is_so("handshake", happened, "handshake done" if happened else "no handshake took place")


def _plain(algorithm: str) -> str:
    return algorithm.lower().replace("-", "").replace("_", "")
