"""Each cipher is measured once on each machine and in each way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.unit.tunnel.fakes import FakeHost, commands

from tunnelbench.measure import cipher_speed
from tunnelbench.measure.cipher_speed import CipherMachine, machines, measure_all
from tunnelbench.measure.cpu import BackgroundLoad
from tunnelbench.model.cipher_speed import BLOCK_BYTES, MASKED, PLAIN, CipherSpeed
from tunnelbench.model.result import Verdict

USERS = {"aes-128-gcm": ("OpenVPN",), "sha1": ("tinc",)}


class OtherHost(FakeHost):
    """A machine of its own."""

    machine = "router's own"


def answer(argv: Sequence[str]) -> str:
    """Return the output of OpenSSL: its version, or a speed of 10^6 bytes per second for each byte of a block.

    Without the AES instructions, the speed is a tenth.
    """
    if "version" in argv:
        return "OpenSSL 3.0.19 27 Jan 2026 (Library: ...)\n"
    if "engine" in argv:
        return "(padlock) VIA\n     [ available ]\n" if "padlock" in argv else ""
    block = int(argv[argv.index("-bytes") + 1])
    name = argv[argv.index("-evp") + 1].upper()
    return f"+H:{block}\n+F:25:{name}:{block * (1e5 if is_masked(argv) else 1e6):.2f}\n"


def is_masked(argv: Sequence[str]) -> bool:
    return any(part.startswith("OPENSSL_") for part in argv)


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process takes CPU time. A fake host starts no programs, so the CPU time of OpenSSL is made up."""
    give_cpu_time(monkeypatch, 100.0)
    strangers(monkeypatch, *[0.0] * 20)


def give_cpu_time(monkeypatch: pytest.MonkeyPatch, each_s: float) -> None:
    """Let programs have used so much CPU time more at each reading [s]."""
    readings = count(step=each_s)
    monkeypatch.setattr(cipher_speed, "_cpu_of_programs_s", lambda: next(readings))


def measured(*every: CipherMachine, known: Sequence[CipherSpeed] = ()) -> list[CipherSpeed]:
    return list(measure_all(every, USERS, 1, {speed.key for speed in known}, lambda _: None, wait=lambda _: 0.0))


def machine(folder: Path, *, flags: tuple[str, ...] = ("aes",), cpus: tuple[int, ...] = (0, 1)) -> CipherMachine:
    host = FakeHost("router", folder, answer)
    return CipherMachine("this machine", (host,), cpus, flags, "OpenSSL 3.0.19", ())


def test_hosts_of_one_machine_are_one_and_another_machine_is_another(tmp_path: Path) -> None:
    router = OtherHost("router", tmp_path, answer)
    client, server = FakeHost("client", tmp_path, answer), FakeHost("server", tmp_path, answer)
    found = machines([router, client, server])
    assert [(each.name, [host.name for host in each.hosts]) for each in found] == [
        ("router's own", ["router"]),
        ("this machine", ["client", "server"]),
    ]
    assert (found[0].version, found[0].engines) == ("OpenSSL 3.0.19", ("padlock",))


def test_a_machine_without_openssl_is_left_out(tmp_path: Path) -> None:
    host = FakeHost("router", tmp_path, answer)
    host.programs = set()
    assert machines([host]) == []


def test_every_cipher_is_measured_each_way_at_every_block(tmp_path: Path) -> None:
    found = measured(machine(tmp_path))
    assert [(speed.algorithm, speed.acceleration, speed.threads) for speed in found] == [
        ("aes-128-gcm", PLAIN, 1),
        ("aes-128-gcm", MASKED, 1),
        ("aes-128-gcm", PLAIN, 2),
        ("aes-128-gcm", MASKED, 2),
        ("sha1", PLAIN, 1),
        ("sha1", PLAIN, 2),
    ]
    plain = [speed for speed in found if speed.acceleration == PLAIN]
    assert all(speed.bytes_per_s == {block: block * 1e6 for block in BLOCK_BYTES} for speed in plain)
    assert not any(speed.is_doubtful for speed in found)
    assert found[0].tunnels == ("OpenVPN",)


def test_without_aes_instructions_nothing_is_masked_and_an_engine_counts_apart(tmp_path: Path) -> None:
    host = FakeHost("router", tmp_path, answer)
    own = CipherMachine("this machine", (host,), (0,), (), "OpenSSL 3.0.19", ("padlock",))
    assert [speed.acceleration for speed in measured(own)] == [PLAIN, "engine padlock"] * 2
    assert sum("-engine padlock" in line for line in commands(host)) == 2 * len(BLOCK_BYTES)


def test_one_thread_stays_on_the_routers_cpu_and_several_have_all(tmp_path: Path) -> None:
    own = machine(tmp_path)
    measured(own)
    lines = commands(own.hosts[0])
    assert {line.split()[2] for line in lines if "-multi" not in line} == {"0"}
    assert {line.split()[2] for line in lines if "-multi 2" in line} == {"0,1"}
    assert sum("OPENSSL_ia32cap=~0x200000200000000:~0x0" in line for line in lines) == 2 * len(BLOCK_BYTES)


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    own = machine(tmp_path)
    first = measured(own)
    before = len(commands(own.hosts[0]))
    assert measured(own, known=first) == []
    assert len(commands(own.hosts[0])) == before
    assert [speed.key for speed in measured(own, known=first[1:])] == [first[0].key]


@pytest.mark.parametrize("said", ["", "+H:16\n"])
def test_a_cipher_that_gives_no_figure_has_a_reason(tmp_path: Path, said: str) -> None:
    host = FakeHost("router", tmp_path, lambda _: said)
    own = CipherMachine("this machine", (host,), (0,), (), "OpenSSL 3.0.19", ())
    found = measured(own)
    assert [(speed.bytes_per_s, speed.reason) for speed in found] == [({}, "openssl speed printed no figure")] * 2


def strangers(monkeypatch: pytest.MonkeyPatch, *shares: float) -> None:
    """Other processes take so much of a CPU, measurement by measurement; every bracket has 10 seconds."""
    left = iter(shares)
    watch = Mock(load=lambda: BackgroundLoad(10.0, {"compiler": next(left) * 10}))
    monkeypatch.setattr(cipher_speed, "BackgroundWatch", lambda _: watch)


def test_foreign_load_is_kept_as_evidence_and_above_five_percent_doubtful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers(monkeypatch, 0.04, 0.06, 0.0, 0.0, 0.0, 0.0)
    found = measured(machine(tmp_path))
    assert [speed.foreign_cpu_s for speed in found[:3]] == pytest.approx([0.4, 0.6, 0.0])
    assert [speed.bracket_s for speed in found[:3]] == [10.0] * 3
    assert [speed.is_doubtful for speed in found[:3]] == [False, True, False]
    check = found[1].checks[0]
    assert (check.name, check.rule, check.verdict) == ("foreign-load", 12, Verdict.DOUBTFUL)
    assert check.reason == "other processes took 6.0% of a CPU (compiler 0.60 s)"
    assert found[1].bytes_per_s, "it is kept"


def test_it_waits_for_quiet_before_the_first_and_after_one_that_was_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers(monkeypatch, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0)
    waited_on = []

    def wait(cpus: Sequence[int]) -> float:
        waited_on.append(tuple(cpus))
        return 2.5

    found = list(measure_all([machine(tmp_path)], USERS, 1, set(), lambda _: None, wait=wait))
    assert [speed.waited_for_quiet_s for speed in found] == [2.5, None, 2.5, None, None, None]
    assert waited_on == [(0, 1)] * 2


def renamed(argv: Sequence[str]) -> str:
    return answer(argv).replace("AES-128-GCM", "NULL")


def unmasked(argv: Sequence[str]) -> str:
    return answer([part for part in argv if not part.startswith("OPENSSL_")])


@pytest.mark.parametrize(
    ("lie", "name", "words"),
    [
        (renamed, "openssl-figures", "openssl measured NULL in place of aes-128-gcm"),
        (unmasked, "mask", "openssl reached 100% of its speed with them: the mask had no effect"),
    ],
)
def test_a_speed_that_is_not_what_was_asked_for_is_doubtful(
    lie: Callable[[Sequence[str]], str], name: str, words: str, tmp_path: Path
) -> None:
    host = FakeHost("router", tmp_path, lie)
    own = CipherMachine("this machine", (host,), (0,), ("aes",), "OpenSSL 3.0.19", ())
    plain, masked, digest = measured(own)
    found = [check for check in (*plain.checks, *masked.checks) if check.verdict is not Verdict.OK]
    assert {(check.name, check.verdict) for check in found} == {(name, Verdict.DOUBTFUL)}
    assert words in found[0].reason
    assert masked.bytes_per_s, "it is kept"
    assert not digest.is_doubtful


@pytest.mark.parametrize(("cpu_s", "is_doubtful"), [(5.5, False), (5.3, True)])
def test_openssl_that_had_no_cpu_for_a_tenth_of_the_time_is_doubtful(
    cpu_s: float, is_doubtful: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_cpu_time(monkeypatch, cpu_s)
    found = measured(machine(tmp_path, cpus=(0,)))[0]
    assert found.is_doubtful is is_doubtful
    assert found.checks[-1].reason.startswith(f"openssl had {cpu_s} s of CPU time in 6 s of measurement")


def test_the_cpu_time_on_another_machine_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_cpu_time(monkeypatch, 0.0)
    host = OtherHost("router", tmp_path, answer)
    own = CipherMachine("router's own", (host,), (0,), (), "OpenSSL 3.0.19", ())
    assert not any(speed.is_doubtful for speed in measured(own))
