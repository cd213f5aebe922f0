"""WireGuard by the kernel, and by wireguard-go and boringtun in user space: one protocol, three programs."""

from __future__ import annotations

import sysconfig
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from tunnelbench.host.parsing import count, parsing
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.frames import AEAD_TAG_BYTES, udp_packet_bytes
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import PROGRAM_START_LIMIT_S, End, Outer, handshake, is_so
from tunnelbench.tunnel.clients import ServerOptions, ServerTunnel
from tunnelbench.tunnel.requirements import Requirement, link_type, program, tun_device
from tunnelbench.tunnel.versions import kernel_version, version_of

DATA_HEADER_BYTES = 16
"""Length of type, receiver and counter of a data message (WireGuard protocol, section 5.4.6)."""

PADDING_BYTES = 16
"""Multiple to which the inner packet is padded before encryption, but never beyond the device's MTU."""

CONTROL_SOCKETS = Path("/var/run/wireguard")
"""Folder of the control sockets of implementations in user space, the same in all namespaces."""

WG = program("wg", "wireguard-tools", openwrt="wireguard-tools")

BORINGTUN, BORINGTUN_VERSION = "boringtun-cli", "0.7.1"

SOCKET_LISTENS_S = 0.05
"""Time to wait for a listener after the socket's file exists [s]; it takes microseconds."""

ANY = {IpVersion.IPV4: "0.0.0.0/0", IpVersion.IPV6: "::/0"}
"""Network of all inner addresses, by IP version."""

CLIENT_PAUSE_S = 0.021
"""Pause from the answer to a handshake to the client's next one [s]. A server ignores the second of two that it handles
within 20 ms, and the client repeats it after 5 s (INITIATIONS_PER_SECOND in drivers/net/wireguard/messages.h, and
REKEY_TIMEOUT)."""

HANDSHAKE_INTERVAL_S = 120.0
"""Time between two handshakes while data flow [s] (WireGuard protocol, section 6.2, REKEY_AFTER_TIME)."""

HANDSHAKE_POLL_S = 10.0
"""Interval between two frequent queries for a new handshake [s]; each query starts a program."""


class Options(ServerOptions):
    """Options of `wireguard`, `wireguard-go` and `boringtun`."""

    ipv4_only_inside = ipv4_only_outside = ""

    mtu: int = Field(default=1420, ge=576, le=9000, description="MTU of the tunnel's device [bytes]")
    port: int = Field(default=51820, ge=1, le=65535, description="UDP port at both ends")

    @property
    def rekey_interval_s(self) -> float:
        return HANDSHAKE_INTERVAL_S


class WireGuardFamily(ServerTunnel[Options]):
    """Base of the implementations of WireGuard, which differ in how they make the device.

    All three listen on every address of the machine, because the protocol's tools have no option for one (wg(8)). They
    answer only who knows the public key, which is new for each tunnel (`open_ports`).
    """

    options_type = Options
    added_bytes = {"": "60, and padding to 16 that never exceeds the MTU"}
    listens_on_all_addresses = True
    grows_with_clients = False
    _peer: list[str]
    """Words of `wg set` that name the server to a client."""
    _handshake = (0.0, 0.0)
    """The latest handshake at the last query, as `_handshake_at` returns it."""
    _asked_s = 0.0
    hides_payload = True

    @abstractmethod
    def _create_device(self, end: End, device: str) -> None:
        """Make a device of one end."""

    @property
    def outer(self) -> Outer:
        return Outer("udp", self.options.port, self.outside.number)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        padded = -(-inner_packet_bytes // PADDING_BYTES) * PADDING_BYTES
        sealed = max(inner_packet_bytes, min(padded, self.options.mtu))
        return udp_packet_bytes(DATA_HEADER_BYTES + sealed + AEAD_TAG_BYTES, self.outer.ip_header_bytes)

    def device_at(self, end: End) -> str:
        # The control sockets of user space implementations lie in one folder for all namespaces.
        return f"wg{end.host.name[0]}-{self.ends.mark}"

    def devices_at(self, end: End) -> tuple[str, ...]:
        others = range(1, (self.options.clients or 1) if end is self.ends.router else 1)
        return (self.device_at(end), *map(self.device_of_client, others))

    def device_of_client(self, client: int) -> str:
        """Return the name of the device of a client, counted from 0."""
        end = self.ends.router
        return f"wg{end.host.name[0]}{client}-{self.ends.mark}" if client else self.device_at(end)

    def negotiated(self) -> tuple[Check, ...]:
        """Check that a handshake took place; there is nothing to negotiate, for the cipher is ChaCha20-Poly1305."""
        router = self.ends.router
        return (handshake(happened=all(self._printed_handshake_s(router, each) for each in self.devices_at(router))),)

    def rekeys_since(self, sizes: tuple[int, ...], *, is_frequent: bool = False) -> list[str]:
        """Return a line for a new handshake since the last query. The query runs on the server, so that it costs the
        router no CPU time. Handshakes are two minutes apart (WireGuard protocol, section 6.2, REKEY_AFTER_TIME).
        """
        if is_frequent and time.monotonic() - self._asked_s < HANDSHAKE_POLL_S:
            return []
        self._asked_s = time.monotonic()
        before, self._handshake = self._handshake, self._handshake_at(self.ends.server)
        (_, latest_before), (earliest, latest) = before, self._handshake
        if not latest_before or earliest <= latest_before:
            return []
        return [f"handshake at {datetime.fromtimestamp(latest, UTC):%H:%M:%S} UTC"]

    def _handshake_at(self, end: End) -> tuple[float, float]:
        """Return the earliest and the latest possible time of the last handshake [s since 1970]; 0 if none was."""
        seconds = self._printed_handshake_s(end, self.device_at(end))
        return seconds, seconds

    def _printed_handshake_s(self, end: End, device: str) -> int:
        """Return the number that `wg show` prints for the latest handshake of a device with any of its peers."""
        said = end.host.run(["wg", "show", device, "latest-handshakes"]).stdout.split()
        with parsing("the time of the handshake that `wg show` prints"):
            return max(map(count, said[1::2]), default=0)

    def _up(self) -> None:
        if self.options.clients:
            self._up_with_clients()
            return
        private_keys = {end.host.name: self.ends.local.run(["wg", "genkey"]).stdout for end, _ in self.ends}
        public_keys = {
            name: self.ends.local.run(["wg", "pubkey"], stdin=key).stdout.strip() for name, key in private_keys.items()
        }
        for end, other in self.ends:
            device = self.device_at(end)
            self._create_device(end, device)
            key_path = self._write(end, "private.key", private_keys[end.host.name], secret=True)
            # fmt: off
            arguments = ["wg", "set", device, "listen-port", str(self.options.port), "private-key", key_path,
                         "peer", public_keys[other.host.name], "allowed-ips", ANY[self.inside],
                         "endpoint", self._outer_socket(other, self.options.port)]
            # fmt: on
            end.host.run(arguments)
            self.configuration[f"{end.host.name}/command"] = " ".join(arguments)
            end.host.ip("link", "set", device, "mtu", str(self.options.mtu))
            self._address_device(end)

    def _up_with_clients(self) -> None:
        """Set up the server, which learns each client's address at its first packet, and then the clients."""
        caller, called = self.ends.router, self.ends.server
        server_key, server_public = self._new_keys()
        keys = [self._new_keys() for _ in range(self.options.all_clients)]
        server = self.device_at(called)
        words = ["listen-port", str(self.options.port)]
        for client, (_, public) in enumerate(keys):
            allowed = f"{self.inner_address_of(client)}/32,{self.traffic_address_of(client)}/32"
            words += ["peer", public, "allowed-ips", allowed]
        self._set_up_device(called, server, server_key, called.inner_address, words)
        address = self._outer_socket(called, self.options.port)
        self._peer = ["peer", server_public, "allowed-ips", ANY[self.inside], "endpoint", address]
        for client, (key, _) in enumerate(keys):
            device = self.device_of_client(client)
            self._set_up_device(caller, device, key, self.inner_address_of(client), self._peer)
            if device not in self.client_devices:
                self.ends.prepare_device(caller.host, device)

    @contextmanager
    def joined(self, number: int) -> Iterator[str]:
        """Forget the server and its keys, and name it again: the next packet makes a handshake.

        The device of the client stays, because only a handshake costs the server anything.
        """
        device = self.device_of_client(number)
        self.ends.router.host.run(["wg", "set", device, *self._peer[:2], "remove", *self._peer])
        yield device
        time.sleep(CLIENT_PAUSE_S)

    def _new_keys(self) -> tuple[str, str]:
        """Return a new private key and its public key."""
        private = self.ends.local.run(["wg", "genkey"]).stdout
        return private, self.ends.local.run(["wg", "pubkey"], stdin=private).stdout.strip()

    def _set_up_device(self, end: End, device: str, key: str, address: str, words: list[str]) -> None:
        """Make a device with a private key, an address and the settings `words` of `wg set`."""
        self._create_device(end, device)
        arguments = ["wg", "set", device, "private-key", self._write(end, f"{device}.key", key, secret=True), *words]
        end.host.run(arguments)
        self.configuration[f"{end.host.name}/{device}"] = " ".join(arguments)
        end.host.ip("link", "set", device, "mtu", str(self.options.mtu))
        end.host.ip("addr", "add", f"{address}/24", "dev", device)
        end.host.ip("link", "set", device, "up")


class WireGuard(WireGuardFamily):
    """Plan entry: `kind = "wireguard"`. The kernel distributes its ciphers over all CPUs of the machine."""

    kind = "wireguard"
    bytes_per_packet = 60  # 20 IP, 8 UDP, 16 header, 16 tag
    is_on_virtual_router = True
    title = "WireGuard of the kernel"
    tested_with = "Linux 6.1 (Debian 12)"
    plans = {"all": {"name": "WireGuard"}}
    works_on_all_cpus = True
    needs = (link_type("wireguard", openwrt="kmod-wireguard"), WG)

    def versions(self, end: End) -> Mapping[str, str]:
        return kernel_version(end.host)

    def counted_bytes(self, inner_packet_bytes: int) -> int:
        """Return the length of the whole message (drivers/net/wireguard/receive.c)."""
        message_bytes = self.outer_packet_bytes(inner_packet_bytes) - udp_packet_bytes(0, self.outer.ip_header_bytes)
        return max(message_bytes, super().counted_bytes(inner_packet_bytes))

    def _create_device(self, end: End, device: str) -> None:
        self._add_device(end, "type", "wireguard", device=device)


class UserSpaceWireGuard(WireGuardFamily):
    """A program that makes the device and listens on a control socket of its name."""

    @abstractmethod
    def _command(self, device: str) -> list[str]:
        """Return the command that makes the device and stays in the foreground."""

    @classmethod
    def left_files(cls, mark: str) -> Iterable[Path]:
        return CONTROL_SOCKETS.glob(f"wg*-{mark}.sock")

    def _create_device(self, end: End, device: str) -> None:
        socket = CONTROL_SOCKETS / f"{device}.sock"
        self._stack.callback(end.host.remove, socket)  # a program that is killed leaves it
        daemon = self._start(end, self._command(device))
        deadline = time.monotonic() + PROGRAM_START_LIMIT_S
        while not end.host.has_path(str(socket)):
            if ended := self._deaths():
                raise TunnelRefused(f"{self.kind}: {ended}")
            if time.monotonic() > deadline:
                reason = f"no socket {socket} on the {end.host.name} in {PROGRAM_START_LIMIT_S:g} s"
                raise TunnelRefused(f"{self.kind}: {reason}; last of {daemon.name}: {daemon.last_lines()}")
            time.sleep(0.01)
        # `wg` cannot be asked if it is ready: it deletes a socket without a listener.
        time.sleep(SOCKET_LISTENS_S)


class WireGuardGo(UserSpaceWireGuard):
    """Plan entry: `kind = "wireguard-go"`."""

    kind = "wireguard-go"
    title = "WireGuard in user space, in Go"
    tested_with = "wireguard-go 0.0.20220316"
    plans = {"all": {}, "userspace": {}}
    needs = (tun_device(), program("wireguard-go"), WG)

    def versions(self, end: End) -> Mapping[str, str]:
        return {"wireguard-go": version_of(end.host, ["wireguard-go", "--version"], r"wireguard-go v?(\S+)")}

    def _command(self, device: str) -> list[str]:
        return ["wireguard-go", "-f", device]


class BoringTun(UserSpaceWireGuard):
    """Plan entry: `kind = "boringtun"`. Debian has no package of it; cargo builds it in a minute or two."""

    kind = "boringtun"
    title = "WireGuard in user space, in Rust"
    tested_with = "boringtun-cli 0.7.1"
    plans = {"all": {}, "userspace": {}}
    added_bytes = {"": "60: it does not pad"}
    needs = (
        tun_device(),
        Requirement(BORINGTUN, lambda host: host.has_program(boringtun()), crate=f"{BORINGTUN}@{BORINGTUN_VERSION}"),
        WG,
    )

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        # Section 5.4.6 asks for padding; boringtun sends packets as long as they are.
        return udp_packet_bytes(DATA_HEADER_BYTES + inner_packet_bytes + AEAD_TAG_BYTES, self.outer.ip_header_bytes)

    def negotiated(self) -> tuple[Check, ...]:
        """Check that boringtun has decrypted data; it reports the age of its handshake in place of the time."""
        device = self.device_at(self.ends.router)
        columns = self.ends.router.host.run(["wg", "show", device, "transfer"]).stdout.split()
        with parsing("the number of bytes that `wg show` prints"):
            unsealed_bytes = count(columns[1]) if len(columns) == 3 else 0
        return (is_so("handshake", unsealed_bytes > 0, f"{unsealed_bytes} bytes decrypted with the session's key"),)

    def _handshake_at(self, end: End) -> tuple[float, float]:
        # boringtun reports the age in place of the time, in whole seconds; `wg` may start slowly on a busy machine.
        asked_at = time.time()
        age_s = self._printed_handshake_s(end, self.device_at(end))
        return asked_at - age_s - 1, time.time() - age_s

    def versions(self, end: End) -> Mapping[str, str]:
        return {"boringtun": version_of(end.host, [boringtun(), "--version"], r"boringtun (\S+)")}

    def _command(self, device: str) -> list[str]:
        # By default it gives up root for the user who called sudo, and then cannot make the device.
        return [boringtun(), "--foreground", "--disable-drop-privileges", device]


def boringtun() -> str:
    """Return the program: this installation's, else the one on the PATH."""
    ours = Path(sysconfig.get_path("scripts"), BORINGTUN)
    return str(ours) if ours.is_file() else BORINGTUN
