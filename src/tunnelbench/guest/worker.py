"""The program inside a guest: runs a plan, and reports all results to the controller.

python -m tunnelbench.guest.worker MODULES_ROOT

Standard input has the job, standard output the messages, one per line. A guest stores nothing: it can only read this
machine's files, and its /run is in its memory.
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

from tunnelbench.guest import protocol
from tunnelbench.host.command import run_command
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.measure.request import Observer, RunRequest, RunSink
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
"""`Testbed.slow_start_s` of an emulated guest [s]. A program takes 0.3 to 0.7 s to start there, and several times that
on a busy machine; with 2 s, trials ended before their window did. Short trials get less (`MOST_UNNOTICED_SHARE`)."""

MODPROBE = Path("/run/tunnelbench-modprobe")

EARLY_MODULES = ("tun", "ppp_generic")
"""Kernel modules that are loaded first: without them, the device files that programs open do not exist."""


class ControllerLink(Observer):
    """Sends messages to the controller. Inside the guest, this object is the store and the observer of the run."""

    soaks = None
    """None, because a soak cannot run inside a guest."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, text: bytes) -> None:
        """Write one line in one step; its beginning also goes to the console, for the log of a dead guest."""
        log.info("%s", printable(text[:LOG_LINE_BYTES].decode(errors="replace").strip()))
        with self._lock:
            while text:
                text = text[os.write(self._descriptor, text) :]

    def cipher_starts(self, what: str) -> None:
        self.send(protocol.line(protocol.CIPHER, cipher=what))

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        self.send(protocol.line(protocol.COMES_UP, tunnel=tunnel.name, round=round_number))

    def trial_starts(self, spec: TrialSpec) -> None:
        self.send(protocol.line(protocol.STARTS, sequence=spec.sequence))

    def second_passed(self, rate_bps: float, router_busy_share: float | None) -> None:
        self.send(protocol.line(protocol.SECOND, rate_bps=rate_bps, router_busy_share=router_busy_share))

    def waited_for_quiet(self, seconds: float) -> None:
        self.send(protocol.line(protocol.WAITED, seconds=seconds))

    def add_trial(self, record: TrialRecord) -> None:
        self.send(protocol.line(protocol.RECORD, record=protocol.dump(record)))

    def add_cipher_speed(self, speed: CipherSpeed) -> None:
        self.send(protocol.line(protocol.SPEED, speed=protocol.dump(speed)))


def main(arguments: Sequence[str]) -> None:
    """Prepare the guest, read one job and run it."""
    # The output of other programs must not come between the messages.
    link = ControllerLink(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.basicConfig(format="%(relativeCreated)d ms: %(message)s", level=logging.INFO)
    stop_beating = beat(link)
    try:
        prepare(Path(arguments[0]))
        link.send(protocol.line(protocol.HELLO, facts=machine_facts()))
        found = protocol.message(sys.stdin.buffer.readline())
        if found is not None:  # None: the controller has ended
            carry_out(protocol.load(protocol.GuestJob, found["job"]), link)
        link.send(protocol.line(protocol.DONE))
    except UserError as error:
        link.send(protocol.line(protocol.CANNOT, message=error.message, hint=error.hint))
    except Exception:  # noqa: BLE001 # the controller shows it; output inside the guest is not read
        link.send(protocol.line(protocol.BUG, traceback=traceback.format_exc()))
    finally:
        stop_beating()


def carry_out(job: protocol.GuestJob, link: ControllerLink) -> None:
    """Measure the trials of the plan that have no record yet."""
    folder = RUN_FOLDER / job.run_id
    folder.mkdir(mode=0o700, parents=True)
    try:
        # The guest runs the kernel that the testbed asks for.
        testbed = open_testbed(replace(job.testbed, kernel="host"), job.run_id, folder)
        if job.is_emulated:
            testbed.slow_start_s = EMULATED_SLOW_START_S
        request = RunRequest(
            job.plan, testbed, job.known, job.known_speeds, job.begun_with, accepts_versions=job.accepts_versions
        )
        run_plan(request, RunSink(link, link))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(modules_root: Path) -> None:
    """Make the guest's kernel find its modules: /lib/modules belongs to this machine's kernel, or is missing."""
    modprobe = shutil.which("modprobe") or "/sbin/modprobe"
    MODPROBE.write_text(f'#!/bin/sh\nexec {modprobe} -d {modules_root} "$@"\n')
    MODPROBE.chmod(0o755)
    Path("/proc/sys/kernel/modprobe").write_text(f"{MODPROBE}\n")
    for module in EARLY_MODULES:
        run_command([str(MODPROBE), module], check=False)


def beat(link: ControllerLink) -> Callable[[], None]:
    """Send a sign of life to the controller every few seconds; return a function that stops this."""
    is_over = threading.Event()

    def keep_beating() -> None:
        while not is_over.wait(ALIVE_EVERY_S):
            link.send(protocol.line(protocol.ALIVE))

    thread = threading.Thread(target=keep_beating, daemon=True)
    thread.start()

    def stop() -> None:
        is_over.set()
        thread.join()

    return stop


if __name__ == "__main__":
    main(sys.argv[1:])
