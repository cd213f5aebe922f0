"""Stores the parts of soaks and their time series during the measurement, and reads them chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, and_, insert, select
from sqlalchemy.exc import IntegrityError

from tunnelbench.model.soak import Soak, SoakChunk, SoakPart
from tunnelbench.store import rows
from tunnelbench.store.checksum import change_row, is_intact
from tunnelbench.store.schema import run, soak_chunk, soak_part
from tunnelbench.store.transactions import Transactions, is_stored

MOST_CHUNKS_IN_MEMORY = 500


class SoakTables:
    """The soaks of one run. A written part or chunk survives a crash of the process and of the machine."""

    def __init__(self, run_id: str, transactions: Transactions) -> None:
        self.run_id = run_id
        self._transactions = transactions

    def begin_part(self, soak: Soak, part: SoakPart) -> None:
        """Store a part that starts. Raises ValueError if its run is not stored, or its number is taken."""
        row = rows.soak_part_row(self.run_id, soak, part)

        def work(connection: Connection, is_repeated: bool) -> None:
            stored = select(soak_part.c.checksum).where(self._is_part(soak.spec.sequence, part.number))
            if is_repeated and is_stored(connection, stored, row):
                return
            connection.execute(insert(soak_part).values(row))
            change_row(
                connection,
                run,
                run.c.run_id == self.run_id,
                lambda before: {"soak_parts_recorded": before["soak_parts_recorded"] + 1},
            )

        try:
            self._transactions.write(work)
        except IntegrityError as error:
            what = f"part {part.number} of trial {soak.spec.sequence} of run {self.run_id}"
            raise ValueError(f"{what} is stored already, or there is no such run") from error

    def add_chunk(self, sequence: int, part: int, number: int, chunk: SoakChunk) -> None:
        """Store a chunk of the series; `number` counts from 0. Raises ValueError if the number is taken."""
        row = rows.soak_chunk_row(self.run_id, sequence, part, number, chunk)

        def work(connection: Connection, is_repeated: bool) -> None:
            is_it = and_(self._is_chunk(sequence), soak_chunk.c.part == part, soak_chunk.c.chunk == number)
            if is_repeated and is_stored(connection, select(soak_chunk.c.checksum).where(is_it), row):
                return
            connection.execute(insert(soak_chunk).values(row))
            change_row(connection, soak_part, self._is_part(sequence, part), lambda _: {"chunks_recorded": number + 1})

        try:
            self._transactions.write(work)
        except IntegrityError as error:
            raise ValueError(f"chunk {number} of part {part} of trial {sequence} is stored already") from error

    def end_part(self, soak: Soak, part: SoakPart) -> None:
        """Store the end of a part and its counts. Raises ValueError if the part is not stored."""
        changed = {"details": rows.soak_part_details(part)}

        def work(connection: Connection, _is_repeated: bool) -> None:
            if not change_row(connection, soak_part, self._is_part(soak.spec.sequence, part.number), lambda _: changed):
                raise ValueError(f"there is no part {part.number} of trial {soak.spec.sequence}")

        self._transactions.write(work)

    def all(self) -> list[Soak]:
        """Return every soak with its parts, in the order of the plan."""
        wanted = select(soak_part).where(soak_part.c.run_id == self.run_id)
        found: dict[int, Soak] = {}
        parts: dict[int, list[SoakPart]] = {}
        with self._transactions.reading() as connection:
            expected = connection.scalar(select(run.c.soak_parts_recorded).where(run.c.run_id == self.run_id)) or 0
            for row in connection.execute(wanted.order_by(soak_part.c.sequence, soak_part.c.part)).mappings():
                self._transactions.require_intact(row, f"part {row['part']} of trial {row['sequence']}")
                found[row["sequence"]] = rows.soak_of(row)
                parts.setdefault(row["sequence"], []).append(rows.soak_part(row))
        there = sum(map(len, parts.values()))
        if there != expected:
            self._transactions.report_damage(
                f"run {self.run_id} has recorded {expected} parts of soaks, and the store has {there} of them"
            )
        return [replace(soak, parts=tuple(parts[sequence])) for sequence, soak in found.items()]

    def soak(self, sequence: int) -> Soak | None:
        """Return the soak of a trial, or None if the soak has not started."""
        return next((soak for soak in self.all() if soak.spec.sequence == sequence), None)

    def chunks(self, sequence: int) -> Iterator[tuple[int, SoakChunk]]:
        """Yield the series of a soak, each chunk with the number of its part; few chunks are in memory together."""
        counted = select(soak_part.c.part, soak_part.c.chunks_recorded).where(
            soak_part.c.run_id == self.run_id, soak_part.c.sequence == sequence
        )
        with self._transactions.reading() as connection:
            parts = [(int(part), int(chunks)) for part, chunks in connection.execute(counted.order_by("part"))]
        for part, chunks in parts:
            for first in range(0, chunks, MOST_CHUNKS_IN_MEMORY):
                for chunk in self._some_chunks(sequence, part, first, min(chunks, first + MOST_CHUNKS_IN_MEMORY)):
                    yield part, chunk

    def _some_chunks(self, sequence: int, part: int, first: int, end: int) -> list[SoakChunk]:
        within = and_(soak_chunk.c.part == part, soak_chunk.c.chunk >= first, soak_chunk.c.chunk < end)
        wanted = select(soak_chunk).where(self._is_chunk(sequence), within).order_by(soak_chunk.c.chunk)
        series = f"the series of trial {sequence} of run {self.run_id}"
        with self._transactions.reading() as connection:
            found = connection.execute(wanted).mappings().all()
        if not all(map(is_intact, found)):
            self._transactions.report_damage(f"{series} is not what was stored")
        if len(found) != end - first:
            self._transactions.report_damage(f"a chunk of {series} is missing")
        return [rows.soak_chunk(row) for row in found]

    def _is_part(self, sequence: int, part: int) -> ColumnElement[bool]:
        table = soak_part.c
        return and_(table.run_id == self.run_id, table.sequence == sequence, table.part == part)

    def _is_chunk(self, sequence: int) -> ColumnElement[bool]:
        return and_(soak_chunk.c.run_id == self.run_id, soak_chunk.c.sequence == sequence)
