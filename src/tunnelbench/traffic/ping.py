"""Command line and summary of ping (iputils)."""

from __future__ import annotations

import re

from tunnelbench.model.counters import Ping

PING_INTERVAL_S = 0.1


def command(
    address: str,
    *,
    count: int | None = None,
    interval_s: float = PING_INTERVAL_S,
    payload_bytes: int = 56,
    device: str = "",
    deadline_s: int | None = None,
) -> list[str]:
    """Return the command for `count` pings, or for pings until it is interrupted; 1 s without an answer is a loss.

    With `device`, the pings leave by this device, whatever the routes say. With `deadline_s`, more pings follow until
    `count` are answered, or until that time has passed.
    """
    counted = ["-c", str(count)] if count else []
    bound = ["-I", device] if device else []
    ended = ["-w", str(deadline_s)] if deadline_s is not None else []
    words = ["ping", "-n", "-q", "-i", f"{interval_s:g}", "-W", "1", "-s", str(payload_bytes)]
    return [*words, *bound, *counted, *ended, address]


def parse(text: str, *, interrupted: bool = False) -> Ping:
    """Return the figures of ping's summary; zero packets sent if it printed none.

    An interrupted ping may have just sent a packet: a last packet without an answer is not counted.
    """
    counts = re.search(r"\b(\d{1,9}) packets transmitted, (\d{1,9}) received", text)
    times = re.search(r"= [\d.]+/[\d.]+/(\d{1,9}(?:\.\d{1,9})?)/", text)
    if not counts:
        return Ping(0, 0, None)
    sent, answered = int(counts[1]), int(counts[2])
    under_way = int(interrupted and sent > answered)
    return Ping(sent - under_way, answered, float(times[1]) if times else None)
