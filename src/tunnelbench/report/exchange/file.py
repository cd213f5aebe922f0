"""Defines and writes the file of an exported run, with its checksum. docs/exchange.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tunnelbench import __version__
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.json_types import plain
from tunnelbench.model.plan import TrialSpec
from tunnelbench.model.result import Check, Outcome, RunRecord, TcpMeasurement, TrialRecord, TunnelProof
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.report.exchange.anonymise import RAW, stripper_for
from tunnelbench.report.formats.json import plain_trial

FORMAT = "tunnelbench-run"
FORMAT_NUMBER = 1
"""Number of the format that this version reads and writes.

History:
1  run, proofs, trials, cipher_speeds.
"""

CHECKSUM = "checksum"


class FileTrial(BaseModel):
    """A trial as in the store, without the output of programs; `proof` is the position of its proof in the file."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    spec: TrialSpec
    outcome: Outcome
    reason: str
    started_at: str
    ended_at: str
    checks: tuple[Check, ...]
    tcp: TcpMeasurement | None
    udp: UdpMeasurement | None
    waited_for_quiet_s: float | None
    proof: Annotated[int, Field(ge=0)] | None


class ExportedFile(BaseModel):
    """An exported run."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    format: Literal["tunnelbench-run"]
    format_number: Literal[1]
    written_by: str
    """The version of TunnelBench that wrote the file."""
    stripped: dict[str, Annotated[int, Field(gt=0)]]
    """Number of removed texts by kind."""
    run: RunRecord
    proofs: tuple[TunnelProof, ...]
    trials: tuple[FileTrial, ...]
    cipher_speeds: tuple[CipherSpeed, ...]
    checksum: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of the object without this field: JSON, keys sorted, no blanks, UTF-8."""


@dataclass(frozen=True)
class Exported:
    """The text of an exported file, and the names that were removed from it."""

    text: str
    stripped: Mapping[str, Sequence[tuple[str, int]]]
    """Removed texts by kind, and how often each occurred, most frequent first."""


def export(run: RunRecord, records: Sequence[TrialRecord], speeds: Sequence[CipherSpeed] = ()) -> Exported:
    """Return one JSON object that ends with a newline; the same run always gives the same text."""
    records = sorted(records, key=lambda record: record.spec.sequence)
    stripper = stripper_for(run, records)
    for record in records:
        for name in (*record.raw, *(record.proof.raw if record.proof else ())):
            stripper.note(RAW, name)
    for speed in speeds:
        for block in speed.raw:
            stripper.note(RAW, f"openssl speed {block}")
    proofs, numbers = _numbered(records)
    trials = [_trial(record, number) for record, number in zip(records, numbers, strict=True)]
    content = {
        "run": stripper.value(plain(run)),
        "proofs": stripper.value(plain(proofs)),
        "trials": stripper.value(trials),
        "cipher_speeds": stripper.value([plain(replace(speed, raw={})) for speed in speeds]),
    }
    head = {"format": FORMAT, "format_number": FORMAT_NUMBER, "written_by": __version__}
    counts = {kind: sum(found.values()) for kind, found in sorted(stripper.found.items())}
    whole = {**head, "stripped": counts, **content}
    text = json.dumps({**whole, CHECKSUM: checksum(whole)}, ensure_ascii=False, indent=1, allow_nan=False)
    examples = {
        kind: sorted(found.items(), key=lambda item: (-item[1], item[0]))
        for kind, found in sorted(stripper.found.items())
    }
    return Exported(f"{text}\n".encode(errors="replace").decode(), examples)


def checksum(whole: Mapping[str, Any]) -> str:
    """Return the checksum of a file's object without its own checksum."""
    content = {key: value for key, value in whole.items() if key != CHECKSUM}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode(errors="replace")).hexdigest()


def _numbered(records: Sequence[TrialRecord]) -> tuple[list[TunnelProof], list[int | None]]:
    """Return the different proofs of some trials, and the position of each trial's proof among them."""
    proofs: dict[str, TunnelProof] = {}
    positions: dict[str, int] = {}
    numbers: list[int | None] = []
    for record in records:
        if record.proof is None:
            numbers.append(None)
            continue
        bare = replace(record.proof, raw={})
        text = json.dumps(plain(bare), sort_keys=True)
        proofs.setdefault(text, bare)
        numbers.append(positions.setdefault(text, len(positions)))
    return [*proofs.values()], numbers


def _trial(record: TrialRecord, proof: int | None) -> dict[str, Any]:
    own = plain_trial(replace(record, proof=None, raw={}))
    own.pop("raw")
    return {**own, "proof": proof}
