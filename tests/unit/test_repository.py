"""Rules for the files of the repository and for the tests themselves."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
UNIT_TESTS = sorted((ROOT / "tests" / "unit").rglob("*.py"))
LONGEST_TEST_NAME = 80


def found_in(paths: list[Path], find: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """Return what `find` returns for each source, by path; sources without a finding are left out."""
    return {str(path.relative_to(ROOT)): found for path in paths if (found := find(path.read_text()))}


def odd_paths(names: list[str]) -> list[str]:
    """Return the paths that a shell, a web server or a file system of another kind may not take as they are."""
    return [name for name in names if not re.fullmatch(r"[A-Za-z0-9._/+@-]+", name)]


def long_names(source: str) -> list[str]:
    """Return the names of test functions that do not fit the limit."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return [node.name for node in functions if node.name.startswith("test_") and len(node.name) > LONGEST_TEST_NAME]


def imported_modules(source: str) -> list[str]:
    """Return the full names of all modules that a source imports, wherever the import stands."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{name.name}" for name in node.names]
    return found


SHARED_NAMES = {"__all__", "T", "log"}
"""Names of the language and of its habits, which any module may define."""

PARALLEL_FOLDERS = ("tunnel", "report/exchange/foreign", "report/formats")
"""Folders below src/tunnelbench where each module implements one interface and gives the same parts the same names."""


def defined_names(source: str) -> set[str]:
    """Return the names of the constants and classes that a module defines."""
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names |= {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
    return names - SHARED_NAMES


def homonyms(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that several modules define, each with the paths of the modules below src/tunnelbench."""
    found: dict[str, list[str]] = {}
    for path, source in sources.items():
        for name in defined_names(source):
            found.setdefault(name, []).append(path)
    return {
        name: sorted(paths)
        for name, paths in found.items()
        if len(paths) > 1 and not any(all(Path(each).is_relative_to(one) for each in paths) for one in PARALLEL_FOLDERS)
    }


def lab_imports(source: str) -> list[str]:
    return [name for name in imported_modules(source) if f"{name}.".startswith("tests.lab.")]


def test_the_path_of_every_file_is_plain() -> None:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    names = [name.decode(errors="backslashreplace") for name in listed.split(b"\0") if name]
    assert "README.md" in names
    assert odd_paths(names) == []


@pytest.mark.parametrize("name", [",x = 1", "a b", "a:b", "é", "a\\b", 'a"b'])
def test_an_odd_path_is_found(name: str) -> None:
    assert odd_paths(["docs/a-b_c+d@e.md", name]) == [name]


def test_a_constant_or_class_has_a_name_of_its_own() -> None:
    folder = ROOT / "src" / "tunnelbench"
    assert homonyms({str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}) == {}


def test_a_name_with_two_meanings_is_found() -> None:
    port, options, two = "PORT = 1\n", "class Options: pass\n", "LOW, PORT = 1, 2\n"
    assert homonyms({"traffic/a.py": port, "measure/b.py": two}) == {"PORT": ["measure/b.py", "traffic/a.py"]}
    assert homonyms({"tunnel/a.py": options, "report/formats/b.py": options}) != {}
    assert homonyms({"tunnel/a.py": port + options, "tunnel/b.py": options + two, "c.py": "log = 1\n"}) == {}


def test_the_name_of_a_test_has_at_most_80_characters() -> None:
    assert found_in(TESTS, long_names) == {}


def test_a_name_of_81_characters_is_found() -> None:
    fits, long = "test_".ljust(80, "x"), "test_".ljust(81, "x")
    assert long_names(f"class TestIt:\n def {fits}(self): pass\n def {long}(self): pass") == [long]


def test_unit_tests_do_not_import_lab_tests_or_their_helpers() -> None:
    assert found_in(UNIT_TESTS, lab_imports) == {}


@pytest.mark.parametrize(
    "source", ["from tests.lab.bench import x", "from tests import lab", "def f():\n import tests.lab.rig"]
)
def test_an_import_of_a_lab_helper_is_found(source: str) -> None:
    assert len(lab_imports(source)) == 1
    assert lab_imports("from tests.laboratory import x\nfrom tests.unit import lab") == []


INSTALLER = re.compile(r"\b(?:pipx?|uv|cargo)\b[^\n`;#]* install\b[^\n`;#]*")
OWN_NAME = re.compile(r"(?<=[ '\"])tunnelbench(?:-engine)?(?![\w.-])")


OWN_EXTRA = re.compile(r"(?<![\w./-])tunnelbench\[\w[\w,-]*\]")


def index_hints(text: str) -> list[str]:
    """Return hints that would install the project by its name, which may be another project's in a package index.

    The name with an extra is such a hint without a command, too: a reader would put an installer before it.
    """
    commands = [found for found in INSTALLER.findall(text) if OWN_NAME.search(found)]
    return commands or OWN_EXTRA.findall(text)


def test_no_command_installs_the_project_by_name_from_a_package_index() -> None:
    paths = [path for folder in ("src", "examples", "openwrt") for path in (ROOT / folder).rglob("*")]
    paths += [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("scripts/*")]
    endings = {"", ".md", ".py", ".toml", ".sh", ".jinja"}
    assert found_in([path for path in paths if path.is_file() and path.suffix in endings], index_hints) == {}


@pytest.mark.parametrize(
    "hint",
    ["pip install tunnelbench", "pip install 'tunnelbench[charts]'", "uv tool install tunnelbench==0.1.0",
     "pipx install --global tunnelbench", "cargo install tunnelbench-engine", "pip install x tunnelbench"],
)  # fmt: skip
def test_a_command_that_installs_the_project_by_name_is_found(hint: str) -> None:
    assert index_hints(f"run `{hint}`.") == [hint]
    assert index_hints("It needs the extra `tunnelbench[postgresql]`.") == ["tunnelbench[postgresql]"]
    assert index_hints("pipx install './tunnelbench-0.1.0.whl[charts]'") == []
    assert index_hints("pipx install ./dist/tunnelbench-0.1.0.whl\nuv tool install ./tunnelbench-0.1.0.whl") == []
    assert index_hints("pip install virtme-ng; tunnelbench runs") == []


def test_make_test_runs_the_tests_of_every_folder() -> None:
    makefile = (ROOT / "Makefile").read_text()
    calls = re.findall(r"-m pytest .*-m (?:'(.*?)'|(\w+)) (\S+) \|\|", makefile)
    assert [(quoted or word, paths) for quoted, word, paths in calls] == [
        ("not alone", "tests"),
        ("alone", "tests/lab"),
    ]


def test_the_workflow_runs_the_script_that_runs_everywhere() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert job["container"]["image"].startswith("debian:")
    assert "--privileged" in job["container"]["options"]
    assert job["steps"][-1]["run"] == ".ci/run"


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_secrets_and_its_actions_are_pinned_to_commits(path: Path) -> None:
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in text
    assert "secrets." not in text
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert [action for action in actions if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action)] == []
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert [step for step in checkouts if step["with"]["persist-credentials"] is not False] == []


def test_contributions_are_checked_by_the_program_of_the_branch_that_they_are_for() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "contributions.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert "permissions" not in job
    program, contributed = [step["with"] for step in job["steps"] if "uses" in step]
    assert program["ref"] == "${{ github.event.pull_request.base.sha }}"
    assert contributed["sparse-checkout"] == "results"
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert [line for line in " ".join(commands).split() if line.startswith(f"{contributed['path']}/")] == [
        "contributed/results"
    ]
    assert "program/.venv/bin/tunnelbench contribute --check contributed/results" in commands[-1]


def test_the_job_that_publishes_the_site_runs_no_code_of_the_project() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text())["jobs"]
    assert "permissions" not in jobs["build"]
    assert jobs["publish"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]] == ["actions/deploy-pages"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md")), ids=lambda path: path.name)
def test_a_template_of_an_issue_has_a_name_and_says_what_it_is_about(path: Path) -> None:
    _, header, body = path.read_text().split("---\n", 2)
    assert {"name", "about"} <= yaml.safe_load(header).keys()
    assert body.strip()
