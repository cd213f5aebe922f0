"""WireGuard by the kernel, and by wireguard-go and boringtun in user space: one protocol, three programs."""

from __future__ import annotations

import sys
import sysconfig
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel.base import (
    IPV4_HEADER_BYTES,
    START_LIMIT_S,
    UDP_HEADER_BYTES,
    End,
    Outer,
    Requirement,
    Tunnel,
    TunnelOptions,
    link_type,
    program,
    tun_device,
)
from tunnelbench.tunnel.versions import kernel_version, version_of

DATA_HEADER_BYTES = 16
"""Type, receiver and counter of a data message (WireGuard protocol, section 5.4.6)."""

TAG_BYTES = 16
"""Poly1305."""

PADDING_BYTES = 16
"""The inner packet is padded to a multiple of this before it is sealed, but never beyond the device's MTU."""

CONTROL_SOCKETS = Path("/var/run/wireguard")
"""Where user space implementations put their control sockets, whatever namespace they are in."""

BORINGTUN, BORINGTUN_VERSION = "boringtun-cli", "0.7.1"

SOCKET_LISTENS_S = 0.05
"""From the socket's file being there to somebody listening on it, which takes microseconds."""

HANDSHAKE_POLL_S = 10.0
"""Between two looks for a new handshake: each starts a program."""


class Options(TunnelOptions):
    """Options of `wireguard`, `wireguard-go` and `boringtun`."""

    mtu: int = Field(default=1420, ge=576, le=8920, description="MTU of the tunnel's device [bytes]")
    port: int = Field(default=51820, ge=1, le=65535, description="UDP port at both ends")


class WireGuardFamily(Tunnel[Options]):
    """What the implementations of WireGuard share: all but how the device is made."""

    options_type = Options
    _handshake = 0
    _asked_s = 0.0

    @abstractmethod
    def _create_device(self, end: End) -> None:
        """Make the device of one end."""

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        return ("chacha20-poly1305",)

    @property
    def outer(self) -> Outer:
        return Outer("udp", self.options.port)

    @property
    def hides_payload(self) -> bool:
        return True

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        padded = -(-inner_packet_bytes // PADDING_BYTES) * PADDING_BYTES
        sealed = max(inner_packet_bytes, min(padded, self.options.mtu))
        return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + DATA_HEADER_BYTES + sealed + TAG_BYTES

    def device_at(self, end: End) -> str:
        # The control sockets of user space implementations lie in one folder for all namespaces.
        return f"wg{end.host.name[0]}-{self.ends.mark}"

    def negotiated(self) -> tuple[Check, ...]:
        """WireGuard negotiates nothing (it is always ChaCha20-Poly1305); that a handshake took place is what counts."""
        happened = self._handshake_at(self.ends.router) > 0
        verdict = Verdict.OK if happened else Verdict.VOID
        return (Check("handshake", verdict, "handshake done" if happened else "no handshake took place", rule=3),)

    def rekeys_since(self, sizes: tuple[int, ...]) -> list[str]:
        """Asked of the server, so that the router does not pay for it; handshakes are two minutes apart (WireGuard
        protocol, section 6.2, REKEY_AFTER_TIME)."""
        if time.monotonic() - self._asked_s < HANDSHAKE_POLL_S:
            return []
        self._asked_s = time.monotonic()
        before, self._handshake = self._handshake, self._handshake_at(self.ends.server)
        if not before or self._handshake == before:
            return []
        return [f"handshake at {datetime.fromtimestamp(self._handshake, UTC):%H:%M:%S} UTC"]

    def _handshake_at(self, end: End) -> int:
        """When the latest was [s since 1970]; 0: there was none."""
        said = end.host.run(["wg", "show", self.device_at(end), "latest-handshakes"]).stdout.split()
        return int(said[1]) if len(said) == 2 else 0

    def _up(self) -> None:
        private_keys = {end.host.name: self._new_key() for end, _ in self.ends}
        public_keys = {
            name: self.ends.local.run(["wg", "pubkey"], stdin=key).stdout.strip() for name, key in private_keys.items()
        }
        for end, other in self.ends:
            self._create_device(end)
            device = self.device_at(end)
            key_path = self._write(end, "private.key", private_keys[end.host.name], secret=True)
            # fmt: off
            arguments = ["wg", "set", device, "listen-port", str(self.options.port), "private-key", key_path,
                         "peer", public_keys[other.host.name], "allowed-ips", "0.0.0.0/0",
                         "endpoint", f"{other.wan_address}:{self.options.port}"]
            # fmt: on
            end.host.run(arguments)
            self.configuration[f"{end.host.name}/command"] = " ".join(arguments)
            end.host.ip("link", "set", device, "mtu", str(self.options.mtu))
            self._address_device(end)

    def _new_key(self) -> str:
        return self.ends.local.run(["wg", "genkey"]).stdout


class WireGuard(WireGuardFamily):
    """Plan entry: `kind = "wireguard"`. The kernel spreads its ciphers over all CPUs of the machine."""

    kind = "wireguard"
    title = "WireGuard of the kernel"
    tested_with = "Linux 6.1 (Debian 12)"
    works_on_all_cpus = True

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return (link_type("wireguard"), program("wg", "wireguard-tools"))

    def versions(self, end: End) -> Mapping[str, str]:
        return kernel_version(end.host)

    def counted_bytes(self, inner_packet_bytes: int) -> int:
        """The whole message (drivers/net/wireguard/receive.c)."""
        message_bytes = self.outer_packet_bytes(inner_packet_bytes) - IPV4_HEADER_BYTES - UDP_HEADER_BYTES
        return max(message_bytes, super().counted_bytes(inner_packet_bytes))

    def _create_device(self, end: End) -> None:
        self._add_device(end, "type", "wireguard")


class UserSpaceWireGuard(WireGuardFamily):
    """A program that makes the device and listens on a control socket of its name."""

    @abstractmethod
    def _command(self, device: str) -> list[str]:
        """What makes the device and stays in the foreground."""

    @classmethod
    def left_files(cls, mark: str) -> Iterable[Path]:
        return CONTROL_SOCKETS.glob(f"wg[rs]-{mark}.sock")

    def _create_device(self, end: End) -> None:
        device = self.device_at(end)
        daemon = self._start(end, self._command(device))
        deadline = time.monotonic() + START_LIMIT_S
        while not end.host.has_path(str(CONTROL_SOCKETS / f"{device}.sock")):
            if not daemon.is_running or time.monotonic() > deadline:
                raise TunnelRefused(f"{daemon.name} did not come up; last: {daemon.last_line()}")
            time.sleep(0.01)
        # Not asked by `wg` whether it is ready: that deletes a socket on which nobody listens yet.
        time.sleep(SOCKET_LISTENS_S)


class WireGuardGo(UserSpaceWireGuard):
    """Plan entry: `kind = "wireguard-go"`."""

    kind = "wireguard-go"
    title = "WireGuard in user space, in Go"
    tested_with = "wireguard-go 0.0.20220316"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return (tun_device(), program("wireguard-go"), program("wg", "wireguard-tools"))

    def versions(self, end: End) -> Mapping[str, str]:
        return {"wireguard-go": version_of(end.host, ["wireguard-go", "--version"], r"wireguard-go v?(\S+)")}

    def _command(self, device: str) -> list[str]:
        return ["wireguard-go", "-f", device]


class BoringTun(UserSpaceWireGuard):
    """Plan entry: `kind = "boringtun"`. Debian has no package of it; cargo builds it in a minute or two."""

    kind = "boringtun"
    title = "WireGuard in user space, in Rust"
    tested_with = "boringtun-cli 0.7.1"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        built = Requirement(
            BORINGTUN,
            lambda host: host.has_program(boringtun()),
            f"cargo install --locked --version {BORINGTUN_VERSION} --root {sys.prefix} {BORINGTUN}",
        )
        return (tun_device(), built, program("wg", "wireguard-tools"))

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        # Section 5.4.6 asks for padding; boringtun sends packets as long as they are.
        return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + DATA_HEADER_BYTES + inner_packet_bytes + TAG_BYTES

    def negotiated(self) -> tuple[Check, ...]:
        """It tells the age of its handshake where others tell its time: what it has unsealed is asked for."""
        device = self.device_at(self.ends.router)
        columns = self.ends.router.host.run(["wg", "show", device, "transfer"]).stdout.split()
        unsealed_bytes = int(columns[1]) if len(columns) == 3 else 0
        verdict = Verdict.OK if unsealed_bytes else Verdict.VOID
        return (Check("handshake", verdict, f"{unsealed_bytes} bytes unsealed with the session's key", rule=3),)

    def versions(self, end: End) -> Mapping[str, str]:
        return {"boringtun": version_of(end.host, [boringtun(), "--version"], r"boringtun (\S+)")}

    def _command(self, device: str) -> list[str]:
        # It would give up root for the user who called sudo, and then could not make the device.
        return [boringtun(), "--foreground", "--disable-drop-privileges", device]


def boringtun() -> str:
    """The program: that of this installation, else the one on the PATH."""
    ours = Path(sysconfig.get_path("scripts"), BORINGTUN)
    return str(ours) if ours.is_file() else BORINGTUN
