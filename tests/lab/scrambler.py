"""A tunnel that XORs packets, which is no encryption, and stops when it gets a signal; the lengths stay the same."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest

from tunnelbench.measure import live_tunnel
from tunnelbench.model.frames import udp_packet_bytes
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.tunnel.base import End, Ends, Outer, Tunnel, TunnelOptions

PORT = 7777

PROGRAM = """
import fcntl, os, select, signal, socket, struct, sys
device, own, other, port = sys.argv[1:]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", device.encode(), 0x1001))  # TUNSETIFF: IFF_TUN, IFF_NO_PI
cable = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
cable.bind((own, int(port)))
cable.connect((other, int(port)))
key = int.from_bytes(b"\\xa5" * 2048, "big")

def stop(*_):
    global key
    key = 0

signal.signal(signal.SIGUSR1, stop)

def changed(packet):
    bits = len(packet) * 8
    return (int.from_bytes(packet, "big") ^ key & (1 << bits) - 1).to_bytes(len(packet), "big")

print("up", flush=True)
while True:
    for ready in select.select([tun, cable], [], [])[0]:
        try:
            if ready is tun:
                cable.send(changed(os.read(tun, 2048)))
            else:
                os.write(tun, changed(cable.recv(2048)))
        except OSError:
            pass
"""


class Scrambler(Tunnel[TunnelOptions]):
    """The adapter; without a kind it is not registered, and no plan can name it."""

    title = "packets that are not encrypted, in UDP"
    options_type = TunnelOptions
    outer = Outer("udp", PORT)
    hides_payload = True
    needs = ()
    made: ClassVar[list[Scrambler]] = []

    def __init__(self, options: TunnelOptions, ends: Ends) -> None:
        super().__init__(options, ends)
        self.made.append(self)

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return udp_packet_bytes(inner_packet_bytes)

    def versions(self, end: End) -> Mapping[str, str]:
        return {}

    def _up(self) -> None:
        for end, other in self.ends:
            words = [self.device, end.wan_address, other.wan_address, str(PORT)]
            self._require(self._start(end, [sys.executable, "-c", PROGRAM, *words], name="scrambler"), "up")
            self._address_device(end)
            end.host.ip("link", "set", self.device, "mtu", "1472")

    @classmethod
    def stop_hiding(cls) -> None:
        """Let both ends of the tunnel that was made last send packets as they are."""
        for daemon in cls.made[-1].daemons:
            os.kill(daemon.pid, signal.SIGUSR1)


def use(monkeypatch: pytest.MonkeyPatch) -> TunnelSpec:
    """Let every tunnel be a scrambler; return the plan's entry."""
    made: Callable[[TunnelSpec, Ends], Scrambler] = lambda _, ends: Scrambler(TunnelOptions(), ends)  # noqa: E731
    monkeypatch.setattr(live_tunnel, "create", made)
    return TunnelSpec("scrambler", "scrambler")
