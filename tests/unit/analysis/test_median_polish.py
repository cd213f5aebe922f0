"""Median polish: what a whole block has in common."""

from __future__ import annotations

import pytest

from tunnelbench.analysis.median_polish import block_effects


def test_the_effects_of_blocks_are_found_whatever_the_cells_are() -> None:
    cells, blocks = {"a": 1.0, "b": 5.0, "c": 9.0}, {1: -0.5, 2: 0.0, 3: 0.25}
    table = {(cell, block): value + effect for cell, value in cells.items() for block, effect in blocks.items()}
    assert block_effects(table) == pytest.approx(blocks)


def test_one_wild_value_changes_nothing() -> None:
    cells, blocks = {"a": 1.0, "b": 5.0, "c": 9.0, "d": 2.0, "e": 3.0}, {1: -0.5, 2: 0.0, 3: 0.25}
    table = {(cell, block): value + effect for cell, value in cells.items() for block, effect in blocks.items()}
    table["b", 3] += 100
    assert block_effects(table) == pytest.approx(blocks)


def test_values_may_be_missing_and_one_block_has_no_effect() -> None:
    table = {("a", 1): 1.0, ("b", 1): 2.0, ("a", 2): 2.0, ("b", 2): 3.0, ("a", 3): 1.0}
    found = block_effects(table)
    assert found[2] - found[1] == pytest.approx(1.0)
    assert block_effects({("a", 1): 7.0, ("b", 1): 2.0}) == {1: 0.0}
