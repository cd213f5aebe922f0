"""The places where a virtual CPU of fixed speed executes its instructions: kernel functions, and files of programs.

A plugin of QEMU (instruction_counts.c), which is compiled for the run, counts the instructions of each block of code
by its address. /proc/kallsyms and /proc/PID/maps of the virtual machine give the addresses their names.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.command import run_command
from tunnelbench.host.parsing import parsing
from tunnelbench.host.programs import qemu_version, require_programs
from tunnelbench.model.counters import KERNEL, PLACE_SEPARATOR

SOURCE = Path(__file__).with_name("instruction_counts.c")
COMPILER = {"cc": "gcc libc6-dev"}
"""Program that compiles the plugin, with its Debian packages."""

PROFILE_KEY = "profile"
"""Key of a testbed file that asks for the profile."""

KERNEL_ITSELF = "vmlinux"
"""Stands for a module's name with functions that are not in a module."""

OTHER_PROGRAMS = "other programs"
UNKNOWN_PLACE = "unknown"

MOST_SYMBOLS = 1_000_000
MOST_NAME = 100
"""Largest length of a name in a place; longer names are cut."""

MOST_PLACES = 180
"""Number of places with the most instructions that are kept of a trial: with the others of each group, a report shows
all of them."""

LEAST_SHARE = 0.0005
"""Smallest share of all instructions with which a place is kept."""

OTHERS = "others"
"""Name of all places of a group that are not kept."""


def can_profile(program: str) -> bool:
    """Return if a program of QEMU was built with plugins. Raises CannotHere if there is no C compiler for ours."""
    if "-plugin " not in run_command([program, "-help"]).stdout:
        return False
    require_programs(COMPILER, f"the key {PROFILE_KEY}")
    return True


def compile_plugin(program: str, folder: Path) -> Path:
    """Compile the plugin for a program of QEMU in a folder, and return its path. Raises CannotHere if that fails."""
    library = folder / "instruction_counts.so"
    # QEMU refuses plugins for another version of its interface: 9.0 and later accept 2, earlier versions 1.
    version = 1 if int(re.match(r"\d{0,4}", qemu_version(program))[0] or 0) < 9 else 2  # type: ignore[index]
    options = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-DPLUGIN_VERSION={version}"]
    run_command(["cc", *options, "-o", str(library), str(SOURCE)])
    return library


def plugin_options(library: Path, counts: Path) -> list[str]:
    """Return QEMU's options that load the plugin; it writes the file `counts`."""
    return ["-plugin", f"file={library},counts={counts}"]


WORD_BYTES = 8


def read_counts(path: Path) -> tuple[Sequence[int], Sequence[int]]:
    """Return the address of each block that was executed, and the instructions executed there since QEMU's start.

    The first address stands for all blocks beyond the plugin's capacity; it is 0. Later readings have the same blocks,
    followed by new ones. Raises OSError without the file.
    """
    words = array("Q")
    with path.open("rb") as file:
        used = int.from_bytes(file.read(WORD_BYTES), sys.byteorder)
        words.frombytes(file.read(used * 2 * WORD_BYTES))
    return words[::2], words[1::2]


@dataclass(frozen=True)
class Symbols:
    """The names of address ranges of a virtual machine: each range begins at one of `starts` and ends at the next."""

    starts: Sequence[int]
    places: Sequence[str]

    def place_of(self, address: int) -> str:
        """Return the place of an address; empty: it is in no range."""
        number = bisect_right(self.starts, address)
        return self.places[number - 1] if number else ""


@parsing("/proc/kallsyms of the virtual router")
def parse_kernel_symbols(text: str) -> Symbols:
    """Parse the addresses of a kernel's functions. Raises CannotHere for a text that gives none."""
    found: dict[int, str] = {}
    for number, line in enumerate(text.splitlines()):
        if number == MOST_SYMBOLS:
            raise ValueError(f"more than {MOST_SYMBOLS} lines")
        words = line.split()
        if len(words) < 3 or words[1] not in "tTwW":
            continue
        module = words[3].strip("[]") if len(words) > 3 else KERNEL_ITSELF
        found.setdefault(int(words[0], 16), _place(KERNEL, module, words[2]))
    if not any(found):
        raise ValueError("it names no address")
    starts = sorted(found)
    return Symbols(starts, [found[start] for start in starts])


@parsing("/proc/PID/maps of the virtual router")
def parse_program_files(text: str, program: str) -> Symbols:
    """Parse the address ranges from which a program executes code (proc_pid_maps(5))."""
    ranges: list[tuple[int, str]] = []
    for line in text.splitlines()[:10_000]:
        words = line.split(maxsplit=5)
        if len(words) < 5 or "x" not in words[1]:
            continue
        first, _, last = words[0].partition("-")
        file = words[5].rsplit("/", 1)[-1] if len(words) == 6 else "memory"
        ranges += [(int(first, 16), _place(program, file)), (int(last, 16), "")]
    merged = dict(sorted(ranges, key=lambda each: (each[0], each[1] != "")))  # a range that begins where one ends wins
    return Symbols(list(merged), list(merged.values()))


def _place(*parts: str) -> str:
    return PLACE_SEPARATOR.join(re.sub(r"[^\w .()+\[\]-]", "_", part[:MOST_NAME], flags=re.ASCII) for part in parts)


@dataclass(frozen=True)
class AddressNames:
    """The places of all addresses of a virtual machine.

    Programs have address spaces of their own, so that an address can belong to several; the first of `programs` that
    has it counts.
    """

    kernel_start: int
    """First address of the kernel."""
    kernel: Symbols
    programs: Sequence[Symbols]

    def place_of(self, address: int) -> str:
        if not address:
            return UNKNOWN_PLACE
        if address >= self.kernel_start:
            return self.kernel.place_of(address) or _place(KERNEL, UNKNOWN_PLACE)
        return next(filter(None, (each.place_of(address) for each in self.programs)), OTHER_PROGRAMS)


class ProfileReader:
    """Reads the instructions by place since QEMU's start, from the plugin's file."""

    def __init__(self, counts: Path, names: AddressNames) -> None:
        self._counts = counts
        self._names = names
        self._places: list[str] = []
        """Place of each block of the file, as far as it was read."""

    def read(self) -> dict[str, int]:
        addresses, instructions = read_counts(self._counts)
        self._places += map(self._names.place_of, addresses[len(self._places) :])
        found = dict.fromkeys(self._places, 0)
        for place, number in zip(self._places, instructions, strict=True):
            found[place] += number
        return found


def shares(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, float]:
    """Return the share of all instructions that were executed at each place between two readings, largest first.

    Places with few instructions are put together by the first part of their names. The result is empty if no
    instruction was executed.
    """
    spent = {place: number - before.get(place, 0) for place, number in after.items()}
    total = sum(spent.values())
    found: dict[str, float] = {}
    for number, place in enumerate(sorted(spent, key=lambda place: (-spent[place], place))):
        if not spent[place]:
            break
        share = spent[place] / total
        kept = number < MOST_PLACES and share >= LEAST_SHARE
        name = place if kept or PLACE_SEPARATOR not in place else _place(place.split(PLACE_SEPARATOR)[0], OTHERS)
        found[name] = found.get(name, 0.0) + share
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
