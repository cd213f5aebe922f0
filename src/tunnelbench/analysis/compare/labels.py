"""Labels of the rows of a published result, if several of them match one row of the other side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from tunnelbench.analysis.compare.comparison import Comparison
from tunnelbench.analysis.compare.matching import Pair
from tunnelbench.analysis.compare.sides import SideRow


def row_labels(found: Comparison) -> Mapping[int, tuple[str, ...]]:
    """Return the label of the published row of each pair, by the identity of the pair.

    Only pairs that share their other row have a label. It has the fewest facts in which the published rows of these
    pairs differ.
    """
    pairs = list({id(line.pair): line.pair for line in found.rows}.values())
    labels: dict[int, tuple[str, ...]] = {}
    if found.b.comparability is not None:
        labels.update(_labels([(pair, pair.a, pair.b) for pair in pairs]))
    if found.a.comparability is not None:
        labels.update(_labels([(pair, pair.b, pair.a) for pair in pairs]))
    return labels


def _labels(pairs: Sequence[tuple[Pair, SideRow, SideRow]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the identity of each pair and the label of its published row, from triples of pair, other row and it."""
    groups: dict[int, list[tuple[Pair, SideRow]]] = {}
    for pair, other, published in pairs:
        groups.setdefault(id(other), []).append((pair, published))
    for group in groups.values():
        shown = _distinct_columns([published.label_facts for _, published in group])
        for pair, published in group:
            if label := tuple(text for column in shown if (text := published.label_facts[column])):
                yield id(pair), label


def _distinct_columns(rows: Sequence[Sequence[str]]) -> Sequence[int]:
    """Return the fewest columns that distinguish all rows; all columns that differ if some rows are equal."""
    differing = [column for column, texts in enumerate(zip(*rows, strict=True)) if len(set(texts)) > 1]
    for count in range(1, len(differing)):
        for columns in combinations(differing, count):
            if len({tuple(row[column] for column in columns) for row in rows}) == len(rows):
                return columns
    return differing
