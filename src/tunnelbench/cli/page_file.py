"""Writes the page of a run for `--open`, prints a link to it, and opens it in the browser where there is one."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from tunnelbench.cli.stderr_messages import say
from tunnelbench.host.browser import calling_user, open_in_browser
from tunnelbench.model.errors import CannotHere


def show_page(run_id: str, text: str) -> None:
    """Write the page of a run into the current folder, print a link to it, and open it in the user's browser."""
    address = write_page(f"tunnelbench-{run_id}.html", text).as_uri()
    say(f"tunnelbench: the page of the run is in {address}")
    if obstacle := open_in_browser(address):
        say(f"tunnelbench: no browser was started, because {obstacle}. Open the link in a browser.")


def write_page(name: str, text: str) -> Path:
    """Write a page to a new file that belongs to the calling user, and return its path.

    The file is in the current folder. If the user who called sudo does not own that folder, or no such file can be made
    there, it is in a new folder for temporary files. Raises CannotHere if no file can be written.
    """
    user = calling_user()
    with suppress(OSError):  # the current folder may not exist any more
        if os.geteuid() or user is None or Path.cwd().stat().st_uid == user.pw_uid:
            return _write_new(Path.cwd() / name, text)
    try:
        folder = Path(tempfile.mkdtemp(prefix="tunnelbench-"))
        try:
            path = _write_new(folder / name, text)
            _give_to_caller(folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
    except OSError as error:
        raise CannotHere(
            f"the page {name} cannot be written: {error.strerror}",
            "make room, and write it with tunnelbench report --format html -o FILE",
        ) from None
    return path


def _write_new(path: Path, text: str) -> Path:
    """Write a file that does not exist yet, whole or not at all. A link that another user made is not followed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            _give_to_caller(descriptor)
    except BaseException:
        path.unlink()
        raise
    return path


def _give_to_caller(file: int | Path) -> None:
    """Make the user who called sudo the owner, whose browser must be able to read the file."""
    user = calling_user()
    if user is not None and os.geteuid() == 0:
        os.chown(file, user.pw_uid, user.pw_gid)
