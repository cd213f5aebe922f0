"""A run whose testbed is inside a guest, seen from outside: what arrives is stored and shown as of any run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from tunnelbench.guest import wire
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
from tunnelbench.measure.cpu import FOREIGN_LIMIT_SHARE
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.plan import Plan, TrialSpec
from tunnelbench.model.result import Check, Outcome, TrialRecord, Verdict
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.run import Observer, now

GUEST_CPUS = "guest-cpus"
"""Check of whether the guest's CPUs ran when they could: the guest itself sees nothing of that (rule 12)."""


@dataclass(frozen=True)
class GuestKernel:
    """What a guest of this run is."""

    kernel: Kernel
    accelerator: Accelerator
    cpu: str = ""
    """The CPU that is emulated; empty where the guest has this machine's."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the results are to say of it."""
        found = {"guest": self.accelerator.words, "guest_kernel": self.kernel.version}
        if self.cpu:
            found["guest_cpu"] = self.cpu
        return {**found, "guest_package": self.kernel.package} if self.kernel.package else found


def choose_guest(testbed: TestbedSpec, mark: str, folder: Path) -> GuestKernel:
    """Kernel and accelerator for a testbed; the first time that takes minutes. CannotHere where it cannot be."""
    require_guest_programs()
    kernel = find_kernel(testbed.kernel)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    accelerator = choose_accelerator(kernel, mark, folder)
    return GuestKernel(kernel, accelerator, emulated_cpu() if accelerator is Accelerator.TCG else "")


@dataclass
class GuestRun:
    """A plan carried out inside a guest, as `run_plan` does without one. Store, screen and signals stay outside."""

    plan: Plan
    testbed: TestbedSpec
    guest: GuestKernel
    run_id: str
    folder: Path
    store_trial: Callable[[TrialRecord], None]
    observer: Observer
    store_speed: Callable[[CipherSpeed], None]
    known: list[TrialRecord]
    known_speeds: list[CipherSpeed]

    def __post_init__(self) -> None:
        self._specs = {spec.sequence: spec for spec in (*self.plan.calibrations(), *self.plan.trials())}
        self._tunnels = {tunnel.name: tunnel for tunnel in self.plan.tunnels}
        self._wait_before: CpuWait | None = None
        self._came_up = False

    def run(self) -> None:
        """Until every trial has its record. A guest that dies costs its block, and the next one goes on."""
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
            return Guest(self.guest.kernel, self.guest.accelerator, self.run_id[-6:], self.folder)
        except GuestDied as death:
            if self._came_up:
                raise CannotHere(
                    f"a guest ended, and another did not come up: {death}",
                    "dmesg may say what ended them: is this machine short of memory?",
                ) from None
            raise CannotHere(
                f"kernel {self.guest.kernel.version} does not come up as a guest: {death}",
                'run on the machine\'s own kernel: kernel = "host"',
            ) from None

    def _hear_out(self, guest: Guest) -> None:
        is_emulated = self.guest.accelerator is Accelerator.TCG
        known = tuple(replace(record, raw={}) for record in self.known)
        job = wire.Job(self.run_id, self.plan, self.testbed, known, tuple(self.known_speeds), is_emulated)
        guest.send(wire.line("job", job=wire.dump(wire.JOB, job)))
        for message in guest.messages():
            if message["what"] == wire.DONE:
                return
            self._take(message, guest)

    def _take(self, message: wire.Message, guest: Guest) -> None:
        match message["what"]:
            case wire.COMES_UP:
                self.observer.tunnel_comes_up(self._tunnels[message["tunnel"]], message["round"])
            case wire.STARTS:
                self._wait_before = guest.cpu_wait()
                self.observer.trial_starts(self._specs[message["sequence"]])
            case wire.SECOND:
                self.observer.second_passed(message["rate_bps"])
            case wire.WAITED:
                self.observer.waited_for_quiet(message["seconds"])
            case wire.CIPHER:
                self.observer.cipher_starts(message["cipher"])
            case wire.SPEED:
                speed = wire.load(wire.CIPHER_SPEED, message["speed"])
                self.store_speed(speed)
                self.known_speeds.append(speed)
            case wire.RECORD:
                self._keep(self._checked(wire.load(wire.TRIAL, message["record"]), guest.cpu_wait()))
            case wire.CANNOT:
                raise CannotHere(message["message"], message["hint"])
            case wire.BUG:
                raise RuntimeError(f"inside the guest:\n{message['traceback']}")

    def _checked(self, record: TrialRecord, wait: CpuWait) -> TrialRecord:
        """With the check that only this side can make."""
        before, self._wait_before = self._wait_before, None
        if before is None or record.outcome is not Outcome.MEASURED:
            return record
        return replace(record, checks=(*record.checks, check_guest_cpus(before, wait)))

    def _keep(self, record: TrialRecord) -> None:
        self.store_trial(record)
        self.known.append(record)
        self.observer.trial_ended(record)

    def _missing(self) -> list[TrialSpec]:
        done = {record.spec.sequence for record in self.known}
        return [spec for spec in self._specs.values() if spec.sequence not in done]

    def _give_up_block(self, reason: str, started_at: str) -> None:
        """What is missing of the block that a guest died in is void: one attempt, as patience counts."""
        missing = self._missing()
        if not missing:
            return
        block = (missing[0].round, missing[0].tunnel.name)
        for spec in takewhile(lambda each: (each.round, each.tunnel.name) == block, missing):
            self._keep(TrialRecord(spec, Outcome.VOID, reason, started_at, now()))


def check_guest_cpus(before: CpuWait, after: CpuWait) -> Check:
    """Whether the guest's CPUs had to wait for this machine's (rule 12), as a share of one CPU; no I/O."""
    share = (after.waited_s - before.waited_s) / (after.clock_s - before.clock_s)
    verdict = Verdict.OK if share <= FOREIGN_LIMIT_SHARE else Verdict.DOUBTFUL
    reason = (
        f"the guest's CPUs waited for this machine's for {share:.1%} of one CPU's time; "
        f"above {FOREIGN_LIMIT_SHARE:.0%} its figures may suffer"
    )
    return Check(GUEST_CPUS, verdict, reason, rule=12)
