"""Pairs of rows of two results that measure the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.algorithms import NO_ALGORITHM
from tunnelbench.analysis.compare.sides import Side, SideRow
from tunnelbench.model.plan import Test

PAYLOADS_ALIKE = 0.02
"""Largest relative difference of two payloads that count as equal: that of throughput and packet rate in rule 16."""


@dataclass(frozen=True)
class Pair:
    """Two rows that measure the same."""

    a: SideRow
    b: SideRow
    unlike: tuple[str, ...] = ()
    """Settings that differ, or that one side does not state."""


def match(a: Side, b: Side) -> tuple[list[Pair], list[SideRow], list[SideRow]]:
    """Return the pairs in the order of `a`, and the rows of each side without a counterpart.

    Rows of two runs match by kind and options of the tunnel, then by its name, then by its kind if one of that kind
    remains on each side; payload and direction are those asked for. Rows with different conditions, such as packet
    filters on the router or IP versions, or with different numbers of clients never match. If the user names one tunnel
    on each side, their rows match by payload, direction and test only. Rows of a published result match by all settings
    that both sides state, so one row may have several counterparts.
    """
    if a.comparability is None and b.comparability is None:
        pairs = _one_to_one(a.rows, b.rows, any_kind=bool(a.tunnel and b.tunnel))
    else:
        pairs = [
            Pair(one, other, unlike)
            for one in a.rows
            for other in b.rows
            if (unlike := _fits(one, other, a, b)) is not None
        ]
    matched_a, matched_b = {id(pair.a) for pair in pairs}, {id(pair.b) for pair in pairs}
    return (
        pairs,
        [row for row in a.rows if id(row) not in matched_a],
        [row for row in b.rows if id(row) not in matched_b],
    )


def _one_to_one(rows: Sequence[SideRow], others: Sequence[SideRow], *, any_kind: bool) -> list[Pair]:
    keys: list[Callable[[SideRow], Hashable]] = [
        lambda row: (row.kind, tuple(sorted((key, str(value)) for key, value in row.options.items())), row.place),
        lambda row: (row.kind, row.name, row.conditions, row.place),
        lambda row: (row.kind, row.conditions, row.place),
        *([lambda row: row.place] if any_kind else []),
    ]
    partners: dict[int, SideRow] = {}
    taken: set[int] = set()
    for key in keys:
        left, right = (
            _unique([row for row in side if id(row) not in done], key)
            for side, done in ((rows, set(partners)), (others, taken))
        )
        for place, row in left.items():
            if place in right:
                partners[id(row)] = right[place]
                taken.add(id(right[place]))
    return [
        Pair(row, partners[id(row)], tuple(_option_differences(row, partners[id(row)])))
        for row in rows
        if id(row) in partners
    ]


def _unique(rows: Iterable[SideRow], key: Callable[[SideRow], Hashable]) -> dict[Hashable, SideRow]:
    """Return the rows by key; rows whose key is not unique are left out."""
    found: dict[Hashable, list[SideRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return {place: group[0] for place, group in found.items() if len(group) == 1}


def _option_differences(a: SideRow, b: SideRow) -> Iterable[str]:
    for key in dict.fromkeys([*a.options, *b.options]):
        one, other = a.options.get(key), b.options.get(key)
        if one != other:
            yield f"{key}: {'not set' if one is None else one} against {'not set' if other is None else other}"


def _fits(one: SideRow, other: SideRow, a: Side, b: Side) -> tuple[str, ...] | None:
    """Return the settings that one side does not state; None if a setting is known to differ."""
    if one.kind != other.kind or (one.traffic and other.traffic and one.traffic != other.traffic):
        return None
    if one.test and other.test and one.test != other.test:
        return None
    if one.conditions != other.conditions:
        return None
    if one.direction and other.direction and one.direction != other.direction and not _goes_both_ways(one):
        return None
    if not (one.figures.keys() & other.figures.keys()):
        return None
    unlike = _unlike_settings(one, other, a, b)
    if unlike is None or not _payloads_fit(one, other, a, b, unlike):
        return None
    if bool(one.direction) != bool(other.direction):
        unlike.append("direction not stated")
    return tuple(unlike)


def are_tunnels_alike(one: SideRow, other: SideRow, a: Side, b: Side) -> bool:
    """Return True if the tunnels of two rows could match, whatever was measured with them."""
    if one.kind != other.kind or one.conditions != other.conditions:
        return False
    return (a.comparability is None and b.comparability is None) or _unlike_settings(one, other, a, b) is not None


def _goes_both_ways(row: SideRow) -> bool:
    """Return True if the direction of the row does not matter, because its packets go there and back."""
    return row.test == Test.ECHO_SEARCH


def _unlike_settings(one: SideRow, other: SideRow, a: Side, b: Side) -> list[str] | None:
    """Return the settings that one side does not state; None if a setting is known to differ."""
    unlike = []
    for name in ("cipher", "digest", "transport"):
        ours, theirs = one.settings.get(name), other.settings.get(name)
        if ours and theirs and ours != theirs:
            return None
        if bool(ours) == bool(theirs) or name == "transport":
            continue
        if (a if theirs else b).comparability is None:
            return None  # a run states all settings of its tunnel
        if name == "cipher" and NO_ALGORITHM in {ours, theirs}:
            return None  # a source that does not state the cipher measured a program that encrypts by default
        unlike.append(f"{name} {ours or theirs} against not stated")
    return unlike


def _payloads_fit(one: SideRow, other: SideRow, a: Side, b: Side, unlike: list[str]) -> bool:
    if one.payload_bytes == other.payload_bytes:
        return True
    if one.payload_bytes is None or other.payload_bytes is None:
        stated, side = (one, a) if other.payload_bytes is None else (other, b)
        # A test without a stated payload sent full segments, which is the default of TCP.
        if stated.payload_bytes != max(row.payload_bytes or 0 for row in side.rows):
            return False
        unlike.append(f"payload {stated.payload_bytes} against not stated")
        return True
    ours, theirs = one.effective_bytes, other.effective_bytes
    if ours and theirs and abs(ours / theirs - 1) <= PAYLOADS_ALIKE:
        unlike.append(f"payload {ours:g} against {theirs:g}")
        return True
    return False
