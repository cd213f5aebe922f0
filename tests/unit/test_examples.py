"""The plans and testbeds in examples/ are right, and examples/README.md names each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tunnelbench import cli

EXAMPLES = Path(__file__).parents[2] / "examples"
PLANS = sorted((EXAMPLES / "plans").iterdir())
TESTBEDS = sorted((EXAMPLES / "testbeds").iterdir())


def relative(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


@pytest.mark.parametrize("path", PLANS + TESTBEDS, ids=relative)
def test_check_finds_no_error_in_an_example(path: Path) -> None:
    result = CliRunner().invoke(cli.main, ["check", str(path)])
    assert (result.exit_code, result.stdout) == (0, f"{path}: ok\n")


@pytest.mark.parametrize("path", PLANS, ids=relative)
def test_an_example_plan_expands_to_trials(path: Path) -> None:
    result = CliRunner().invoke(cli.main, ["show", str(path)])
    assert result.exit_code == 0, result.output
    assert "\nTrials\n" in result.stdout


@pytest.mark.parametrize("path", PLANS + TESTBEDS, ids=relative)
def test_an_example_begins_with_a_comment_and_is_named_in_the_readme(path: Path) -> None:
    assert path.read_text().startswith("# ")
    assert f"[{path.name}]({relative(path)})" in (EXAMPLES / "README.md").read_text()
