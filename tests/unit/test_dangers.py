"""Rules for a program that runs as root, checked in the source: how it starts other programs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tunnelbench

PACKAGE = Path(tunnelbench.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
STARTERS = [PACKAGE / "host" / "command.py", PACKAGE / "host" / "daemon.py"]
SHELLS = {"sh", "bash", "dash", "ash", "/bin/sh", "/bin/bash"}
FAR_SIDE = PACKAGE / "host" / "ssh_programs.py"
"""Module whose shell commands run on another machine, where the login shell takes every command that comes by SSH."""
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


def test_only_commands_and_daemons_start_programs() -> None:
    users = [path for path in SOURCES if "subprocess" in {name.name for name in imports(path)}]
    assert users == STARTERS


PRINTERS = {
    ("say", "stderr_messages.py"),
    ("emit", "common_options.py"),
    ("showing", "progress.py"),
}
"""The functions that write to a terminal, each with its module in `cli`; all of them escape control characters."""

OTHER_WRITERS = {
    ("shout", "stderr_messages.py"),  # sentences of this program, from a signal handler
    ("write", "progress.py"),  # the file of the live view, which has escaped its content
    ("printed", "console.py"),  # into a text
    ("send", "worker.py"),  # from the guest to the controller
    ("main", "labgrid_session.py"),  # from a helper to the controller
}
"""Functions that write to no terminal, or nothing that came from elsewhere."""


def writes_to_a_stream(call: ast.Call) -> bool:
    """Return True for a call that may write to standard output, standard error or any other open file."""
    called = ast.unparse(call.func)
    is_standard = called.startswith(("sys.stdout", "sys.stderr")) and called.endswith((".write", ".writelines"))
    return is_standard or called == "os.write" or name_of(call) in {"echo", "secho", "Live", "print"}


def test_terminals_are_written_to_in_few_places_which_filter() -> None:
    found = {
        (function.name, path.name)
        for path in SOURCES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and writes_to_a_stream(call)
    }
    assert found == PRINTERS | OTHER_WRITERS


def imports(path: Path) -> list[ast.alias]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in node.names]
