"""Finds the names that mean one device, and the facts of a device whose publication does not state them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tunnelbench.reference.devices import FactLine, cpu_lines, device_lines

_SEPARATOR = " / "
"""Stands between the board and its CPU in names such as `OpenWrt One / MT7981`."""
_CPU_NAME = re.compile(r"(?:AMD (?:EPYC|Ryzen)|Intel |Loongson-|Phytium D|Zhaoxin )")
"""Beginning of a name that is the name of a CPU, without a board."""
_TP_LINK = re.compile(r"(?:tp-?link[ ,_-]+)?(?:tl-)?(wr|wdr)(\d+)(?:n/nd|nd|n)?[ ,_-]*v(\d+)(?: / .*)?")
"""Router of TP-Link in a table, in OpenWrt's name of the board (`tplink,tl-wr841-v9`), or on its label."""
_WORDS_OF_LINUX = re.compile(r"\((?:r|tm)\)| cpu(?= @|$)| @ [\d.]+ghz$| (?:\d+-core )?processor$")
_CLOCK = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?) ?([MG])Hz")

FROM_PUBLICATION = "the publication"


@dataclass(frozen=True)
class KnownFact:
    """A fact about a device, and its source."""

    text: str
    source: str


def known_cpu(device: str) -> str | None:
    """Return the CPU or system on a chip that a device's name states, or that is known of it; None: not known."""
    _, separator, cpu = device.partition(_SEPARATOR)
    if not separator:
        line = _devices().get(device_key(device))
        cpu = device if _CPU_NAME.match(device) else line.facts.get("cpu", "") if line else ""
    return cpu.rstrip("* ") or None  # the star is a mark of the publication


def known_facts(device: str, cpu: str | None = None) -> Mapping[str, KnownFact]:
    """Return what is known of a device by the name of the fact; `cpu` is its CPU if its run or publication states it.

    Facts of the CPU hold for each device with that CPU. The name of a CPU may state its clock.
    """
    line = _devices().get(device_key(device))
    found: dict[str, KnownFact] = {}
    if line is not None:
        found = {name: KnownFact(text, line.source) for name, text in line.facts.items()}
    own = cpu or known_cpu(device)
    if own is None:
        return found
    found.setdefault("cpu", KnownFact(own, FROM_PUBLICATION))
    of_cpu = _cpus().get(cpu_key(own))
    if of_cpu is not None:
        kept = {name: text for name, text in of_cpu.facts.items() if name != "released"}
        found |= {name: KnownFact(text, of_cpu.source) for name, text in kept.items()}
        if _CPU_NAME.match(device) and "released" in of_cpu.facts:
            found["released"] = KnownFact(of_cpu.facts["released"], of_cpu.source)
    elif clock_mhz := clock_in_name(own):
        found["clock_mhz"] = KnownFact(f"{clock_mhz:g}", FROM_PUBLICATION)
    return found


def device_key(name: str) -> str:
    """Return the same text for all names of one device.

    Case, spaces and the publication's star do not count. N and ND of a TP-Link router differ in the antennas alone. A
    board that was published with different CPUs is different devices. `data/devices/devices.csv` has further names.
    """
    key = _own_key(name)
    return _same_devices().get(key, key)


def cpu_key(name: str) -> str:
    """Return the same text for all names of one CPU, which differ in case, package, or the maker's name."""
    folded = _folded_cpu(name)
    line = _cpus().get(folded)
    return folded if line is None else _folded_cpu(line.name)


def clock_of(device: str, cpu: str | None) -> float | None:
    """Return the clock of a device's CPU [MHz], as its name or a source of facts states it; None: not known."""
    fact = known_facts(device, cpu).get("clock_mhz")
    return clock_in_name(cpu or "") or (float(fact.text) if fact else None)


def clock_in_name(cpu: str) -> float | None:
    """Return the clock that the name of a CPU states [MHz]; None if it states none."""
    found = _CLOCK.search(cpu)
    return float(found[1]) * {"M": 1, "G": 1000}[found[2]] if found else None


def _folded(name: str) -> str:
    return " ".join(name.lower().rstrip("* ").split())


def _folded_cpu(name: str) -> str:
    """Return a CPU's name without the words that Linux adds to it, as in `Intel(R) Core(TM) i5-4590 CPU @ 3.30GHz`."""
    return " ".join(_WORDS_OF_LINUX.sub(" ", _folded(name)).split())


def _own_key(name: str) -> str:
    folded = _folded(name)
    found = _TP_LINK.fullmatch(folded)
    return f"tp-link {found[1]}{found[2]} v{found[3]}" if found else folded


@cache
def _same_devices() -> Mapping[str, str]:
    return {_own_key(other): _own_key(line.name) for line in device_lines() for other in line.other_names}


@cache
def _devices() -> Mapping[str, FactLine]:
    return {_own_key(line.name): line for line in device_lines()}


@cache
def _cpus() -> Mapping[str, FactLine]:
    return {_folded_cpu(name): line for line in cpu_lines() for name in (line.name, *line.other_names)}
