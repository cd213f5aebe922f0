"""Output of `openssl speed`: the table for people, or the lines of `-mr` for programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tunnelbench.model.errors import WrongInput
from tunnelbench.report.exchange.foreign.result import CIPHER_ALONE, ForeignResult, cell_text, figure_text

_MOST_BLOCKS = 20
_MOST_ALGORITHMS = 1000

_TABLE = re.compile(r"^[ \t]{0,40}The 'numbers' are in 1000s of bytes per second processed", re.MULTILINE)
_LINES = re.compile(r"^(?:Got: )?\+F:\d{1,3}:[^:\n]{1,60}:\d", re.MULTILINE)
_SPEED_CELL = re.compile(r"(\d{1,15}\.\d{1,9})(k?)")
"""A speed in the table: with `k` in 1000 bytes/s, else in bytes/s, which OpenSSL prints up to 10,000."""
_BLOCK = re.compile(r"\b(\d{1,9}) bytes\b")
_BLOCKS_FOR_PROGRAMS = re.compile(r"^(?:Got: )?\+H((?::\d{1,9})+)(?: from \d{1,9})?$")
_RATES_FOR_PROGRAMS = re.compile(r"^\+F:\d{1,3}:([^:\n]{1,60})((?::\d{1,15}(?:\.\d{1,9})?)+)$")
_VERSION = re.compile(r"^[ \t]{0,40}(?:version: (\d[\w.]{0,30})|(?:OpenSSL|LibreSSL) (\d[\w.]{0,30}) )", re.MULTILINE)
_FORKED = re.compile(r"^Forked child \d{1,6}$", re.MULTILINE)


def recognises(text: str) -> bool:
    """Return True if a text looks like the output of `openssl speed`."""
    return _TABLE.search(text) is not None or _LINES.search(text) is not None


def read(text: str) -> ForeignResult:
    """Return the speed of each algorithm by block size. Raises WrongInput if the block sizes are not stated."""
    version = _VERSION.search(text)
    library = f"OpenSSL {version[1] or version[2]}" if version else ""
    processes = len(_FORKED.findall(text))
    flags = [f"-multi {processes}"] if processes else []
    if "measure elapsed time instead of user CPU time" in text:
        flags.append("-elapsed")
    rows: list[dict[str, str]] = []
    for name, blocks, rates in _algorithms(text.splitlines()):
        if len(blocks) != len(rates):
            raise WrongInput(
                f"the block sizes of {name} are not in it", "save the whole output: openssl speed ... > FILE 2>&1"
            )
        if len(rows) >= _MOST_ALGORITHMS:
            raise WrongInput(f"it has more than {_MOST_ALGORITHMS} algorithms", "remove those that no tunnel uses")
        speeds = {
            f"kbytes_per_s_{block}": figure_text(rate / 1000, f"the speed of {name}")
            for block, rate in zip(blocks, rates, strict=True)
            if rate  # OpenSSL prints 0 for a block that it could not measure
        }
        rows.append({"cipher": cell_text(name), "library": library, "flags": " ".join(flags), **speeds})
    return ForeignResult(
        program=library or "OpenSSL",
        title="Speed of ciphers alone, by block size",
        method="openssl speed, in units of 1000 bytes/s; no network and no tunnel.",
        rows=tuple(rows),
        comparability=CIPHER_ALONE,
        needs=("device",),
    )


def _algorithms(lines: Sequence[str]) -> Iterator[tuple[str, Sequence[int], Sequence[float]]]:
    """Yield each algorithm with its block sizes [bytes] and its rates [bytes/s]."""
    blocks: Sequence[int] = ()
    for line in map(str.strip, lines):  # whoever pasted it into a page may have indented it
        if line.startswith("type "):
            blocks = [int(found) for found in _BLOCK.findall(line)][:_MOST_BLOCKS]
        elif found := _BLOCKS_FOR_PROGRAMS.match(line):
            blocks = [int(each) for each in found[1][1:].split(":")][:_MOST_BLOCKS]
        elif found := _RATES_FOR_PROGRAMS.match(line):
            yield found[1], blocks, [float(each) for each in found[2][1:].split(":")]
        else:
            words = line.split()
            count = len(blocks) or 1
            cells = [_SPEED_CELL.fullmatch(word) for word in words[-count:]]
            rates = [float(cell[1]) * (1000 if cell[2] else 1) for cell in cells if cell]
            is_speed = len(rates) == count < len(words) and any(cell[2] for cell in cells if cell)
            if is_speed:
                yield " ".join(words[:-count]), blocks, rates
