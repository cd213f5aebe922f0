"""The sentence that says why two results have no row in common, and what a plan needs to have one."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.analysis.compare.comparison import Comparison
from tunnelbench.analysis.compare.matching import are_tunnels_alike
from tunnelbench.analysis.compare.sides import ComparedFigure, SideRow
from tunnelbench.model.plan import IMIX_PAYLOAD_BYTES, Test
from tunnelbench.model.text import joined

MOST_TUNNELS_NAMED = 4
"""Largest number of tunnels that the sentence names."""


def no_match_text(found: Comparison) -> str:
    """Return why no row of A matches a row of B."""
    a, b = found.a, found.b
    if empty := [letter for letter, side in (("A", a), ("B", b)) if not side.rows]:
        return f"No figures to compare in {' and '.join(empty)}."
    if not {row.kind for row in a.rows} & {row.kind for row in b.rows}:
        return "No tunnel is on both sides."
    of_a = [row for row in a.rows if any(are_tunnels_alike(row, other, a, b) for other in b.rows)]
    of_b = [row for row in b.rows if any(are_tunnels_alike(other, row, a, b) for other in a.rows)]
    if not of_a:
        return (
            "The same kind of tunnel is on both sides, but its settings or conditions differ, such as cipher, digest, "
            "transport or packet filter."
        )
    has = f"Both sides have {_names(of_a if a.comparability is None else of_b)}"
    measured = f"A has {_measured(of_a)}, and B has {_measured(of_b)}."
    needed = ""
    if (a.comparability is None) != (b.comparability is None):
        needed = _needed(of_a if a.comparability is not None else of_b)
    if not set(map(_test, of_a)) & set(map(_test, of_b)):
        return f"{has}, but the tests differ: {measured}{needed}"
    sizes_a, sizes_b = set(_sizes(of_a)), set(_sizes(of_b))
    if sizes_a and sizes_b and not sizes_a & sizes_b:
        return f"{has}, but the payloads differ: {measured}{needed}"
    return f"{has}, but no row has the same test, payload, direction and figure on both sides."


def _names(rows: Sequence[SideRow]) -> str:
    names = [f'"{name}"' for name in dict.fromkeys(row.name for row in rows)]
    more = [f"{len(names) - MOST_TUNNELS_NAMED} more"] if len(names) > MOST_TUNNELS_NAMED else []
    return joined([*names[:MOST_TUNNELS_NAMED], *more])


def _test(row: SideRow) -> str:
    """Return the test of a row: that of UDP with its load, `TCP`, or the figure of a publication without a test."""
    if row.test:
        return row.test
    if row.traffic != "udp" and (ComparedFigure.PACKETS not in row.figures):
        return "TCP"
    return "packets/s of UDP" if row.traffic == "udp" else "packets/s"


def _measured(rows: Sequence[SideRow]) -> str:
    """Return the tests of the rows with their payloads."""
    texts = []
    for test in dict.fromkeys(map(_test, rows)):
        quoted = f'the test "{test}"' if any(row.test == test for row in rows) else test
        sizes = _sizes([row for row in rows if _test(row) == test])
        texts.append(f"{quoted} with {joined(list(map(_size_text, sizes)), 'or')} bytes" if sizes else quoted)
    return joined(texts)


def _needed(published: Sequence[SideRow]) -> str:
    """Return what a plan needs so that its rows match the published ones; empty if no plan has such rows."""
    tests = set(map(_test, published))
    payloads = f"payload_bytes = [{', '.join(map(str, _sizes(published)))}]" if _sizes(published) else ""
    if tests == {Test.ECHO_SEARCH}:
        keys = joined([f'test = "{Test.ECHO_SEARCH}"', *([payloads] if payloads else [])])
        return f" To match, a plan needs [udp] with {keys}."
    if tests == {"TCP"}:
        return f" To match, a plan needs [tcp]{f' with {payloads}' if payloads else ''}."
    return ""


def _sizes(rows: Sequence[SideRow]) -> list[int]:
    return sorted({row.payload_bytes for row in rows if row.payload_bytes is not None})


def _size_text(payload_bytes: int) -> str:
    return "mixed" if payload_bytes == IMIX_PAYLOAD_BYTES else str(payload_bytes)
