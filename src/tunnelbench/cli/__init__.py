"""The command line: one module a verb; the only place that prints or turns an error into an exit code.

`tunnelbench --help` is to answer within 150 ms, so a verb's module is imported when the verb is used and not before.
"""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from tunnelbench import __version__
from tunnelbench.cli.telling import say, shout
from tunnelbench.model.errors import ExitCode, UserError


class Verb(click.Command):
    """Stands in for a verb: knows its name and short help, and imports `tunnelbench.cli.<name>` when it is used.

    That module's `command` is the real click command; its short help is taken from here.
    """

    def load(self) -> click.Command:
        command: click.Command = importlib.import_module(f"{__name__}.{self.name}").command
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        return self.load().make_context(*args, **kwargs)


class Verbs(click.Group):
    """The group of all verbs; answers a user's error with a sentence, a hint and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        fill_missing_streams()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        for number in asking_to_end():
            signal.signal(number, asked_to_end)
        atexit.register(end_in_peace)
        try:
            return super().invoke(ctx)
        except UserError as error:
            say(f"tunnelbench: {error.message}")
            if error.hint:
                say(f"hint: {error.hint}")
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            say("tunnelbench: interrupted")
            ctx.exit(ExitCode.INTERRUPTED)


ASK_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def asking_to_end() -> list[signal.Signals]:
    """The signals that ask to end; not those that whoever started us wants ignored, as `nohup` does."""
    return [number for number in ASK_TO_END if signal.getsignal(number) is not signal.SIG_IGN]


def asked_to_end(number: int, _frame: FrameType | None) -> NoReturn:
    """End by an exception, so that whatever is set up is taken down; a further request does not cut that short."""
    for signal_number in asking_to_end():
        signal.signal(signal_number, already_ending)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    shout("tunnelbench: asked to end")
    sys.exit(ExitCode.TERMINATED)


def already_ending(_number: int, _frame: FrameType | None) -> None:
    """Say that the first request was heard."""
    shout("tunnelbench: everything is being taken down, a moment please")


def end_in_peace() -> None:
    """While Python ends there is nothing left to be taken down, and a request would only change the exit status."""
    for number in asking_to_end():
        signal.signal(number, signal.SIG_IGN)


def fill_missing_streams() -> None:
    """Whoever closed a standard stream wants nothing from it; Python has None there, which breaks whatever writes."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 # it stays open to the end


@click.group(
    cls=Verbs,
    commands=[
        Verb("audit", short_help="Hold the figures of a published table against each other."),
        Verb("check", short_help="Name every error in plan and testbed files."),
        Verb("clean", short_help="Remove what killed runs left behind, and nothing else."),
        Verb("compare", short_help="Say what is faster or slower, run or published result."),
        Verb("doctor", short_help="Say what a run needs, what is missing here, and what mends it."),
        Verb("export", short_help="Write a run as one file to pass on, without names."),
        Verb("import", short_help="Store a run that was measured elsewhere."),
        Verb("list", short_help="List plans, testbeds, tunnels, references or runs."),
        Verb("report", short_help="Write a run's results as a table, for a wiki, as CSV or JSON."),
        Verb("run", short_help="Measure what a plan says on a testbed, and print the table."),
        Verb("schema", short_help="Write the JSON Schema of what is written for programs."),
        Verb("show", short_help="Show one plan, tunnel, reference or run in full."),
        Verb("site", short_help="Make pages from exported runs and published results."),
        Verb("testbed", short_help="Build a virtual router's image, or look inside."),
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, prog_name="tunnelbench", message="%(prog)s %(version)s")
def main() -> None:
    """Measure what a router can carry through a VPN tunnel, and what that costs it."""
