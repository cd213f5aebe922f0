"""Conversion of records to rows of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Direction, OptionValue, Test, TrialSpec, TunnelSpec
from tunnelbench.model.progress import RunProgress
from tunnelbench.model.result import Check, Measurement, Outcome, RunRecord, TcpMeasurement, TrialRecord, TunnelProof
from tunnelbench.model.soak import Soak, SoakChunk, SoakEvent, SoakPart, SoakReading
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.store.checksum import CHECKSUM_COLUMN, checksum

DatabaseRow = dict[str, str | int | float | None]
T = TypeVar("T")


class _Json(Generic[T]):
    """The JSON of a type. Its validator is made at the first use, which takes up to 40 ms."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(self._kind)

    def read(self, text: Any) -> T:
        """Return the value of a JSON text. Raises ValidationError."""
        return self._adapter.validate_json(text)

    def written(self, value: T | None) -> str | None:
        """Return the JSON text of a value; None for None."""
        return None if value is None else _json(self._adapter.dump_python(value, mode="json"))


_OPTIONS = _Json(dict[str, OptionValue])
_CHECKS = _Json(tuple[Check, ...])
_TCP = _Json(TcpMeasurement)
_UDP = _Json(UdpMeasurement)
_PROOF = _Json(TunnelProof)
_OBJECT = _Json(dict[str, Any])
_CIPHER_SPEED = _Json(CipherSpeed)
_SOAK = _Json(Soak)
_SOAK_PART = _Json(SoakPart)
_NOTES = _Json(tuple[str, ...])
_PROGRESS = _Json(RunProgress)


def run_row(record: RunRecord, trials: int = 0, speeds: int = 0) -> DatabaseRow:
    """Return the row of table `run`, with the numbers of trials and cipher speeds that are stored with it."""
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    values |= {"host_facts": _json(dict(record.host_facts)), "notes": _json(record.notes)}
    return _sealed({**values, "trials_recorded": trials, "speeds_recorded": speeds, "soak_parts_recorded": 0})


def run_record(row: Mapping[Any, Any]) -> RunRecord:
    """Return the run of a row of table `run`."""
    values = {each.name: row[each.name] for each in fields(RunRecord)}
    values |= {
        "host_facts": _OBJECT.read(row["host_facts"]),
        "notes": _NOTES.read(row["notes"]),
        "speeds_recorded": row["speeds_recorded"] or None,
    }
    return RunRecord(**values)


def trial_row(run_id: str, record: TrialRecord) -> DatabaseRow:
    """Return the row of table `trial`."""
    spec = record.spec
    return _sealed(
        {
            "run_id": run_id,
            "sequence": spec.sequence,
            "round": spec.round,
            "tunnel_kind": spec.tunnel.kind,
            "tunnel_name": spec.tunnel.name,
            "tunnel_options": _json(dict(spec.tunnel.options)),
            "payload_bytes": spec.payload_bytes,
            "direction": spec.direction.value,
            "outcome": record.outcome.value,
            "verdict": record.verdict.value,
            "reason": record.reason,
            "started_at": record.started_at,
            "ended_at": record.ended_at,
            "checks": _CHECKS.written(record.checks),
            "tcp": _TCP.written(record.tcp),
            "proof_sha256": proof_row(record.proof)["sha256"] if record.proof else None,
            "waited_for_quiet_s": record.waited_for_quiet_s,
            "test": spec.test.value,
            "load": spec.load,
            "udp": _UDP.written(record.udp),
        }
    )


def trial_record(row: Mapping[Any, Any], proof: TunnelProof | None, raw: Mapping[str, Any]) -> TrialRecord:
    """Return the trial of a row of table `trial`; `raw` are the raw results that were read."""
    tunnel = _tunnel(row["tunnel_kind"], row["tunnel_name"], row["tunnel_options"])
    return TrialRecord(
        spec=TrialSpec(
            row["sequence"],
            row["round"],
            tunnel,
            row["payload_bytes"],
            Direction(row["direction"]),
            Test(row["test"]),
            row["load"],
        ),
        outcome=Outcome(row["outcome"]),
        reason=row["reason"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        checks=_CHECKS.read(row["checks"]),
        measurement=_measurement(row),
        proof=proof,
        raw=raw,
        waited_for_quiet_s=row["waited_for_quiet_s"],
    )


@lru_cache(maxsize=1000)
def _tunnel(kind: str, name: str, options: str) -> TunnelSpec:
    """Return the tunnel of a row of table `trial`. Trials of one tunnel share it, because a long run has many."""
    return TunnelSpec(kind, name, _OPTIONS.read(options))


def _measurement(row: Mapping[Any, Any]) -> Measurement | None:
    """Return the figures of a row of table `trial`; None where it has none."""
    if row["tcp"] is not None:
        return _TCP.read(row["tcp"])
    return None if row["udp"] is None else _UDP.read(row["udp"])


def raw_row(run_id: str, record: TrialRecord) -> DatabaseRow:
    """Return the row of table `trial_raw`."""
    return _sealed({"run_id": run_id, "sequence": record.spec.sequence, "raw": _json(dict(record.raw))})


def raw_results(row: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return the raw results of a row of table `trial_raw`."""
    return _OBJECT.read(row["raw"])


def proof_row(proof: TunnelProof) -> DatabaseRow:
    """Return the row of table `proof`; the output of programs is in a column of its own."""
    content = _PROOF.written(replace(proof, raw={})) or ""
    raw = _json(dict(proof.raw))
    return {"sha256": proof_address(content, raw), "proof": content, "raw": raw}


def proof_address(content: str, raw: str) -> str:
    """Return the SHA-256 of a proof's columns, in hexadecimal."""
    return sha256(f"{content}\n{raw}".encode()).hexdigest()


def proof_record(row: Mapping[Any, Any], *, with_raw: bool) -> TunnelProof:
    """Return the proof of a row of table `proof`."""
    found = _PROOF.read(row["proof"])
    return replace(found, raw=_OBJECT.read(row["raw"])) if with_raw else found


def cipher_speed_row(run_id: str, place: int, found: CipherSpeed) -> DatabaseRow:
    """Return the row of table `cipher_speed`; `place` counts the measurements of a run from 1."""
    return _sealed(
        {
            "run_id": run_id,
            "machine": found.machine,
            "algorithm": found.algorithm,
            "acceleration": found.acceleration,
            "threads": found.threads,
            "place": place,
            "speed": _CIPHER_SPEED.written(found),
        }
    )


def cipher_speed(row: Mapping[Any, Any]) -> CipherSpeed:
    """Return the cipher speed of a row of table `cipher_speed`."""
    return _CIPHER_SPEED.read(row["speed"])


def progress_row(run_id: str, found: RunProgress) -> DatabaseRow:
    """Return the row of table `progress`."""
    return _sealed({"run_id": run_id, "progress": _PROGRESS.written(found)})


def run_progress(row: Mapping[Any, Any]) -> RunProgress:
    """Return the progress of a row of table `progress`."""
    return _PROGRESS.read(row["progress"])


def soak_part_row(run_id: str, soak: Soak, part: SoakPart) -> DatabaseRow:
    """Return the row of table `soak_part` for a part without chunks; each part repeats its soak."""
    return _sealed(
        {
            "run_id": run_id,
            "sequence": soak.spec.sequence,
            "part": part.number,
            "soak": _SOAK.written(replace(soak, parts=())),
            "details": soak_part_details(part),
            "chunks_recorded": 0,
        }
    )


def soak_part_details(part: SoakPart) -> str:
    """Return column `details` of table `soak_part`."""
    return _SOAK_PART.written(part) or ""


def soak_of(row: Mapping[Any, Any]) -> Soak:
    """Return the soak of a row of table `soak_part`, without its parts."""
    return _SOAK.read(row["soak"])


def soak_part(row: Mapping[Any, Any]) -> SoakPart:
    """Return the part of a row of table `soak_part`."""
    return _SOAK_PART.read(row["details"])


def soak_chunk_row(run_id: str, sequence: int, part: int, number: int, chunk: SoakChunk) -> DatabaseRow:
    """Return the row of table `soak_chunk`. Readings are arrays with the fields of `SoakReading` in their order."""
    content = {
        "readings": [_values_of_reading(reading) for reading in chunk.readings],
        "events": [[event.at_s, event.kind, event.text] for event in chunk.events],
        "memory_bytes": dict(chunk.memory_bytes),
    }
    return _sealed({"run_id": run_id, "sequence": sequence, "part": part, "chunk": number, "content": _json(content)})


def soak_chunk(row: Mapping[Any, Any]) -> SoakChunk:
    """Return the chunk of a row of table `soak_chunk`; the row must be intact."""
    content = json.loads(row["content"])
    return SoakChunk(
        readings=tuple(SoakReading(*reading) for reading in content["readings"]),
        events=tuple(SoakEvent(*event) for event in content["events"]),
        memory_bytes=content["memory_bytes"],
    )


_values_of_reading = attrgetter(*(field.name for field in fields(SoakReading)))


def _sealed(row: DatabaseRow) -> DatabaseRow:
    """Return the row with its checksum; characters of its texts that a database cannot store are replaced."""
    storable = {name: _text(value) if isinstance(value, str) else value for name, value in row.items()}
    return {**storable, CHECKSUM_COLUMN: checksum(storable)}


def _json(value: object) -> str:
    """Return JSON whose keys keep their order."""
    return _text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _text(text: str) -> str:
    """Replace what a column cannot hold: surrogates, which are not UTF-8, and NUL, which PostgreSQL refuses."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
