"""Tables and the number of their format. docs/data-format.md says what is in them.

Columns that came with a later format may be null: a migration adds them to rows that are there.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, ForeignKey, ForeignKeyConstraint, Integer, MetaData, Table, Text

FORMAT = 5
"""What this version reads and writes.

History:
1  run, trial, trial_raw, proof.
2  checksums of all rows; run.trials_recorded; trial.waited_for_quiet_s.
3  cipher_speed; run.speeds_recorded.
4  trial.test, trial.load and trial.udp; without a test it is TCP.
5  soak_part, soak_chunk; run.soak_parts_recorded.
"""

metadata = MetaData()

format_history = Table(
    "format",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("tunnelbench_version", Text, nullable=False),
    Column("since", Text, nullable=False),
)

run = Table(
    "run",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("started_at", Text, nullable=False),
    Column("ended_at", Text),
    Column("status", Text, nullable=False),
    Column("plan_name", Text, nullable=False),
    Column("plan_title", Text, nullable=False),
    Column("plan_text", Text, nullable=False),
    Column("testbed_name", Text, nullable=False),
    Column("testbed_text", Text, nullable=False),
    Column("host_facts", Text, nullable=False),
    Column("trials_planned", Integer, nullable=False),
    Column("tunnelbench_version", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("trials_recorded", Integer),
    Column("speeds_recorded", Integer),
    Column("soak_parts_recorded", Integer),
    Column("checksum", Text),
)

proof = Table(
    "proof",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("proof", Text, nullable=False),
    Column("raw", Text, nullable=False),
)

trial = Table(
    "trial",
    metadata,
    Column("run_id", Text, ForeignKey("run.run_id"), primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("round", Integer, nullable=False),
    Column("tunnel_kind", Text, nullable=False),
    Column("tunnel_name", Text, nullable=False),
    Column("tunnel_options", Text, nullable=False),
    Column("payload_bytes", Integer, nullable=False),
    Column("direction", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("ended_at", Text, nullable=False),
    Column("checks", Text, nullable=False),
    Column("tcp", Text),
    Column("proof_sha256", Text, ForeignKey("proof.sha256")),
    Column("waited_for_quiet_s", Double),
    Column("test", Text),
    Column("load", Text),
    Column("udp", Text),
    Column("checksum", Text),
)

trial_raw = Table(
    "trial_raw",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("raw", Text, nullable=False),
    Column("checksum", Text),
    ForeignKeyConstraint(["run_id", "sequence"], ["trial.run_id", "trial.sequence"]),
)

cipher_speed = Table(
    "cipher_speed",
    metadata,
    Column("run_id", Text, ForeignKey("run.run_id"), primary_key=True),
    Column("machine", Text, primary_key=True),
    Column("algorithm", Text, primary_key=True),
    Column("acceleration", Text, primary_key=True),
    Column("threads", Integer, primary_key=True, autoincrement=False),
    Column("place", Integer, nullable=False),
    Column("speed", Text, nullable=False),
    Column("checksum", Text),
)

soak_part = Table(
    "soak_part",
    metadata,
    Column("run_id", Text, ForeignKey("run.run_id"), primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("soak", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("chunks_recorded", Integer, nullable=False),
    Column("checksum", Text),
)

soak_chunk = Table(
    "soak_chunk",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("checksum", Text),
    ForeignKeyConstraint(["run_id", "sequence", "part"], ["soak_part.run_id", "soak_part.sequence", "soak_part.part"]),
)
