"""The steps of a run on a testbed that is up: ciphers, calibration, and the trials of one tunnel at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.ssh import LinkLost
from tunnelbench.measure.cipher_speed import machines, measure_all
from tunnelbench.measure.circuit_breaker import NOT_BEGUN, CircuitBreaker, shows_fault
from tunnelbench.measure.clock_check import ClockWatch, now
from tunnelbench.measure.connection_trial import ConnectionMeter
from tunnelbench.measure.counters import install_outer_counters
from tunnelbench.measure.cpu import cpus_here, wait_for_quiet
from tunnelbench.measure.handshake_trial import HandshakeMeter
from tunnelbench.measure.live_tunnel import LiveTunnel, tunnel_ends
from tunnelbench.measure.meter import Meter, TrialFindings
from tunnelbench.measure.proof import daemon_logs, prove, prove_reach, versions_of
from tunnelbench.measure.radio import RadioWatch
from tunnelbench.measure.repeated_proof import PROOF_AFTER, prove_again
from tunnelbench.measure.request import RunRequest, RunSink
from tunnelbench.measure.soak import JudgeSoak, SoakMeter
from tunnelbench.measure.step_times import StepTimes
from tunnelbench.measure.tcp_trial import TcpMeter
from tunnelbench.measure.trial_monitor import OnSecond
from tunnelbench.measure.udp_trial import UdpMeter
from tunnelbench.measure.version_watch import VersionWatch
from tunnelbench.model.cipher_speed import BLOCK_BYTES, CipherSpeed
from tunnelbench.model.errors import (
    CannotHere,
    KeptForDebugging,
    NotBegun,
    TrialFailed,
    TunnelRefused,
    TunnelUnavailable,
)
from tunnelbench.model.plan import Test, TrialSpec
from tunnelbench.model.result import (
    Check,
    Outcome,
    TrialRecord,
    TunnelProof,
    Verdict,
    has_foreign_load,
    reasons_of_void,
    worst,
)
from tunnelbench.model.step import STEPS_KEY, Step
from tunnelbench.tunnel import algorithms, create


class PlanRunner:
    """Measures a plan on a testbed that is up, block by block. A block has the trials of one tunnel in one round."""

    def __init__(self, request: RunRequest, sink: RunSink, judge_soak: JudgeSoak) -> None:
        self.request = request
        self.testbed, self.plan = request.testbed, request.plan
        self.observer = sink.observer
        self.clock = ClockWatch()
        self.steps = StepTimes()
        self.meters = meters_of(request, sink, judge_soak, self._second_passed)
        self.breaker = CircuitBreaker()
        self.radios = RadioWatch(request.testbed)
        self.versions = VersionWatch(request.begun_with)
        self._live: LiveTunnel | None = None
        """The tunnel of the last attempt to bring one up, successful or not."""
        if request.keep:
            for host in request.testbed.hosts:
                host.programs_survive = True
        self._losses = 0
        """Number of times that the connection to a host was lost since the last trial."""
        self._recovery = ""
        """Sentences on what was done to a lost host since the last trial; the next trial's raw output has them."""
        self._foreign_load_seen = True
        """True if the next trial waits for quiet: at the start, and after a trial with background load."""
        for record in request.known:
            self.remember(record)
            self.breaker.note(record)

    def _second_passed(self, rate_bps: float, router_busy_share: float | None) -> None:
        self.clock.look()
        self.observer.second_passed(rate_bps, router_busy_share)

    def measure_ciphers(self) -> Iterator[CipherSpeed]:
        """Yield the speed of each cipher of the plan's tunnels by itself, on each machine of the testbed."""
        seconds = self.plan.cipher_speed_s
        if seconds is None:
            return

        def starts(what: str) -> None:
            self.testbed.hold(BRING_UP_LIMIT_S + len(BLOCK_BYTES) * float(seconds))
            self.observer.cipher_starts(what)

        done = {speed.key for speed in self.request.known_speeds}
        used = algorithms(self.plan.tunnels)
        yield from measure_all(machines(self.testbed.hosts), used, seconds, done, starts, wait=self._wait_for_quiet)

    def require_same_versions(self) -> None:
        """Raise WrongInput if a resumed run would continue with programs of other versions."""
        if self.request.accepts_versions or not self.request.known:
            return
        waiting = self.request.missing(self.plan.trials())
        generators, names = self._generators_of(waiting), {trial.tunnel.name for trial in waiting}
        for spec in self.plan.tunnels:
            if spec.name in names:
                with suppress(TunnelUnavailable):
                    found = versions_of(create(spec, tunnel_ends(self.testbed)))
                    self.versions.require_same(spec.name, {**found, **generators})

    def _generators_of(self, trials: Sequence[TrialSpec]) -> Mapping[str, str]:
        """Return the versions of the programs that make the traffic of some trials."""
        meters = {*(self.meters[spec.test] for spec in trials)}
        return {name: version for meter in meters for name, version in meter.versions().items()}

    def _wait_for_quiet(self, cpus: Sequence[int]) -> float:
        """Wait until background load has ended; return how long that took [s]."""
        waited_s = wait_for_quiet(cpus, self.testbed.spec.quiet_wait_s)
        self.observer.waited_for_quiet(waited_s)
        return waited_s

    def remember(self, record: TrialRecord) -> None:
        """Keep what later trials need from a record: the versions, and what each meter takes from it."""
        self.versions.note(record)
        for meter in {*self.meters.values()}:
            meter.remember(record)

    def calibrate(self, trials: Sequence[TrialSpec]) -> Iterator[TrialRecord]:
        """Measure the throughput of the testers joined directly, without a router between them."""
        if not trials:
            return
        started_at = now()
        with ExitStack() as stack:
            try:
                self.versions.note_generators(self._generators_of(trials))
                link = stack.enter_context(self.testbed.back_to_back())
            except CannotHere as error:
                yield from self._without_figures(list(trials), Outcome.UNAVAILABLE, str(error), started_at)
                return
            for spec in trials:
                self._let_testers_merge(spec)
                record = self._record(spec, partial(self.meters[spec.test].calibrate, spec, link), None)
                self.remember(record)
                yield record

    def measure_block(self, trials: Sequence[TrialSpec]) -> Iterator[TrialRecord]:
        """Yield a record for each trial of one tunnel in one round, even where the tunnel fails."""
        waiting = list(trials)
        while waiting:
            started_at = now()
            if why := self.breaker.why_over(waiting[0].tunnel.name):
                yield from self._without_figures(waiting, Outcome.GIVEN_UP, why, started_at)
                return
            try:
                self.testbed.hold(BRING_UP_LIMIT_S)
                # A tunnel that dies costs one trial; the rest of the block gets a new tunnel.
                yield from self._measure_through_one_tunnel(waiting)
            except LinkLost as error:
                yield from self._after_a_loss(error, waiting, started_at)
            except TunnelUnavailable as error:
                yield from self._without_figures(waiting, Outcome.UNAVAILABLE, str(error), started_at)
            except (TunnelRefused, CommandFailed) as error:
                proof = error.proof if isinstance(error, ProofFailed) else None
                yield from self._without_figures(waiting, Outcome.REFUSED, str(error), started_at, proof)
            except TrialFailed as error:  # from the warm-up: a trial that fails has its record
                yield from self._without_figures(waiting, Outcome.VOID, str(error), started_at)

    def _after_a_loss(self, error: LinkLost, waiting: list[TrialSpec], started_at: str) -> Iterator[TrialRecord]:
        """Wait for a host that was lost, and set the testbed up again.

        If a host is lost again before any trial has begun, the first of the trials that are still to be measured
        becomes void.
        """
        self._losses += 1
        if self._losses > 1 and waiting:
            record = TrialRecord(waiting.pop(0), Outcome.VOID, str(error), started_at, now())
            self.breaker.note(record)
            yield record
        if done := self.testbed.recover():
            self.observer.recovered(done)
            self._recovery += done

    def _measure_through_one_tunnel(self, waiting: list[TrialSpec]) -> Iterator[TrialRecord]:
        """Bring the tunnel up, prove it, and measure the trials of the list `waiting`; a trial that has a record leaves
        the list."""
        tunnel_spec = waiting[0].tunnel
        self.observer.tunnel_comes_up(tunnel_spec, waiting[0].round)
        self._live = LiveTunnel(self.testbed, tunnel_spec, keep=self.request.keep, steps=self.steps)
        self._let_testers_merge(waiting[0])
        with self._live as live:
            tunnel = live.tunnel
            with self.steps.measured(Step.REACH):
                install_outer_counters(self.testbed, tunnel.outer)
                answer = prove_reach(self.testbed, tunnel.inside)
            with self.steps.measured(Step.SETTLE):
                tunnel.settle()
            with self.steps.measured(Step.PROOF):
                proof = prove(self.testbed, tunnel, answer)
            if worst(proof.checks) is Verdict.VOID:
                raise ProofFailed(proof)
            with self.steps.measured(Step.WARM_UP):
                for meter in dict.fromkeys(self.meters[spec.test] for spec in waiting):
                    meter.warm_up(tunnel)
            # The warm-up renews the packet engine on a tester that was lost.
            proof = replace(proof, versions={**proof.versions, **self._generators_of(waiting)})
            while waiting:
                spec = waiting[0]
                record = self._record(spec, partial(self._measure_and_prove, spec, live), proof)
                self._losses = 0
                self.remember(record)
                waiting.pop(0)
                yield record
                self._stop_for_debugging(record)
                # The state of the tunnel is unknown after a failure, and a soak may have brought it up again.
                needs_new = record.outcome is Outcome.VOID or spec.test is Test.SOAK or not _is_proven_after(record)
                if needs_new or tunnel.has_died or self.breaker.why_over(tunnel_spec.name):
                    return

    def _let_testers_merge(self, spec: TrialSpec) -> None:
        """Let the testers merge what has arrived if the trial sends as fast as TCP can.

        A veth that merges packets has a queue of 256 packets, in which UDP lost some from 50,000 packets/s on; and at a
        lower load each packet wakes the merging thread up, at the cost of the router's CPU.
        """
        self.testbed.let_testers_merge(spec.is_tcp_flat_out, has_tunnel=spec.tunnel.has_tunnel)

    def _measure_and_prove(self, spec: TrialSpec, live: LiveTunnel) -> TrialFindings:
        """Measure a trial, and repeat the proof of its tunnel after it. A soak may have brought up another tunnel."""
        with self.steps.measured(Step.MEASURE):
            self._let_testers_merge(spec)
            live.tunnel.before_trial()
            found = self.meters[spec.test].measure(spec, live)
        with self.steps.measured(Step.PROOF_AFTER):
            check = prove_again(self.testbed, live.tunnel, is_soak=spec.test is Test.SOAK)
        return replace(found, checks=(*found.checks, check))

    def _record(self, spec: TrialSpec, trial: Callable[[], TrialFindings], proof: TunnelProof | None) -> TrialRecord:
        """Run one trial and return its record, which is void if the trial fails. If the last trial had background load,
        wait first until that has ended.

        Raises LinkLost where a host is lost before the trial begins.
        """
        waited_s = 0.0
        if self._foreign_load_seen:
            self.testbed.hold(self.testbed.spec.quiet_wait_s)
            waited_s = self._wait_for_quiet(cpus_here(*self.testbed.hosts))
        self.testbed.hold(self.plan.longest_trial_s(spec))
        started_at = now()
        self.clock.start()
        self.observer.trial_starts(spec)
        try:
            found = self.radios.around(spec, trial)()
            outcome, reason, measurement, raw = Outcome.MEASURED, "", found.measurement, found.raw
            checks = (*found.checks, *self.versions.check(spec.tunnel.name, proof.versions if proof else {}))
            self._foreign_load_seen = has_foreign_load(checks)
        except (TrialFailed, CommandFailed) as error:
            outcome, reason, measurement = Outcome.VOID, str(error), None
            raw = error.raw if isinstance(error, TrialFailed) else {}
            checks = _why_not_begun(error)
        record = TrialRecord(
            spec,
            outcome,
            reason,
            started_at,
            now(),
            (*checks, self.clock.check(is_long=spec.test is Test.SOAK)),
            measurement,
            proof,
            {**raw, STEPS_KEY: self.steps.take()},
            waited_for_quiet_s=waited_s,
        )
        if self._recovery:
            record = replace(record, raw={**record.raw, "recovery": self._recovery})
            self._recovery = ""
        if record.has_failed and proof is not None:
            record = replace(record, raw={**record.raw, **self._logs()})
        self.breaker.note(record)
        return record

    def _without_figures(
        self,
        waiting: list[TrialSpec],
        outcome: Outcome,
        reason: str,
        started_at: str,
        proof: TunnelProof | None = None,
    ) -> Iterator[TrialRecord]:
        """Yield a record without figures for each trial that was not measured, because the tunnel did not come up; the
        circuit breaker counts them as one attempt."""
        while waiting:
            record = TrialRecord(waiting.pop(0), outcome, reason, started_at, now(), proof=proof)
            if record.has_failed and proof is None:
                record = replace(record, raw=self._logs())
            self.breaker.note(record)
            yield record
            if not waiting:
                self._stop_for_debugging(record)

    def _logs(self) -> dict[str, str]:
        """Return the end of the output of the tunnel's daemons, without keys."""
        return daemon_logs(self._live.created) if self._live and self._live.created else {}

    def _stop_for_debugging(self, record: TrialRecord) -> None:
        """Raise KeptForDebugging after a fault of the tunnel, if the request asks for it; all then stays up."""
        if self.request.keep and record.has_failed and shows_fault(record):
            hosts = [host for host in self.testbed.hosts if host.shell_command]
            ways = "".join(f"\n  {host.name}: {host.shell_command}" for host in hosts)
            daemons = self._live.created.daemons if self._live and self._live.created else []
            places = "".join(f"\n  {daemon.log_path}" for daemon in daemons) or " none"
            void = record.verdict if record.outcome is Outcome.MEASURED else record.outcome
            raise KeptForDebugging(
                f"a trial is {void}, and --keep ends the run: {'; '.join(record.void_reasons)}",
                f"namespaces, devices and logs stay up; `tunnelbench clean` removes them. Enter a host:{ways}\n"
                f"logs of the tunnel's programs:{places}",
            )


def meters_of(request: RunRequest, sink: RunSink, judge_soak: JudgeSoak, on_second: OnSecond) -> dict[Test, Meter]:
    """Return the meter of each kind of trial in the plan. Raises CannotHere where the testers cannot do one."""
    plan, testbed = request.plan, request.testbed
    found: dict[Test, Meter] = {}
    if plan.tcp:
        found[Test.TCP] = TcpMeter(testbed, plan.tcp, on_second)
    if plan.udp:
        udp = UdpMeter(testbed, plan.udp, on_second)
        found |= {test: udp for test in Test if test not in (Test.TCP, Test.SOAK) and not test.is_of_connections}
        found[Test.HANDSHAKE] = HandshakeMeter(testbed, plan.udp, on_second)
    if plan.connections:
        opened = ConnectionMeter(testbed, plan.connections, on_second)
        found |= dict.fromkeys((Test.CONNECT, Test.CONCURRENT), opened)
    if plan.soak:
        if sink.results.soaks is None:
            raise ValueError("the results of this run cannot keep a soak")
        found[Test.SOAK] = SoakMeter(testbed, plan.soak, on_second, sink.results.soaks, judge_soak)
    return found


BRING_UP_LIMIT_S = 180.0
"""Upper limit of the time to wait for quiet and to bring a tunnel up, settle and prove it [s]."""


class ProofFailed(TunnelRefused):
    """Raised if a tunnel is up but differs from the plan, as by another cipher."""

    def __init__(self, proof: TunnelProof) -> None:
        super().__init__("; ".join(reasons_of_void(proof.checks)))
        self.proof = proof


def _is_proven_after(record: TrialRecord) -> bool:
    """Return False if the proof that follows a trial failed, or could not be repeated."""
    return all(check.verdict is Verdict.OK for check in record.checks if check.name == PROOF_AFTER)


def _why_not_begun(error: Exception) -> tuple[Check, ...]:
    """Return the check of a trial that could not begin; no check for other errors."""
    return (Check(NOT_BEGUN, Verdict.VOID, str(error), rule=20),) if isinstance(error, NotBegun) else ()
