"""What a tunnel adapter is. One file a technology; it sees two ends and never a testbed."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict

from tunnelbench.host.command import Daemon, undisturbed
from tunnelbench.host.host import Host, LocalHost
from tunnelbench.model import frames
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.result import Check, Verdict

IPV4_HEADER_BYTES = 20
UDP_HEADER_BYTES = 8
TCP_HEADER_BYTES = 32
"""With time stamps."""
ETHERNET_HEADER_BYTES = 14


START_LIMIT_S = 20.0
"""For a program to start: charon took more than 5 s in an emulated guest on a busy machine. One that ends is not waited
for."""


class TunnelOptions(BaseModel):
    """Base of an adapter's options: a plan's keys, their types and defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class End:
    """One end of a tunnel."""

    host: Host
    wan_address: str
    wan_device: str
    inner_address: str
    reaches: str
    """Address or network that lies behind the other end, to be routed through the tunnel."""
    wan_address6: str = ""
    """For tunnels whose packets are IPv6; it is there while such a tunnel is up."""
    source: str = ""
    """The address that its own traffic into the tunnel comes from; empty where it only forwards."""


@dataclass(frozen=True)
class Ends:
    """Both ends, and the machine on which keys are made."""

    router: End
    """The end that calls: the router, unless a road warrior calls it."""
    server: End
    """The end that is called: the server, unless the router is a road warrior's."""
    local: LocalHost
    mark: str
    """A few characters of the run, for names that must be unique on a machine."""
    prepare_device: Callable[[Host, str], None]
    """Makes a tunnel's device behave like Ethernet."""
    is_server_under_test: bool = False
    """Whether `server` is the router that is measured."""

    def __iter__(self) -> Any:
        return iter(((self.router, self.server), (self.server, self.router)))


@dataclass(frozen=True)
class Requirement:
    """Something that must be there for a tunnel to come up."""

    what: str
    """Such as `the program openvpn` or `the kernel's vxlan`."""
    is_met: Callable[[Host], bool]
    remedy: str
    modules: tuple[str, ...] = ()
    """Of the kernel, any that would do; empty where it is not the kernel's to have."""
    makes_keys: bool = False
    """Whether it only makes keys, and so is needed on the controller's machine alone."""


@dataclass(frozen=True)
class Outer:
    """The packets that are to carry the tunnel's data on the WAN."""

    protocol: str
    """`udp`, `tcp`, another of IP_PROTOCOLS, or `plain`: no tunnel, the traffic itself."""
    port: int | None = None
    """The server's port; None for a protocol that has none."""
    ip_version: int = 4
    ports: int = 1
    """So many, from `port` on, where several tunnels work side by side."""

    def has_port(self, port: int) -> bool:
        return self.port is not None and self.port <= port < self.port + self.ports

    @property
    def ip_header_bytes(self) -> int:
        return frames.IPV4_HEADER_BYTES if self.ip_version == 4 else frames.IPV6_HEADER_BYTES

    def __str__(self) -> str:
        if self.protocol == "plain":
            return "plain IP"
        words = self.protocol if self.port is None else f"{self.protocol} port {self.port}"
        if self.port is not None and self.ports > 1:
            words = f"{self.protocol} ports {self.port}-{self.port + self.ports - 1}"
        return words if self.ip_version == 4 else f"{words} over IPv6"


OptionsT = TypeVar("OptionsT", bound=TunnelOptions)


class Tunnel(ABC, Generic[OptionsT]):
    """A tunnel between router and server. A context manager: leaving it takes everything down.

    A subclass sets `kind`, `title`, `options_type` and `tested_with`, is registered by being defined, and brings both
    ends up in `_up`. What it registers there on `self._stack` is undone in reverse order.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    """One line for lists."""
    options_type: ClassVar[type[TunnelOptions]]
    tested_with: ClassVar[str]
    """Versions that this adapter was seen to work with."""
    works_on_all_cpus: ClassVar[bool] = False
    """Whether its work is done on other CPUs than the one on which its packets arrive."""
    signs_of_restart: ClassVar[tuple[str, ...]] = ()
    """What its daemons print when they begin anew or lose each other."""
    signs_of_rekey: ClassVar[tuple[str, ...]] = ()
    """What its daemons print when the ends have agreed on new keys."""
    device: ClassVar[str] = "tun0"
    """Name of the tunnel's device at both ends, unless `device_at` says otherwise."""

    _registry: ClassVar[dict[str, type[Tunnel[Any]]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            Tunnel._registry[cls.kind] = cls

    def __init__(self, options: OptionsT, ends: Ends) -> None:
        self.options = options
        self.ends = ends
        self.configuration: dict[str, str] = {}
        """Rendered configuration without secrets, by end and file name."""
        self.router_daemons: list[Daemon] = []
        self.server_daemons: list[Daemon] = []
        self._stack = ExitStack()

    # What an adapter says of itself

    @classmethod
    @abstractmethod
    def requirements(cls, options: OptionsT) -> tuple[Requirement, ...]:
        """What each end needs."""

    @classmethod
    def algorithms(cls, options: OptionsT) -> tuple[str, ...]:
        """The ciphers and digests of its data packets, as OpenSSL names them, in small letters."""
        return ()

    @property
    @abstractmethod
    def outer(self) -> Outer:
        """What is to be seen on the WAN."""

    @property
    @abstractmethod
    def hides_payload(self) -> bool:
        """Whether the payload cannot be read on the WAN."""

    @abstractmethod
    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        """Length of the outer IP packet that carries an inner IP packet, both with their IP headers [bytes].

        For stream transports, where outer packets do not match inner ones, the length of one record in a packet of
        its own.
        """

    def outer_packets_bytes(self, inner_packet_bytes: int) -> tuple[int, ...]:
        """Lengths of all outer IP packets that carry an inner one; more than one where the tunnel itself splits it."""
        return (self.outer_packet_bytes(inner_packet_bytes),)

    def counted_bytes(self, inner_packet_bytes: int) -> int:
        """What the far end's device may count at most for an inner IP packet that arrives [bytes]."""
        return frames.ethernet_bytes(inner_packet_bytes)

    @property
    def has_exact_outer_packets(self) -> bool:
        """Whether each inner packet travels in outer packets of its own."""
        return self.outer.protocol != "tcp"

    @property
    def compresses(self) -> bool:
        """Whether the length of an outer packet depends on the content; `outer_packet_bytes` is then what is left where
        nothing can be compressed."""
        return False

    def wire_bytes(self, inner_packet_bytes: int, mtu_bytes: int) -> float:
        """What an inner IP packet takes on the WAN's Ethernet with that MTU, preamble and gap included [bytes]."""
        header_bytes = self.outer.ip_header_bytes
        outers = self.outer_packets_bytes(inner_packet_bytes)
        if self.has_exact_outer_packets:
            return sum(frames.wire_bytes(outer, mtu_bytes, header_bytes) for outer in outers)
        behind_bytes = header_bytes + TCP_HEADER_BYTES
        return sum(frames.stream_wire_bytes(outer - behind_bytes, mtu_bytes, header_bytes) for outer in outers)

    @abstractmethod
    def versions(self, end: End) -> Mapping[str, str]:
        """Versions of program and crypto library at one end, such as {"openvpn": "2.6.14", "openssl": "3.0.19"}."""

    def negotiated(self) -> tuple[Check, ...]:
        """What the running tunnel says that it uses, against what was asked."""
        return ()

    @property
    def has_died(self) -> bool:
        """Whether one of its programs has ended."""
        return not all(daemon.is_running for daemon in (*self.router_daemons, *self.server_daemons))

    @property
    def daemons_under_test(self) -> list[Daemon]:
        """Its programs on the router that is measured."""
        return self.server_daemons if self.ends.is_server_under_test else self.router_daemons

    @property
    def far_daemons(self) -> list[Daemon]:
        """Its programs at the other end."""
        return self.router_daemons if self.ends.is_server_under_test else self.server_daemons

    @property
    def far_end(self) -> End:
        """The end that a tester has."""
        return self.ends.router if self.ends.is_server_under_test else self.ends.server

    def log_sizes(self) -> tuple[int, ...]:
        """How much each daemon has printed so far [bytes]: a mark for `restart_since`."""
        return tuple(daemon.log_size_bytes for daemon in (*self.router_daemons, *self.server_daemons))

    def restart_since(self, sizes: tuple[int, ...]) -> str:
        """What a daemon has printed since then of beginning anew, the daemon named; empty where none has."""
        daemons = (*self.router_daemons, *self.server_daemons)
        return next(self._said_since(daemons, sizes, self.signs_of_restart), "")

    def keep_alives(self) -> tuple[bool, ...]:
        """Of each keep-alive that its programs have sent so far, whether it was answered; one that may yet be is left
        out. Empty where this kind of tunnel does not tell."""
        return ()

    def rekeys_since(self, sizes: tuple[int, ...]) -> list[str]:
        """What has been said since then of new keys, once a change; none where this kind of tunnel does not tell."""
        return list(self._said_since(self.router_daemons, sizes, self.signs_of_rekey))

    def _said_since(self, daemons: Sequence[Daemon], sizes: tuple[int, ...], signs: tuple[str, ...]) -> Iterator[str]:
        for daemon, size in zip(daemons, sizes, strict=False):  # the router's come first
            for line in daemon.printed_since(size).splitlines() if signs else ():
                if any(sign in line for sign in signs):
                    end = self.ends.router if daemon in self.router_daemons else self.ends.server
                    yield f"{daemon.name} on the {end.host.name}: {line.strip()}"

    def device_at(self, end: End) -> str:
        """Name of the tunnel's device at one end."""
        return self.device

    def devices_at(self, end: End) -> tuple[str, ...]:
        """Names of all its devices at one end: several where connections are shared out among tunnels."""
        return (self.device_at(end),)

    def settle(self) -> None:
        """Wait until a tunnel that answers works as it will go on to work; most do at once."""

    @classmethod
    def left_files(cls, mark: str) -> Iterable[Path]:
        """Files that a killed run leaves outside its own folder, by the run's mark."""
        return ()

    def gateway(self, other: End) -> str:
        """The other end's address to which packets are sent."""
        return other.inner_address

    # Coming up and going down

    @abstractmethod
    def _up(self) -> None:
        """Bring both ends up, addresses included; returns when the tunnel says that it is up."""

    def _route(self) -> None:
        for end, other in self.ends:
            way = ["via", self.gateway(other), "dev", self.device_at(end)]
            end.host.ip("route", "add", end.reaches, *way, *source_words(end))
            self._stack.callback(end.host.run, ["ip", "route", "del", end.reaches], check=False)

    def __enter__(self) -> Self:
        try:
            if self.outer.ip_version == 6:
                for end, _ in self.ends:
                    self._address_wan6(end)
            self._up()
            for end, _ in self.ends:
                self._prepare_device(end)
            self._route()
        except BaseException:
            with undisturbed():
                self._stack.close()
            raise
        return self

    def _prepare_device(self, end: End) -> None:
        for device in self.devices_at(end):
            self.ends.prepare_device(end.host, device)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with undisturbed():
            self._stack.close()

    # What adapters share

    def _start(self, end: End, argv: list[str], *, name: str = "") -> Daemon:
        """Start a daemon at one end, called by its first word or `name`; it is stopped when the tunnel goes down."""
        daemon = end.host.start(argv, name=name)
        self._stack.callback(daemon.stop)
        (self.router_daemons if end is self.ends.router else self.server_daemons).append(daemon)
        return daemon

    def _add_device(self, end: End, *arguments: str) -> None:
        """`ip link add DEVICE ...`; the device is deleted when the tunnel goes down."""
        device = self.device_at(end)
        end.host.ip("link", "add", device, *arguments)
        self._stack.callback(end.host.run, ["ip", "link", "del", device], check=False)

    def _await_device(self, end: End, timeout_s: float) -> None:
        """Wait until a program has made the device of one end."""
        device = self.device_at(end)
        deadline = time.monotonic() + timeout_s
        while end.host.run(["ip", "link", "show", "dev", device], check=False).returncode != 0:
            if time.monotonic() > deadline:
                reason = f"no device {device} on the {end.host.name} in {timeout_s:g} s"
                raise TunnelRefused(f"{self.kind}: {reason}")
            time.sleep(0.02)

    def _address_device(self, end: End) -> None:
        device = self.device_at(end)
        end.host.ip("addr", "add", f"{end.inner_address}/24", "dev", device)
        end.host.ip("link", "set", device, "up")

    def _address_wan6(self, end: End) -> None:
        """Give the WAN device its IPv6 address, and no other that would talk: IPv6 is off where it is not used."""
        settings = f"/proc/sys/net/ipv6/conf/{end.wan_device}"
        for name, value in (("addr_gen_mode", "1"), ("accept_ra", "0"), ("disable_ipv6", "0")):
            before = end.host.run(["cat", f"{settings}/{name}"]).stdout.strip()
            end.host.set_kernel_file(f"{settings}/{name}", value)
            self._stack.callback(end.host.set_kernel_file, f"{settings}/{name}", before)
        words = [f"{end.wan_address6}/64", "dev", end.wan_device]
        end.host.ip("-6", "addr", "add", *words, "nodad")
        self._stack.callback(end.host.run, ["ip", "-6", "addr", "del", *words], check=False)

    def _write(self, end: End, name: str, content: str, *, secret: bool = False) -> str:
        """Write a file at one end, deleted when the tunnel goes down; returns its path there.

        Its text is kept with the results unless it is a secret.
        """
        path = end.host.write(name, content)
        self._stack.callback(end.host.remove, path)
        if not secret:
            self.configuration[f"{end.host.name}/{name}"] = content
        return str(path)

    def _require(self, daemon: Daemon, text: str, timeout_s: float) -> None:
        """Wait until a daemon prints `text`."""
        if not daemon.wait_for(text, timeout_s):
            state = f"printed no `{text}` in {timeout_s:g} s" if daemon.is_running else "ended while it came up"
            raise TunnelRefused(f"{self.kind}: {daemon.name} {state}; last: {daemon.last_line()}")


def source_words(end: End) -> list[str]:
    """Of a route: where packets of the end's own come from."""
    return ["src", end.source] if end.source else []


def equals(name: str, asked: str, found: str) -> Check:
    """Check that the daemon uses what was asked for; case and punctuation of algorithm names differ freely."""
    same = _plain(asked) == _plain(found)
    verdict = Verdict.OK if same else Verdict.VOID
    return Check(name, verdict, f"asked for {asked}, in use: {found}", rule=3)


def _plain(algorithm: str) -> str:
    return algorithm.lower().replace("-", "").replace("_", "")


def program(name: str, package: str = "") -> Requirement:
    """A program that must be installed."""
    return Requirement(f"the program {name}", lambda host: host.has_program(name), f"apt-get install {package or name}")


def key_maker(name: str) -> Requirement:
    """A program that makes keys and certificates, on the controller's machine."""
    return replace(program(name), makes_keys=True)


def path(what: str, name: str, package: str) -> Requirement:
    """A file that must be installed; `what` is what people call it."""
    return Requirement(what, lambda host: host.has_path(name), f"apt-get install {package}")


def tun_device() -> Requirement:
    """What a tunnel in user space gets its device from."""
    return Requirement("/dev/net/tun", lambda host: host.has_path("/dev/net/tun"), "modprobe tun")


def ipv6() -> Requirement:
    """What a tunnel whose packets are IPv6 needs of the kernel."""
    return Requirement("the kernel's IPv6", lambda host: host.has_path("/proc/sys/net/ipv6"), "a kernel that has it")


def link_type(name: str, module: str = "") -> Requirement:
    """A kind of device that the kernel must know."""
    return Requirement(
        f"the kernel's {name}",
        lambda host: host.has_link_type(name),
        f"modprobe {module or name}, or a kernel that has it",
        (module or name,),
    )
