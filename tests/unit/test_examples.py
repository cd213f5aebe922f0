"""The plans and testbeds in examples/ are right, and examples/README.md names each of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tunnelbench import cli

EXAMPLES = Path(__file__).parents[2] / "examples"
PLANS = sorted((EXAMPLES / "plans").iterdir())
WORKFLOW = EXAMPLES / "github-actions" / "compare-builds.yml"
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


def steps() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def test_the_workflow_has_the_form_that_github_asks_for() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    triggers = workflow[True]  # YAML 1.1 reads the key `on` so
    (job,) = workflow["jobs"].values()
    assert list(triggers) == ["pull_request"]
    assert workflow["permissions"] == {"contents": "read"}
    assert job["container"]["image"] == "debian:12"
    assert "--privileged" in job["container"]["options"]
    assert all(("run" in step) != ("uses" in step) for step in steps())
    if actionlint := shutil.which("actionlint"):
        subprocess.run([actionlint, str(WORKFLOW)], check=True)


@pytest.mark.parametrize("step", [step for step in steps() if "run" in step], ids=lambda step: step["name"])
def test_a_step_of_the_workflow_is_a_correct_script(step: dict[str, Any]) -> None:
    # What is between ${{ and }} is replaced before the shell starts.
    script = re.sub(r"\$\{\{.*?\}\}", "value", f"set -e\n{step['run']}")
    subprocess.run(["shellcheck", "--shell=sh", "--exclude=SC1091", "-"], input=script, text=True, check=True)


def test_the_workflow_uses_options_and_files_that_exist() -> None:
    text = "\n".join(step.get("run", "") for step in steps()).replace("\\\n", " ")
    calls = re.findall(r"^ *tunnelbench (\w+)(.*)$", text, re.MULTILINE)
    assert {verb for verb, _ in calls} == {"run", "list", "compare"}
    for verb, arguments in calls:
        known = CliRunner().invoke(cli.main, [verb, "--help"]).stdout
        for option in re.findall(r"--[a-z-]+", arguments):
            assert option in known
    assert "--fail-on-regression 3" in text
    for setting in re.findall(r"--set (\w+)=", text):
        shown = CliRunner().invoke(cli.main, ["show", "two-builds", "--on", "malta", "--set", f"{setting}=x"])
        assert "unknown key" not in shown.output
    assert (EXAMPLES / "plans" / "two-builds.toml").is_file()
    assert "two-builds.toml" in text
