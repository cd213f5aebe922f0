"""The result of another program: the rows that its file states, and what a user adds to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable
from tunnelbench.report.text import one_line

UNSTATED = "not stated"

CIPHER_ALONE = "cipher-alone"
NOT_KNOWN_CLASS = "not-known"
ON_DEVICE = "on-device"
"""Names of classes of comparability."""

LARGEST_FIGURE = 1e9
"""Largest packet rate [packets/s], and largest speed of a cipher [1000 bytes/s]."""
LARGEST_MBPS = 1e7
LEAST_FIGURE = 1e-6
LARGEST_PAYLOAD_BYTES = 65_535
LONGEST_CELL = 200
MOST_ROWS = 10_000


@dataclass(frozen=True)
class Stated:
    """Facts that the user states because the file does not; empty: not stated."""

    facts: Mapping[str, str] = field(default_factory=dict)
    """Values by column of a reference, such as `device`."""
    comparability: str = ""
    date: str = ""
    source: str = ""


@dataclass(frozen=True)
class Mapped:
    """The meaning of the columns of a table, from a mapping file."""

    columns: Mapping[str, str]
    """Heading in the table by column of a reference."""
    every_row: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Value by cell of the table, for columns whose cells have other words."""
    title: str = ""
    source: str = ""
    date: str = ""
    method: str = ""
    comparability: str = ""
    trials_per_row: int | None = None


@dataclass(frozen=True)
class ForeignResult:
    """Rows that were measured with another program, without proof and without trials."""

    program: str
    """Name of the program, with its version if the file states it."""
    title: str
    method: str
    rows: tuple[Mapping[str, str], ...]
    """Cells by column of a reference."""
    date: str = ""
    source: str = ""
    comparability: str = ""
    """Class; empty: the file does not state it."""
    notes: tuple[str, ...] = ()
    trials_per_row: int | None = None
    needs: Sequence[str] = ("device", "tunnel")
    """Columns that each row must have."""


def rate_text(value: object, what: str) -> str:
    """Return a throughput [Mbit/s] as a decimal number. Raises WrongInput if it is no number, or impossible."""
    return figure_text(value, what, LARGEST_MBPS)


def figure_text(value: object, what: str, largest: float = LARGEST_FIGURE) -> str:
    """Return a figure as a decimal number. Raises WrongInput if it is no number, or impossible."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise WrongInput(f"{what} is {printable(str(value))[:40]!r}, which is no number")
    if not LEAST_FIGURE <= value <= largest:
        raise WrongInput(f"{what} is {value:g}, which cannot be measured")
    return f"{value:.6f}".rstrip("0").rstrip(".")


def payload_text(value: object) -> str:
    """Return a payload [bytes] as text; empty if the file states none that a packet can have."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_count and isinstance(value, int) and 0 < value <= LARGEST_PAYLOAD_BYTES else ""


def cell_text(value: object) -> str:
    """Return a text of the file on one line, cut to the length of a cell; empty if it is no text."""
    return one_line(value)[:LONGEST_CELL] if isinstance(value, str) else ""


def object_or_empty(value: object) -> Mapping[str, Any]:
    """Return an object of a JSON file; an empty one if the value is none."""
    return value if isinstance(value, dict) else {}


TUNNEL = re.compile(r"[a-z0-9][a-z0-9._+-]{0,39}")

FACT_OPTIONS = {"device": "--device", "tunnel": "--tunnel", "cpu": "--cpu", "cipher": "--cipher", "auth": "--auth",
                "direction": "--direction", "payload_bytes": "--payload"}  # fmt: skip
"""Option that states a fact, by its column."""


def completed(result: ForeignResult, stated: Stated) -> list[dict[str, str]]:
    """Return the rows with the facts of the user.

    Raises WrongInput if a fact is missing, contradicts the file, or cannot be a fact.
    """
    if not result.rows:
        raise WrongInput("it has no figure that can be used", "measure again, or name another file")
    if len(result.rows) > MOST_ROWS:
        raise WrongInput(f"it has more than {MOST_ROWS} rows", "import a part of it")
    for column, value in stated.facts.items():
        if others := [row[column] for row in result.rows if row.get(column) not in {None, "", value}]:
            message = f"it states the {_word(column)} itself ({printable(others[0])[:60]})"
            raise WrongInput(message, f"leave {FACT_OPTIONS[column]} out")
    rows = [{**stated.facts, **{name: cell for name, cell in row.items() if cell}} for row in result.rows]
    lacking = [column for column in result.needs if any(not row.get(column) for row in rows)]
    if lacking:
        words = " and the ".join(map(_word, lacking))
        options = " ".join(f"{FACT_OPTIONS[column]} {column.upper()}" for column in lacking)
        example = "; KIND is a word such as wireguard, or none" if "tunnel" in lacking else ""
        raise WrongInput(f"it does not state the {words}", f"add {options}{example}".replace("TUNNEL", "KIND"))
    for row in rows:
        _require_row(row)
    return rows


def _require_row(row: dict[str, str]) -> None:
    if "tunnel" in row:
        row["tunnel"] = row["tunnel"].lower()
        if not TUNNEL.fullmatch(row["tunnel"]):
            message = f"{printable(row['tunnel'])[:60]!r} is no kind of tunnel"
            raise WrongInput(message, "a kind is one word, such as wireguard, openvpn or none")
    if row.get("direction", "") not in {"", "in", "out"}:
        message = f"{printable(row['direction'])[:60]!r} is no direction"
        raise WrongInput(message, "a direction is in (to the client) or out; [values.direction] translates other words")


def _word(column: str) -> str:
    return column.removesuffix("_bytes")


def columns_of(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the columns of the rows, in the order in which they first occur."""
    return list(dict.fromkeys(column for row in rows for column in row))
