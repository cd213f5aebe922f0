"""TCP by the real iperf3: its command lines, and its JSON as figures.

The client runs on the client; `in` is iperf3's reverse mode. The server is a fresh one for each trial, since one that
has lost a client may hang.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.plan import TCP_TIMESTAMPS_BYTES, Direction, TcpTraffic
from tunnelbench.model.result import Interval

PORT = 5201


def server_command(address: str, interval_s: float) -> list[str]:
    """An iperf3 server for one test; it takes no interval from its client."""
    # fmt: off
    return ["iperf3", "--server", "--one-off", "--json", "--interval", f"{interval_s:g}",
            "--bind", address, "--port", str(PORT)]
    # fmt: on


def client_command(address: str, traffic: TcpTraffic, payload_bytes: int, direction: Direction) -> list[str]:
    """The client of one test; the payload is set through the MSS, which counts the time stamps too."""
    # fmt: off
    return ["iperf3", "--client", address, "--port", str(PORT), "--json",
            "--time", str(traffic.duration_s), "--interval", f"{traffic.interval_s:g}",
            "--set-mss", str(payload_bytes + TCP_TIMESTAMPS_BYTES), "--parallel", str(traffic.streams),
            "--congestion", traffic.congestion_control, *(["--reverse"] if direction is Direction.IN else [])]
    # fmt: on


@dataclass(frozen=True)
class Iperf3Result:
    """Figures of one finished test."""

    duration_s: float
    """Timed by the receiver [s]."""
    bytes_received: int
    bytes_sent: int
    retransmits: int | None
    intervals: tuple[Interval, ...]
    """As the receiver read them."""
    congestion_control: str


LONGEST_S = 1e7
"""Longer than any test: a time beyond it is none [s]."""

MOST = 2**63
"""More bytes than any test moves, and than a database holds."""


def parse(client_json: str, server_json: str, direction: Direction) -> Iperf3Result:
    """The figures of a test from what both ends printed; TrialFailed with iperf3's own words when it failed."""
    client = _load("client", client_json)
    server = _load("server", server_json)
    try:
        received = client["end"]["sum_received"]
        sent = client["end"]["sum_sent"]
        receiver = client if direction is Direction.IN else server
        duration_s = _seconds(received["seconds"])
        if duration_s == 0:
            raise TrialFailed("iperf3 says that its test took no time")
        return Iperf3Result(
            duration_s=duration_s,
            bytes_received=_count(received["bytes"]),
            bytes_sent=_count(sent["bytes"]),
            retransmits=_count_if_told(sent.get("retransmits")),
            intervals=tuple(_interval(entry["sum"]) for entry in receiver["intervals"]),
            congestion_control=str(client["end"].get("sender_tcp_congestion", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrialFailed(f"iperf3's JSON is not as expected: {error!r:.200}") from None


def without_host_name(text: str) -> str:
    """iperf3's output without the name of the machine (in `system_info`, as of uname): results are passed on."""
    return re.sub(r'("system_info":\s*"\S+ )\S+', r"\1-", text)


def _load(end: str, text: str) -> Mapping[str, Any]:
    # An interrupted iperf3 may print two documents; a hung one none.
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        first_line = text.strip().splitlines()[0] if text.strip() else "nothing"
        raise TrialFailed(f"iperf3's {end} printed no JSON: {first_line[:200]}") from None
    if not isinstance(document, dict):
        raise TrialFailed(f"iperf3's {end} printed no JSON object")
    if "error" in document:
        raise TrialFailed(f"iperf3's {end} says: {str(document['error'])[:200]}")
    return document


def _interval(entry: Mapping[str, Any]) -> Interval:
    return Interval(
        start_s=_seconds(entry["start"]),
        end_s=_seconds(entry["end"]),
        bytes=_count(entry["bytes"]),
        retransmits=_count_if_told(entry.get("retransmits")),
    )


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LONGEST_S:
        raise ValueError(f"{value!r:.40} is no time")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST or value % 1:
        raise ValueError(f"{value!r:.40} is no number of bytes or packets")
    return int(value)


def _count_if_told(value: object) -> int | None:
    return None if value is None else _count(value)
