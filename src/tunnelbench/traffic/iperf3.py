"""Command lines and JSON output of iperf3, which offers TCP.

iperf3's client runs on the client; direction `in` is its reverse mode. Each trial starts a new server, because a server
that has lost its client may hang.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunnelbench.model.conditions import USUAL_WRITE_BYTES, Content
from tunnelbench.model.errors import TrialFailed
from tunnelbench.model.frames import TCP_TIMESTAMPS_BYTES
from tunnelbench.model.plan import Direction, TcpTraffic
from tunnelbench.model.result import Interval

IPERF3_PORT = 5201

ACTUAL_BUFFERS = ("sndbuf_actual", "rcvbuf_actual")
"""Names by which iperf3 reports the sizes of the socket buffers that the kernel gave it."""
LOST_SERVER = "control socket has closed unexpectedly"
"""The client's message if the server has ended."""

REFUSED_BUFFERS = "socket buffer size"
"""Words of iperf3 if the kernel gives it smaller socket buffers than it asks for (IESETBUF, IESETBUF2)."""
BUFFER_LIMITS = (
    "Linux limits window_bytes by net.core.wmem_max and net.core.rmem_max of each tester: raise them with sysctl, or "
    "take a smaller value"
)


def server_command(address: str, interval_s: float, port: int = IPERF3_PORT) -> list[str]:
    """Return the command of a server for one test; the server does not get the interval from its client."""
    # fmt: off
    return ["iperf3", "--server", "--one-off", "--json", "--interval", f"{interval_s:g}",
            "--bind", address, "--port", str(port)]
    # fmt: on


def client_command(
    address: str,
    traffic: TcpTraffic,
    payload_bytes: int,
    direction: Direction,
    load: str = "",
    *,
    port: int = IPERF3_PORT,
    device: str = "",
    content: Content = Content.RANDOM,
    window_bytes: int = 0,
    write_bytes: int = USUAL_WRITE_BYTES,
) -> list[str]:
    """Return the command of a client; it sets the payload through the MSS, which includes the TCP time stamps.

    `load` is the rate of all streams together [Mbit/s]; empty: as fast as TCP can. With `device`, the connections leave
    by this device, whatever the routes say. iperf3 sends a random block of `write_bytes` again and again, so that no
    packet can be compressed, or the data of `content`. Both ends get socket buffers of `window_bytes`; 0: the system's.
    """
    paced = ["--bitrate", str(_stream_bps(traffic, load))] if load else []
    bound = ["--bind-dev", device] if device else []
    repeated = ["--repeating-payload"] if content is Content.REPEATING else []
    buffered = ["--window", str(window_bytes)] if window_bytes else []
    # fmt: off
    return ["iperf3", "--client", address, "--port", str(port), *bound, "--json",
            "--time", str(traffic.duration_s), "--interval", f"{traffic.interval_s:g}",
            "--set-mss", str(payload_bytes + TCP_TIMESTAMPS_BYTES), "--length", str(write_bytes),
            "--parallel", str(traffic.streams),
            "--congestion", traffic.congestion_control, *paced, *repeated, *buffered,
            *(["--reverse"] if direction is Direction.IN else [])]
    # fmt: on


def planned_settings(
    traffic: TcpTraffic,
    payload_bytes: int,
    direction: Direction,
    load: str = "",
    *,
    window_bytes: int = 0,
    write_bytes: int = USUAL_WRITE_BYTES,
) -> dict[str, Any]:
    """Return the settings with which both ends must report the test of `client_command`, by iperf3's names.

    Linux doubles the size that a program asks for, for its own use (SO_SNDBUF, socket(7)).
    """
    return {
        "protocol": "TCP",
        "num_streams": traffic.streams,
        "duration": traffic.duration_s,
        "reverse": int(direction is Direction.IN),
        "bidir": 0,
        "blksize": write_bytes,
        "omit": 0,
        "bytes": 0,
        "blocks": 0,
        "target_bitrate": _stream_bps(traffic, load) if load else 0,
        "tcp_mss": payload_bytes + TCP_TIMESTAMPS_BYTES,
        "sender_tcp_congestion": traffic.congestion_control,
        "receiver_tcp_congestion": traffic.congestion_control,
        "connections": traffic.streams,
        "sock_bufsize": window_bytes,
        **(dict.fromkeys(ACTUAL_BUFFERS, 2 * window_bytes) if window_bytes else {}),
    }


def _stream_bps(traffic: TcpTraffic, load: str) -> int:
    """Return the rate of each stream [bit/s]."""
    return round(float(load) * 1e6 / traffic.streams)


@dataclass(frozen=True)
class Iperf3Result:
    """The figures of one finished test."""

    duration_s: float
    """Duration by the receiver's clock [s]."""
    bytes_received: int
    bytes_sent: int
    retransmits: int | None
    intervals: tuple[Interval, ...]
    """Readings of the receiver, each with the retransmits of the sender's reading of the same number."""
    settings: Mapping[str, Mapping[str, Any]]
    """Settings of the test as each end reports them, by `client` and `server` and by iperf3's names."""


def together(results: Sequence[Iperf3Result], starts_s: Sequence[float]) -> Iperf3Result:
    """Return the sum of tests that ran at the same time; `starts_s` are their starts by one clock [s].

    The duration reaches from the start of the first test to the end of the last, so that the sum never exceeds the rate
    that the path carried. Settings have the number of the test in the name of their end.
    """
    if len(results) == 1:
        return results[0]
    resent = [result.retransmits for result in results if result.retransmits is not None]
    ends_s = [start_s + result.duration_s for start_s, result in zip(starts_s, results, strict=True)]
    return Iperf3Result(
        duration_s=max(ends_s) - min(starts_s),
        bytes_received=sum(result.bytes_received for result in results),
        bytes_sent=sum(result.bytes_sent for result in results),
        retransmits=sum(resent) if len(resent) == len(results) else None,
        intervals=tuple(
            Interval(
                start_s=min(each.start_s for each in same),
                end_s=max(each.end_s for each in same),
                bytes=sum(each.bytes for each in same),
                retransmits=sum(each.retransmits or 0 for each in same),
            )
            for same in zip(*(result.intervals for result in results), strict=False)
        ),
        settings={
            f"{end} {number}": settings
            for number, result in enumerate(results, start=1)
            for end, settings in result.settings.items()
        },
    )


LONGEST_S = 1e7
"""Largest time in iperf3's output that is accepted [s]."""

MOST_COUNT = 2**63
"""Largest count in iperf3's output that is accepted; a database cannot hold a larger one."""


def parse(client_json: str, server_json: str, direction: Direction) -> Iperf3Result:
    """Return the figures of a test from the output of both ends. Raises TrialFailed with iperf3's own message."""
    if LOST_SERVER in client_json and server_json.strip():
        _load("server", server_json)  # raises with the cause, if the server names one
    client = _load("client", client_json)
    server = _load("server", server_json)
    try:
        received = client["end"]["sum_received"]
        sent = client["end"]["sum_sent"]
        receiver, sender = (client, server) if direction is Direction.IN else (server, client)
        sent_again = [_optional_count(entry["sum"].get("retransmits")) for entry in sender["intervals"]]
        duration_s = _seconds(received["seconds"])
        if duration_s == 0:
            raise TrialFailed("iperf3 reports that its test took 0 s")
        return Iperf3Result(
            duration_s=duration_s,
            bytes_received=_count(received["bytes"]),
            bytes_sent=_count(sent["bytes"]),
            retransmits=_optional_count(sent.get("retransmits")),
            intervals=tuple(
                _interval(entry["sum"], sent_again[number] if number < len(sent_again) else None)
                for number, entry in enumerate(receiver["intervals"])
            ),
            settings={"client": _settings(client), "server": _settings(server)},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrialFailed(f"iperf3's JSON is not as expected: {error!r:.200}") from None


KEPT_BYTES = 1_000_000
"""Longest output that is stored as it came [bytes]."""


def for_store(text: str) -> str:
    """Return the output as it is stored: without the machine's name, and a long one without its readings.

    The measurement holds the receiver's readings, summed over the streams. Raises TrialFailed as `parse` does.
    """
    if len(text) > KEPT_BYTES:
        document = dict(_load("output", text))
        intervals = document.get("intervals", [])
        if not isinstance(intervals, list):
            raise TrialFailed(f"iperf3's JSON is not as expected: its intervals are {intervals!r:.200}")
        document["intervals"] = f"{len(intervals)} readings are left out"
        text = json.dumps(document)
    return without_host_name(text)


def without_host_name(text: str) -> str:
    """Return the output without the machine's name in `system_info`, because users pass results on."""
    return re.sub(r'("system_info":\s*"[^"\s]+ )\S+', r"\1-", text)


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that one end reports, without those that its version does not have."""
    start, end = document["start"], document["end"]
    found = {**start["test_start"], "connections": len(start["connected"])}
    parts = {
        **dict.fromkeys(("tcp_mss", "sock_bufsize", *ACTUAL_BUFFERS), start),
        **dict.fromkeys(("sender_tcp_congestion", "receiver_tcp_congestion"), end),
    }
    return found | {name: part[name] for name, part in parts.items() if name in part}


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
        said = str(document["error"])[:200]
        hint = f"; {BUFFER_LIMITS}" if REFUSED_BUFFERS in said else ""
        raise TrialFailed(f"iperf3's {end} says: {said}{hint}")
    return document


def _interval(entry: Mapping[str, Any], retransmits: int | None) -> Interval:
    return Interval(
        start_s=_seconds(entry["start"]),
        end_s=_seconds(entry["end"]),
        bytes=_count(entry["bytes"]),
        retransmits=retransmits,
    )


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LONGEST_S:
        raise ValueError(f"{value!r:.40} is not a time")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MOST_COUNT or value % 1:
        raise ValueError(f"{value!r:.40} is not a number of bytes or packets")
    return int(value)


def _optional_count(value: object) -> int | None:
    return None if value is None else _count(value)
