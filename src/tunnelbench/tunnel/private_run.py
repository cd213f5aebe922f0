"""A /run of its own for a program that insists on files there: both ends of a tunnel share the machine's."""

from __future__ import annotations

import time
from contextlib import ExitStack

from tunnelbench.model.errors import TunnelRefused
from tunnelbench.tunnel.base import START_LIMIT_S, End, Requirement, program

FOLDER = "run"
"""Within the end's own folder; what is written there, the program finds in /run."""


def private_run(end: End, stack: ExitStack) -> list[str]:
    """The words before a command by which it sees the end's folder `run` as /run, until the stack is closed.

    A sleeping process keeps the mount namespace in which that folder lies over /run; nothing else sees the mount.
    """
    anchor = end.host.start(["unshare", "--mount", "--propagation", "private", "sleep", "infinity"])
    stack.callback(anchor.stop)
    deadline = time.monotonic() + START_LIMIT_S
    while end.host.read_machine(f"/proc/{anchor.pid}/comm").strip() != "sleep":  # it has not yet unshared
        if not anchor.is_running or time.monotonic() > deadline:
            raise TunnelRefused(f"the {end.host.name} cannot be given a /run of its own: {anchor.last_line()}")
        time.sleep(0.005)
    # The root, too: entering a mount namespace leaves a chroot, which is what a guest's root is.
    enter = ["nsenter", f"--mount=/proc/{anchor.pid}/ns/mnt", f"--root=/proc/{anchor.pid}/root"]
    end.host.run([*enter, "mount", "--bind", str(end.host.folder / FOLDER), "/run"])
    return enter


def private_run_programs() -> tuple[Requirement, ...]:
    """What it needs."""
    return (program("unshare", "util-linux"), program("nsenter", "util-linux"))
