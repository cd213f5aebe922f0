"""How fast ciphers and digests are by themselves: `openssl speed` on the machines of a testbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tunnelbench.model.result import Check, Verdict

BLOCK_BYTES = (16, 64, 256, 1024, 1420, 8192)
"""Those of `openssl speed`, and 1420: about what a full packet has for its cipher."""

PLAIN = "as it comes"
"""The acceleration of a measurement in which nothing was masked and no engine asked for."""

MASKED = "AES instructions masked"


@dataclass(frozen=True)
class CipherSpeed:
    """One algorithm on one machine, in one way."""

    machine: str
    """What the hosts are on, such as `this machine`."""
    hosts: tuple[str, ...]
    """The hosts of the testbed that are on it."""
    algorithm: str
    """As OpenSSL names it, in small letters."""
    acceleration: str
    """`PLAIN`, `MASKED`, or `engine NAME`."""
    threads: int
    """Processes side by side."""
    bytes_per_s: Mapping[int, float]
    """By block [bytes]; empty where it could not be measured."""
    reason: str = ""
    """Why there is no figure; empty where there is one."""
    flags: tuple[str, ...] = ()
    """What the CPU says that it has for ciphers and digests."""
    version: str = ""
    """Of OpenSSL."""
    tunnels: tuple[str, ...] = ()
    """Names of the plan's tunnels that use it."""
    seconds: int = 1
    """For each block."""
    raw: Mapping[str, str] = field(default_factory=dict)
    """What OpenSSL printed, by block."""
    bracket_s: float | None = None
    """From before the first block to after the last [s]; None: not recorded, as in runs of before this was."""
    foreign_cpu_s: float | None = None
    """What other people's processes used of the CPUs measured on, inside the bracket [s]; None: not recorded."""
    waited_for_quiet_s: float | None = None
    """Before it began [s]; None: it did not wait."""
    checks: tuple[Check, ...] = ()

    @property
    def is_doubtful(self) -> bool:
        """Whether a check says so."""
        return any(check.verdict is not Verdict.OK for check in self.checks)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is a measurement of."""
        return self.machine, self.algorithm, self.acceleration, self.threads
