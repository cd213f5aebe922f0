"""Compares figures of a trial that follow from each other. A figure that was edited by hand contradicts the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from math import gcd

from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Check, TcpMeasurement, TrialRecord
from tunnelbench.model.udp import UdpCounts

SERIES_TOLERANCE = 0.02
"""Largest relative difference between the bytes of a series and the total; iperf3 3.12 has none."""
WINDOW_TOLERANCE = 0.02
"""Largest share by which the window may exceed the trial that it lies in."""
RATE_FACTOR = 1.5
"""Largest quotient of the rates of the window and of the whole trial; 1.04 was seen in trials of 2 s."""
CLOCK_TOLERANCE_S = 2.0
"""Largest time by which a trial may be shorter by its own clock than the traffic in it [s]."""

COMMON_FACTOR_CHANCE = 1e-6
"""Largest probability with which counts have a factor in common by chance."""

STATED: dict[str, tuple[re.Pattern[str], Callable[[TcpMeasurement], tuple[int, ...]]]] = {
    "packet-rate": (re.compile(r"^([0-9]{1,18}) data packets counted;"), lambda tcp: (tcp.counters.data_packets,)),
    "acks": (
        re.compile(r"^([0-9]{1,18}) ACKs came back through the path for ([0-9]{1,18}) data packets"),
        lambda tcp: (tcp.counters.ack_packets, tcp.counters.data_packets),
    ),
    "iperf3-figures": (re.compile(r"iperf3 reports ([0-9]{1,18}) bytes in "), lambda tcp: (tcp.bytes_received,)),
    "outer-protocol-in-trial": (
        re.compile(r"^([0-9]{1,18}) of ([0-9]{1,18}) bytes on the WAN were "),
        lambda tcp: (
            tcp.counters.outer_expected_bytes,
            tcp.counters.outer_expected_bytes + tcp.counters.outer_other_bytes,
        ),
    ),
    "merged-frames": (
        re.compile(r"router forwarded ([0-9]{1,18}) packets"),
        lambda tcp: (tcp.counters.forwarded_packets,),
    ),
}
"""Beginning of the reason of checks that name counts of the trial, and those counts."""


def contradictions(record: TrialRecord) -> Iterator[str]:
    """Yield a sentence for each pair of figures of a trial that contradict each other."""
    measured = record.measurement
    if measured is None:
        return
    lasted_s = _lasted_s(record)
    if lasted_s is not None and lasted_s < measured.bracket_s - CLOCK_TOLERANCE_S:
        yield f"it lasted {lasted_s:.1f} s by its start and end, and its traffic {measured.bracket_s:.1f} s"
    if isinstance(measured, TcpMeasurement):
        yield from _of_tcp(measured)
        yield from _of_reasons(record.checks, measured)
    elif measured.counts is not None:
        yield from _of_udp(measured.counts, record.spec, measured.bracket_s)


def common_factor(records: Sequence[TrialRecord]) -> int:
    """Return the factor that all packet counts of these TCP trials have in common; 1 if chance may explain it.

    Of n independent counts, all are multiples of f with the probability f^-n. Figures that somebody multiplied by a
    whole number always are.
    """
    counts = [
        count
        for record in records
        if (tcp := record.tcp) is not None
        for part, names in ((tcp.counters, ("data_packets", "ack_packets", "wan_packets")),
                            (tcp.window, ("data_packets", "ack_packets")))
        for name in names
        if (count := getattr(part, name))
    ]  # fmt: skip
    factor = gcd(*counts)
    return factor if factor > 1 and factor ** -len(counts) < COMMON_FACTOR_CHANCE else 1


def _lasted_s(record: TrialRecord) -> float | None:
    try:
        return (datetime.fromisoformat(record.ended_at) - datetime.fromisoformat(record.started_at)).total_seconds()
    except ValueError:
        return None


def _of_udp(counts: UdpCounts, spec: TrialSpec, bracket_s: float) -> Iterator[str]:
    if counts.received_packets > counts.sent_packets:
        yield f"{counts.received_packets} packets arrived, and {counts.sent_packets} were sent"
    for what, packets, payload_bytes, took_s in (
        ("sent", counts.sent_packets, counts.sent_bytes, counts.sending_s),
        ("received", counts.received_packets, counts.received_bytes, counts.receiving_s),
    ):
        in_series = sum(getattr(interval, f"{what}_packets") for interval in counts.intervals)
        if counts.intervals and abs(in_series - packets) > packets * SERIES_TOLERANCE:
            yield f"{packets} packets were {what}, and the intervals of its series add up to {in_series}"
        if spec.payload_bytes and payload_bytes != packets * spec.payload_bytes:
            yield f"{packets} packets of {spec.payload_bytes} bytes were {what}, and {payload_bytes} bytes"
        if took_s > bracket_s:
            yield f"packets were {what} for {took_s:.2f} s, and its traffic was observed for {bracket_s:.2f} s"


def _of_reasons(checks: Sequence[Check], tcp: TcpMeasurement) -> Iterator[str]:
    """Yield the first check whose reason names another count than the trial has."""
    for check in checks:
        pattern, counts_of = STATED.get(check.name, (None, None))
        found = pattern.search(check.reason) if pattern else None
        if found is None or counts_of is None:
            continue
        stated, counts = tuple(map(int, found.groups())), counts_of(tcp)
        if stated != counts and not tcp.clients:
            first, other = next((first, other) for first, other in zip(stated, counts, strict=True) if first != other)
            yield f"its check {check.name} states the count {first}, and the file has {other} in its place"
            return


def _of_tcp(tcp: TcpMeasurement) -> Iterator[str]:
    in_series = sum(interval.bytes for interval in tcp.intervals)
    if tcp.intervals and abs(in_series - tcp.bytes_received) > tcp.bytes_received * SERIES_TOLERANCE:
        yield f"{tcp.bytes_received} bytes arrived, and the intervals of its series add up to {in_series}"
    if tcp.duration_s > tcp.bracket_s:
        yield f"iperf3 ran for {tcp.duration_s:.2f} s, and its traffic was observed for {tcp.bracket_s:.2f} s"
    window = tcp.window
    if window.duration_s > tcp.bracket_s * (1 + WINDOW_TOLERANCE):
        yield f"its window of {window.duration_s:.2f} s is longer than the {tcp.bracket_s:.2f} s around it"
    for name in ("data_packets", "ack_packets"):
        inside, whole = getattr(window, name), getattr(tcp.counters, name)
        if inside > whole * (1 + WINDOW_TOLERANCE):
            yield f"{inside} {name.replace('_', ' ')} were counted in its window, and {whole} in the whole trial"
    if tcp.mss_bytes and tcp.throughput_bps:
        counted_bps = tcp.data_pps * tcp.mss_bytes * 8
        if not 1 / RATE_FACTOR <= counted_bps / tcp.throughput_bps <= RATE_FACTOR:
            yield (
                f"iperf3 reports {tcp.throughput_bps / 1e6:.4g} Mbit/s, and the packets of its window carry "
                f"{counted_bps / 1e6:.4g}"
            )
