"""From plan to store: testbed up, tunnel up and proven, trials, each handed on when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any, Protocol

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.ssh import LinkLost
from tunnelbench.measure.cipher_speed import machines, measure_all
from tunnelbench.measure.clock import check_clock, wall_offset_s
from tunnelbench.measure.counters import install_outer_counters
from tunnelbench.measure.cpu import cpus_here, wait_for_quiet
from tunnelbench.measure.patience import NOT_BEGUN, Patience
from tunnelbench.measure.proof import prove, prove_reach
from tunnelbench.measure.radio import RadioWatch
from tunnelbench.measure.soak import Journal, SoakMeter
from tunnelbench.measure.tcp_trial import TrialFindings, TrialMeter, blaming_restart, warm_up
from tunnelbench.measure.udp_trial import UdpMeter
from tunnelbench.model.cipher_speed import BLOCK_BYTES, CipherSpeed
from tunnelbench.model.errors import CannotHere, NotBegun, TrialFailed, TunnelRefused, TunnelUnavailable
from tunnelbench.model.plan import Plan, Test, TrialSpec, TunnelSpec, UdpTraffic
from tunnelbench.model.result import Check, Outcome, TrialRecord, TunnelProof, Verdict, worst
from tunnelbench.testbed.base import Testbed
from tunnelbench.tunnel import algorithms, create
from tunnelbench.tunnel.base import End, Ends, Tunnel


class Observer(Protocol):
    """Who watches a run: it is told what happens and changes nothing."""

    def cipher_starts(self, what: str) -> None:
        """A cipher is measured by itself."""

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        """A tunnel is brought up and proven."""

    def trial_starts(self, spec: TrialSpec) -> None:
        """Traffic begins."""

    def second_passed(self, rate_bps: float) -> None:
        """About a second of the trial has passed at this rate."""

    def trial_ended(self, record: TrialRecord) -> None:
        """The record is stored."""

    def waited_for_quiet(self, seconds: float) -> None:
        """Other people's load held the run up for so long."""


def run_plan(
    plan: Plan,
    testbed: Testbed,
    store_trial: Callable[[TrialRecord], None],
    observer: Observer,
    known: Sequence[TrialRecord] = (),
    *,
    store_speed: Callable[[CipherSpeed], None] = lambda _: None,
    known_speeds: Sequence[CipherSpeed] = (),
    journal: Journal | None = None,
) -> None:
    """Run every trial of a plan on a testbed, in order; each record is stored before the next trial starts.

    Before the first trial the ciphers are measured by themselves where the plan says so. `known` and `known_speeds` are
    what an earlier part of the run has stored: it is not measured again. `journal` keeps the series of soaks.
    """
    done = {record.spec.sequence for record in known}
    with on_cpus(testbed.local.cpus), testbed:
        for speed in measure_ciphers(plan, testbed, observer, known_speeds):
            store_speed(speed)
        bench = Bench(testbed, plan, observer, journal)
        for record in known:
            bench.remember(record)
            bench.patience.note(record)
        for record in bench.measure_all(done):
            store_trial(record)
            observer.trial_ended(record)


def measure_ciphers(
    plan: Plan, testbed: Testbed, observer: Observer, known: Sequence[CipherSpeed]
) -> Iterator[CipherSpeed]:
    """How fast the ciphers of the plan's tunnels are by themselves, on each machine of the testbed."""
    if plan.cipher_speed_s is not None:
        every = machines(testbed.hosts)
        done = {speed.key for speed in known}

        def wait(cpus: Sequence[int]) -> float:
            waited_s = wait_for_quiet(cpus, testbed.spec.quiet_wait_s)
            observer.waited_for_quiet(waited_s)
            return waited_s

        def starts(what: str) -> None:
            testbed.hold(BRING_UP_LIMIT_S + len(BLOCK_BYTES) * float(plan.cipher_speed_s or 0))
            observer.cipher_starts(what)

        used = algorithms(plan.tunnels)
        yield from measure_all(every, used, plan.cipher_speed_s, done, starts, wait=wait)


@contextmanager
def on_cpus(cpus: Sequence[int]) -> Iterator[None]:
    """Keep the controller itself off the router's CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Bench:
    """One testbed with a plan to work off, a block at a time: the trials of one tunnel in one round."""

    def __init__(self, testbed: Testbed, plan: Plan, observer: Observer, journal: Journal | None = None) -> None:
        self.testbed = testbed
        self.plan = plan
        self.observer = observer
        self.tcp = TrialMeter(testbed, plan.tcp, observer.second_passed) if plan.tcp else None
        udp = plan.udp or (UdpTraffic(direction=plan.soak.direction) if plan.soak else None)
        self.udp = UdpMeter(testbed, udp, observer.second_passed) if udp else None
        self.soak = SoakMeter(plan.soak, self.udp, journal) if plan.soak and self.udp and journal else None
        self.patience = Patience()
        self.radios = RadioWatch(testbed)
        self._losses = 0
        """How often a host was lost since the last trial."""
        self._foreign_load_seen = True
        """Whether to make sure of quiet before the next trial: at the start, and after one that strangers disturbed."""

    def measure_all(self, done: Collection[int]) -> Iterator[TrialRecord]:
        """A record for each trial of the plan, those left out whose sequence number is done.

        Raises CannotHere where the testers lack the plan's congestion control: no trial could be made.
        """
        self._require_congestion_control()
        yield from self.calibrate([spec for spec in self.plan.calibrations() if spec.sequence not in done])
        missing = [spec for spec in self.plan.trials() if spec.sequence not in done]
        for _, trials in groupby(missing, key=lambda trial: (trial.round, trial.tunnel.name)):
            yield from self.measure_block(list(trials))

    def meter(self, spec: TrialSpec) -> TrialMeter | UdpMeter:
        """Who measures a trial."""
        meter = self.tcp if spec.test is Test.TCP else self.udp
        if meter is None:
            raise ValueError(f"the plan has no traffic for {spec.what}")
        return meter

    def remember(self, record: TrialRecord) -> None:
        """What a trial found that later ones need to know."""
        self.meter(record.spec).remember(record)
        if self.soak:
            self.soak.remember(record)

    def _require_congestion_control(self) -> None:
        if self.plan.tcp is None:
            return
        algorithm = self.plan.tcp.congestion_control
        for tester in (self.testbed.client, self.testbed.server):
            if not tester.has_congestion_control(algorithm):
                raise CannotHere(
                    f"the {tester.name}'s kernel has no TCP congestion control {algorithm} (tcp.congestion_control)",
                    "sysctl net.ipv4.tcp_available_congestion_control lists those that there are",
                )

    def calibrate(self, trials: Sequence[TrialSpec]) -> Iterator[TrialRecord]:
        """What the testers can do back to back, no router between them."""
        started_at = now()
        with ExitStack() as stack:
            try:
                link = stack.enter_context(self.testbed.back_to_back())
            except CannotHere as error:
                yield from self._without_figures(list(trials), Outcome.UNAVAILABLE, str(error), started_at)
                return
            for spec in trials:
                record = self._record(spec, partial(self.meter(spec).calibrate, spec, link), None)
                self.remember(record)
                yield record

    def measure_block(self, trials: Sequence[TrialSpec]) -> Iterator[TrialRecord]:
        """A record for each trial, whatever happens to the tunnel."""
        waiting = list(trials)
        while waiting:
            started_at = now()
            if why := self.patience.why_over(waiting[0].tunnel.name):
                yield from self._without_figures(waiting, Outcome.GIVEN_UP, why, started_at)
                return
            try:
                self.testbed.hold(BRING_UP_LIMIT_S)
                # A tunnel that dies takes one trial with it; the rest of the block gets a new one.
                yield from self._measure_through_one_tunnel(waiting)
            except LinkLost as error:
                yield from self._after_a_loss(error, waiting, started_at)
            except (TunnelUnavailable, CommandFailed) as error:
                yield from self._without_figures(waiting, Outcome.UNAVAILABLE, str(error), started_at)
            except TunnelRefused as error:
                proof = error.proof if isinstance(error, ProofFailed) else None
                yield from self._without_figures(waiting, Outcome.REFUSED, str(error), started_at, proof)
            except TrialFailed as error:  # of the warm-up: that of a trial has its record
                yield from self._without_figures(waiting, Outcome.VOID, str(error), started_at)

    def _after_a_loss(self, error: LinkLost, waiting: list[TrialSpec], started_at: str) -> Iterator[TrialRecord]:
        """Wait for a host that was lost, and make the testbed anew: the rest goes on.

        A host that is lost again before any trial has begun costs the first of those that are waiting.
        """
        self._losses += 1
        if self._losses > 1 and waiting:
            record = TrialRecord(waiting.pop(0), Outcome.VOID, str(error), started_at, now())
            self.patience.note(record)
            yield record
        self.testbed.recover()

    def _measure_through_one_tunnel(self, waiting: list[TrialSpec]) -> Iterator[TrialRecord]:
        """Bring the tunnel up once and measure what is waiting, taking each trial off the list that got its record."""
        tunnel_spec = waiting[0].tunnel
        self.observer.tunnel_comes_up(tunnel_spec, waiting[0].round)
        with ExitStack() as stack:
            tunnel = stack.enter_context(create(tunnel_spec, self._ends()))

            def revive() -> Tunnel[Any]:
                """Take it down and bring it up again, beside traffic that goes on."""
                stack.close()
                return stack.enter_context(create(tunnel_spec, self._ends()))

            install_outer_counters(self.testbed, tunnel.outer)
            answer = prove_reach(self.testbed)
            tunnel.settle()
            proof = prove(self.testbed, tunnel, answer)
            if worst(proof.checks) is Verdict.VOID:
                raise ProofFailed(proof)
            if self.plan.tcp:
                warm_up(self.testbed, self.plan.tcp)
            if self.udp:
                self.udp.warm_up(tunnel)
            while waiting:
                spec = waiting[0]
                if spec.test is Test.SOAK and self.soak:
                    trial = partial(self.soak.measure, spec, tunnel, revive)
                else:
                    trial = partial(blaming_restart, tunnel, partial(self.meter(spec).measure, spec, tunnel))
                record = self._record(spec, trial, proof)
                self._losses = 0
                self.remember(record)
                waiting.pop(0)
                yield record
                # After a failure nobody knows the state of the tunnel: the next trial gets a new one.
                # The one of a soak may be another by now.
                is_other = record.outcome is Outcome.VOID or spec.test is Test.SOAK
                if is_other or tunnel.has_died or self.patience.why_over(tunnel_spec.name):
                    return

    def _record(self, spec: TrialSpec, trial: Callable[[], TrialFindings], proof: TunnelProof | None) -> TrialRecord:
        """Run one trial, after a wait for quiet where strangers have been seen; one that fails is void.

        Raises LinkLost where a host is lost before it begins.
        """
        waited_s = 0.0
        if self._foreign_load_seen:
            self.testbed.hold(self.testbed.spec.quiet_wait_s)
            cpus = cpus_here(*self.testbed.hosts)
            waited_s = wait_for_quiet(cpus, self.testbed.spec.quiet_wait_s)
            self.observer.waited_for_quiet(waited_s)
        self.testbed.hold(self.plan.longest_trial_s(spec))
        started_at, offset_s = now(), wall_offset_s()
        self.observer.trial_starts(spec)
        try:
            found = self.radios.around(spec, trial)()
        except (TrialFailed, CommandFailed) as error:
            record = TrialRecord(
                spec,
                Outcome.VOID,
                str(error),
                started_at,
                now(),
                (*_why_not_begun(error), check_clock(wall_offset_s() - offset_s, is_long=spec.test is Test.SOAK)),
                proof=proof,
                raw=error.raw if isinstance(error, TrialFailed) else {},
                waited_for_quiet_s=waited_s,
            )
        else:
            checks = (*found.checks, check_clock(wall_offset_s() - offset_s, is_long=spec.test is Test.SOAK))
            record = TrialRecord(
                spec,
                Outcome.MEASURED,
                "",
                started_at,
                now(),
                checks,
                found.tcp,
                proof,
                found.raw,
                waited_for_quiet_s=waited_s,
                udp=found.udp,
            )
            self._foreign_load_seen = any(
                check.name == "foreign-load" and check.verdict is Verdict.VOID for check in checks
            )
        self.patience.note(record)
        return record

    def _without_figures(
        self,
        waiting: list[TrialSpec],
        outcome: Outcome,
        reason: str,
        started_at: str,
        proof: TunnelProof | None = None,
    ) -> Iterator[TrialRecord]:
        """A record for each trial that is waiting; taken together they are one attempt."""
        while waiting:
            record = TrialRecord(waiting.pop(0), outcome, reason, started_at, now(), proof=proof)
            self.patience.note(record)
            yield record

    def _ends(self) -> Ends:
        testbed, a = self.testbed, self.testbed.addresses
        lan, wan = testbed.router_lan_device, testbed.router_wan_device
        if testbed.is_road_warrior:
            inside = a.client_inside
            device = testbed.lan_device
            caller = End(testbed.client, a.client_lan, device, a.client_inner, a.target, a.client_lan6, source=inside)
            called = End(testbed.router, a.router_lan, lan, a.router_inner, inside, a.router_lan6)
        else:
            caller = End(testbed.router, a.router_wan, wan, a.router_inner, a.target, a.router_wan6)
            far, far_wan = testbed.far_host, testbed.wan_device
            called = End(far, a.server_wan, far_wan, a.server_inner, a.lan_network, a.server_wan6)
        return Ends(
            router=caller,
            server=called,
            local=testbed.local,
            mark=testbed.mark,
            prepare_device=testbed.prepare_tunnel_device,
            is_server_under_test=testbed.is_road_warrior,
        )


BRING_UP_LIMIT_S = 180.0
"""More than waiting for quiet, bringing a tunnel up, settling and proving it take at most together."""


class ProofFailed(TunnelRefused):
    """A tunnel that is up is not what the plan says."""

    def __init__(self, proof: TunnelProof) -> None:
        reasons = [check.reason for check in proof.checks if check.verdict is Verdict.VOID]
        super().__init__("; ".join(reasons))
        self.proof = proof


def _why_not_begun(error: Exception) -> tuple[Check, ...]:
    """As a check, where a trial was not begun at all."""
    return (Check(NOT_BEGUN, Verdict.VOID, str(error), rule=20),) if isinstance(error, NotBegun) else ()


def now() -> str:
    """UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
