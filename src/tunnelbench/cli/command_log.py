"""The options `--log` and `-v`, which record each command that TunnelBench starts."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from tunnelbench import __version__
from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.command import log
from tunnelbench.host.trust import held_for_writing
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.text import printable

IS_VERBOSE = "tunnelbench.is_verbose"
"""Key of the click context's `meta`: True if the option -v was given."""

VerbT = TypeVar("VerbT", bound=Callable[..., Any])


def log_options(verb: VerbT) -> VerbT:
    """Add `--log FILE` and `-v` to a verb; its function gets no argument for them."""
    verb = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=_log_to_stderr,
        help="Print each command that TunnelBench starts to standard error.",
    )(verb)
    return click.option(
        "--log",
        metavar="FILE",
        expose_value=False,
        callback=_log_to_file,
        help="Append each command that TunnelBench starts to FILE, with host, status and duration.",
    )(verb)


def is_verbose() -> bool:
    """Return True if the current verb has the option -v."""
    context = click.get_current_context(silent=True)
    return context is not None and IS_VERBOSE in context.meta


def _log_to_stderr(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.meta[IS_VERBOSE] = True
        _add(context, StderrHandler())


def _log_to_file(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        _add(context, FileHandler(Path(value)))
        log.info("# tunnelbench %s %s", __version__, context.info_name)


def _add(context: click.Context, handler: logging.Handler) -> None:
    handler.setFormatter(LineFormatter())
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)

    def remove() -> None:
        log.removeHandler(handler)
        log.setLevel(level)
        handler.close()

    context.call_on_close(remove)


class LineFormatter(logging.Formatter):
    """A formatter that appends the time to the comment of each line, and escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        text = "\n".join(map(printable, record.getMessage().split("\n")))
        return f"{text}, {_moment(datetime.fromtimestamp(record.created, UTC))}"


class StderrHandler(logging.Handler):
    """A log handler that prints to standard error and ignores write errors."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


class FileHandler(logging.StreamHandler[IO[str]]):
    """A log handler that writes to a file. It reports the first error, and the verb continues without the log."""

    def __init__(self, path: Path) -> None:
        super().__init__(open_log(path))
        self.path = path

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 # the name is logging's
        del record
        log.removeHandler(self)
        say(f"tunnelbench: the log {self.path} cannot be written; it ends here")

    def close(self) -> None:
        with suppress(OSError):  # reported when it was written
            self.stream.close()
        super().close()


def open_log(path: Path) -> IO[str]:
    """Open a file for appending, readable by its owner alone.

    Raises CannotHere where it cannot be written or is not a file. Root follows no link, and writes into no file of
    another user: a user who may write to the folder could direct the log into any file of the machine.
    """
    is_root = os.geteuid() == 0
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | (os.O_NOFOLLOW if is_root else 0)
    try:
        with held_for_writing(path.parent / "log") as place:  # the folder, without a link at the end
            descriptor = os.open(place.with_name(path.name), flags, 0o600)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        code = getattr(error, "errno", None)
        why = "it is a link" if code == errno.ELOOP else getattr(error, "strerror", None) or str(error)
        raise _cannot(path, why) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        why = "it is not a file"
    elif is_root and (found.st_uid != 0 or found.st_nlink > 1):
        why = "it belongs to another user" if found.st_uid else "it has a second name (hard link)"
    else:
        with suppress(OSError):  # a file system without permissions, or a file that may only be appended to
            os.fchmod(descriptor, 0o600)
        try:
            return os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")
        except OSError as error:  # a file of /proc without an end
            why = error.strerror or str(error)
    os.close(descriptor)
    raise _cannot(path, why)


def _cannot(path: Path, why: str) -> CannotHere:
    return CannotHere(f"the log {printable(str(path))} cannot be opened: {why}", "name another file with --log")


def _moment(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
