"""A signal that asks to end is never lost, wherever in the program it arrives."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tunnelbench import __version__

PROGRAM = """
import signal, sqlite3, subprocess, sys, time, weakref
import click
from tunnelbench import cli
from tunnelbench.host.signals import undisturbed

class Thing:
    pass

class Noisy:
    def __del__(self):
        signal.raise_signal({number})

def in_the_end_of_an_object():
    Noisy()

def in_the_callback_of_a_weak_reference():
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal({number}))
    del thing

def in_the_end_of_a_process():
    class Process(subprocess.Popen):
        def __del__(self):
            signal.raise_signal({number})
            super().__del__()
    Process(["true"]).wait()

def in_a_function_of_the_database():
    base = sqlite3.connect(":memory:")
    base.create_function("ask", 0, lambda: signal.raise_signal({number}))
    try:
        base.execute("select ask()")
    except sqlite3.OperationalError:
        pass

def while_an_error_is_handled():
    try:
        try:
            signal.raise_signal({number})
        finally:
            raise ValueError
    except ValueError:
        pass

def in_a_generator_that_is_dropped():
    def generate():
        try:
            yield
        finally:
            signal.raise_signal({number})
    next(generate())

def while_a_class_is_made():
    class Part:
        def __set_name__(self, owner, name):
            signal.raise_signal({number})
    class Whole:
        part = Part()

def at_the_end_of_a_held_back_end():
    class Late:
        def __del__(self):
            with undisturbed:
                signal.raise_signal({number})
    Late()

@click.command()
def command():
    {place}()
    time.sleep(8)
    print("not interrupted")

cli.Verb.load = lambda self: command
sys.argv[1:] = ["run"]
cli.main()
"""
PLACES = [
    "in_the_end_of_an_object",
    "in_the_callback_of_a_weak_reference",
    "in_the_end_of_a_process",
    "in_a_function_of_the_database",
    "while_an_error_is_handled",
    "in_a_generator_that_is_dropped",
    "while_a_class_is_made",
    "at_the_end_of_a_held_back_end",
]
NUMBERS = pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        ("signal.SIGINT", 130, "tunnelbench: interrupted"),
        ("signal.SIGTERM", 143, "tunnelbench: stopping because of a signal"),
    ],
)

HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Beginning of a program that does not ignore SIGINT although a shell's background, which starts it, does."""


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("place", PLACES)
@NUMBERS
def test_a_signal_ends_the_program_although_its_exception_is_lost(
    place: str, number: str, status: int, message: str
) -> None:
    ended = run_python(HEARD + PROGRAM.format(place=place, number=number))
    assert (ended.returncode, ended.stdout) == (status, "")
    assert set(ended.stderr.splitlines()) == {message}


IN_AN_IMPORT = """
import importlib, signal, sys
from tunnelbench import cli

import_module = importlib.import_module

def import_with_a_library_that_replaces_exceptions(name):
    try:
        signal.raise_signal({number})
    except BaseException:
        raise ValueError("a model cannot be built") from None
    return import_module(name)

importlib.import_module = import_with_a_library_that_replaces_exceptions
sys.argv[1:] = ["list", "plans"]
cli.main()
"""


@NUMBERS
def test_a_signal_while_a_verb_is_imported_ends_the_program_after_the_import(
    number: str, status: int, message: str
) -> None:
    ended = run_python(HEARD + IN_AN_IMPORT.format(number=number))
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", f"{message}\n")


BEFORE_MAIN = """
import sys
from tunnelbench import cli
from tunnelbench.cli import fill_missing_streams

def at_the_last_moment():
    signal.raise_signal({number})
    fill_missing_streams()

cli.fill_missing_streams = at_the_last_moment
sys.argv[1:] = ["list", "plans"]
cli.main()
"""


@NUMBERS
def test_a_signal_just_before_the_command_line_is_read_ends_the_program(number: str, status: int, message: str) -> None:
    ended = run_python(HEARD + BEFORE_MAIN.format(number=number))
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", f"{message}\n")


AT_AN_IMPORT = """
import sys, weakref

class Thing:
    pass

class Finder:
    def find_spec(self, name, *_):
        if name == "tunnelbench.cli":
            thing = Thing()
            reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
            del thing

sys.meta_path.insert(0, Finder())
from tunnelbench.start import main
sys.argv[1:] = ["--version"]
main()
"""


@pytest.mark.parametrize(
    ("handler", "status", "output"),
    [("signal.default_int_handler", -signal.SIGINT, ""), ("signal.SIG_IGN", 0, f"tunnelbench {__version__}\n")],
)
def test_ctrl_c_at_an_import_ends_the_program_unless_it_is_ignored(handler: str, status: int, output: str) -> None:
    ended = run_python(f"import signal; signal.signal(signal.SIGINT, {handler})\n{AT_AN_IMPORT}")
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, output, "")


def test_the_command_begins_in_the_module_that_heeds_ctrl_c_at_once() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["gui-scripts"] == {"tunnelbench": "tunnelbench.start:main"}
