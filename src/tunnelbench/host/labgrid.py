"""Places of labgrid: acquires one, reads its address, switches its power, and releases it.

labgrid is an optional package. Each call runs it in a process of its own (`labgrid_session.py`), so that nothing of it
is loaded here or runs during a trial.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tunnelbench.host.command import DIE_WITH_CONTROLLER, Completed, last_lines, run_command
from tunnelbench.host.parsing import UNREADABLE, json_of
from tunnelbench.host.procfs import stat_fields
from tunnelbench.host.python_packages import LABGRID, install_hint
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import LabgridPlace
from tunnelbench.model.text import printable

OWN_PROGRAM = "tunnelbench.host.labgrid_session"
DEFAULT_COORDINATOR = "127.0.0.1:20408"
RUN_OF = "-tunnelbench-"
"""Text between the user and the id of the run in the name of a holder."""
OWN_PROCESS = re.compile(r"[A-Za-z0-9-]+\.(?P<machine>[0-9a-f]+|unknown)\.(?P<pid>[0-9]{1,9})\.(?P<start>[0-9]+)")
"""Text after RUN_OF in the name of a holder: run, machine, and number and start of the process."""
MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))

LABGRID_LIMIT_S = 120.0
"""Longest time of a call without waiting for a place [s]; a slow machine needs seconds to load labgrid."""

POWER_LIMIT_S = 180.0
"""Longest time to switch the power off and on [s]; labgrid waits between the two, by default for 2 s."""

SSH_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]{0,200}")
SSH_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,50}")
"""Address and user that a NetworkService may have: they become an argument of ssh, which must not read an option."""

NO_POWER = "no compatible resource"
"""Part of labgrid-client's message for a place without a power switch."""


class PlaceUnavailable(CannotHere):
    """A place of labgrid cannot be acquired or used."""


class PlaceNotAcquired(PlaceUnavailable):
    """The place was certainly not acquired, so that there is nothing to release."""


class PlaceHeld(PlaceNotAcquired):
    """Another user has acquired or reserved the place."""

    def __init__(self, hold: PlaceHold, by: str, *, is_reserved: bool) -> None:
        self.by = printable(f"is reserved for {by}" if is_reserved else f"is held by {by}")
        super().__init__(f"the place {hold.place} of labgrid {self.by}", HELD_HINT)


HELD_HINT = "wait until it is released; place_wait_s in the testbed file is the time that a run waits"


@dataclass(frozen=True)
class PlaceHold:
    """A place, and the name under which a run acquires it."""

    place: str
    coordinator: str
    holder: str
    """`MACHINE/USER`, as labgrid names the user of a place; the user's name contains run and process."""


@dataclass(frozen=True)
class ServiceAddress:
    """Address and SSH access in a place's resource NetworkService."""

    host: str
    """Destination for ssh: the address, with the user in front."""
    port: int


def hold_for(place: LabgridPlace, run_id: str) -> PlaceHold:
    """Return the hold of a run on a place, which is not acquired yet.

    Each run has its own name, so that a run cannot release what the same user has acquired by hand, or another run. The
    name ends with this machine and this process, so that `clean` can see if the process has ended.
    """
    user = os.environ.get("LG_USERNAME") or os.environ.get("SUDO_USER") or getpass.getuser()
    coordinator = place.coordinator or os.environ.get("LG_COORDINATOR") or DEFAULT_COORDINATOR
    process = f"{_machine_id()}.{os.getpid()}.{_start_of(os.getpid())}"
    return PlaceHold(place.name, coordinator, f"{_machine()}/{_plain(user)}{RUN_OF}{run_id}.{process}")


def is_left_here(holder: str) -> bool:
    """Return True if a holder is a run, or another verb, of TunnelBench on this machine whose process has ended."""
    machine, _, user = holder.partition("/")
    _, run_of, process = user.rpartition(RUN_OF)
    found = OWN_PROCESS.fullmatch(process) if run_of else None
    if not found or machine != _machine() or found["machine"] != _machine_id():
        return False
    return _start_of(int(found["pid"])) != found["start"]


def _machine_id() -> str:
    """Return a short hash of the id of this machine: host names may be the same. machine-id(5) asks to hash it."""
    for path in MACHINE_ID_FILES:
        with suppress(OSError):
            return hashlib.sha256(b"tunnelbench" + path.read_bytes().strip()).hexdigest()[:12]
    return "unknown"


def _start_of(pid: int) -> str:
    """Return when a process began, in ticks since the start of the machine (proc(5), field 22); `ended` if it has."""
    try:
        fields = stat_fields(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except OSError:
        return "ended"
    return "ended" if fields[0] in "ZX" else fields[19]


def _machine() -> str:
    return _plain(os.environ.get("LG_HOSTNAME") or socket.gethostname())


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def acquire(hold: PlaceHold, wait_s: int = 0) -> ServiceAddress:
    """Acquire a place, for which other users may have to be waited for, and return its address.

    Raises PlaceHeld if another user still has the place after `wait_s`, and PlaceUnavailable for other reasons.
    """
    found = _call(hold, "acquire", str(wait_s), limit_s=wait_s + LABGRID_LIMIT_S)
    _require_success(hold, found)
    user, host, port = found.get("username"), found.get("address"), found.get("port")
    is_port = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
    is_usable = isinstance(host, str) and SSH_ADDRESS.fullmatch(host) and is_port
    if found["state"] != "acquired" or not is_usable or (user and not SSH_USER.fullmatch(str(user))):
        raise PlaceUnavailable(
            f"the place {hold.place} of labgrid has an unusable NetworkService: {printable(json.dumps(found)[:200])}",
            "give it address, username and port, as ssh takes them",
        )
    return ServiceAddress(f"{user}@{host}" if user else str(host), int(str(port)))


def holder_of(hold: PlaceHold) -> str:
    """Return who has acquired the place, as `MACHINE/USER`; empty if nobody has. Raises PlaceUnavailable."""
    found = _call(hold, "holder")
    if found["state"] == "held":
        return "" if found.get("is_reserved") else str(found.get("by", ""))
    if found["state"] != "free":
        _require_success(hold, found)
    return ""


def release(hold: PlaceHold) -> bool:
    """Release a place if its holder still has it; return True if so. Raises PlaceUnavailable."""
    found = _call(hold, "release")
    _require_success(hold, found)
    return found.get("was_held") is True


def power_cycle(hold: PlaceHold) -> None:
    """Switch the power of the router of a held place off and on. Raises PlaceUnavailable."""
    done = run_command(_argv(hold, "power"), timeout_s=POWER_LIMIT_S, check=False)
    if done.returncode == 0:
        return
    if NO_POWER in done.stderr:
        raise PlaceUnavailable(
            f"the place {hold.place} of labgrid has no resource that can switch its power",
            "switch the router on by hand, or add a resource such as NetworkPowerPort to the place",
        )
    why = last_lines(done.stderr, 1)
    hint = f"try it: labgrid-client -p {hold.place} power cycle"
    raise PlaceUnavailable(f"labgrid cannot switch the power of the place {hold.place}: {why}", hint)


def _argv(hold: PlaceHold, verb: str, *words: str) -> list[str]:
    """Return the command for a verb. Raises PlaceUnavailable if labgrid is not installed."""
    if find_spec(LABGRID) is None:
        raise PlaceNotAcquired(f"the place {hold.place} needs labgrid, which is not installed", install_hint(LABGRID))
    own = [*DIE_WITH_CONTROLLER, sys.executable, "-P", "-m", OWN_PROGRAM]
    return [*own, verb, hold.coordinator, hold.holder, hold.place, *words]


def _call(hold: PlaceHold, verb: str, *words: str, limit_s: float = LABGRID_LIMIT_S) -> Mapping[str, Any]:
    """Return the outcome of a verb; its `state` may be a fault. Raises PlaceUnavailable if labgrid itself failed."""
    return _parsed(hold, run_command(_argv(hold, verb, *words), timeout_s=limit_s, check=False))


def _parsed(hold: PlaceHold, done: Completed) -> Mapping[str, Any]:
    try:
        found: dict[str, Any] = json_of(done.stdout, dict)
        if isinstance(found["state"], str):
            return found
    except UNREADABLE:
        pass
    why = last_lines(done.stderr, 1)
    raise PlaceUnavailable(f"labgrid failed at the place {hold.place}: {why}", "see docs/labgrid.md")


def _require_success(hold: PlaceHold, found: Mapping[str, Any]) -> None:
    """Raises PlaceUnavailable with a sentence if the state of an outcome is a fault, and PlaceHeld for a held place."""
    if found["state"] == "held":
        raise PlaceHeld(hold, str(found.get("by", "")), is_reserved=found.get("is_reserved") is True)
    if found["state"] in FAULTS:
        message, hint = FAULTS[found["state"]]
        values = {"place": hold.place, "at": hold.coordinator, "count": found.get("count"), "why": found.get("why")}
        # A refusal may be the loss of the connection after the request.
        kind = PlaceUnavailable if found["state"] == "refused" else PlaceNotAcquired
        raise kind(printable(message.format_map(values)), hint.format_map(values))


FAULTS = {
    "no-coordinator": (
        "the coordinator of labgrid at {at} does not answer",
        'start labgrid-coordinator there, or write its address into the testbed file: coordinator = "HOST:PORT"',
    ),
    "no-place": ("the coordinator of labgrid at {at} has no place {place}", "labgrid-client -x {at} places lists them"),
    "services": (
        "the place {place} of labgrid has {count} resources NetworkService, and a run needs exactly one",
        "labgrid-client -x {at} -p {place} show lists them; a missing one may be of an exporter that has ended",
    ),
    "free": (
        "the place {place} of labgrid is free, but other reservations come first",
        "labgrid-client -x {at} reservations lists them",
    ),
    "refused": ("labgrid refuses the place {place}: {why}", "labgrid-client -x {at} -p {place} show describes it"),
}
"""Message and hint for each outcome that is an error."""
