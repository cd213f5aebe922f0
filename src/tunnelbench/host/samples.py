"""CPU times of another machine: read by its own script about once a second, fetched when the traffic is over.

docs/router-script.md has the format.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tunnelbench.host.command import Daemon
from tunnelbench.host.host import CpuReading, Samples
from tunnelbench.host.procfs import parse_stat
from tunnelbench.host.ssh import by_shell
from tunnelbench.model.errors import CannotHere

if TYPE_CHECKING:
    from tunnelbench.host.lent import LentHost

INTERVAL_S = 1
SYNCS = 3
"""How often the time there is asked for: the quickest answer counts."""

START_LIMIT_S = 10.0
TICK_S = 0.01
"""Of /proc, whatever the kernel's own (USER_HZ in include/asm-generic/param.h)."""

FORMAT = "samples 1 "


class RemoteSampler:
    """A sampler that runs on a lent host."""

    def __init__(self, host: LentHost, daemons: Sequence[Daemon], limit_s: float) -> None:
        self.host = host
        self.programs = {daemon.pid: daemon.name for daemon in daemons}
        self._samples: Samples | None = None
        self._path = host.folder / "samples"
        host.remove(self._path)
        self._ahead_s = self._clocks_apart()
        asked = [str(host.folder), str(INTERVAL_S), str(round(limit_s)), *map(str, self.programs)]
        sample = by_shell(host.script, "sample", *asked)
        started = host.run(by_shell(host.script, "start", str(host.folder), "sampler", *sample))
        self._pid = started.stdout.strip()
        deadline = time.monotonic() + START_LIMIT_S
        while not any(block.is_whole for block in parse_blocks(self._read())):
            if time.monotonic() > deadline:
                raise CannotHere(f"the {host.name} does not sample its CPUs: {self._said()}")
            time.sleep(0.1)

    def _clocks_apart(self) -> float:
        """This machine's monotonic clock less that one's time since boot [s]."""
        best: tuple[float, float] | None = None
        for _ in range(SYNCS):
            asked_s = time.monotonic()
            uptime_s = float(self.host.read("/proc/uptime").split()[0])
            took_s = time.monotonic() - asked_s
            if best is None or took_s < best[0]:
                best = took_s, asked_s + took_s / 2 - uptime_s
        if best is None:
            raise ValueError("SYNCS is at least one")
        return best[1]

    def _read(self) -> str:
        return self.host.run(["cat", str(self._path)], check=False).stdout

    def _said(self) -> str:
        said = self.host.run(["cat", str(self.host.folder / "sampler.log")], check=False).stdout
        return said.strip() or "it does not say why"

    def stop(self) -> Samples:
        if self._samples is None:
            self.host.run(["kill", self._pid], check=False)
            text = self._read()
            self.host.remove(Path(self._path))
            self._samples = parse_samples(text, self.programs, self._ahead_s)
        return self._samples


@dataclass
class Block:
    """The readings of one moment: lines by their file."""

    kind: str
    lines: dict[str, list[str]] = field(default_factory=dict)

    @property
    def uptimes_s(self) -> list[float]:
        return [float(line.split()[0]) for line in self.lines.get("/proc/uptime", [])]

    @property
    def is_whole(self) -> bool:
        return len(self.lines.get("/proc/uptime", [])) == 3


def parse_blocks(text: str) -> Iterator[Block]:
    """The blocks of a file of samples, one that was cut included."""
    block: Block | None = None
    for line in text.splitlines():
        if line.startswith("block "):
            if block:
                yield block
            block = Block(line.split()[1])
        elif block and line.startswith("/"):
            name, _, content = line.partition(":")
            block.lines.setdefault(name, []).append(content)
    if block:
        yield block


def parse_samples(text: str, programs: Mapping[int, str], ahead_s: float) -> Samples:
    """What a file of samples says.

    `programs` are the names of the watched processes; `ahead_s` is what is to be added to the machine's time since boot
    for this one's monotonic clock.
    """
    whole = [block for block in parse_blocks(text) if block.is_whole]
    own = re.search(r"^samples 1 .*\bpid (\d+)", text)
    readings = []
    for block in whole:
        if block.kind == "short":
            before_s, after_s, *_ = block.uptimes_s
            spent_s, method = _programs(block, programs)
            cpus = parse_stat("\n".join(block.lines["/proc/stat"]))
            readings.append(CpuReading((before_s + after_s) / 2 + ahead_s, cpus, spent_s, method))
    cost_s = None
    if own and len(whole) > 1:
        first, last = (_with_children_s(block.lines.get(f"/proc/{own[1]}/stat")) for block in (whole[0], whole[-1]))
        cost_s = last - first
    return Samples(tuple(readings), cost_s, text)


def _programs(block: Block, programs: Mapping[int, str]) -> tuple[dict[str, float] | None, str]:
    """CPU time of the watched programs by name [s], and the method: `schedstat` or `ticks`."""
    spent: dict[str, float] = {}
    method = ""
    for pid, name in programs.items():
        threads = [
            int(lines[0].split()[0]) / 1e9
            for file, lines in block.lines.items()
            if re.fullmatch(rf"/proc/{pid}/task/\d+/schedstat", file)
        ]
        if threads:
            method, own_s = "schedstat", sum(threads)
        else:
            method, own_s = "ticks", _ticks_s(block.lines.get(f"/proc/{pid}/stat"), 11, 12)
        spent[name] = spent.get(name, 0.0) + own_s
    return (spent, method) if programs else (None, "")


def _with_children_s(lines: list[str] | None) -> float:
    return _ticks_s(lines, 11, 12, 13, 14)


def _ticks_s(lines: list[str] | None, *fields: int) -> float:
    """The sum of some fields of /proc/PID/stat, counted from the one behind the name; 0 where the process is gone."""
    if not lines:
        return 0.0
    values = lines[0][lines[0].rindex(")") + 2 :].split()
    return sum(int(values[number]) for number in fields) * TICK_S
