"""Opens a page in the browser of the person who uses this machine. A browser never runs as root."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from tunnelbench.host.command import run_for_user
from tunnelbench.model.errors import CannotHere

OPENER = "xdg-open"
"""Program of the desktop that opens an address in the user's browser (Debian package xdg-utils)."""

SESSION_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_CURRENT_DESKTOP", "PATH", "LANG", "LC_ALL")
"""Environment variables of root that a browser of the user who called sudo gets, too."""

OPENER_REPORT_LIMIT_S = 2.0
"""Time in which the opener reports an error [s]. Some openers run until the browser ends."""


def calling_user() -> pwd.struct_passwd | None:
    """Return the user who started this program, directly or with sudo; None if that is root or unknown."""
    number = str(os.geteuid() or os.environ.get("SUDO_UID", ""))
    try:
        user = pwd.getpwuid(int(number))
    except (KeyError, ValueError):
        return None
    return user if user.pw_uid != 0 else None


def open_in_browser(address: str) -> str:
    """Open an address in the browser of the calling user. Return why that is not possible; empty if it is."""
    user = calling_user()
    if user is None:
        return "this is root, and a browser does not run as root"
    environment = dict(os.environ) if os.geteuid() else _environment_of(user)
    if not environment.get("DISPLAY") and not environment.get("WAYLAND_DISPLAY"):
        return "there is no graphical display"
    program = shutil.which(OPENER, path=environment.get("PATH"))
    if program is None:
        return f"{OPENER} is missing (Debian package xdg-utils)"
    identity = {} if os.geteuid() else _identity_of(user)
    try:
        status = run_for_user([program, address], environment, OPENER_REPORT_LIMIT_S, **identity)
    except CannotHere as error:
        return error.message
    return f"{OPENER} ended with status {status}" if status else ""


def _identity_of(user: pwd.struct_passwd) -> dict[str, object]:
    """Return the arguments with which root starts a process that has only the rights of a user."""
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}


def _environment_of(user: pwd.struct_passwd) -> dict[str, str]:
    """Return the environment of a user's session, as far as sudo leaves it to root."""
    kept = {name: os.environ[name] for name in SESSION_VARIABLES if name in os.environ}
    own = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    runtime = Path("/run/user") / str(user.pw_uid)
    if runtime.is_dir():
        own |= {"XDG_RUNTIME_DIR": str(runtime), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus"}
    return kept | own
