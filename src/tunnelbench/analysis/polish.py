"""Median polish of a table of cells and blocks (J. W. Tukey, Exploratory Data Analysis, 1977, chapter 11)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from tunnelbench.analysis.statistics import median

Cell = TypeVar("Cell", bound=Hashable)
Block = TypeVar("Block", bound=Hashable)

SWEEPS = 30
SETTLED = 1e-9


def block_effects(table: Mapping[tuple[Cell, Block], float]) -> dict[Block, float]:
    """What each block adds to all of its cells; the median of the blocks' effects is 0.

    `table` has a value by cell and block; some may be missing. For what multiplies, give logarithms.
    """
    cells = {cell: 0.0 for cell, _ in table}
    blocks = {block: 0.0 for _, block in table}
    for _ in range(SWEEPS):
        cells = {
            cell: median([value - blocks[block] for (own, block), value in table.items() if own == cell])
            for cell in cells
        }
        before = blocks
        blocks = {
            block: median([value - cells[cell] for (cell, own), value in table.items() if own == block])
            for block in blocks
        }
        centre = median(list(blocks.values()))
        blocks = {block: effect - centre for block, effect in blocks.items()}
        if all(abs(effect - before[block]) < SETTLED for block, effect in blocks.items()):
            break
    return blocks
