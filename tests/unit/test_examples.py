"""The plans and testbeds in examples/ are right, and examples/README.md names each of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tunnelbench import cli
from tunnelbench.host.cache import cache_folder
from tunnelbench.host.trust import require_trusted_store
from tunnelbench.model.errors import CannotHere
from tunnelbench.plan.testbed_schema import TESTBED_KEYS
from tunnelbench.store.location import default_path

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
    settings = {(setting,) for setting in re.findall(r"--set (\w+)=", text)}
    assert settings
    assert settings <= {*TESTBED_KEYS}
    assert (EXAMPLES / "plans" / "two-builds.toml").is_file()
    assert "two-builds.toml" in text


def scripts() -> str:
    """Return the scripts of all steps, with continued lines joined."""
    return "\n".join(step.get("run", "") for step in steps()).replace("\\\n", " ")


def test_the_workflow_installs_what_a_virtual_router_needs() -> None:
    assert "tunnelbench/scripts/install-debian --virtual-router\n" in scripts()
    assert "make -C tunnelbench" not in scripts()  # its target `install` installs no QEMU


def test_the_workflow_takes_the_libraries_of_both_architectures_from_one_release() -> None:
    script = steps()[0]["run"]
    pinned = re.findall(r"src:([a-z0-9-]+)", script)
    for library in re.findall(r"lib(\S+)-dev:mipsel", script):
        assert {"ssl": "openssl", "cap-ng": "libcap-ng"}.get(library, library) in pinned
    assert {"gcc-12", "glibc"} < set(pinned)
    assert "Pin: release n=bookworm" in script
    assert "--allow-downgrades" in script  # for an image that has newer ones


def test_each_step_of_the_workflow_that_runs_tunnelbench_has_a_home_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    using = [step["run"] for step in steps() if re.search(r"^ *tunnelbench[ /]", step.get("run", ""), re.MULTILINE)]
    assert len(using) == 3
    for script in using:
        settings = dict(word.split("=", 1) for word in re.findall(r"^export (.*)$", script, re.MULTILINE)[0].split())
        assert set(settings) == {"HOME", "XDG_CACHE_HOME"}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        assert cache_folder() == Path("/root/.cache/tunnelbench")
        assert default_path().is_relative_to("/root")


@pytest.mark.skipif(os.geteuid() != 0, reason="the rule is for root")
def test_the_workflow_keeps_its_results_where_root_may_and_copies_them(tmp_path: Path) -> None:
    stores = set(re.findall(r"--store (\S+)", scripts()))
    assert len(stores) == 1
    (store,) = map(Path, stores)
    require_trusted_store(store)
    assert f"cp {store} runs.sqlite" in scripts()
    assert steps()[-1]["with"]["path"] == "runs.sqlite"
    workspace = tmp_path / "workspace"  # as GitHub's runner makes it
    workspace.mkdir()
    os.chown(workspace, 1001, 1001)
    with pytest.raises(CannotHere, match="belongs to the user"):
        require_trusted_store(workspace / store.name)


@pytest.mark.skipif(os.geteuid() != 0, reason="the rule is for root")
def test_the_home_that_github_sets_is_refused_for_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(tmp_path, 1001, 1001)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CannotHere, match=r"this is root and .* belongs to"):
        cache_folder()
