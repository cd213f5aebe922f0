"""A virtual CPU of fixed speed: QEMU counts its instructions, and each takes the same time (`-icount`).

QEMU lets such a CPU sleep when its clock is ahead of this machine's. If this machine is too slow for the speed, the
clock of the virtual machine falls behind.
"""

from __future__ import annotations

import json
import re
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tunnelbench.host.parsing import count, json_of, parsing
from tunnelbench.model.errors import CannotHere

MOST_SHIFT = 10
"""Largest N of QEMU's `-icount shift=N` (MAX_ICOUNT_SHIFT in softmmu/icount.c)."""

SPEEDS_MIPS: tuple[float, ...] = tuple(1000 / (1 << shift) for shift in range(MOST_SHIFT + 1))
"""Speeds that QEMU can hold [million instructions per second]: an instruction takes 2^N ns."""

CLOCK_AHEAD = timedelta(days=1)
"""The date of the virtual machine at its start, minus this machine's. Its clock loses time while it waits for this
machine, and a certificate that was made here would not be valid there yet."""

MONITOR_LIMIT_S = 10.0
"""Time limit of an answer of QEMU's monitor [s]."""


def nearest_speed(mips: float) -> float:
    """Return the speed of SPEEDS_MIPS that is nearest to another one."""
    return min(SPEEDS_MIPS, key=lambda speed: abs(speed - mips))


def speed_options(mips: float, monitor: Path) -> list[str]:
    """Return QEMU's options for a CPU with one of SPEEDS_MIPS and for a monitor on a socket with that path."""
    date = datetime.now(UTC) + CLOCK_AHEAD
    # fmt: off
    return [
        "-icount", f"shift={SPEEDS_MIPS.index(mips)},align=on",
        # A kernel measures the frequency of its CPU with the clock of the board, which must lose the same time.
        "-rtc", f"clock=vm,base={date:%Y-%m-%dT%H:%M:%S}",
        "-qmp", f"unix:{monitor},server=on,wait=off",
    ]
    # fmt: on


@dataclass(frozen=True)
class MachineWork:
    """The work of a virtual CPU since the start of QEMU, read at one moment."""

    clock_s: float
    """Time on this machine's monotonic clock [s]."""
    busy_s: float
    """Time for which the virtual CPU was busy [s]."""
    instructions: int | None = None
    """Number of instructions; None without a fixed speed."""
    lag_s: float | None = None
    """Time by which the machine's clock is behind this machine's [s]; None without a fixed speed."""


class Monitor:
    """A connection to the monitor (QMP) of a QEMU whose CPU has a fixed speed."""

    def __init__(self, path: Path, speed_mips: float) -> None:
        self._path = path
        self._speed_mips = speed_mips
        try:
            self._connect()
        except OSError as error:
            raise CannotHere(f"QEMU's monitor does not answer: {error}") from None

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(MONITOR_LIMIT_S)
        self._lines = self._socket.makefile("rw")
        try:
            self._socket.connect(str(self._path))
            self._lines.readline()  # the greeting
            self._ask("qmp_capabilities")
        except OSError:
            self.close()
            raise

    def work(self) -> MachineWork:
        """Read the number of instructions and the lag of the clock.

        Raises OSError if QEMU has ended, or does not answer twice. A connection on which an answer was late cannot be
        used again.
        """
        try:
            return self._work()
        except TimeoutError:
            self.close()
            self._connect()
            return self._work()

    def _work(self) -> MachineWork:
        counted = self._ask("query-replay")
        clock_s = time.monotonic()
        printed = self._ask("human-monitor-command", **{"command-line": "info jit"})
        return parse_work(clock_s, counted, printed, self._speed_mips)

    def close(self) -> None:
        with suppress(OSError):  # what is still to be written
            self._lines.close()
        self._socket.close()

    def _ask(self, command: str, **arguments: str) -> Any:
        self._lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._lines.flush()
        while (line := self._lines.readline()).endswith("\n"):  # otherwise QEMU has ended, maybe within an answer
            with parsing("an answer of QEMU's monitor"):
                answer = json_of(line, dict)
            if "event" not in answer:
                return answer.get("return")
        raise ConnectionResetError("QEMU has ended")


@parsing("the instruction count of QEMU's monitor")
def parse_work(clock_s: float, counted: Any, printed: Any, speed_mips: float) -> MachineWork:
    """Parse the answers to `query-replay` and to `info jit`, which prints the lag of the clock in milliseconds."""
    found = re.search(r"^Host - Guest clock +(-?\d{1,12}) ms", printed, re.MULTILINE)
    if found is None:
        raise ValueError(f"no clock in {printed[-60:]!r}")
    instructions = count(counted["icount"])
    return MachineWork(clock_s, instructions / speed_mips / 1e6, instructions, int(found[1]) / 1000)
