"""Instructions of a router of fixed speed for one packet, without its idle work.

A plan offers each packet size at two low rates. The lower one shows the idle work: the kernel's clock ticks, the
keep-alives of the tunnel, the pings of the trial. The difference between both rates is the packets' own work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tunnelbench.analysis.statistics import Estimate, estimate, estimate_known
from tunnelbench.model.plan import IMIX_PAYLOAD_BYTES, Direction, Test, TunnelSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.udp import UdpMeasurement

LEAST_QUOTIENT = 5.0
"""Smallest quotient of the two rates: closer rates do not separate idle work from the packets' work."""

LEAST_ON_TIME_SHARE = 0.97
"""Smallest share of the offered rate that passes within the window. An overloaded router queues the other packets, and
executes fewer instructions for each packet, because it handles several at once: 3.5 % fewer in OpenVPN at 91 %."""

Rates = Mapping[float, UdpMeasurement]
"""Trials of one tunnel, payload, direction and round, by the offered rate [packets/s]."""


@dataclass(frozen=True)
class PacketInstructions:
    """Instructions that a router of fixed speed executes for the packets of one tunnel in one direction."""

    tunnel: TunnelSpec
    direction: Direction
    by_payload: Mapping[int, Estimate]
    """Instructions for one packet, over the rounds, by UDP payload [bytes]; sizes without a figure are left out."""
    by_round: Mapping[int, Mapping[int, float]]
    """The values of `by_payload`, by payload [bytes] and round."""
    per_byte: Estimate | None
    """Instructions for each additional byte, between the smallest and the largest payload; None: only one size is
    known."""
    over_baseline: Mapping[int, Estimate]
    """Instructions for one packet, divided by those without a tunnel in the same round, by payload [bytes]."""
    idle_mips: Estimate | None
    """Idle work [million instructions per second of the router's clock]."""
    left_out_trials: int
    """Number of trials that are left out because packets were lost, or waited in a router that was overloaded."""


def packet_instructions(records: Sequence[TrialRecord]) -> tuple[PacketInstructions, ...]:
    """Return the instructions of each tunnel and direction, in the order of the plan.

    The result is empty if the router had no fixed speed, or the plan has no two rates.
    """
    trials: dict[tuple[str, Direction], dict[tuple[int, int], dict[float, UdpMeasurement]]] = {}
    tunnels: dict[str, TunnelSpec] = {}
    left_out: dict[tuple[str, Direction], int] = {}
    for record in sorted(records, key=lambda each: each.spec.sequence):
        spec, udp = record.spec, record.udp
        if (rate_pps := paced_rate_pps(spec.test, spec.payload_bytes, spec.load)) is None:
            continue
        if not record.counts or udp is None or udp.counts is None or not _is_counted(udp):
            continue
        key = spec.tunnel.name, spec.direction
        tunnels.setdefault(spec.tunnel.name, spec.tunnel)
        left_out.setdefault(key, 0)
        if udp.counts.path_lost_packets or _has_queued(udp, rate_pps):
            left_out[key] += 1
            continue
        place = spec.payload_bytes, spec.round
        trials.setdefault(key, {}).setdefault(place, {})[rate_pps] = udp
    work = {
        key: {place: found for place, rates in of.items() if (found := _slope(rates))} for key, of in trials.items()
    }
    if not any(work.values()):
        return ()
    baselines = {direction: of for (name, direction), of in work.items() if tunnels[name].is_baseline}
    return tuple(
        _summary(tunnels[name], direction, work.get((name, direction), {}), baselines.get(direction, {}), count)
        for (name, direction), count in left_out.items()
    )


def paced_rate_pps(test: Test, payload_bytes: int, load: str) -> float | None:
    """Return the rate of the plan at which a trial offers packets of one size; None for all other trials."""
    if test is not Test.RATE or payload_bytes == IMIX_PAYLOAD_BYTES:
        return None
    try:
        rate_pps = float(load)
    except ValueError:  # at full speed
        return None
    return rate_pps if 0 < rate_pps < inf else None


def are_apart(rates_pps: Iterable[float]) -> bool:
    """Return True if the lowest and the highest rate are far enough apart to separate idle work."""
    known = [*rates_pps]
    return max(known) >= min(known) * LEAST_QUOTIENT


@dataclass(frozen=True)
class _Slope:
    """Instructions that the router executes for one tunnel, payload, direction and round."""

    per_packet: float
    idle_mips: float


def _slope(rates: Rates) -> _Slope | None:
    """Return the instructions per packet and when idle, from the lowest and the highest rate; None if the rates are too
    close."""
    if not are_apart(rates):
        return None
    low, high = min(rates), max(rates)
    instructions_low, packets_low = _per_second(rates[low])
    instructions_high, packets_high = _per_second(rates[high])
    if packets_high <= packets_low:
        return None
    per_packet = (instructions_high - instructions_low) / (packets_high - packets_low)
    return _Slope(per_packet, (instructions_low - per_packet * packets_low) / 1e6)


def _has_queued(udp: UdpMeasurement, offered_pps: float) -> bool:
    """Return True if fewer packets passed the router in the window than were offered."""
    window = udp.window
    return window is not None and window.data_packets < offered_pps * window.duration_s * LEAST_ON_TIME_SHARE


def _is_counted(udp: UdpMeasurement) -> bool:
    return udp.window is not None and udp.window.router_instructions is not None


def _per_second(udp: UdpMeasurement) -> tuple[float, float]:
    """Return instructions per second and packets per second in the window. Raises ValueError without such counts.

    The seconds are those of the router's clock, because its idle work follows that clock: a router that wakes up late
    after each wait does less idle work in a second of this machine.
    """
    window = udp.window
    if window is None or window.router_instructions is None:
        raise ValueError("the trial has no instruction count")
    packets = window.data_packets + window.ack_packets
    duration_s = window.router_clock_s or window.duration_s
    return window.router_instructions / duration_s, packets / duration_s


WorkByTrial = Mapping[tuple[int, int], _Slope]
"""Instructions per packet and when idle, by payload [bytes] and round."""


def _summary(
    tunnel: TunnelSpec, direction: Direction, work: WorkByTrial, baseline: WorkByTrial, left_out_trials: int
) -> PacketInstructions:
    by_round: dict[int, dict[int, float]] = {}
    for (payload, number), slope in sorted(work.items()):
        by_round.setdefault(payload, {})[number] = slope.per_packet
    payloads = [*by_round]
    smallest, largest = (payloads[0], payloads[-1]) if payloads else (0, 0)

    def per_byte(number: int) -> float | None:
        small, large = work.get((smallest, number)), work.get((largest, number))
        if small is None or large is None or smallest == largest:
            return None
        return (large.per_packet - small.per_packet) / (largest - smallest)

    def over_baseline(payload: int) -> Iterable[float]:
        for (size, number), slope in work.items():
            plain = baseline.get((size, number))
            if size == payload and plain is not None and plain.per_packet > 0:
                yield slope.per_packet / plain.per_packet

    shares = {payload: estimate_known(over_baseline(payload)) for payload in payloads}
    return PacketInstructions(
        tunnel=tunnel,
        direction=direction,
        by_payload={payload: estimate([*values.values()]) for payload, values in by_round.items()},
        by_round=by_round,
        per_byte=estimate_known(per_byte(number) for number in sorted({number for _, number in work})),
        over_baseline={payload: share for payload, share in shares.items() if share is not None},
        idle_mips=estimate_known(slope.idle_mips for slope in work.values()),
        left_out_trials=left_out_trials,
    )
