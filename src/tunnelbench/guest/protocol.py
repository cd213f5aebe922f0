"""The messages between controller and guest: one JSON object per line."""

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

HELLO = "hello"
"""Type of the message by which a guest reports that it is up and waits for its job."""
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
"""Type of the message with an error for the user."""
BUG = "bug"

Message = Mapping[str, Any]


@dataclass(frozen=True)
class GuestJob:
    """The job that the controller sends to a guest: plan, testbed and known trials."""

    run_id: str
    plan: Plan
    testbed: TestbedSpec
    known: tuple[TrialRecord, ...]
    """Trials that an earlier part of the run, or an earlier guest, has measured; without the output of programs."""
    known_speeds: tuple[CipherSpeed, ...]
    begun_with: str
    """Version of TunnelBench that began the run."""
    accepts_versions: bool
    is_emulated: bool = False


T = TypeVar("T", GuestJob, TrialRecord, CipherSpeed)


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    """Return the converter of a type. It is made when it is needed: it takes 80 ms, and few verbs start a guest."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def dump(value: GuestJob | TrialRecord | CipherSpeed) -> Any:
    """Convert a value of the model to JSON types."""
    return _adapter(type(value)).dump_python(value, mode="json")


def load(kind: type[T], found: Any) -> T:
    """Convert JSON types to a value of the model."""
    value: T = _adapter(kind).validate_json(_text(found))
    return value


def line(what: str, **content: Any) -> bytes:
    """Encode a message as one line."""
    return _text({"what": what, **content}).encode() + b"\n"


def message(text: bytes) -> Message | None:
    """Return the message of a line; None for other lines, such as the output of a program."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "what" in found else None


def _text(value: Any) -> str:
    """Return JSON on one line; characters that UTF-8 cannot hold become `?`, as in the store."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
