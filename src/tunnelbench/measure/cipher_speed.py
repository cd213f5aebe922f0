"""The speed of ciphers and digests without a tunnel, measured once on every machine of a testbed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.cpu_features import crypto_flags
from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.measure.checks import foreign_load
from tunnelbench.measure.cpu import BackgroundWatch
from tunnelbench.model.cipher_speed import BLOCK_BYTES, MASKED, PLAIN, CipherSpeed
from tunnelbench.model.result import Verdict
from tunnelbench.traffic import openssl_speed

Key = tuple[str, str, str, int]

OPENSSL_START_LIMIT_S = 10.0
"""Time that `openssl speed` may take in addition to its measurement [s]."""


@dataclass(frozen=True)
class CipherMachine:
    """A machine that has one or more hosts of a testbed, with its CPUs and its OpenSSL engines."""

    name: str
    hosts: tuple[Host, ...]
    cpus: tuple[int, ...]
    """CPUs that its hosts may use."""
    flags: tuple[str, ...]
    version: str
    engines: tuple[str, ...]
    """OpenSSL engines that report that they work."""


def machines(hosts: Sequence[Host]) -> list[CipherMachine]:
    """Return the distinct machines of some hosts, without those that lack OpenSSL."""
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
            flags = crypto_flags(first.read_machine("/proc/cpuinfo"))
            version = " ".join(first.run(["openssl", "version"]).stdout.split()[:2])
            cpus = tuple(sorted({cpu for host in own for cpu in host.cpus}))
            found.append(CipherMachine(name, tuple(own), cpus, flags, version, engines))
    return found


@dataclass(frozen=True)
class CipherVariant:
    """A measurement of one algorithm with given acceleration and number of threads."""

    algorithm: str
    tunnels: tuple[str, ...]
    """Names of the tunnels that use the algorithm."""
    acceleration: str
    threads: int
    engine: str = ""
    mask: str = ""


def measure_all(
    every: Sequence[CipherMachine],
    algorithms: Mapping[str, tuple[str, ...]],
    seconds: int,
    known: Collection[Key],
    starts: Callable[[str], None],
    *,
    wait: Callable[[Sequence[int]], float],
) -> Iterator[CipherSpeed]:
    """Measure each algorithm on each machine with each acceleration and number of threads, except those in `known`.

    Yields each speed. `algorithms` has the names of the tunnels that use each algorithm. `starts` is called with a
    description of each measurement before it begins. `wait` waits until some CPUs are quiet and returns the time waited
    [s]; it is called before the first measurement, and after each one with background load.
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


def _ways(machine: CipherMachine, algorithm: str, tunnels: tuple[str, ...]) -> Iterator[CipherVariant]:
    mask = openssl_speed.mask_of_aes(machine.flags)
    for threads in sorted({1, len(machine.cpus)}):
        yield CipherVariant(algorithm, tunnels, PLAIN, threads)
        if mask and algorithm.startswith("aes"):
            yield CipherVariant(algorithm, tunnels, MASKED, threads, mask=mask)
        for engine in machine.engines:
            yield CipherVariant(algorithm, tunnels, f"engine {engine}", threads, engine=engine)


def _measure(machine: CipherMachine, way: CipherVariant, seconds: int) -> CipherSpeed:
    host = machine.hosts[0]
    bytes_per_s: dict[int, float] = {}
    raw: dict[str, str] = {}
    reason = ""
    # One thread runs on the host's own CPU, as its tunnel does. Several threads run on all CPUs of the machine's hosts.
    places = machine.cpus if way.threads > 1 else host.cpus[:1]
    background = BackgroundWatch(places if host.machine == THIS_MACHINE else ())
    for block in BLOCK_BYTES:
        argv = openssl_speed.command(
            way.algorithm, block, seconds, threads=way.threads, engine=way.engine, mask=way.mask
        )
        if host.has_program("taskset"):  # a small router has none, and often one CPU
            argv = ["taskset", "-c", ",".join(map(str, places)), *argv]
        try:
            done = host.run(argv, timeout_s=seconds + OPENSSL_START_LIMIT_S, check=False)
        except CommandFailed as error:
            reason = str(error)
            break
        raw[str(block)] = done.stdout + done.stderr
        rate, reason = openssl_speed.parse(done.stdout, done.stderr)
        if rate is None:
            break
        bytes_per_s[block] = rate
    load = background.load()
    check = foreign_load(load.cpu_s, load.bracket_s, load.by_name)
    # There is one measurement of each kind and no median over several, so a doubtful one is kept and marked.
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
        bracket_s=load.bracket_s,
        foreign_cpu_s=load.cpu_s,
        checks=(replace(check, verdict=verdict),),
    )
