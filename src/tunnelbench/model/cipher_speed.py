"""Speed of single ciphers and digests: `openssl speed` on the machines of a testbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tunnelbench.model.result import Check, Verdict

BLOCK_BYTES = (16, 64, 256, 1024, 1420, 8192)
"""Block sizes of `openssl speed`, and 1420, which is about the content of a full packet [bytes]."""

PLAIN = "as it comes"
"""Value of `acceleration` for a measurement with all CPU instructions and without an offload engine."""

MASKED = "AES instructions masked"


@dataclass(frozen=True)
class CipherSpeed:
    """The speed of one algorithm on one machine with one acceleration."""

    machine: str
    """Name of the machine, such as `this machine`."""
    hosts: tuple[str, ...]
    """Hosts of the testbed that are on this machine."""
    algorithm: str
    """OpenSSL's name of the algorithm, in small letters."""
    acceleration: str
    """`PLAIN`, `MASKED`, or `engine NAME`."""
    threads: int
    """Number of processes that run in parallel."""
    bytes_per_s: Mapping[int, float]
    """Bytes per second by block size [bytes]; empty if the measurement failed."""
    reason: str = ""
    """Reason for which there is no figure; empty if there is one."""
    flags: tuple[str, ...] = ()
    """CPU flags for ciphers and digests."""
    version: str = ""
    """Version of OpenSSL."""
    tunnels: tuple[str, ...] = ()
    """Names of the plan's tunnels that use the algorithm."""
    seconds: int = 1
    """Duration of the measurement of each block [s]."""
    raw: Mapping[str, str] = field(default_factory=dict)
    """Output of OpenSSL by block."""
    bracket_s: float | None = None
    """Duration of the whole measurement, from before the first block size to after the last one [s]; None: not
    recorded."""
    foreign_cpu_s: float | None = None
    """CPU time of other processes on the measured CPUs within `bracket_s` [s]; None: not recorded."""
    waited_for_quiet_s: float | None = None
    """Time that the measurement waited for background load to end [s]; None: it did not wait."""
    checks: tuple[Check, ...] = ()

    @property
    def is_doubtful(self) -> bool:
        """True if a check is not `ok`."""
        return any(check.verdict is not Verdict.OK for check in self.checks)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Return machine, algorithm, acceleration and threads; a run has one speed for each such key."""
        return self.machine, self.algorithm, self.acceleration, self.threads
