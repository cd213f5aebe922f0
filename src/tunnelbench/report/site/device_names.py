"""Finds the names that mean one device, and the CPU of a device whose publication does not state it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from tunnelbench.reference.devices import device_facts

_SEPARATOR = " / "
"""Stands between the board and its CPU in names such as `OpenWrt One / MT7981`."""
_CPU_NAME = re.compile(r"(?:AMD (?:EPYC|Ryzen)|Intel |Loongson-|Phytium D|Zhaoxin )")
"""Beginning of a name that is the name of a CPU, without a board."""


def known_cpu(device: str) -> str | None:
    """Return the CPU or system on a chip that a device's name states, or that is known of it; None: not known."""
    _, separator, cpu = device.partition(_SEPARATOR)
    if not separator:
        cpu = device if _CPU_NAME.match(device) else _cpus().get(device_key(device), "")
    return cpu.rstrip("* ") or None  # the star is a mark of the publication


@cache
def _cpus() -> Mapping[str, str]:
    return {device_key(fact.device): fact.cpu for fact in device_facts()}


_TP_LINK = re.compile(r"(?:tp-?link[ ,_-]+)?(?:tl-)?(wr|wdr)(\d+)(?:n/nd|nd|n)?[ ,_-]*v(\d+)")
"""Router of TP-Link in a table, in OpenWrt's name of the board (`tplink,tl-wr841-v9`), or on its label."""
_CLOCK = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?) ?([MG])Hz")


def device_key(name: str) -> str:
    """Return the same text for all names of one device.

    Case, spaces and the publication's star do not count. N and ND of a TP-Link router differ in the antennas alone. A
    board that was published with different CPUs is different devices.
    """
    folded = " ".join(name.lower().rstrip("* ").split())
    found = _TP_LINK.match(folded)
    return f"tp-link {found[1]}{found[2]} v{found[3]}" if found else folded


def clock_in_name(cpu: str) -> float | None:
    """Return the clock that the name of a CPU states [MHz]; None if it states none."""
    found = _CLOCK.search(cpu)
    return float(found[1]) * {"M": 1, "G": 1000}[found[2]] if found else None
