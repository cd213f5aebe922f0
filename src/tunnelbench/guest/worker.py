"""Inside the guest: runs a plan as the controller would, and tells the controller everything, line by line.

    python -m tunnelbench.guest.worker MODULES_ROOT

Standard input is the job, standard output what came of it. Nothing is kept here: the guest's files are this machine's,
to be read only, and its /run is its own memory.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tunnelbench.guest import wire
from tunnelbench.host.command import run_command
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.errors import UserError
from tunnelbench.model.plan import TrialSpec, TunnelSpec
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.text import printable
from tunnelbench.run import run_plan
from tunnelbench.testbed import open_testbed

log = logging.getLogger("tunnelbench.guest")

ALIVE_EVERY_S = 5.0

LOG_LINE_BYTES = 200

EMULATED_SLOW_START_S = 4.0
"""As `Testbed.slow_start_s`; a program takes 0.3 to 0.7 s to start in an emulated guest, and several times that on a
busy machine, where with 2 s trials ended before their window did. Short trials get less (`MOST_UNNOTICED_SHARE`)."""

MODPROBE = Path("/run/tunnelbench-modprobe")

EARLY_MODULES = ("tun", "ppp_generic")
"""Their device files are there only once they are loaded, so nobody can ask for them by opening one."""


class Teller:
    """Writes messages; an observer of the run."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def tell(self, text: bytes) -> None:
        """Write one line whole; its beginning goes to the console, too, where it is among the last words of a guest."""
        log.info("%s", printable(text[:LOG_LINE_BYTES].decode(errors="replace").strip()))
        with self._lock:
            while text:
                text = text[os.write(self._descriptor, text) :]

    def cipher_starts(self, what: str) -> None:
        self.tell(wire.line(wire.CIPHER, cipher=what))

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        self.tell(wire.line(wire.COMES_UP, tunnel=tunnel.name, round=round_number))

    def trial_starts(self, spec: TrialSpec) -> None:
        self.tell(wire.line(wire.STARTS, sequence=spec.sequence))

    def second_passed(self, rate_bps: float) -> None:
        self.tell(wire.line(wire.SECOND, rate_bps=rate_bps))

    def trial_ended(self, record: TrialRecord) -> None:
        """It was told by `keep_trial`."""

    def waited_for_quiet(self, seconds: float) -> None:
        self.tell(wire.line(wire.WAITED, seconds=seconds))

    def keep_trial(self, record: TrialRecord) -> None:
        self.tell(wire.line(wire.RECORD, record=wire.dump(wire.TRIAL, record)))

    def keep_speed(self, speed: CipherSpeed) -> None:
        self.tell(wire.line(wire.SPEED, speed=wire.dump(wire.CIPHER_SPEED, speed)))


def main(arguments: Sequence[str]) -> None:
    """Prepare the guest, take one job and carry it out."""
    # What any program prints must not come between the messages.
    teller = Teller(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.basicConfig(format="%(relativeCreated)d ms: %(message)s", level=logging.INFO)
    stop_beating = beat(teller)
    try:
        prepare(Path(arguments[0]))
        teller.tell(wire.line(wire.HELLO, facts=machine_facts()))
        found = wire.message(sys.stdin.buffer.readline())
        if found is not None:  # None: the controller has gone
            carry_out(wire.load(wire.JOB, found["job"]), teller)
        teller.tell(wire.line(wire.DONE))
    except UserError as error:
        teller.tell(wire.line(wire.CANNOT, message=error.message, hint=error.hint))
    except Exception:  # noqa: BLE001 # the controller is to show it: nobody reads what is printed here
        teller.tell(wire.line(wire.BUG, traceback=traceback.format_exc()))
    finally:
        stop_beating()


def carry_out(job: wire.Job, teller: Teller) -> None:
    """Run what is missing of the plan."""
    folder = RUN_FOLDER / job.run_id
    folder.mkdir(mode=0o700, parents=True)
    try:
        # The guest is the kernel that the testbed asks for.
        testbed = open_testbed(replace(job.testbed, kernel="host"), job.run_id, folder)
        if job.is_emulated:
            testbed.slow_start_s = EMULATED_SLOW_START_S
        run_plan(
            job.plan,
            testbed,
            teller.keep_trial,
            teller,
            job.known,
            store_speed=teller.keep_speed,
            known_speeds=job.known_speeds,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(modules_root: Path) -> None:
    """Let the kernel find its modules where they are: /lib/modules is this machine's, or not there at all."""
    modprobe = shutil.which("modprobe") or "/sbin/modprobe"
    MODPROBE.write_text(f'#!/bin/sh\nexec {modprobe} -d {modules_root} "$@"\n')
    MODPROBE.chmod(0o755)
    Path("/proc/sys/kernel/modprobe").write_text(f"{MODPROBE}\n")
    for module in EARLY_MODULES:
        run_command([str(MODPROBE), module], check=False)


def beat(teller: Teller) -> Callable[[], None]:
    """Say every few seconds that the guest lives; returns what ends that."""
    is_over = threading.Event()

    def go_on() -> None:
        while not is_over.wait(ALIVE_EVERY_S):
            teller.tell(wire.line(wire.ALIVE))

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()

    def stop() -> None:
        is_over.set()
        thread.join()

    return stop


if __name__ == "__main__":
    main(sys.argv[1:])
