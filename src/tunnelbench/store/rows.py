"""Records as rows of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import sha256
from operator import attrgetter
from typing import Any

from pydantic import TypeAdapter

from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Direction, OptionValue, Test, TrialSpec, TunnelSpec
from tunnelbench.model.result import Check, Outcome, RunRecord, TcpMeasurement, TrialRecord, TunnelProof
from tunnelbench.model.soak import Soak, SoakChunk, SoakEvent, SoakPart, SoakReading
from tunnelbench.model.udp import UdpMeasurement
from tunnelbench.store.checksum import CHECKSUM, checksum

Row = dict[str, str | int | float | None]

_OPTIONS = TypeAdapter(dict[str, OptionValue])
_CHECKS = TypeAdapter(tuple[Check, ...])
_TCP = TypeAdapter(TcpMeasurement)
_UDP = TypeAdapter(UdpMeasurement)
_PROOF = TypeAdapter(TunnelProof)
_OBJECT = TypeAdapter(dict[str, Any])
_CIPHER_SPEED = TypeAdapter(CipherSpeed)
_SOAK = TypeAdapter(Soak)
_SOAK_PART = TypeAdapter(SoakPart)
_NOTES = TypeAdapter(tuple[str, ...])


NOT_IN_RECORDS = (CHECKSUM, "soak_parts_recorded")
"""Columns of table `run` that are the store's own book-keeping."""


def run_row(record: RunRecord) -> Row:
    """For table `run`; that starts with no trial recorded."""
    row: Row = {
        "run_id": _text(record.run_id),
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "status": record.status,
        "plan_name": _text(record.plan_name),
        "plan_title": _text(record.plan_title),
        "plan_text": _text(record.plan_text),
        "testbed_name": _text(record.testbed_name),
        "testbed_text": _text(record.testbed_text),
        "host_facts": _json(dict(record.host_facts)),
        "trials_planned": record.trials_planned,
        "tunnelbench_version": record.tunnelbench_version,
        "notes": _json(record.notes),
        "trials_recorded": 0,
    }
    return sealed(row)


def run_record(row: Mapping[Any, Any]) -> RunRecord:
    """From a row of table `run`."""
    fields = {
        **{name: value for name, value in row.items() if name not in NOT_IN_RECORDS},
        "host_facts": _OBJECT.validate_json(row["host_facts"]),
        "notes": _NOTES.validate_json(row["notes"]),
    }
    return RunRecord(**fields)


def trial_row(run_id: str, record: TrialRecord, proof_sha256: str | None) -> Row:
    """For table `trial`."""
    spec = record.spec
    row: Row = {
        "run_id": run_id,
        "sequence": spec.sequence,
        "round": spec.round,
        "tunnel_kind": _text(spec.tunnel.kind),
        "tunnel_name": _text(spec.tunnel.name),
        "tunnel_options": _json(dict(spec.tunnel.options)),
        "payload_bytes": spec.payload_bytes,
        "direction": spec.direction.value,
        "outcome": record.outcome.value,
        "verdict": record.verdict.value,
        "reason": _text(record.reason),
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "checks": _json(_CHECKS.dump_python(record.checks, mode="json")),
        "tcp": None if record.tcp is None else _json(_TCP.dump_python(record.tcp, mode="json")),
        "proof_sha256": proof_sha256,
        "waited_for_quiet_s": record.waited_for_quiet_s,
        "test": spec.test.value,
        "load": _text(spec.load),
        "udp": None if record.udp is None else _json(_UDP.dump_python(record.udp, mode="json")),
    }
    return sealed(row)


def trial_record(row: Mapping[Any, Any], proof: TunnelProof | None, raw: str | None) -> TrialRecord:
    """From a row of table `trial`, its proof and the JSON of its raw output, where that was read."""
    tunnel = TunnelSpec(row["tunnel_kind"], row["tunnel_name"], _OPTIONS.validate_json(row["tunnel_options"]))
    return TrialRecord(
        spec=TrialSpec(
            row["sequence"],
            row["round"],
            tunnel,
            row["payload_bytes"],
            Direction(row["direction"]),
            Test(row["test"] or Test.TCP),
            row["load"] or "",
        ),
        outcome=Outcome(row["outcome"]),
        reason=row["reason"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        checks=_CHECKS.validate_json(row["checks"]),
        tcp=None if row["tcp"] is None else _TCP.validate_json(row["tcp"]),
        proof=proof,
        raw={} if raw is None else _OBJECT.validate_json(raw),
        waited_for_quiet_s=row["waited_for_quiet_s"],
        udp=None if row["udp"] is None else _UDP.validate_json(row["udp"]),
    )


def raw_row(run_id: str, record: TrialRecord) -> Row:
    """For table `trial_raw`."""
    return sealed({"run_id": run_id, "sequence": record.spec.sequence, "raw": _json(dict(record.raw))})


def proof_row(proof: TunnelProof) -> Row:
    """For table `proof`: what programs printed in a column of its own, all of it addressed by its content."""
    content = _json(_PROOF.dump_python(replace(proof, raw={}), mode="json"))
    raw = _json(dict(proof.raw))
    return {"sha256": proof_address(content, raw), "proof": content, "raw": raw}


def proof_address(content: str, raw: str) -> str:
    """SHA-256 of a proof's columns, in hexadecimal."""
    return sha256(f"{content}\n{raw}".encode()).hexdigest()


def proof_record(row: Mapping[Any, Any], *, with_raw: bool) -> TunnelProof:
    """From a row of table `proof`."""
    found = _PROOF.validate_json(row["proof"])
    return replace(found, raw=_OBJECT.validate_json(row["raw"])) if with_raw else found


def cipher_speed_row(run_id: str, place: int, found: CipherSpeed) -> Row:
    """For table `cipher_speed`; `place` keeps the order in which they were measured."""
    return sealed(
        {
            "run_id": run_id,
            "machine": _text(found.machine),
            "algorithm": _text(found.algorithm),
            "acceleration": _text(found.acceleration),
            "threads": found.threads,
            "place": place,
            "speed": _json(_CIPHER_SPEED.dump_python(found, mode="json")),
        }
    )


def cipher_speed(row: Mapping[Any, Any]) -> CipherSpeed:
    """From a row of table `cipher_speed`."""
    return _CIPHER_SPEED.validate_json(row["speed"])


def soak_part_row(run_id: str, soak: Soak, part: SoakPart, chunks_recorded: int) -> Row:
    """For table `soak_part`; the soak is that of all its parts, without them."""
    row: Row = {
        "run_id": run_id,
        "sequence": soak.spec.sequence,
        "part": part.number,
        "soak": _json(_SOAK.dump_python(replace(soak, parts=()), mode="json")),
        "details": _json(_SOAK_PART.dump_python(part, mode="json")),
        "chunks_recorded": chunks_recorded,
    }
    return sealed(row)


def soak_of(row: Mapping[Any, Any]) -> Soak:
    """From a row of table `soak_part`: what all of its parts belong to."""
    return _SOAK.validate_json(row["soak"])


def soak_part(row: Mapping[Any, Any]) -> SoakPart:
    """From a row of table `soak_part`."""
    return _SOAK_PART.validate_json(row["details"])


def soak_chunk_row(run_id: str, sequence: int, part: int, number: int, chunk: SoakChunk) -> Row:
    """For table `soak_chunk`: readings as arrays, whose fields are those of `SoakReading` in their order."""
    content = {
        "readings": [_of_reading(reading) for reading in chunk.readings],
        "events": [[event.at_s, event.kind, event.text] for event in chunk.events],
        "memory_bytes": dict(chunk.memory_bytes),
    }
    row: Row = {"run_id": run_id, "sequence": sequence, "part": part, "chunk": number, "content": _json(content)}
    return sealed(row)


def soak_chunk(row: Mapping[Any, Any]) -> SoakChunk:
    """From a row of table `soak_chunk`, whose checksum says that it is what was stored."""
    content = json.loads(row["content"])
    return SoakChunk(
        readings=tuple(SoakReading(*reading) for reading in content["readings"]),
        events=tuple(SoakEvent(*event) for event in content["events"]),
        memory_bytes=content["memory_bytes"],
    )


_of_reading = attrgetter(*(field.name for field in fields(SoakReading)))


def sealed(row: Row) -> Row:
    """With the checksum of what it holds."""
    return {**row, CHECKSUM: checksum(row)}


def _json(value: object) -> str:
    """JSON, keys in their order; what no UTF-8 can hold becomes `?`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()


def _text(text: str) -> str:
    """`text` for a column: no lone surrogates, and no NUL, which PostgreSQL refuses."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
