"""The command line: one module for each verb. Only this package prints, or turns an error into an exit code.

`tunnelbench --help` must answer within 150 ms, so a verb's module is imported only when the verb is used.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import signal
import stat
import sys
import warnings
from pathlib import Path
from traceback import format_exception, walk_tb
from types import FrameType, TracebackType
from typing import Any, NoReturn

import click

from tunnelbench import __version__
from tunnelbench.cli.help_format import HelpFormat
from tunnelbench.cli.stderr_messages import lost_output, report_error, say, send_to_nowhere, shout
from tunnelbench.host.signals import REPEAT, AskedToEnd, ask_again, asking_to_end, undisturbed
from tunnelbench.model.errors import CannotHere, ExitCode, UserError, WrongInput

PROGRAM = "tunnelbench"

OBJECTS_PER_COLLECTION = 50_000
"""Number of new objects after which Python looks for cycles. At its default of 700, a quarter of the time of reading a
run of 20,000 trials was spent in this way."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a file system that is full. Any file can meet them, so they are answered here."""

NO_RESOURCE = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files of the machine (sysctl fs.file-max)",
    errno.EFBIG: "raise the limit of the size of files (ulimit -f)",
    errno.ENOMEM: "end other programs, or raise the limit of memory (ulimit -v, memory.max of the container)",
}
"""Hints for errors of the kernel that any part of the program can meet."""

NO_THREAD = "can't start new thread"
"""Python's message if the kernel refuses a thread. Any part of the program may need one."""

EXIT_CODES = (
    "Exit status: 0 done; 1 a check or comparison failed; 2 wrong input; 3 not possible here, or nothing was measured; "
    "75 the store does not answer: try again later; 130 Ctrl-C; 143 SIGTERM."
)


def choose_colour(_context: click.Context, _option: click.Parameter, when: str | None) -> None:
    """Apply --color to the environment, which `common_options.has_colour` reads; `auto` leaves it as it is."""
    if when in {"always", "never"}:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            os.environ.pop(name, None)
        os.environ["FORCE_COLOR" if when == "always" else "NO_COLOR"] = "1"


COLOUR_OPTION = click.Option(
    ["--color"],
    type=click.Choice(["auto", "always", "never"]),
    callback=choose_colour,
    expose_value=False,
    help="Colours in the output; auto: on a terminal. NO_COLOR and FORCE_COLOR are obeyed.",
)


class Verb(click.Command):
    """A placeholder for a verb, with its name and short help; imports `tunnelbench.cli.<name>` when the verb is used.

    The attribute `command` of the imported module is the real click command.
    """

    def load(self) -> click.Command:
        with undisturbed:  # libraries that are imported may turn the exception of a signal into an error of their own
            command: click.Command = importlib.import_module(f"{__name__}.{self.name}").command
        if COLOUR_OPTION not in command.params:
            command.params.append(COLOUR_OPTION)
        command.epilog = EXIT_CODES
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        command = self.load()
        context = command.make_context(*args, **kwargs)
        for parameter in command.params:
            require_value(context, parameter)
        return context


def require_value(context: click.Context, parameter: click.Parameter) -> None:
    """Raises WrongInput if a value is empty, such as that of an unset variable of a shell.

    Without this check, a default would take its place: another plan, testbed or store than the user meant.
    """
    value = context.params.get(parameter.name or "")
    if value == "" or (isinstance(value, tuple) and "" in value):
        name = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
        raise WrongInput(f"{name}: the name is empty", "give a name, or leave it out")


class Verbs(click.Group):
    """The group of all verbs; turns a user's error into a sentence, a hint and an exit code."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line in this process; signals can ask it to end. Tests within a process call `main`."""
        gc.set_threshold(OBJECTS_PER_COLLECTION)
        try:
            listen_to_signals()
            return super().__call__(*args, **kwargs)
        except AskedToEnd:  # a signal came before `main` could catch it
            end_as_asked()

    def main(self, *args: Any, **kwargs: Any) -> Any:
        fill_missing_streams()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                end_in_peace()
        except (OSError, MemoryError, RuntimeError) as error:
            if isinstance(error.__cause__, AskedToEnd):  # Python 3.11 replaces an exception in `__set_name__`
                end_as_asked()
            if (shortage := explained(error)) is None:
                raise
            report_error(shortage)
            sys.exit(ExitCode.CANNOT)
        except AskedToEnd:
            end_as_asked()

    def invoke(self, ctx: click.Context) -> Any:
        report_warnings()
        leave_untrusted_folders()
        os.umask(os.umask(0o077) | stat.S_IWOTH)  # no file or folder of this process is writable for everybody
        try:
            return super().invoke(ctx)
        except UserError as error:
            end_in_peace()  # also if a signal came first: the error says what could not be taken down
            report_error(error)
            ctx.exit(error.exit_code)


def explained(error: OSError | MemoryError | RuntimeError) -> CannotHere | None:
    """Return the message for an error that any part of the program can meet; None for a bug."""
    if isinstance(error, MemoryError):
        return CannotHere("there is not enough memory", NO_RESOURCE[errno.ENOMEM])
    if isinstance(error, RuntimeError):
        hint = "raise the limits of processes and of memory (ulimit -u, ulimit -v, pids.max of the container)"
        return CannotHere("no thread can be started", hint) if NO_THREAD in str(error) else None
    if any(frame.f_code is click.echo.__code__ for frame, _ in walk_tb(error.__traceback__)):
        send_to_nowhere(sys.stdout, error)  # the output is the reason, whichever part of the program wrote it
        return lost_output()
    if error.errno in NO_RESOURCE:
        return CannotHere(f"the system has refused a resource: {error.strerror}", NO_RESOURCE[error.errno])
    hint = "`df /run /tmp` and `df` of the folder of the store show what is full; make room there"
    if is_without_temporary_folder(error):
        return CannotHere(str(error.strerror), hint)
    if error.errno in NO_ROOM:
        return CannotHere(f"{error.filename or 'a file'} cannot be written: {error.strerror}", hint)
    return None


def is_without_temporary_folder(error: OSError) -> bool:
    """Return True if Python found no folder for temporary files, because all of them are full or read-only."""
    return error.errno == errno.ENOENT and error.filename is None and "temporary directory" in str(error.strerror)


def report_warnings() -> None:
    """Print warnings of the logs through `say`; otherwise, Python would print them as they are."""
    import logging  # noqa: PLC0415 # --help must not wait for it

    from tunnelbench.cli.command_log import StderrHandler  # noqa: PLC0415 # the same

    logger = logging.getLogger("tunnelbench")
    if not logger.handlers:
        handler = StderrHandler(logging.WARNING)
        handler.setFormatter(logging.Formatter("tunnelbench: %(message)s"))
        logger.addHandler(handler)
        logging.lastResort = handler  # for libraries, which may quote a file or a server


USER_PROGRAMS, SYSTEM_PROGRAMS = "/usr/bin", "/usr/sbin"


def leave_untrusted_folders() -> None:
    """Take folders out of PATH in which another user could put a program that root would start.

    /usr/sbin follows /usr/bin: the PATH of cron lacks it, and it has `tc`. Without a PATH, both are searched.
    """
    from tunnelbench.host.trust import trusted_search_path  # noqa: PLC0415 # --help must not wait for it

    folders = os.environ.get("PATH", USER_PROGRAMS).split(os.pathsep)
    if USER_PROGRAMS in folders and SYSTEM_PROGRAMS not in folders:
        folders.append(SYSTEM_PROGRAMS)
    os.environ["PATH"], faults = trusted_search_path(os.pathsep.join(folders))
    for fault in faults:
        say(f"tunnelbench: {fault}")


def listen_to_signals() -> None:
    """Install handlers, so that each signal that asks the program to end raises AskedToEnd from now on."""
    AskedToEnd.is_repeated = True
    sys.unraisablehook = silent_if_asked
    sys.excepthook = print_traceback
    warnings.showwarning = print_warning
    atexit.register(end_in_peace)
    for number in (*asking_to_end(), REPEAT):
        signal.signal(number, asked_to_end)


def asked_to_end(number: int, frame: FrameType | None) -> None:
    """Raise AskedToEnd, so that a run takes its testbed down. A second signal does not interrupt the removal."""
    if number != REPEAT:
        AskedToEnd.number = number
    if undisturbed.is_beginning(frame):
        ask_again()
        return
    for other in asking_to_end():
        signal.signal(other, already_ending)
    if AskedToEnd.number != signal.SIGINT:
        shout("tunnelbench: stopping because of a signal")
    raise AskedToEnd


def already_ending(_number: int, _frame: FrameType | None) -> None:
    """Answer a second signal: print that the program is already stopping."""
    shout("tunnelbench: the testbed is being removed, please wait")


def print_traceback(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print the traceback of a bug without control characters: the error may quote a file or a server."""
    say("".join(format_exception(kind, error, traceback)).rstrip())


def print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning of a library, which may quote a file or a server, without control characters."""
    say(f"tunnelbench: {message}")


def silent_if_asked(lost: sys.UnraisableHookArgs) -> None:
    """Report an exception that Python drops, except AskedToEnd, which is raised again."""
    if not isinstance(lost.exc_value, AskedToEnd):
        sys.__unraisablehook__(lost)


def end_in_peace() -> None:
    """Ignore signals while Python ends: the testbed is already removed, and a signal would change the exit status."""
    if not AskedToEnd.is_repeated:
        return
    for number in (*asking_to_end(), REPEAT):
        signal.signal(number, signal.SIG_IGN)
    AskedToEnd.is_repeated = False


def end_as_asked() -> NoReturn:
    """End the program because a signal asked for it; before the call, the run has already taken its testbed down."""
    end_in_peace()
    if AskedToEnd.number == signal.SIGINT:
        say("tunnelbench: interrupted")
        sys.exit(ExitCode.INTERRUPTED)
    sys.exit(ExitCode.TERMINATED)


def fill_missing_streams() -> None:
    """Replace each closed standard stream by /dev/null: Python sets it to None, and writing to None fails."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 # it stays open until Python ends


@click.group(
    cls=Verbs,
    commands=[
        Verb("audit", short_help="Check if the figures of a published table agree with each other."),
        Verb("campaign", short_help="Submit and evaluate plans on several racks together."),
        Verb("cancel", short_help="Cancel a job of a rack."),
        Verb("check", short_help="List every error in plan and testbed files."),
        Verb("clean", short_help="Remove what killed or kept runs left behind."),
        Verb("compare", short_help="Compare two runs or published results."),
        Verb("completion", short_help="Write the completion script for bash, zsh or fish."),
        Verb("contribute", short_help="Check a run, and write it for the results of the project."),
        Verb("devices", short_help="Rank devices by their published and measured throughput."),
        Verb("doctor", short_help="List what a run needs, what is missing, and how to fix it."),
        Verb("export", short_help="Write a run as one file to share, without names."),
        Verb("help", short_help="Explain a verb, as --help does."),
        Verb("history", short_help="List the figures of a testbed, run by run."),
        Verb("import", short_help="Store a run from a file that `export` wrote."),
        Verb("jobs", short_help="List the jobs of racks."),
        Verb("list", short_help="List plans, testbeds, tunnels, references or runs."),
        Verb("man", short_help="Write the manual pages into a folder."),
        Verb("report", short_help="Write a run's results as a table, a page, CSV or JSON."),
        Verb("retry", short_help="Let a failed or cancelled job of a rack wait again."),
        Verb("run", short_help="Measure a plan on a testbed, and print the table."),
        Verb("schema", short_help="Write the JSON Schema of a JSON output."),
        Verb("serve", short_help="Show runs and racks in a browser while they are measured."),
        Verb("show", short_help="Show a plan, tunnel, testbed, reference or run in full."),
        Verb("site", short_help="Make a web site from exported runs and published results."),
        Verb("submit", short_help="Submit a plan as jobs for racks."),
        Verb("testbed", short_help="Build a virtual router's image, or open a shell on it."),
        Verb("worker", short_help="Run the jobs for the testbeds of this machine."),
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, "-V", "--version", prog_name=PROGRAM, message="%(prog)s %(version)s")
def main() -> None:
    """Measure what a router can carry through a VPN tunnel, and what that costs it."""


click.Context.formatter_class = HelpFormat
main.params.append(COLOUR_OPTION)
main.epilog = f"{EXIT_CODES} The first run: sudo tunnelbench run."
