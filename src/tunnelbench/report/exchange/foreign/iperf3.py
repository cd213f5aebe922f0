"""JSON of iperf3 (`iperf3 --json`), of either end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import PACED_SHARE
from tunnelbench.model.text import LONGEST_REASON, printable
from tunnelbench.report.exchange.foreign.result import (
    ForeignResult,
    cell_text,
    object_or_empty,
    payload_text,
    rate_text,
)
from tunnelbench.report.exchange.json_object import json_object

_HINT = "name the output of iperf3 --json"
_LATEST_S = 2**32
"""Latest time of a test that is used [s since 1970]."""


def recognises(text: str) -> bool:
    """Return True if a text looks like the output of iperf3."""
    return text.lstrip().startswith("{") and '"iperf 3' in text and '"start"' in text


def read(text: str) -> ForeignResult:
    """Return the throughput of each direction. Raises WrongInput if the test failed, or carried nothing."""
    whole = json_object(text.encode(), _HINT, may_repeat_keys=True)
    start, end = object_or_empty(whole.get("start")), object_or_empty(whole.get("end"))
    if whole.get("error"):
        raise WrongInput(f"the test failed: {printable(str(whole['error']))[:LONGEST_REASON]}", "measure again")
    settings = object_or_empty(start.get("test_start"))
    protocol = cell_text(settings.get("protocol")).lower()
    is_reverse = bool(settings.get("reverse"))
    received = {
        "in" if is_reverse else "out": object_or_empty(end.get("sum_received")),
        "out" if is_reverse else "in": object_or_empty(end.get("sum_received_bidir_reverse")),
    }
    if protocol == "udp" and not any(received.values()) and "accepted_connection" not in start:
        received["in" if is_reverse else "out"] = _received_of_sum(
            object_or_empty(end.get("sum")), is_sent=not is_reverse
        )
    payload = payload_text(settings.get("blksize") if protocol == "udp" else start.get("tcp_mss_default"))
    streams = settings.get("num_streams")
    target_mbps = _target_mbps(settings, start)
    both = "both directions at the same time" if all(received.values()) else ""
    rows = [
        {
            "traffic": f"iperf3 {protocol}{f', streams: {streams}' if isinstance(streams, int) else ''}",
            "payload_bytes": payload,
            "direction": direction,
            "throughput_mbps": rate_text(_mbps(found), f"the throughput of direction {direction}"),
            "comment": "; ".join(filter(None, (both, _paced_comment(_mbps(found), target_mbps)))),
        }
        for direction, found in received.items()
        if found
    ]
    version = cell_text(start.get("version")).removeprefix("iperf ")
    duration = settings.get("duration")
    lasting = f" for {duration:g} s" if isinstance(duration, int | float) and duration else ""
    return ForeignResult(
        program=f"iperf3 {version}",
        title=f"iperf3 test over {protocol.upper() or 'an unknown protocol'}",
        date=_date(object_or_empty(start.get("timestamp")).get("timesecs")),
        method=f"iperf3{lasting} between its client and its server; figures of the receiver.",
        rows=tuple(rows),
        trials_per_row=1,
    )


def _received_of_sum(sums: Mapping[str, Any], *, is_sent: bool) -> Mapping[str, Any]:
    """Return what the receiver got of a UDP test of the client: iperf3 before version 3.7 has one sum.

    The sum has the rate of the client; a client that sends reports beside it how much was lost.
    """
    rate, lost = sums.get("bits_per_second"), sums.get("lost_percent")
    if not is_sent or not isinstance(rate, int | float) or not isinstance(lost, int | float):
        return sums
    return {"bits_per_second": rate * (1 - lost / 100)}


def _target_mbps(settings: Mapping[str, Any], start: Mapping[str, Any]) -> float:
    """Return the rate that `-b` asks for in one direction [Mbit/s]; 0 if the test was not paced.

    The option holds for each stream. Over UDP, iperf3 paces each test, by default at 1 Mbit/s.
    """
    target, streams = settings.get("target_bitrate", start.get("target_bitrate")), settings.get("num_streams")
    if not isinstance(target, int | float) or isinstance(target, bool):
        return 0.0
    if not isinstance(streams, int) or isinstance(streams, bool) or streams < 1:
        streams = 1
    return target / 1e6 * streams


def _paced_comment(mbps: object, target_mbps: float) -> str:
    """Return a remark if a test reached the rate at which `-b` paced it: the path may carry more.

    `says_lower_bound` recognises it.
    """
    if not isinstance(mbps, int | float) or not 0 < target_mbps * PACED_SHARE <= mbps:
        return ""
    return f"paced at {target_mbps:.6g} Mbit/s by iperf3 -b"


def _mbps(sums: Mapping[str, Any]) -> object:
    rate = sums.get("bits_per_second")
    return rate / 1e6 if isinstance(rate, int | float) and not isinstance(rate, bool) else rate


def _date(time_s: Any) -> str:
    is_time = isinstance(time_s, int) and 0 < time_s < _LATEST_S
    return datetime.fromtimestamp(time_s, UTC).date().isoformat() if is_time else ""
