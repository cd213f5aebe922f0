"""Median polish of a table of cells and blocks (J. W. Tukey, Exploratory Data Analysis, 1977, chapter 11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from tunnelbench.analysis.statistics import median

CellKey = TypeVar("CellKey", bound=Hashable)
Block = TypeVar("Block", bound=Hashable)

MOST_SWEEPS = 30
CONVERGED_BELOW = 1e-9
"""The iteration ends when a sweep changes every effect by less than this."""


def block_effects(table: Mapping[tuple[CellKey, Block], float]) -> dict[Block, float]:
    """Return the amount by which the values in each block (such as a round) differ from those of the median block.

    `table` holds a value by cell and block, and values may be missing. Pass logarithms for effects that multiply.
    """
    of_cells: dict[CellKey, list[tuple[Block, float]]] = defaultdict(list)
    of_blocks: dict[Block, list[tuple[CellKey, float]]] = defaultdict(list)
    for (cell, block), value in table.items():
        of_cells[cell].append((block, value))
        of_blocks[block].append((cell, value))
    blocks = dict.fromkeys(of_blocks, 0.0)
    for _ in range(MOST_SWEEPS):
        cells = {cell: median([value - blocks[block] for block, value in own]) for cell, own in of_cells.items()}
        before = blocks
        blocks = {block: median([value - cells[cell] for cell, value in own]) for block, own in of_blocks.items()}
        centre = median(list(blocks.values()))
        blocks = {block: effect - centre for block, effect in blocks.items()}
        if all(abs(effect - before[block]) < CONVERGED_BELOW for block, effect in blocks.items()):
            break
    return blocks
