"""Finds the CPU of a device in the device's name, where the publication gives no other place for it."""

from __future__ import annotations

import re

_SEPARATOR = " / "
"""Stands between the board and its CPU in names such as `OpenWrt One / MT7981`."""
_CPU_NAME = re.compile(r"(?:AMD (?:EPYC|Ryzen)|Intel |Loongson-|Phytium D|Zhaoxin )")
"""Beginning of a name that is the name of a CPU, without a board."""


def cpu_in_name(device: str) -> str | None:
    """Return the CPU or system on a chip that a device's name states; None if it states none."""
    _, separator, cpu = device.partition(_SEPARATOR)
    if not separator:
        cpu = device if _CPU_NAME.match(device) else ""
    return cpu.rstrip("* ") or None  # the star is a mark of the publication
