"""What the controller and the guest tell each other: JSON, one message a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Plan
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.model.udp import UdpMeasurement

HELLO = "hello"
"""The guest is up and waits for its job."""
ALIVE = "alive"
COMES_UP = "tunnel comes up"
STARTS = "trial starts"
SECOND = "second passed"
WAITED = "waited for quiet"
CIPHER = "cipher starts"
SPEED = "cipher speed"
RECORD = "record"
DONE = "done"
CANNOT = "cannot"
"""An error for the user."""
BUG = "bug"

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """What a guest is to do."""

    run_id: str
    plan: Plan
    testbed: TestbedSpec
    known: tuple[TrialRecord, ...]
    """Measured already, in an earlier part of the run or in a guest that died. Without raw output."""
    known_speeds: tuple[CipherSpeed, ...]
    is_emulated: bool = False


T = TypeVar("T")

# What `model.result` imports for its reader's eyes only must be given by name.
_NAMES = {"UdpMeasurement": UdpMeasurement}
JOB: TypeAdapter[Job] = TypeAdapter(Job)
TRIAL: TypeAdapter[TrialRecord] = TypeAdapter(TrialRecord)
CIPHER_SPEED: TypeAdapter[CipherSpeed] = TypeAdapter(CipherSpeed)
for _adapter in (JOB, TRIAL):
    _adapter.rebuild(force=True, _types_namespace=_NAMES)


def dump(adapter: TypeAdapter[T], value: T) -> Any:
    """A value of the model as JSON knows it."""
    return adapter.dump_python(value, mode="json")


def load(adapter: TypeAdapter[T], found: Any) -> T:
    """And back."""
    return adapter.validate_json(_text(found))


def line(what: str, **content: Any) -> bytes:
    """One message."""
    return _text({"what": what, **content}).encode() + b"\n"


def message(text: bytes) -> Message | None:
    """A message from its line; None for anything else, such as what a program printed in its place."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "what" in found else None


def _text(value: Any) -> str:
    """JSON on one line; what no UTF-8 can hold becomes `?`, as in the store."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
