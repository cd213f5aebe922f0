"""The ways up: one function a format, each in SQL of its own. Once released, none is changed."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, column, func, select, table, text, update

from tunnelbench.store.checksum import checksum


def from_1_to_2(connection: Connection) -> None:
    """Checksums; how many trials a run has; the time waited for quiet, which is not known of older trials."""
    for added in (
        "run ADD COLUMN trials_recorded INTEGER",
        "run ADD COLUMN checksum TEXT",
        "trial ADD COLUMN waited_for_quiet_s DOUBLE PRECISION",
        "trial ADD COLUMN checksum TEXT",
        "trial_raw ADD COLUMN checksum TEXT",
    ):
        connection.execute(text(f"ALTER TABLE {added}"))
    runs, trials = table("run", column("run_id"), column("trials_recorded")), table("trial", column("run_id"))
    recorded = select(func.count()).select_from(trials).where(trials.c.run_id == runs.c.run_id).scalar_subquery()
    connection.execute(update(runs).values(trials_recorded=recorded))
    _add_checksums(connection, "run", ("run_id",))
    _add_checksums(connection, "trial", ("run_id", "sequence"))
    _add_checksums(connection, "trial_raw", ("run_id", "sequence"))


def from_2_to_3(connection: Connection) -> None:
    """How fast ciphers are by themselves: of older runs it is not known."""
    connection.execute(text("ALTER TABLE run ADD COLUMN speeds_recorded INTEGER"))
    connection.execute(
        text(
            "CREATE TABLE cipher_speed (run_id TEXT NOT NULL, machine TEXT NOT NULL, algorithm TEXT NOT NULL, "
            "acceleration TEXT NOT NULL, threads INTEGER NOT NULL, place INTEGER NOT NULL, speed TEXT NOT NULL, "
            "checksum TEXT, PRIMARY KEY (run_id, machine, algorithm, acceleration, threads), "
            "FOREIGN KEY(run_id) REFERENCES run (run_id))"
        )
    )


def add_udp(connection: Connection) -> None:
    """What a trial did, and the figures of UDP; null in trials of TCP from before, whose checksums stay true."""
    for name in ("test", "load", "udp"):
        connection.execute(text(f"ALTER TABLE trial ADD COLUMN {name} TEXT"))


def add_soaks(connection: Connection) -> None:
    """The series of long runs, as they are measured: older runs have none."""
    connection.execute(text("ALTER TABLE run ADD COLUMN soak_parts_recorded INTEGER"))
    connection.execute(
        text(
            "CREATE TABLE soak_part (run_id TEXT NOT NULL, sequence INTEGER NOT NULL, part INTEGER NOT NULL, "
            "soak TEXT NOT NULL, details TEXT NOT NULL, chunks_recorded INTEGER NOT NULL, checksum TEXT, "
            "PRIMARY KEY (run_id, sequence, part), FOREIGN KEY(run_id) REFERENCES run (run_id))"
        )
    )
    connection.execute(
        text(
            "CREATE TABLE soak_chunk (run_id TEXT NOT NULL, sequence INTEGER NOT NULL, part INTEGER NOT NULL, "
            "chunk INTEGER NOT NULL, content TEXT NOT NULL, checksum TEXT, "
            "PRIMARY KEY (run_id, sequence, part, chunk), "
            "FOREIGN KEY(run_id, sequence, part) REFERENCES soak_part (run_id, sequence, part))"
        )
    )


def _add_checksums(connection: Connection, name: str, keys: tuple[str, ...]) -> None:
    """One row in memory at a time: raw output is large."""
    changed = table(name, *(column(key) for key in keys), column("checksum"))
    addresses = connection.execute(select(*(changed.c[key] for key in keys))).all()
    for address in addresses:
        is_it = [changed.c[key] == value for key, value in zip(keys, address, strict=True)]
        row = connection.execute(select(text("*")).select_from(changed).where(*is_it)).mappings().one()
        connection.execute(update(changed).where(*is_it).values(checksum=checksum(row)))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (from_1_to_2, from_2_to_3, add_udp, add_soaks)
"""The first one turns format 1 into 2, and so on."""
