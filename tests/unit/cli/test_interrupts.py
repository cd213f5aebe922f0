"""A signal that asks to end is never lost, wherever in the program it arrives."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
    "at_the_end_of_a_held_back_end",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        ("signal.SIGINT", 130, "tunnelbench: interrupted"),
        ("signal.SIGTERM", 143, "tunnelbench: stopping because of a signal"),
    ],
)
def test_a_signal_ends_the_program_although_its_exception_is_lost(
    place: str, number: str, status: int, message: str
) -> None:
    # A shell's background ignores SIGINT, and the program would inherit that.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = start + PROGRAM.format(place=place, number=number)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert set(ended.stderr.splitlines()) == {message}
