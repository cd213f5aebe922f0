"""Ciphers and digests by themselves, on every machine of a testbed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.host.procfs import all_processes
from tunnelbench.measure.checks import foreign_load
from tunnelbench.measure.cpu import foreign_by_name
from tunnelbench.model.cipher_speed import BLOCK_BYTES, MASKED, PLAIN, CipherSpeed
from tunnelbench.model.result import Verdict
from tunnelbench.traffic import openssl_speed

Key = tuple[str, str, str, int]

START_LIMIT_S = 10.0
"""What `openssl speed` may take beyond its measuring."""


@dataclass(frozen=True)
class Machine:
    """Hosts that are one machine, and what it has for ciphers."""

    name: str
    hosts: tuple[Host, ...]
    cpus: tuple[int, ...]
    """All that its hosts may use."""
    flags: tuple[str, ...]
    version: str
    engines: tuple[str, ...]
    """Offload that says that it works."""


def machines(hosts: Sequence[Host]) -> list[Machine]:
    """The distinct machines among some hosts, each asked once; without OpenSSL one is left out."""
    grouped: dict[str, list[Host]] = {}
    for host in hosts:
        grouped.setdefault(host.machine, []).append(host)
    found = []
    for name, own in grouped.items():
        first = own[0]
        if first.has_program("openssl"):
            engines = tuple(
                engine
                for engine in openssl_speed.ENGINES
                if openssl_speed.is_available(first.run(openssl_speed.engine_command(engine), check=False).stdout)
            )
            flags = openssl_speed.flags_of(first.read_machine("/proc/cpuinfo"))
            version = " ".join(first.run(["openssl", "version"]).stdout.split()[:2])
            cpus = tuple(sorted({cpu for host in own for cpu in host.cpus}))
            found.append(Machine(name, tuple(own), cpus, flags, version, engines))
    return found


@dataclass(frozen=True)
class Way:
    """How one measurement is made."""

    algorithm: str
    tunnels: tuple[str, ...]
    """That use it."""
    acceleration: str
    threads: int
    engine: str = ""
    mask: str = ""


def measure_all(
    every: Sequence[Machine],
    algorithms: Mapping[str, tuple[str, ...]],
    seconds: int,
    known: Collection[Key],
    starts: Callable[[str], None],
    *,
    wait: Callable[[Sequence[int]], float],
) -> Iterator[CipherSpeed]:
    """One record for each algorithm, acceleration and number of threads, those that are known left out.

    `algorithms` has the names of the tunnels that use each; `starts` is told what begins. `wait` waits until some CPUs
    are quiet and returns how long that took [s]: before the first, and after one that strangers disturbed.
    """
    is_disturbed = True
    for machine in every:
        for algorithm, tunnels in algorithms.items():
            for way in _ways(machine, algorithm, tunnels):
                if (machine.name, way.algorithm, way.acceleration, way.threads) not in known:
                    starts(f"openssl speed {way.algorithm}, {way.acceleration}, threads: {way.threads}")
                    waited_s = wait(machine.cpus) if is_disturbed else None
                    found = replace(_measure(machine, way, seconds), waited_for_quiet_s=waited_s)
                    is_disturbed = found.is_doubtful
                    yield found


def _ways(machine: Machine, algorithm: str, tunnels: tuple[str, ...]) -> Iterator[Way]:
    mask = openssl_speed.mask_of_aes(machine.flags)
    for threads in sorted({1, len(machine.cpus)}):
        yield Way(algorithm, tunnels, PLAIN, threads)
        if mask and algorithm.startswith("aes"):
            yield Way(algorithm, tunnels, MASKED, threads, mask=mask)
        for engine in machine.engines:
            yield Way(algorithm, tunnels, f"engine {engine}", threads, engine=engine)


def _measure(machine: Machine, way: Way, seconds: int) -> CipherSpeed:
    host = machine.hosts[0]
    bytes_per_s: dict[int, float] = {}
    raw: dict[str, str] = {}
    reason = ""
    # One thread on the CPU of the host, as its tunnel's; all of them wherever the machine's hosts may be.
    places = machine.cpus if way.threads > 1 else host.cpus[:1]
    processes_before, started_s = all_processes(), time.monotonic()
    for block in BLOCK_BYTES:
        argv = openssl_speed.command(
            way.algorithm, block, seconds, threads=way.threads, engine=way.engine, mask=way.mask
        )
        if host.has_program("taskset"):  # a small router has none, and often one CPU
            argv = ["taskset", "-c", ",".join(map(str, places)), *argv]
        try:
            done = host.run(argv, timeout_s=seconds + START_LIMIT_S, check=False)
        except CommandFailed as error:
            reason = str(error)
            break
        raw[str(block)] = done.stdout + done.stderr
        rate, reason = openssl_speed.parse(done.stdout, done.stderr)
        if rate is None:
            break
        bytes_per_s[block] = rate
    bracket_s = time.monotonic() - started_s
    is_here = host.machine == THIS_MACHINE
    foreign = foreign_by_name(processes_before, all_processes(), places) if is_here else {}
    foreign_s = sum(foreign.values())
    check = foreign_load(foreign_s, bracket_s, foreign)
    # There is one measurement of each kind and no median over several: it is kept, and marked.
    verdict = Verdict.OK if check.verdict is Verdict.OK else Verdict.DOUBTFUL
    return CipherSpeed(
        machine=machine.name,
        hosts=tuple(each.name for each in machine.hosts),
        algorithm=way.algorithm,
        acceleration=way.acceleration,
        threads=way.threads,
        bytes_per_s={} if reason else bytes_per_s,
        reason=reason,
        flags=machine.flags,
        version=machine.version,
        tunnels=way.tunnels,
        seconds=seconds,
        raw=raw,
        bracket_s=bracket_s,
        foreign_cpu_s=foreign_s,
        checks=(replace(check, verdict=verdict),),
    )
