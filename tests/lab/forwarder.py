"""A router of known behaviour on a tun device: `forwarder.py DEVICE WHAT EVERY [DELAY_S]`.

Of the UDP packets to the engine's port that it forwards, each EVERY-th is delayed, duplicated, held back behind the
next one, or cut. When its standard input closes it prints what it did, as JSON.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import select
import struct
import sys
import time

PORT = 5202
TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CUT_BYTES = 4


def open_tun(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def is_ours(packet: bytes) -> bool:
    return packet[0] == 0x45 and packet[9] == 17 and struct.unpack("!H", packet[22:24])[0] == PORT


def checksum(header: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def cut(packet: bytes) -> bytes:
    """The packet without its last bytes, its headers made to agree; without a UDP checksum (RFC 768 has that)."""
    shorter = bytearray(packet[:-CUT_BYTES])
    struct.pack_into("!H", shorter, 2, len(shorter))
    struct.pack_into("!H", shorter, 10, 0)
    struct.pack_into("!H", shorter, 10, checksum(bytes(shorter[:20])))
    struct.pack_into("!HH", shorter, 24, len(shorter) - 20, 0)
    return bytes(shorter)


def main() -> None:  # noqa: C901 - one loop, one case a line
    name, what, every = sys.argv[1], sys.argv[2], int(sys.argv[3])
    delay_s = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    tun = open_tun(name)
    seen = done = 0
    held: bytes | None = None
    due: list[tuple[float, int, bytes]] = []
    print("ready", flush=True)
    while True:
        wait_s = max(0.0, due[0][0] - time.monotonic()) if due else None
        readable, _, _ = select.select([tun, sys.stdin], [], [], wait_s)
        while due and due[0][0] <= time.monotonic():
            os.write(tun, heapq.heappop(due)[2])
        if sys.stdin in readable:
            break
        if tun not in readable:
            continue
        packet = os.read(tun, 65536)
        if not is_ours(packet):
            if packet[0] >> 4 == 4:
                os.write(tun, packet)
            continue
        seen += 1
        is_chosen = seen % every == 0
        done += is_chosen
        if is_chosen and what == "delay":
            heapq.heappush(due, (time.monotonic() + delay_s, seen, packet))
        elif is_chosen and what == "hold":
            held = packet
        elif is_chosen and what == "cut":
            os.write(tun, cut(packet))
        else:
            os.write(tun, packet)
            if is_chosen and what == "duplicate":
                os.write(tun, packet)
            if held is not None:
                os.write(tun, held)
                held = None
    print(json.dumps({"seen": seen, "done": done}), flush=True)


if __name__ == "__main__":
    main()
