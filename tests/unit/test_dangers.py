"""Root is a trust: how programs are started, read off the source itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tunnelbench

PACKAGE = Path(tunnelbench.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
THE_ONE_PLACE = PACKAGE / "host" / "command.py"
SHELLS = {"sh", "bash", "dash", "ash", "/bin/sh", "/bin/bash"}
FAR_SIDE = PACKAGE / "host" / "ssh.py"
"""What it has a shell do is done on another machine, whose login shell takes every command that comes by SSH."""
STARTS_A_SHELL = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_command_goes_through_a_shell(path: Path) -> None:
    for call in calls(path):
        assert name_of(call) not in STARTS_A_SHELL, ast.unparse(call)
        assert not any(word.arg == "shell" for word in call.keywords), ast.unparse(call)
    for node in ast.walk(ast.parse(path.read_text())):
        if path != FAR_SIDE and isinstance(node, ast.List) and node.elts and isinstance(node.elts[0], ast.Constant):
            assert node.elts[0].value not in SHELLS, ast.unparse(node)


def test_programs_are_started_in_one_place_only() -> None:
    users = [path for path in SOURCES if "subprocess" in {name.name for name in imports(path)}]
    assert users == [THE_ONE_PLACE]


def imports(path: Path) -> list[ast.alias]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in node.names]
