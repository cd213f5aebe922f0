"""Median polish of a table of cells and blocks (J. W. Tukey, Exploratory Data Analysis, 1977, chapter 11)."""

from __future__ import annotations

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
    cells = {cell: 0.0 for cell, _ in table}
    blocks = {block: 0.0 for _, block in table}
    for _ in range(MOST_SWEEPS):
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
        if all(abs(effect - before[block]) < CONVERGED_BELOW for block, effect in blocks.items()):
            break
    return blocks
