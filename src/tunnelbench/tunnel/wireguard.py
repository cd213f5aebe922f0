"""WireGuard by the kernel, and by wireguard-go in user space: one protocol, two programs."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel.base import (
    IPV4_HEADER_BYTES,
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

SOCKET_LISTENS_S = 0.05
"""From the socket's file being there to somebody listening on it, which takes microseconds."""


class Options(TunnelOptions):
    """Options of `wireguard` and `wireguard-go`."""

    mtu: int = Field(default=1420, ge=576, le=8920, description="MTU of the tunnel's device [bytes]")
    port: int = Field(default=51820, ge=1, le=65535, description="UDP port at both ends")


class WireGuardFamily(Tunnel[Options]):
    """What the implementations of WireGuard share: all but how the device is made."""

    options_type = Options

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
        device = self.device_at(self.ends.router)
        handshakes = self.ends.router.host.run(["wg", "show", device, "latest-handshakes"]).stdout.split()
        happened = len(handshakes) == 2 and int(handshakes[1]) > 0
        verdict = Verdict.OK if happened else Verdict.VOID
        return (Check("handshake", verdict, "handshake done" if happened else "no handshake took place", rule=3),)

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

    def _create_device(self, end: End) -> None:
        self._add_device(end, "type", "wireguard")


class WireGuardGo(WireGuardFamily):
    """Plan entry: `kind = "wireguard-go"`."""

    kind = "wireguard-go"
    title = "WireGuard in user space, in Go"
    tested_with = "wireguard-go 0.0.20220316"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        return (tun_device(), program("wireguard-go"), program("wg", "wireguard-tools"))

    @classmethod
    def left_files(cls, mark: str) -> Iterable[Path]:
        return CONTROL_SOCKETS.glob(f"wg[rs]-{mark}.sock")

    def versions(self, end: End) -> Mapping[str, str]:
        return {"wireguard-go": version_of(end.host, ["wireguard-go", "--version"], r"wireguard-go v?(\S+)")}

    def _create_device(self, end: End) -> None:
        device = self.device_at(end)
        daemon = self._start(end, ["wireguard-go", "-f", device])
        deadline = time.monotonic() + 5
        while not end.host.has_path(str(CONTROL_SOCKETS / f"{device}.sock")):
            if not daemon.is_running or time.monotonic() > deadline:
                raise TunnelRefused(f"wireguard-go did not come up; last: {daemon.last_line()}")
            time.sleep(0.01)
        # Not asked by `wg` whether it is ready: that deletes a socket on which nobody listens yet.
        time.sleep(SOCKET_LISTENS_S)
