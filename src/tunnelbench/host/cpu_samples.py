"""Samples CPU times on another machine: a script there reads them once a second; they are fetched after the traffic.

The format is described in docs/router-script.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tunnelbench.host.command import last_lines
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import CpuReading, SamplerOutput
from tunnelbench.host.parsing import UnexpectedOutput, count, number, parsing
from tunnelbench.host.procfs import parse_stat, stat_fields
from tunnelbench.host.ssh_programs import PROCESS_NUMBER, by_shell
from tunnelbench.model.errors import CannotHere

if TYPE_CHECKING:
    from tunnelbench.host.leased_host import LeasedHost

SAMPLE_INTERVAL_S = 1
CLOCK_READINGS = 3
"""Number of readings of the other machine's clock; the one with the shortest round trip counts."""

SAMPLER_START_LIMIT_S = 10.0
"""Limit for the sampler's first sample [s]."""

USER_TICK_S = 0.01
"""Tick of /proc on every machine [s], independent of the kernel's own tick (USER_HZ in include/asm-generic/param.h)."""


class RemoteSampler:
    """A sampler that runs on a leased host."""

    def __init__(self, host: LeasedHost, daemons: Sequence[Daemon], limit_s: float) -> None:
        self.host = host
        self.programs = {daemon.pid: daemon.name for daemon in daemons}
        self._samples: SamplerOutput | None = None
        self._path = host.folder / "samples"
        host.remove(self._path)
        self._ahead_s = self._clock_offset_s()
        asked = [str(host.folder), str(SAMPLE_INTERVAL_S), str(round(limit_s)), *map(str, self.programs)]
        sample = by_shell(host.script, "sample", *asked)
        started = host.run(by_shell(host.script, "start", str(host.folder), "sampler", *sample))
        self._pid = started.stdout.strip()
        if not PROCESS_NUMBER.fullmatch(self._pid):
            raise CannotHere(f"the {host.name} gives no number of its CPU sampler: {last_lines(started.stdout)}")
        deadline = time.monotonic() + SAMPLER_START_LIMIT_S
        while not any(block.is_whole for block in parse_blocks(self._read())):
            if time.monotonic() > deadline:
                raise CannotHere(f"the {host.name} does not sample its CPUs: {self._output()}")
            time.sleep(0.1)

    def _clock_offset_s(self) -> float:
        """Return this machine's monotonic clock minus the other machine's time since boot [s]."""
        best: tuple[float, float] | None = None
        for _ in range(CLOCK_READINGS):
            started_s = time.monotonic()
            shown = self.host.read("/proc/uptime")
            found = re.match(r"\d{1,12}(\.\d{1,9})?(?= )", shown)
            if found is None:
                raise CannotHere(f"/proc/uptime of the {self.host.name} holds no time: {shown[:60]!r}")
            uptime_s = float(found[0])
            took_s = time.monotonic() - started_s
            if best is None or took_s < best[0]:
                best = took_s, started_s + took_s / 2 - uptime_s
        if best is None:
            raise ValueError("CLOCK_READINGS is at least one")
        return best[1]

    def _read(self) -> str:
        return self.host.run(["cat", str(self._path)], check=False).stdout

    def _output(self) -> str:
        output = self.host.run(["cat", str(self.host.folder / "sampler.log")], check=False).stdout
        return last_lines(output)

    def mark_open(self) -> float:
        """Do nothing: the other machine reads at its own times."""
        return 0.0

    def mark_close(self) -> None:
        """Do nothing: the other machine reads at its own times."""

    def stop(self) -> SamplerOutput:
        if self._samples is None:
            self.host.run(["kill", self._pid], check=False)
            text = self._read()
            self.host.remove(Path(self._path))
            try:
                self._samples = parse_samples(text, self.programs, self._ahead_s)
            except UnexpectedOutput:  # such as a /proc of another kernel: a trial without samples is void
                self._samples = SamplerOutput((), None, text)
        return self._samples


@dataclass
class SampleBlock:
    """The lines of /proc that a sampler read at one moment, by file."""

    kind: str
    lines: dict[str, list[str]] = field(default_factory=dict)

    @property
    def uptimes_s(self) -> list[float]:
        return [number(line.split()[0]) for line in self.lines.get("/proc/uptime", [])]

    @property
    def is_whole(self) -> bool:
        return len(self.lines.get("/proc/uptime", [])) == 3


def parse_blocks(text: str) -> Iterator[SampleBlock]:
    """Yield the blocks of a file of samples; the last one may be incomplete."""
    block: SampleBlock | None = None
    for line in text.splitlines():
        if line.startswith("block "):
            if block:
                yield block
            block = SampleBlock(line.removeprefix("block ").strip())
        elif block and line.startswith("/"):
            name, _, content = line.partition(":")
            block.lines.setdefault(name, []).append(content)
    if block:
        yield block


@parsing("the file of CPU samples")
def parse_samples(text: str, programs: Mapping[int, str], ahead_s: float) -> SamplerOutput:
    """Parse a file of samples.

    `programs` are the names of the watched processes by their number; `ahead_s` is added to the machine's time since
    boot to get this machine's monotonic clock [s].
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
    return SamplerOutput(tuple(readings), cost_s, text)


def _programs(block: SampleBlock, programs: Mapping[int, str]) -> tuple[dict[str, float] | None, str]:
    """Return the CPU time of the watched programs by name [s], and the method: `schedstat` or `ticks`."""
    spent: dict[str, float] = {}
    method = ""
    for pid, name in programs.items():
        threads = [
            count(lines[0].split()[0]) / 1e9
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
    """Return the sum of some fields of /proc/PID/stat, counted after the name [s]; 0 if the process ended."""
    if not lines:
        return 0.0
    values = stat_fields(lines[0])
    return sum(count(values[place]) for place in fields) * USER_TICK_S
