"""Files of the kernel on a host that exists without the run: the former value is noted before a file is written."""

from __future__ import annotations

from collections.abc import Callable

from tunnelbench.host.host import Host


def set_noted(host: Host, path: str, value: str, noted: set[str], note: Callable[[str, str], None]) -> None:
    """Write a value into a kernel file, and first pass its path and its former value to `note`.

    `noted` has the files whose former value is noted already. A file that has the value is not written.
    """
    if path not in noted:
        before = host.read(path).strip()
        if before == value:
            return
        note(path, before)
        noted.add(path)
    host.run(["tee", path], stdin=value)
