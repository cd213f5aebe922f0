"""Checks of figures that others wrote: impossible ones, and those that break a rule of the audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any

from tunnelbench.analysis.audit.headings import Role
from tunnelbench.analysis.audit.quantities import Quantity
from tunnelbench.analysis.audit.rows import AuditedRow, Size
from tunnelbench.analysis.audit.rules import apply_rules
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import OVER_LIMIT_TOLERANCE, RunRecord, TcpMeasurement, TrialRecord
from tunnelbench.model.search import SearchPoint
from tunnelbench.model.udp import UdpMeasurement

CLOCKS_APART = 0.02
"""Largest share by which idle time and wall time may differ, which come from two clocks."""
SIGNED = frozenset({"idle_s", "start_s", "end_s", "sequence", "router_clock_lost_s"})
"""Fields that may be below zero: idle time has its own check, a series or a calibration may begin before 0, and the
clock of a virtual router may gain time."""
LARGEST_OF_ALL = 1e18
LARGEST = {"_s": 1e7, "per_s": LARGEST_OF_ALL, "_ms": 1e10, "payload_bytes": 65_535, "mss_bytes": 65_535,
           "inner_mtu_bytes": 65_535, "sequence": 1e7, "round": 1e7, "cpus": 1e5, "threads": 1e5}  # fmt: skip
"""Largest figures by the end of a field's name; 10^7 s are 115 days."""
DIVISORS = ("duration_s", "wall_s", "sending_s", "receiving_s", "opening_s", "bracket_s", "rtt_ms", "_bps", "_pps",
            "bytes_per_s")  # fmt: skip
"""Ends of names of fields by which the analysis divides where they are not 0."""
LEAST_DIVISOR = 1e-6
MOST_IMPORTED_PLACES = 1000
"""Largest number of places of a router's instructions in one trial; a trial of ours has about 100."""
MOST_KINDS_OF_CHECKS = 200
"""Largest number of different names of checks in a run; ours have about 50. A page repeats the names of each row."""
SHARES_APART = 1e-6
"""Error of the sum of these shares."""


def impossible_figure(run: RunRecord, records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed]) -> str:
    """Return the first impossible figure in a sentence; empty if there is none."""
    if len({check.name for record in records for check in record.checks}) > MOST_KINDS_OF_CHECKS:
        return f"its trials have more than {MOST_KINDS_OF_CHECKS} kinds of checks"
    for record in records:
        value = record.measurement
        if found := out_of_bounds(record) or (_impossible_times(value) if value is not None else ""):
            return f"trial {record.spec.sequence}: {found}"
    for speed in speeds:
        if found := out_of_bounds(speed):
            return f"the speed of {speed.algorithm}: {found}"
    return out_of_bounds(run)


def out_of_bounds(record: object) -> str:
    """Return the first figure of a dataclass, at any depth, that nothing can count, in words; empty if there is none.

    Such a figure is below 0, larger than its limit, or a divisor so small that a quotient has no meaning.
    """
    level: list[tuple[str, Any]] = [("", record)]
    while level:
        below: list[tuple[str, Any]] = []
        for name, value in level:
            kind = type(value)
            if kind is int or kind is float:
                largest, is_divisor = _bounds(name)
                if value < 0 and name not in SIGNED:
                    return f"{name} is {value}, which is below 0"
                if abs(value) > largest:
                    return f"{name} is {value:g}, which is above {largest:g}"
                if is_divisor and 0 < value < LEAST_DIVISOR:
                    return f"{name} is {value:g}, which is below {LEAST_DIVISOR:g}"
            elif kind is tuple:
                below += [(name, item) for item in value]
            elif kind is dict:
                below += [(name if type(key) is int else key, item) for key, item in value.items()]
            elif is_dataclass(value):
                below += [(field, getattr(value, field)) for field in value.__dataclass_fields__]
        level = below
    return ""


@lru_cache(maxsize=1000)
def _bounds(name: str) -> tuple[float, bool]:
    """Return the largest figure of a field, and True if the analysis divides by it."""
    ends = sorted((end for end in LARGEST if name.endswith(end)), key=len)
    return LARGEST[ends[-1]] if ends else LARGEST_OF_ALL, name.endswith(DIVISORS)


def _impossible_times(measured: TcpMeasurement | UdpMeasurement) -> str:
    points: list[SearchPoint] = []
    if isinstance(measured, UdpMeasurement):
        points = [*measured.points, *(point for search in measured.searches for point in search.points)]
    elif measured.duration_s <= 0:
        return "it took 0 s"
    window = measured.window
    if any(point.duration_s <= 0 for point in points) or (window is not None and window.duration_s <= 0):
        return "a time in which it counted is 0 s or less"
    if window is not None and len(window.router_instruction_shares) > MOST_IMPORTED_PLACES:
        return f"its router's instructions have more than {MOST_IMPORTED_PLACES} places"
    if window is not None and sum(window.router_instruction_shares.values()) > 1 + SHARES_APART:
        return "the shares of its router's instructions are more than 1 together"
    for usage in (window.router_cpu, window.tester_cpu, *window.router_by_cpu) if window else ():
        whole_s = usage.wall_s * len(usage.cpus)
        if whole_s <= 0:
            return "a CPU was observed for 0 s"
        if not -CLOCKS_APART <= usage.idle_s / whole_s <= 1 + CLOCKS_APART:
            return f"CPUs were idle for {usage.idle_s:g} s of {whole_s:g} s"
    return ""


def doubtful_figures(records: Sequence[TrialRecord], rows: Sequence[Row]) -> tuple[str, ...]:
    """Return sentences on trials that break rule 16 or 17, and on medians that break a rule of the audit."""
    counted = [(record, record.tcp) for record in records if record.counts and record.tcp is not None]
    found = [f"trial {record.spec.sequence}: {each}" for record, tcp in counted for each in _of_trial(record.spec, tcp)]
    return (*found, *_of_table(rows))


def _of_trial(spec: TrialSpec, tcp: TcpMeasurement) -> Iterator[str]:
    write_bytes = spec.tunnel.conditions.write_bytes
    if (bounds := tcp.data_packet_bounds(write_bytes)) and not tcp.has_possible_packets(write_bytes):
        yield f"packet-rate: {tcp.counters.data_packets} packets counted, but the payload needs {bounds[0]:.0f}"
    limit_bps = tcp.physical_limit_bps
    if limit_bps is not None and tcp.throughput_bps > limit_bps * (1 + OVER_LIMIT_TOLERANCE):
        yield f"line-limit: {tcp.throughput_bps / 1e6:.4g} Mbit/s on a link that carries {limit_bps / 1e6:.4g}"
    if (window := tcp.window).busiest_tester_share > 1 + CLOCKS_APART:
        yield f"cpu-sum: a tester's CPU was {window.busiest_tester_share:.0%} busy"


def _of_table(rows: Sequence[Row]) -> list[str]:
    """Return findings of the audit. Rows whose speed the testers limited are left out.

    In such rows, a tunnel may seem faster than the path without a tunnel.
    """
    routed = [row for row in rows if not row.is_calibration]
    kept = [(row, row.figures) for row in routed if row.figures and not row.figures.is_tester_limited]
    if not kept:
        return []
    rows_as_published = [_entry(number, row, figures) for number, (row, figures) in enumerate(kept, start=1)]
    return [
        f"{row.tunnel.name}, {row.payload_bytes} {row.direction.label}: {finding.rule}: {finding.figure} "
        f"{finding.stated.value:.4g} against {finding.expected:.4g}, {finding.reason}"
        for (row, _), rules in zip(kept, apply_rules(rows_as_published, {}), strict=True)
        for finding in (each.finding for each in rules)
        if finding is not None
    ]


def _entry(number: int, row: Row, figures: Figures) -> AuditedRow:
    """Return a row in the form that the audit reads from a table."""
    return AuditedRow(
        number=number,
        line=number,
        text={Role.TUNNEL: "tunnel" if row.tunnel.has_tunnel else "none"},  # the audit reads words, not kinds
        direction=row.direction.value,
        size=Size(row.payload_bytes, Role.PAYLOAD),
        throughput=Quantity(figures.throughput_bps.median, 0.0),
        throughput_again=None,
        packets=None,
        cpu_parts={},
        cpu_total=Quantity(figures.router_busy_share.median * 100, CLOCKS_APART * 200),  # half of it is the error
        share=None,
        link_bps=None,
    )
