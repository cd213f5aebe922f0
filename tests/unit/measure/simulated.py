"""Routers of known behaviour, for whatever asks for trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tunnelbench.model.search import CatchUp, SearchPoint


@dataclass
class SimulatedRouter:
    """Simulated router that forwards up to a limit; the other fields set its additional losses."""

    limit_pps: float
    burst_packets: int = 5
    """Number of packets that a full bucket lets through in addition at the start."""
    knee_share: float = 1.0
    """Share of the limit from which a few packets are lost: a soft limit."""
    knee_loss_ratio: float = 0.0
    random_loss_ratio: float = 0.0
    stall_probability: float = 0.0
    """Probability that the router stops in a second, for `stall_s`; it loses the packets that arrive meanwhile."""
    stall_s: float = 0.004
    noise: float = 0.0
    """Standard deviation of the limit from trial to trial, as a share of it."""
    sender_stall_probability: float = 0.0
    """Probability that the sender stalls in a trial. The burst that it sends afterwards is lost; a sender that does not
    catch up with all packets sends fewer instead."""
    sender_even_share: float = 1.0
    """Share of the intended packets that is sent by a sender that does not catch up with all packets, where other work
    shares its CPU."""
    sender_strict_share: float = 1.0
    """The same for a sender that never catches up."""
    loses_bursts: bool = False
    """True if catching up loses packets from half of the limit to twice it: the path lets no two packets through at
    once."""
    sender_limit_pps: float = 1e12
    receiver_limit_pps: float = 1e12
    random: Random = field(default_factory=lambda: Random(1))
    trials: list[SearchPoint] = field(default_factory=list)

    def measure(self, duration_s: float, offered_pps: float, *, catch_up: CatchUp) -> SearchPoint:
        intended = round(duration_s * offered_pps)
        offered = min(intended, round(duration_s * self.sender_limit_pps))
        stalls = int(self.random.random() < self.sender_stall_probability)
        is_even = catch_up.is_even
        if is_even:
            share = self.sender_strict_share if catch_up is CatchUp.NEVER else self.sender_even_share
            offered = min(offered, round(intended * (share - 0.02 * stalls)))
        limit_pps = self.limit_pps * self.random.gauss(1, self.noise) if self.noise else self.limit_pps
        forwarded = min(offered, int(limit_pps * duration_s) + self.burst_packets)
        if offered_pps > limit_pps * self.knee_share:
            forwarded -= round(forwarded * self.knee_loss_ratio)
        if self.random.random() < 1 - (1 - self.stall_probability) ** duration_s:
            forwarded -= min(forwarded, round(self.stall_s * offered_pps))
        if self.random_loss_ratio:
            forwarded -= self._lost_at_random(forwarded)
        if not is_even:
            forwarded -= min(forwarded, stalls * round(0.01 * intended))
        if self.loses_bursts and catch_up is not CatchUp.NEVER and limit_pps / 2 < offered_pps < limit_pps * 2:
            forwarded -= round(forwarded * 0.1)
        received = min(forwarded, round(duration_s * self.receiver_limit_pps))
        dropped = forwarded - received
        point = SearchPoint(duration_s, offered_pps, intended, offered, received, dropped, stalls, is_even=is_even)
        self.trials.append(point)
        return point

    def _lost_at_random(self, packets: int) -> int:
        """Binomial, by its normal approximation where that is good."""
        mean = packets * self.random_loss_ratio
        if mean < 30:
            return sum(self.random.random() < self.random_loss_ratio for _ in range(min(packets, 2000)))
        return max(0, round(self.random.gauss(mean, mean**0.5)))
