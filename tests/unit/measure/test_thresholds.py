"""The thresholds in docs/methodology.md are those of the code."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[3] / "docs/methodology.md").read_text()
BEFORE, _, REST = TEXT.partition("## The thresholds\n")
TABLE, _, RULES = REST.partition("\n## ")
ROWS = re.findall(r"^\| (\d+) \| ([\d.,]+) ([^|]+?) \| [^|]+ \| `([\w.]+)` \|$", TABLE, re.MULTILINE)
FACTORS = {"%": 0.01, "ms": 0.001, "kB": 1000.0}
"""Factor from a unit in the document to the unit of the constant; 1 for all others."""


def test_every_row_of_the_table_is_read() -> None:
    assert len(ROWS) == len([line for line in TABLE.splitlines() if line.startswith("| ")]) - 1


@pytest.mark.parametrize(("rule", "number", "unit", "constant"), ROWS)
def test_a_threshold_in_the_document_is_the_constant_in_the_code(
    rule: str, number: str, unit: str, constant: str
) -> None:
    module, _, name = constant.rpartition(".")
    value = getattr(import_module(f"tunnelbench.{module}"), name)
    assert float(number.replace(",", "")) * FACTORS.get(unit, 1.0) == pytest.approx(value)


@pytest.mark.parametrize(("rule", "number", "unit", "constant"), ROWS)
def test_a_threshold_stands_in_the_text_of_its_rule_or_its_checks(
    rule: str, number: str, unit: str, constant: str
) -> None:
    checks = [line for line in BEFORE.splitlines() if re.match(rf"\| `.*` \| {rule}[a-e]? \|", line)]
    course = re.findall(rf"[^\n]*\(rule {rule}\)(?:.|\n)*?\n\n", BEFORE)
    (section,) = re.findall(rf"### {rule}\. (?:.|\n)*?(?=\n##|\Z)", RULES)
    assert re.search(rf"(?<![\d.,]){re.escape(f'{number} {unit}')}", "\n".join([*checks, *course, section]))


MODULES = (
    "model.result",
    *(f"measure.{kind}checks" for kind in ("", "balance_", "connection_", "setup_", "speed_", "udp_")),
)


@pytest.mark.parametrize("module", MODULES)
def test_every_threshold_of_a_check_is_in_the_document(module: str) -> None:
    defined = {
        f"{module}.{name}"
        for name, value in vars(import_module(f"tunnelbench.{module}")).items()
        if name.isupper() and isinstance(value, int | float)
    }
    own = {constant for constant in defined if f"\n{constant.rpartition('.')[2]} = " in source(module)}
    assert own <= {constant for *_, constant in ROWS}


def source(module: str) -> str:
    return (Path(__file__).parents[3] / f"src/tunnelbench/{module.replace('.', '/')}.py").read_text()
