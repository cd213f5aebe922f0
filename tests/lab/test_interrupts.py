"""Signals that ask to end, at any moment of `doctor`, `run` and `clean`: the program ends and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest
from tests.conftest import traces
from tests.lab.bench import KERNEL_AND_USER_SPACE, SHORT_TRIALS, TUNNELBENCH
from tests.lab.machine import entries

from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.store.store import Store
from tunnelbench.tunnel.wireguard import CONTROL_SOCKETS

INTERRUPTS = int(os.environ.get("TUNNELBENCH_INTERRUPTS", "3"))
"""Number of signals; `make test-interrupts` sends more."""

LARGEST_PART = 50
"""Largest number of signals of one test: several tests can run at the same time, each in a process of its own."""

PARTS = [LARGEST_PART] * (INTERRUPTS // LARGEST_PART) + [INTERRUPTS % LARGEST_PART] * (INTERRUPTS % LARGEST_PART > 0)
"""Number of signals of each test."""

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300 + 60 * min(INTERRUPTS, LARGEST_PART))]

END_LIMIT_S = 60.0
"""Longest time from the signal to the end [s]."""

LAST_WORDS_S, LAST_WORDS_SHARE = 5.0, 0.2
"""Longest time from a signal, which comes when the work is done, to the end with the status of a whole run [s].

On a busy machine, where the whole verb takes long, it is this share of the time of the whole verb.
"""

STATUSES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}

PLAN = SHORT_TRIALS + KERNEL_AND_USER_SPACE


@pytest.fixture
def _load() -> Iterator[None]:
    """Keep each CPU busy, so that signals find the program at many moments and are handled late."""
    idle = len(os.sched_getaffinity(0)) - int(os.getloadavg()[0])
    busy = [subprocess.Popen(["nice", sys.executable, "-c", "while True: pass"]) for _ in range(idle)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.fixture
def _signals_are_heard() -> Iterator[None]:
    """Undo that SIGHUP is ignored under nohup, and SIGINT in a shell's background: programs inherit it."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGTERM)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


NAMESPACES = Path("/run/netns")


def left() -> set[str]:
    """Return what a verb could leave on this machine."""
    names = [path.name for folder in (CONTROL_SOCKETS, NAMESPACES) for path in entries(folder)]
    mounts = [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines()]
    return {*traces(), *names, *mounts}


@contextmanager
def left_run(clean: list[str], where: str) -> Iterator[None]:
    """Make what a killed run leaves: its folder, and namespaces with a process each; at the end, `clean` removes all.

    It does so after a failure, too, because a second try needs the machine as it was.
    """
    mark = os.urandom(3).hex()
    folder = RUN_FOLDER / f"20260101-000000-{mark}"
    (folder / "router").mkdir(parents=True)
    (folder / "router" / "private.key").write_text("a key")
    with ExitStack() as stack:
        for role in ("client", "router", "server"):
            name = f"tb-{mark}-{role}"
            subprocess.run(["ip", "netns", "add", name], check=True)
            sleeper = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "600"], start_new_session=True)
            stack.callback(sleeper.wait, timeout=5)
            while Path(f"/proc/{sleeper.pid}/comm").read_text().strip() != "sleep":
                time.sleep(0.01)
        try:
            yield
        finally:
            finished = subprocess.run([TUNNELBENCH, *clean], capture_output=True, text=True, check=False)
            assert finished.returncode == 0, f"{finished.stderr}; {where}"


@pytest.mark.usefixtures("_load", "_signals_are_heard")
@pytest.mark.parametrize("signals", PARTS, ids=[f"part {number}" for number in range(1, len(PARTS) + 1)])
def test_a_signal_at_any_moment_ends_each_verb_and_leaves_nothing(tmp_path: Path, signals: int) -> None:
    plan, path = tmp_path / "plan.toml", tmp_path / "results.sqlite"
    plan.write_text(PLAN)
    words = {
        "doctor": ["doctor"],
        "run": ["run", str(plan), "--set", "quiet_wait_s=0", "--store", str(path)],
        "clean": ["clean", "--store", str(path)],
    }
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    counts = Counter[str]()
    before = left()
    whole_s = {verb: seconds_of(words[verb]) for verb in words}
    for count in range(signals):
        verb = ("doctor", "run", "clean")[count % 3]
        number = chance.choice(list(STATUSES))
        life_s = chance.uniform(0.0, whole_s[verb])
        where = f"seed {seed}, signal {count}: {verb}, {number.name} after {life_s:.3f} s"
        with left_run(words["clean"], where) if verb == "clean" else nullcontext():
            started_s = time.monotonic()
            end = ending(words[verb], number, life_s, whole_s[verb], where)
        counts[f"{verb}: {end}"] += 1
        if end == NO_SIGNAL:  # the machine is less busy than it was: later signals come earlier
            whole_s[verb] = time.monotonic() - started_s
        deadline = time.monotonic() + END_LIMIT_S
        while changed := left() ^ before:
            assert time.monotonic() < deadline, f"{changed}; {where}"
            time.sleep(0.1)
        print(count + 1, *(f"{what}: {times}" for what, times in sorted(counts.items())), sep="; ", flush=True)
    if path.exists():
        with Store.open(path) as store:
            assert {run.status for run in store.runs()} <= {"interrupted", "done"}


@pytest.mark.usefixtures("_signals_are_heard")
@pytest.mark.parametrize("delay_s", [0.0, 0.005, 0.02, 0.05])
def test_an_interrupt_at_any_time_leaves_no_namespace(delay_s: float) -> None:
    before = left()
    namespaces = set(entries(NAMESPACES))
    with subprocess.Popen([TUNNELBENCH, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as doctor:
        while set(entries(NAMESPACES)) == namespaces:  # until it makes the one in which it tries the kernel's features
            assert doctor.poll() is None
            time.sleep(0.001)
        time.sleep(delay_s)
        doctor.send_signal(signal.SIGINT)
        _, errors = doctor.communicate(timeout=END_LIMIT_S)
    assert (doctor.returncode, left()) == (130, before), errors


def seconds_of(words: list[str]) -> float:
    """Return how long a verb takes that gets no signal [s]."""
    started_s = time.monotonic()
    whole = subprocess.run([TUNNELBENCH, *words], capture_output=True, text=True, check=False)
    assert whole.returncode in {0, 3}, whole.stderr  # 3: on a machine that others use, no figure counts
    return time.monotonic() - started_s


NO_SIGNAL = "ended before the signal"

PYTHON_STARTS = "Fatal Python error: init_"
"""Beginning of the error that Python itself prints if SIGINT ends it before it has started a program."""

PYTHON_LOSES = "Exception ignored in: <function _get_module_lock."
"""Beginning of the message if Python itself loses a SIGINT at an import, before the program's first line."""


def ending(words: list[str], number: signal.Signals, life_s: float, whole_s: float, where: str) -> str:
    """Start a verb that takes `whole_s` without a signal, send it a signal at an age, and return how it ended."""
    with subprocess.Popen([TUNNELBENCH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            process.communicate(timeout=life_s)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        else:
            assert process.returncode in {0, 3}, where
            return NO_SIGNAL
        sent_s = time.monotonic()
        try:
            _, errors = process.communicate(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            pytest.fail(f"the signal was lost; {where}")
        took_s = time.monotonic() - sent_s
    if process.returncode == -number or errors.startswith(PYTHON_STARTS):
        return "ended by the signal itself, while Python started"
    if errors.startswith(PYTHON_LOSES) and process.returncode in {0, 3}:
        return "lost by Python while it started"
    assert "Traceback" not in errors, f"{errors}; {where}"
    if process.returncode in {0, 3}:
        assert took_s < max(LAST_WORDS_S, LAST_WORDS_SHARE * whole_s), f"{took_s:.1f} s to the end; {where}"
        return "had just ended"
    assert process.returncode == STATUSES[number], f"{errors}; {where}"
    return "interrupted"
