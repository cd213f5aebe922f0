"""A private /run for programs that need files there. Otherwise, both ends of a tunnel share the /run of the machine."""

from __future__ import annotations

import time
from contextlib import ExitStack

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.daemon import deaths
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.tunnel.base import PROGRAM_START_LIMIT_S, End
from tunnelbench.tunnel.requirements import Requirement, program

FOLDER = "run"
"""Folder within the end's own folder; the program sees it as /run."""


def private_run(end: End, stack: ExitStack) -> list[str]:
    """Return the words before a command that make it see the end's folder `run` as /run, until the stack is closed.

    A sleeping process keeps the mount namespace in which that folder is mounted over /run; no other process sees it.
    """
    anchor = end.host.start(["unshare", "--mount", "--propagation", "private", "sleep", "infinity"])
    stack.callback(anchor.stop)
    deadline = time.monotonic() + PROGRAM_START_LIMIT_S
    while _program_of(end, anchor.pid) != "sleep":  # it has not yet unshared
        ended = deaths("while it made the mount", (end.host.name, [anchor]))
        if ended or time.monotonic() > deadline:
            reason = f"{ended} ({anchor.ending})" if ended else f"no mount in {PROGRAM_START_LIMIT_S:g} s"
            raise TunnelRefused(f"the {end.host.name} cannot be given a /run of its own: {reason}")
        time.sleep(0.005)
    # The root is entered, too: a guest's root is a chroot, and entering a mount namespace leaves it.
    enter = ["nsenter", f"--mount=/proc/{anchor.pid}/ns/mnt", f"--root=/proc/{anchor.pid}/root"]
    end.host.run([*enter, "mount", "--bind", str(end.host.folder / FOLDER), "/run"])
    return enter


def _program_of(end: End, pid: int) -> str:
    """Return the name of the program of a process; empty if the process has ended."""
    try:
        return end.host.read_machine(f"/proc/{pid}/comm").strip()
    except (OSError, CommandFailed):
        return ""


def private_run_programs() -> tuple[Requirement, ...]:
    """Return the requirements of `private_run`."""
    return tuple(program(name, "util-linux", openwrt=name) for name in ("unshare", "nsenter"))
