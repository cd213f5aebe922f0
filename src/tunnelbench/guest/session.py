"""The controller's side of a run inside a guest: stores the guest's results and shows its progress."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from tunnelbench.guest import protocol
from tunnelbench.guest.kernel import Kernel, find_kernel
from tunnelbench.guest.machine import (
    Accelerator,
    CpuWait,
    Guest,
    GuestDied,
    choose_accelerator,
    emulated_cpu,
    require_guest_programs,
)
from tunnelbench.measure.clock_check import now
from tunnelbench.measure.cpu import FOREIGN_LIMIT_SHARE
from tunnelbench.measure.request import RunRequest, RunSink
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import TestbedSpec

GUEST_CPUS = "guest-cpus"
"""Name of the check that a guest's CPUs seldom waited; the guest itself cannot see that (rule 12)."""


@dataclass(frozen=True)
class GuestKernel:
    """Kernel, accelerator and CPU of the guests of a run."""

    kernel: Kernel
    accelerator: Accelerator
    cpu: str = ""
    """Name of the emulated CPU; empty if the guest has this machine's CPU."""

    @property
    def facts(self) -> dict[str, Any]:
        """Return the facts about the guest that are stored with the run."""
        found = {"guest": self.accelerator.words, "guest_kernel": self.kernel.version}
        if self.cpu:
            found["guest_cpu"] = self.cpu
        return {**found, "guest_package": self.kernel.package} if self.kernel.package else found


def choose_guest(testbed: TestbedSpec, mark: str, folder: Path) -> GuestKernel:
    """Choose kernel and accelerator for a testbed; takes minutes the first time. Raises CannotHere if there is none."""
    require_guest_programs()
    kernel = find_kernel(testbed.kernel)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    accelerator = choose_accelerator(kernel, mark, folder)
    return GuestKernel(kernel, accelerator, emulated_cpu() if accelerator is Accelerator.TCG else "")


@dataclass
class GuestRun:
    """Measures a plan inside a guest. Store, terminal output and signals are handled outside of it."""

    guest: GuestKernel
    request: RunRequest
    sink: RunSink

    def __post_init__(self) -> None:
        plan = self.request.plan
        self._specs = {spec.sequence: spec for spec in (*plan.calibrations(), *plan.trials())}
        self._tunnels = {tunnel.name: tunnel for tunnel in plan.tunnels}
        self._wait_before: CpuWait | None = None
        self._came_up = False

    def run(self) -> None:
        """Measure until every trial has its record. If a guest dies, its block is void, and a new guest continues."""
        while True:
            with self._boot() as guest:
                self._came_up = True
                started_at = now()
                try:
                    self._hear_out(guest)
                except GuestDied as death:
                    self._give_up_block(str(death), started_at)
                else:
                    return
            if not self._missing():
                return

    def _boot(self) -> Guest:
        try:
            testbed = self.request.testbed
            return Guest(self.guest.kernel, self.guest.accelerator, testbed.mark, testbed.folder)
        except GuestDied as death:
            if self._came_up:
                raise CannotHere(
                    f"a guest ended, and another did not come up: {death}",
                    "look for the cause in the output of dmesg, such as too little memory",
                ) from None
            raise CannotHere(
                f"kernel {self.guest.kernel.version} does not come up as a guest: {death}",
                'run on the machine\'s own kernel: kernel = "host"',
            ) from None

    def _hear_out(self, guest: Guest) -> None:
        request, testbed = self.request, self.request.testbed
        is_emulated = self.guest.accelerator is Accelerator.TCG
        known = tuple(replace(record, raw={}) for record in request.known)
        speeds = tuple(request.known_speeds)
        versions = request.begun_with, request.accepts_versions
        job = protocol.GuestJob(testbed.run_id, request.plan, testbed.spec, known, speeds, *versions, is_emulated)
        guest.send(protocol.line("job", job=protocol.dump(job)))
        for message in guest.messages():
            if message["what"] == protocol.DONE:
                return
            self._take(message, guest)

    def _take(self, message: protocol.Message, guest: Guest) -> None:
        observer = self.sink.observer
        match message["what"]:
            case protocol.COMES_UP:
                observer.tunnel_comes_up(self._tunnels[message["tunnel"]], message["round"])
            case protocol.STARTS:
                self._wait_before = guest.cpu_wait()
                observer.trial_starts(self._specs[message["sequence"]])
            case protocol.SECOND:
                observer.second_passed(message["rate_bps"], message["router_busy_share"])
            case protocol.WAITED:
                observer.waited_for_quiet(message["seconds"])
            case protocol.CIPHER:
                observer.cipher_starts(message["cipher"])
            case protocol.SPEED:
                speed = protocol.load(CipherSpeed, message["speed"])
                self.sink.results.add_cipher_speed(speed)
                self.request = replace(self.request, known_speeds=(*self.request.known_speeds, speed))
            case protocol.RECORD:
                self._keep(self._checked(protocol.load(TrialRecord, message["record"]), guest.cpu_wait()))
            case protocol.CANNOT:
                raise CannotHere(message["message"], message["hint"])
            case protocol.BUG:
                raise RuntimeError(f"inside the guest:\n{message['traceback']}")

    def _checked(self, record: TrialRecord, wait: CpuWait) -> TrialRecord:
        """Return the record with the check of the guest's waiting time, which only the controller can make."""
        before, self._wait_before = self._wait_before, None
        if before is None or record.outcome is not Outcome.MEASURED:
            return record
        return replace(record, checks=(*record.checks, check_guest_cpus(before, wait)))

    def _keep(self, record: TrialRecord) -> None:
        self.sink.keep(record)
        self.request = replace(self.request, known=(*self.request.known, record))

    def _missing(self) -> list[TrialSpec]:
        return self.request.missing([*self._specs.values()])

    def _give_up_block(self, reason: str, started_at: str) -> None:
        """Store void records for the rest of the block in which a guest died; they count as one attempt."""
        missing = self._missing()
        if not missing:
            return
        block = (missing[0].round, missing[0].tunnel.name)
        for spec in takewhile(lambda each: (each.round, each.tunnel.name) == block, missing):
            self._keep(TrialRecord(spec, Outcome.VOID, reason, started_at, now()))


def check_guest_cpus(before: CpuWait, after: CpuWait) -> Check:
    """Check that the guest's CPUs seldom waited for this machine's (rule 12); no I/O."""
    share = (after.waited_s - before.waited_s) / (after.clock_s - before.clock_s)
    verdict = Verdict.OK if share <= FOREIGN_LIMIT_SHARE else Verdict.DOUBTFUL
    reason = (
        f"the guest's CPUs waited for this machine's for {share:.1%} of one CPU's time; "
        f"above {FOREIGN_LIMIT_SHARE:.0%} its figures may be too low"
    )
    return Check(GUEST_CPUS, verdict, reason, rule=12)
