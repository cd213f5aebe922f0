"""Tables of the store and the number of their format. docs/data-format.md describes the columns."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Double, ForeignKey, ForeignKeyConstraint, Integer, MetaData, Table, Text

STORE_FORMAT = 2
"""Number of the format that this version reads and writes.

History:
1  run, proof, trial, trial_raw, cipher_speed, soak_part, soak_chunk.
2  progress.
"""

metadata = MetaData()


def _keys(**types: type[Integer | Text]) -> list[Column[Any]]:
    """Return the columns of a primary key; the database does not number them."""
    return [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in types.items()]


def _texts(*names: str) -> list[Column[Any]]:
    """Return columns of text that are never null."""
    return [Column(name, Text, nullable=False) for name in names]


def _integers(*names: str) -> list[Column[Any]]:
    """Return columns of integers that are never null."""
    return [Column(name, Integer, nullable=False) for name in names]


def _refers(table: str, *names: str) -> ForeignKeyConstraint:
    """Return a foreign key from these columns to the columns of the same names in another table."""
    return ForeignKeyConstraint(names, [f"{table}.{name}" for name in names])


# fmt: off
format_history = Table("format", metadata, *_keys(number=Integer), *_texts("tunnelbench_version", "since"))

run = Table(
    "run", metadata, *_keys(run_id=Text), *_texts("started_at"), Column("ended_at", Text),
    *_texts("status", "plan_name", "plan_title", "plan_text", "testbed_name", "testbed_text", "host_facts"),
    *_integers("trials_planned"), *_texts("tunnelbench_version", "notes"),
    *_integers("trials_recorded", "speeds_recorded", "soak_parts_recorded"), *_texts("checksum"),
)

proof = Table("proof", metadata, *_keys(sha256=Text), *_texts("proof", "raw"))

trial = Table(
    "trial", metadata, *_keys(run_id=Text, sequence=Integer), *_integers("round"),
    *_texts("tunnel_kind", "tunnel_name", "tunnel_options"), *_integers("payload_bytes"),
    *_texts("direction", "test", "load", "outcome", "verdict", "reason", "started_at", "ended_at", "checks"),
    Column("waited_for_quiet_s", Double), Column("tcp", Text), Column("udp", Text),
    Column("proof_sha256", Text, ForeignKey("proof.sha256")), *_texts("checksum"), _refers("run", "run_id"),
)

trial_raw = Table(
    "trial_raw", metadata, *_keys(run_id=Text, sequence=Integer), *_texts("raw", "checksum"),
    _refers("trial", "run_id", "sequence"),
)

cipher_speed = Table(
    "cipher_speed", metadata, *_keys(run_id=Text, machine=Text, algorithm=Text, acceleration=Text, threads=Integer),
    *_integers("place"), *_texts("speed", "checksum"), _refers("run", "run_id"),
)

progress = Table("progress", metadata, *_keys(run_id=Text), *_texts("progress", "checksum"), _refers("run", "run_id"))

soak_part = Table(
    "soak_part", metadata, *_keys(run_id=Text, sequence=Integer, part=Integer), *_texts("soak", "details"),
    *_integers("chunks_recorded"), *_texts("checksum"), _refers("run", "run_id"),
)

soak_chunk = Table(
    "soak_chunk", metadata, *_keys(run_id=Text, sequence=Integer, part=Integer, chunk=Integer),
    *_texts("content", "checksum"), _refers("soak_part", "run_id", "sequence", "part"),
)
# fmt: on
