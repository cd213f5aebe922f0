"""Each fuzz target runs for seconds, earlier findings stay fixed, and no parser of foreign text is left out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import pytest
from tests.fuzz.run import REGRESSIONS, ROOT, TARGETS, Recorder, inputs, load, run_plain
from tests.fuzz.target import Target, find

SECONDS = 2.0
"""Time for each target [s]; `make fuzz` takes ten minutes for each."""

PACKAGE = ROOT / "src" / "tunnelbench"
READERS = ("guest", "host", "measure", "qemu", "testbed", "traffic", "tunnel")
"""Packages that read the output of programs, kernels and routers."""

CONVERSIONS = {"float", "int", "count", "number", "whole", "json_of", "loads", "unpack_from", "findall", "finditer",
               "fullmatch", "match", "search", "splitlines"}  # fmt: skip
"""Names of functions that take text or bytes apart."""

OWN_TEXT = {
    "guest/kernel.py", "guest/machine.py", "host/bpf.py", "host/browser.py", "host/cgroup.py", "host/facts.py",
    "host/namespace.py", "host/preflight.py", "host/setup_watch.py", "host/trust.py", "testbed/netns.py",
    "measure/search.py", "measure/soak.py", "measure/udp_trial.py", "measure/plan_runner.py", "qemu/fixed_speed.py",
    "qemu/image.py", "qemu/machine.py", "qemu/packages.py", "qemu/processes.py", "qemu/programs.py",
    "testbed/undo_journal.py", "tunnel/openvpn_options.py", "tunnel/requirements.py",
}  # fmt: skip
"""Files that parse only texts of this machine's kernel and programs, of files that TunnelBench wrote, or of a plan
or testbed."""

OWN_TEXT_FUNCTIONS = {
    "host/command.py": {"last_lines"},  # quotes lines
    "host/parsing.py": {"json_of", "whole", "count", "number"},
    "host/procfs.py": {"parse_cpu_list", "thread_cpu_s", "with_children", "resident_bytes", "all_processes", "_sockets",
                       "_listed_sockets", "stat_fields", "_own_cpu_s", "allowed_cpus", "parse_cpu_mask",
                       "parse_softnet", "open_files"},
    "qemu/instruction_profile.py": {"compile_plugin"},  # reads the version of QEMU of this machine
    "host/programs.py": {"qemu_version"},  # reads QEMU of this machine
    "host/realtime.py": {"threads_of"},  # reads the threads of a process that TunnelBench started
    "host/ssh.py": {"_as_user"},
    "host/ssh_programs.py": {"pid"},
    "measure/checks.py": {"_sender"},  # converts a figure
    "measure/connection_trial.py": {"load_of", "offer"},  # convert figures of the plan
    "measure/handshake_trial.py": {"_traffic"},  # converts a figure of the plan
    "measure/simulation.py": {"simulated_tcp"},  # converts a figure
    "measure/tcp_trial.py": {"judge", "offer"},  # convert figures of the plan
    "testbed/place.py": {"release_place"},  # reads a file that TunnelBench wrote
    "traffic/iperf3.py": {"_stream_bps", "planned_settings"},  # convert figures of the plan
}  # fmt: skip
"""The same for single functions."""


@pytest.fixture(autouse=True)
def _no_programs_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a fuzz target starts a program")

    monkeypatch.setattr("subprocess.Popen.__init__", refuse)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_changed_inputs_for_seconds(name: str, tmp_path: Path) -> None:
    recorder = Recorder(load(name), tmp_path)
    run_plain(recorder, SECONDS, seed=0)
    reports = [path.read_text() for path in sorted(tmp_path.glob("*.txt"))]
    assert reports == []
    assert recorder.count > 0


@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_input_that_was_a_finding_is_taken_or_refused_in_a_sentence(path: Path) -> None:
    if path.parent.name in TARGETS:  # the tests of the engine replay those of `packets`
        found = find(load(path.parent.name), path.read_bytes())
        assert found is None, found.report


@pytest.mark.parametrize(
    ("name", "folders"), [("daemon_output", READERS), ("foreign_results", ("report/exchange/foreign",))]
)
def test_the_seeds_of_the_target_reach_every_parser_of_foreign_text(name: str, folders: tuple[str, ...]) -> None:
    target = load(name)
    with recorded_functions() as reached:
        for data in inputs(target):
            find(target, data)
    assert list(foreign_parsers(folders)) != []
    assert sorted(set(foreign_parsers(folders)) - reached) == []


def test_an_error_that_is_no_sentence_is_a_finding() -> None:
    def take(data: bytes) -> None:
        int(data)

    target = Target("own", take, lambda: [b"1"])
    assert find(target, b"7") is None
    found = find(target, b"x")
    assert found is not None
    assert found.place.startswith("ValueError at test_fuzz.py:")


def test_an_input_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(data: bytes) -> None:
        while True:
            pass

    monkeypatch.setattr("tests.fuzz.target.INPUT_LIMIT_S", 0.05)
    found = find(Target("own", take, lambda: [b""]), b"")
    assert found is not None
    assert found.place.startswith("TooSlow")


def foreign_parsers(folders: Iterable[str]) -> Iterator[str]:
    """Yield `file:function` for each function in some folders that takes foreign text apart."""
    for package in folders:
        for path in sorted((PACKAGE / package).rglob("*.py")):
            name = str(path.relative_to(PACKAGE))
            if name not in OWN_TEXT:
                own = OWN_TEXT_FUNCTIONS.get(name, set())
                yield from (f"{name}:{each}" for each in converting(path.read_text()) if each not in own)


def converting(source: str) -> Iterator[str]:
    """Yield the names of the functions of a source that convert text, those of inner functions without the outer."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            called = {
                call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                for call in ast.walk(node)
                if isinstance(call, ast.Call)
            }
            if called & CONVERSIONS:
                yield node.name


@contextmanager
def recorded_functions() -> Iterator[set[str]]:
    """Collect the functions of the package that run in the block, as `file:function`."""
    codes: set[CodeType] = set()
    found: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
        for code in codes:
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE):
                found.add(f"{path.relative_to(PACKAGE)}:{code.co_name}")
