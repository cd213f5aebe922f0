"""The share of a CPU that a session of processes gets beside other sessions.

A kernel with autogroups shares a CPU between sessions first, whatever the nice values and policies of their processes
are (sched(7)).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

HIGHEST_NICE = -20
"""Nice value with which a program gets nearly all the time of a CPU that it shares with other programs."""

LOWEST_NICE = 19
"""Nice value with which a program gets little time of a CPU that it shares with other programs."""


def set_session_nice(pid: int, nice: int) -> None:
    """Give the session of a process a nice value beside other sessions, from -20 to 19.

    A kernel without autogroups has no such value, and nothing happens. Raises OSError if the system refuses it.
    """
    with suppress(FileNotFoundError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
