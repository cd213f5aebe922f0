"""Figures of each tunnel with large and with small packets, one object for each tunnel, the best tunnel first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Row, TunnelRow
from tunnelbench.analysis.udp import SMALL_PAYLOAD_BYTES
from tunnelbench.model.lines import LINES
from tunnelbench.model.plan import Direction, TunnelSpec

RowT = TypeVar("RowT", bound=TunnelRow)

REFERENCES_MBPS = (100.0, 10.0, 1.0)
"""Throughputs at which the CPU time of tunnels is stated [Mbit/s]: the first one that the router can carry."""


@dataclass(frozen=True)
class DirectionAnswer:
    """Figures of one tunnel in one direction; None: not measured."""

    throughput_bps: Estimate | None = None
    """TCP payload with large packets [bit/s]."""
    is_lower_bound: bool = False
    """True if the testers or the plan, not the router, limited the throughput: the router can carry more."""
    cpu_share: Estimate | None = None
    """Share of one CPU of the router that the tunnel's `reference_mbps` take with large packets; None also where the
    line of the plan carries less than that."""
    is_cpu_measured: bool = False
    """True if `cpu_share` was measured at `reference_mbps`; else it is computed from the cost at the measured load."""
    small_pps: Estimate | None = None
    """Data packets per second with small packets."""
    is_small_lower_bound: bool = False
    is_doubtful: bool = False
    """True if a check marks as doubtful one of the trials with large packets from which the figures come."""
    is_small_doubtful: bool = False
    """True if a check marks as doubtful one of the trials with small packets from which the figures come."""


@dataclass(frozen=True)
class TunnelAnswer:
    """Figures of one tunnel."""

    tunnel: TunnelSpec
    large_payload_bytes: int
    """Largest payload of the run, which `throughput_bps` and `cpu_share` are for [bytes]."""
    sent_payload_bytes: tuple[int, ...]
    """Payload that the packets of `large_payload_bytes` had in effect, by direction [bytes]: the tunnel's MTU may allow
    less. Directions in which it is unknown are left out."""
    small_payload_bytes: int | None
    """Smallest payload of the run, which `small_pps` is for [bytes]; None: it is not that of a small packet."""
    reference_mbps: float
    """Throughput that `cpu_share` is for [Mbit/s], the same for all tunnels of a run."""
    is_encrypted: bool | None
    """True if the tunnel encrypts its packets; None: unknown."""
    is_in_kernel: bool | None
    """True if programs of the tunnel took no or nearly no CPU time on the router; None: no figures."""
    down: DirectionAnswer
    """Server to client, which is direction `in` of the data."""
    up: DirectionAnswer
    """Client to server, which is direction `out` of the data."""
    repeats: int
    """Number of trials behind a figure of this tunnel: the smallest number over all its rows with figures."""
    dropped: int
    """Number of trials that do not count."""
    doubts: tuple[str, ...]
    """Names of the checks that marked a used trial as doubtful, without those that detect that a tester was the
    limit."""
    reason: str
    """Reason for which the tunnel has none of these figures; empty if it has some."""

    @property
    def name(self) -> str:
        return self.tunnel.name

    @property
    def directions(self) -> dict[str, DirectionAnswer]:
        """Figures by the direction in words."""
        return {"down": self.down, "up": self.up}

    @property
    def has_figures(self) -> bool:
        return any(way.throughput_bps or way.small_pps or way.cpu_share for way in self.directions.values())

    @property
    def has_doubts(self) -> bool:
        """True if the tunnel has figures, and a check makes some of its trials doubtful."""
        return bool(self.doubts) and self.has_figures

    @property
    def measured_directions(self) -> list[str]:
        return [way for way, found in self.directions.items() if found.throughput_bps or found.small_pps]

    @property
    def mean_cpu_share(self) -> float | None:
        """Mean of the CPU shares of the measured directions, by which tunnels are ranked; None: not measured."""
        shares = [way.cpu_share.median for way in self.directions.values() if way.cpu_share]
        return sum(shares) / len(shares) if shares else None


def tunnel_answers(rows: Sequence[Row], *, allow_plaintext: bool = False) -> tuple[TunnelAnswer, ...]:
    """Return the figures of each tunnel: encrypted ones, the others with the baseline, those of unknown encryption.

    With `allow_plaintext`, all are one group. In a group, the tunnel that takes the least CPU time is the first, and
    the baseline is the last. Tunnels that lack a direction come after the others, because a mean over one direction is
    not comparable.
    """
    groups = by_tunnel(rows)
    sizes = _sizes(groups)
    for reference_mbps in REFERENCES_MBPS:
        unsorted = [_tunnel_answer(group, sizes, reference_mbps) for group in groups]
        found = sorted(unsorted, key=lambda tunnel: _rank(tunnel, allow_plaintext))
        if not found or _can_carry(found[0]):
            break
    return tuple(found)


def _can_carry(best: TunnelAnswer) -> bool:
    """Return True unless the router can carry less than the reference through its best tunnel."""
    bps = [way.throughput_bps.median for way in best.directions.values() if way.throughput_bps]
    if best.mean_cpu_share is None and all(
        _is_line_slower(best.tunnel, each, best.reference_mbps) for each in Direction
    ):
        return False
    carries = bool(bps) and max(bps) >= best.reference_mbps * 1e6
    return carries or best.mean_cpu_share is None or best.mean_cpu_share <= 1


def _is_line_slower(tunnel: TunnelSpec, direction: Direction, reference_mbps: float) -> bool:
    """Return True if the tunnel's line carries less than the reference, so that no CPU share at it can be seen."""
    line = LINES.get(tunnel.conditions.line) if tunnel.conditions.line else None
    if line is None:
        return False
    return (line.rate_in_mbps if direction is Direction.IN else line.rate_out_mbps) < reference_mbps


def _rank(tunnel: TunnelAnswer, allow_plaintext: bool) -> tuple[int, bool, bool, int, float]:
    missing = sum(way.cpu_share is None for way in tunnel.directions.values())
    place = group_place(tunnel.is_encrypted, allow_plaintext=allow_plaintext)
    return place, tunnel.tunnel.is_baseline, not tunnel.has_figures, missing, tunnel.mean_cpu_share or 0.0


def group_place(is_encrypted: bool | None, *, allow_plaintext: bool) -> int:
    """Return the sort position of a tunnel's group: encrypted, not encrypted, unknown; equal if plaintext is
    allowed."""
    return 0 if allow_plaintext or is_encrypted else 1 if is_encrypted is False else 2


def _tunnel_answer(rows: Sequence[Row], sizes: Sequence[int], reference_mbps: float) -> TunnelAnswer:
    counting = [row.figures for row in rows if row.figures is not None]
    dropped = [row.uncounted_trials for row in rows]
    large = [_large_and_small(rows, sizes, direction)[0] for direction in Direction]
    sent = [row.figures.payload_bytes for row in large if row and row.figures]
    answer = TunnelAnswer(
        tunnel=rows[0].tunnel,
        large_payload_bytes=sizes[-1],
        sent_payload_bytes=tuple(round(payload.median) for payload in sent if payload),
        small_payload_bytes=sizes[0] if sizes[0] <= SMALL_PAYLOAD_BYTES else None,
        reference_mbps=reference_mbps,
        is_encrypted=rows[0].is_encrypted if rows[0].tunnel.is_baseline else common(row.is_encrypted for row in rows),
        is_in_kernel=all(figures.is_in_kernel for figures in counting) if counting else None,
        down=_direction_answer(rows, sizes, Direction.IN, reference_mbps),
        up=_direction_answer(rows, sizes, Direction.OUT, reference_mbps),
        repeats=min(
            (row.trials - without for row, without in zip(rows, dropped, strict=True) if row.figures), default=0
        ),
        dropped=sum(dropped),
        doubts=tuple(dict.fromkeys(name for row in rows for name in row.doubts)),
        reason="" if counting else why_no_figures(rows),
    )
    if counting and not answer.has_figures:
        others = "figures with other packet sizes only"
        return replace(answer, reason="; ".join(filter(None, (others, why_no_figures(rows)))))
    return answer


def common(values: Iterable[bool | None]) -> bool | None:
    """Return False if a value is False, None if none is known, else True."""
    known = [value for value in values if value is not None]
    return all(known) if known else None


def why_no_figures(rows: Sequence[TunnelRow]) -> str:
    """Return why a tunnel has no figures: its class, and the first reason."""
    classes = dict.fromkeys(each for row in rows for each in row.uncounted_classes)
    reason = next((reason for row in rows for reason in row.reasons), "")
    return ": ".join(filter(None, (" and ".join(classes), reason)))


def shown_rows(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows behind the figures with large packets and with small packets, one for each figure."""
    groups = by_tunnel(rows)
    sizes = _sizes(groups)
    pairs = [_large_and_small(group, sizes, direction) for group in groups for direction in Direction]
    large = [row for row, _ in pairs if row and row.figures]
    return large, [row for _, row in pairs if row and row.figures]


def by_tunnel(rows: Sequence[RowT]) -> list[list[RowT]]:
    """Return the rows of each tunnel, without the calibration."""
    own: dict[str, list[RowT]] = {}
    for row in rows:
        if not row.is_calibration:
            own.setdefault(row.tunnel.name, []).append(row)
    return list(own.values())


def _sizes(groups: Iterable[Sequence[Row]]) -> list[int]:
    """Return every payload that at least one tunnel has, in ascending order, because a tunnel may lack a payload."""
    return sorted({row.payload_bytes for group in groups for row in group})


def _large_and_small(rows: Sequence[Row], sizes: Sequence[int], direction: Direction) -> tuple[Row | None, Row | None]:
    """Return the rows of one tunnel in a direction with the largest payload of the run, and with small packets."""
    there = sorted((row for row in rows if row.direction is direction), key=lambda row: float(row.load or "inf"))
    there = there[::-1]  # a trial at full speed is preferred, then the highest rate
    large = next((row for row in there if row.payload_bytes == sizes[-1]), None)
    is_small = sizes[0] <= SMALL_PAYLOAD_BYTES
    return large, next((row for row in there if is_small and row.payload_bytes == sizes[0]), None)


def _direction_answer(
    rows: Sequence[Row], sizes: Sequence[int], direction: Direction, reference_mbps: float
) -> DirectionAnswer:
    large, small = _large_and_small(rows, sizes, direction)
    largest = [row for row in rows if large and row.direction is direction and row.payload_bytes == large.payload_bytes]
    # The sender was made to send at this rate, and the tunnel carried it.
    paced = next((row.figures for row in largest if row.is_at_load and float(row.load) == reference_mbps), None)
    found = large.figures if large else None
    least = small.figures if small else None
    costly = paced or found
    is_slower = _is_line_slower(rows[0].tunnel, direction, reference_mbps)
    cost = costly.cpu_s_per_gigabit if costly and not is_slower else None
    return DirectionAnswer(
        throughput_bps=found.throughput_bps if found else None,
        is_lower_bound=bool(large and found and (found.is_tester_limited or large.is_at_load)),
        cpu_share=cost.times(reference_mbps / 1000) if cost else None,
        is_cpu_measured=paced is not None,
        small_pps=least.data_pps if least else None,
        is_small_lower_bound=bool(small and least and (least.is_tester_limited or small.is_at_load)),
        is_doubtful=bool(large and large.doubts),
        is_small_doubtful=bool(small and small.doubts),
    )
