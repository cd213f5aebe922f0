"""Files of the kernel on a host that exists without the run: the former value is noted before a file is written."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from tunnelbench.host.host import Host


def set_noted(host: Host, path: str, value: str, noted: set[str], note: Callable[[str], None]) -> None:
    """Write a value into a kernel file, and first note the shell command that writes the former value back.

    `noted` has the files whose former value is noted already. A file that has the value is not written.
    """
    if path not in noted:
        before = host.read(path).strip()
        if before == value:
            return
        note(f"echo {shlex.quote(before)} >{shlex.quote(path)}; true")
        noted.add(path)
    host.run(["tee", path], stdin=value)
