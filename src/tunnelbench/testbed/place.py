"""The place of labgrid that a testbed names: acquired before its router is examined, released after the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from tunnelbench.host import labgrid
from tunnelbench.host.labgrid import PlaceHeld, PlaceHold, PlaceNotAcquired
from tunnelbench.host.parsing import UNREADABLE
from tunnelbench.host.signals import undisturbed
from tunnelbench.model.testbed import TestbedSpec

NOTE_NAME = "labgrid-place"
"""File in a run's folder that names the place, written before the place is acquired: `clean` releases it by that."""


def acquire_place(spec: TestbedSpec, run_id: str, folder: Path, say: Callable[[str], object]) -> TestbedSpec:
    """Acquire the place of a testbed for a run, and return the testbed with the router's address.

    Waits while another user has the place, and says so. A testbed without a place is returned as it is. The caller
    calls `release_place` in any case. Raises PlaceUnavailable.
    """
    if spec.place is None:
        return spec
    hold = labgrid.hold_for(spec.place, run_id)
    try:
        return _acquired(spec, hold, folder, 0)
    except PlaceHeld as error:
        wait_s = spec.place.wait_s
        if not wait_s:
            raise
        say(f"tunnelbench: the place {hold.place} {error.by}; waiting for it for at most {wait_s} s")
    try:
        return _acquired(spec, hold, folder, wait_s)
    except PlaceHeld as error:
        error.message += f", after a wait of {wait_s} s"
        raise


def _acquired(spec: TestbedSpec, hold: PlaceHold, folder: Path, wait_s: int) -> TestbedSpec:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    note = folder / NOTE_NAME
    note.write_text(json.dumps(asdict(hold)))
    try:
        found = labgrid.acquire(hold, wait_s)
    except PlaceNotAcquired:
        note.unlink()
        raise
    if spec.router is None:
        raise ValueError(f"testbed {spec.name} has no router")
    access = replace(spec.router.access, host=found.host, port=found.port)
    return replace(spec, router=replace(spec.router, access=access))


def release_place(folder: Path) -> str:
    """Release the place that a run's folder names, if the run still has it; return its name, or nothing.

    Raises PlaceUnavailable if it cannot be released; the folder then still names it.
    """
    note = folder / NOTE_NAME
    try:
        hold = PlaceHold(**json.loads(note.read_text()))
    except FileNotFoundError:
        return ""
    except UNREADABLE:  # the controller was killed while it wrote the note, before it acquired the place
        note.unlink()
        return ""
    was_held = labgrid.release(hold)
    note.unlink()
    return hold.place if was_held else ""


@contextmanager
def place_held(spec: TestbedSpec, run_id: str, folder: Path, *, adopts: bool = False) -> Iterator[TestbedSpec]:
    """Hold the place of a testbed during the block, without waiting for it; yields the testbed with the address.

    With `adopts`, the place may be one that a run of this machine holds that has ended; it is released, too. Raises
    PlaceUnavailable.
    """
    if spec.place is None:
        yield spec
        return
    hold = labgrid.hold_for(spec.place, run_id)
    if adopts and labgrid.is_left_here(holder := labgrid.holder_of(hold)):
        hold = replace(hold, holder=holder)
    try:
        yield _acquired(spec, hold, folder, 0)
    finally:
        with undisturbed:
            release_place(folder)


class PowerSwitch:
    """The power switch of a testbed's place, which is used once in a run."""

    def __init__(self, spec: TestbedSpec, run_id: str) -> None:
        self.place = spec.place
        self._hold = labgrid.hold_for(spec.place, run_id) if spec.place else None
        self._is_used = False

    def cycle(self) -> str:
        """Switch the router off and on, and return a sentence about it; empty if that was done before, or if there is
        no place. Raises PlaceUnavailable if labgrid cannot do it.
        """
        if self._hold is None or self.place is None or self._is_used:
            return ""
        self._is_used = True
        labgrid.power_cycle(self._hold)
        return (
            f"The router did not answer for {self.place.power_after_s} s: labgrid has switched the power of the place "
            f"{self.place.name} off and on."
        )
