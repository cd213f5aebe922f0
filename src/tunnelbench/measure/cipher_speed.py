"""The speed of ciphers and digests without a tunnel, measured once on every machine of a testbed."""

from __future__ import annotations

import resource
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.cpu_features import crypto_flags
from tunnelbench.host.host import THIS_MACHINE, Host
from tunnelbench.measure.checks import foreign_load
from tunnelbench.measure.cpu import BackgroundWatch
from tunnelbench.model.cipher_speed import BLOCK_BYTES, MASKED, PLAIN, CipherSpeed
from tunnelbench.model.result import Check, Verdict
from tunnelbench.traffic import openssl_speed

Key = tuple[str, str, str, int]

OPENSSL_START_LIMIT_S = 10.0
"""Time that `openssl speed` may take in addition to its measurement [s]."""

LEAST_CPU_SHARE = 0.9
"""Smallest share of its time for which `openssl speed` must have had a CPU."""

MASKED_MOST_SHARE = 0.7
"""Largest speed of AES without the CPU's instructions, as a share of the speed with them."""


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
    plain: dict[tuple[str, str, int], CipherSpeed] = {}
    for machine in every:
        for algorithm, tunnels in algorithms.items():
            for way in _ways(machine, algorithm, tunnels):
                if (machine.name, way.algorithm, way.acceleration, way.threads) not in known:
                    starts(f"openssl speed {way.algorithm}, {way.acceleration}, threads: {way.threads}")
                    waited_s = wait(machine.cpus) if is_disturbed else None
                    found = replace(_measure(machine, way, seconds), waited_for_quiet_s=waited_s)
                    is_disturbed = found.is_doubtful
                    if way.acceleration == PLAIN:
                        plain[machine.name, algorithm, way.threads] = found
                    elif way.mask:
                        found = _with_mask_checked(found, plain.get((machine.name, algorithm, way.threads)))
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
    cpu_before_s, contradictions = _cpu_of_programs_s(), []
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
        contradictions.append(openssl_speed.contradiction(done.stdout, done.stderr, way.algorithm, block))
    cpu_s = _cpu_of_programs_s() - cpu_before_s
    load = background.load()
    check = foreign_load(load.cpu_s, load.bracket_s, load.by_name)
    # There is one measurement of each kind and no median over several, so a doubtful one is kept and marked.
    verdict = Verdict.OK if check.verdict is Verdict.OK else Verdict.DOUBTFUL
    checks = [replace(check, verdict=verdict)]
    if bytes_per_s and not reason:
        checks.append(check_figures([each for each in contradictions if each]))
        if host.machine == THIS_MACHINE:
            checks.append(check_cpu_time(cpu_s, seconds * way.threads * len(bytes_per_s)))
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
        checks=tuple(checks),
    )


def _cpu_of_programs_s() -> float:
    """Return the CPU time of all programs that this process has started and that have ended [s]."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def check_figures(contradictions: Sequence[str]) -> Check:
    """Check that OpenSSL measured what it was asked for, and that its figures agree with its counts."""
    if contradictions:
        return Check("openssl-figures", Verdict.DOUBTFUL, contradictions[0], rule=19)
    return Check("openssl-figures", Verdict.OK, "OpenSSL's figures agree with its counts", rule=19)


def check_cpu_time(cpu_s: float, wanted_s: float) -> Check:
    """Check that OpenSSL had a CPU for the whole time: it computes without a pause."""
    share = cpu_s / wanted_s
    reason = f"openssl had {cpu_s:.1f} s of CPU time in {wanted_s:g} s of measurement"
    if share < LEAST_CPU_SHARE:
        reason += ": it was stopped, as by a CPU quota or the hypervisor, or did not compute"
        return Check("openssl-cpu", Verdict.DOUBTFUL, reason, rule=19)
    return Check("openssl-cpu", Verdict.OK, reason, rule=19)


def _with_mask_checked(masked: CipherSpeed, plain: CipherSpeed | None) -> CipherSpeed:
    """Add the check that the largest blocks were slower without the AES instructions, if both speeds are known."""
    block = BLOCK_BYTES[-1]
    if plain is None or block not in plain.bytes_per_s or block not in masked.bytes_per_s:
        return masked
    share = masked.bytes_per_s[block] / plain.bytes_per_s[block]
    reason = f"with the AES instructions masked, openssl reached {share:.0%} of its speed with them"
    had_no_effect = share > MASKED_MOST_SHARE
    verdict = Verdict.DOUBTFUL if had_no_effect else Verdict.OK
    check = Check("mask", verdict, f"{reason}: the mask had no effect" if had_no_effect else reason, rule=19)
    return replace(masked, checks=(*masked.checks, check))
