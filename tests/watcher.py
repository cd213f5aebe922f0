"""The observer that tests give to a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tunnelbench.measure.request import Observer
from tunnelbench.model.plan import TrialSpec, TunnelSpec


@dataclass
class Watcher(Observer):
    """An observer of a run that records its calls. `at_trial` is called when a trial starts."""

    at_trial: Callable[[TrialSpec], None] = lambda _: None
    ciphers: list[str] = field(default_factory=list)
    tunnels: list[str] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    rates_bps: list[float] = field(default_factory=list)

    def cipher_starts(self, what: str) -> None:
        self.ciphers.append(what)

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        self.tunnels.append(tunnel.name)

    def trial_starts(self, spec: TrialSpec) -> None:
        self.at_trial(spec)

    def second_passed(self, rate_bps: float, router_busy_share: float | None) -> None:
        self.rates_bps.append(rate_bps)

    def waited_for_quiet(self, seconds: float) -> None:
        self.waits_s.append(seconds)
