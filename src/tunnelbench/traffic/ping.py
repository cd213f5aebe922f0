"""ping of iputils: command line and summary."""

from __future__ import annotations

import re

from tunnelbench.model.result import Ping

INTERVAL_S = 0.1


def command(
    address: str, *, count: int | None = None, interval_s: float = INTERVAL_S, payload_bytes: int = 56
) -> list[str]:
    """Ping until interrupted, or `count` times; an answer after 1 s is a lost one."""
    counted = ["-c", str(count)] if count else []
    return ["ping", "-n", "-q", "-i", f"{interval_s:g}", "-W", "1", "-s", str(payload_bytes), *counted, address]


def parse(text: str, *, interrupted: bool = False) -> Ping:
    """The summary that ping prints at its end; nothing sent where there is none.

    One that is interrupted may just have sent another: its last is not counted as lost.
    """
    counts = re.search(r"\b(\d{1,9}) packets transmitted, (\d{1,9}) received", text)
    times = re.search(r"= [\d.]+/[\d.]+/(\d{1,9}(?:\.\d{1,9})?)/", text)
    if not counts:
        return Ping(0, 0, None)
    sent, answered = int(counts[1]), int(counts[2])
    under_way = int(interrupted and sent > answered)
    return Ping(sent - under_way, answered, float(times[1]) if times else None)
