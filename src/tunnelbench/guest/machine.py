"""Runs a virtual machine in QEMU on this machine's files, as virtme-ng does, and exchanges messages with it."""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from tunnelbench.guest.kernel import Kernel
from tunnelbench.guest.protocol import HELLO, Message, message
from tunnelbench.host.cache import cache_folder, made_cache_folder
from tunnelbench.host.command import run_command
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.facts import machine_facts
from tunnelbench.host.programs import missing_programs, qemu_version
from tunnelbench.host.python_packages import GUEST, install_hint
from tunnelbench.model.errors import CannotHere
from tunnelbench.qemu.processes import machine_processes, name_option

MEMORY = "2G"

BOOT_LIMIT_S = 240.0
"""Time from QEMU's start to the worker's first message [s]; about 20 s without hardware virtualisation."""

KVM_LIMIT_S = 20.0
"""Limit for the worker's first message under KVM [s]: it takes a few seconds, or forever on some hypervisors."""

SILENCE_LIMIT_S = 90.0
"""Time without a message after which a guest counts as failed [s]; a guest sends one every few seconds."""

CACHE_IN_GUEST = Path("/run/tunnelbench-cache")
"""Path of the cache inside the guest; some folders of this machine are hidden from it."""

CONSOLE_NOISE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")

GUEST_PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "depmod": "kmod"}
"""Programs that a guest needs in addition to those of any run, with the Debian package of each."""

WORKER = "tunnelbench.guest.worker"

PYTHON = (sys.executable, "-P")
"""This Python; -P: it takes no modules from the current folder."""

INIT = Path(__file__).with_name("init.sh")


class Accelerator(StrEnum):
    """A method by which QEMU executes a guest's instructions: by hardware virtualisation (KVM), or by emulation
    (TCG)."""

    KVM = "kvm"
    TCG = "tcg"
    """Translation by QEMU: an emulated CPU."""

    @property
    def words(self) -> str:
        return "inside a guest" if self is Accelerator.KVM else "inside a guest, emulated"


class GuestDied(Exception):
    """Raised if a guest has ended, or sends no more messages."""


@dataclass(frozen=True)
class CpuWait:
    """Time that the threads of a guest's CPUs have waited for a CPU of this machine, read at one moment."""

    clock_s: float
    waited_s: float
    """Time ready to run, but waiting for other programs of this machine, summed over the guest's CPUs [s]."""


class Guest(AbstractContextManager["Guest"]):
    """A running guest: the constructor boots it, and the end of the `with` block stops it."""

    def __init__(
        self,
        kernel: Kernel,
        accelerator: Accelerator,
        mark: str,
        folder: Path,
        *,
        boot_limit_s: float = BOOT_LIMIT_S,
    ) -> None:
        self.cpus = sorted(os.sched_getaffinity(0))
        argv = command(kernel, accelerator, mark, folder, len(self.cpus))
        self._daemon = Daemon(argv, folder / "console.log", "QEMU", has_input=True, has_output=True)
        self._pending = b""
        try:
            self.hello = self._first_word(boot_limit_s)
            self._threads = self._pin()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill the guest immediately; no data is lost, because a guest stores nothing."""
        self._daemon.kill()

    def send(self, text: bytes) -> None:
        """Send a line to the guest. Raises GuestDied if the guest does not read it."""
        stream = self._daemon.process.stdin
        if stream is None:
            raise ValueError("a guest has an input")
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            raise GuestDied(self.last_words()) from None

    def messages(self, silence_limit_s: float = SILENCE_LIMIT_S) -> Iterator[Message]:
        """Yield the messages of the guest. Raises GuestDied if it ends, or sends none for `silence_limit_s`."""
        stream = self._daemon.process.stdout
        if stream is None:
            raise ValueError("a guest has an output")
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while True:
                while b"\n" in self._pending:
                    text, self._pending = self._pending.split(b"\n", 1)
                    if found := message(text):
                        yield found
                if not selector.select(silence_limit_s):
                    raise GuestDied(f"the guest said nothing for {silence_limit_s:g} s; {self.last_words()}")
                read = os.read(stream.fileno(), 1 << 20)
                if not read:
                    raise GuestDied(f"the guest ended; {self.last_words()}")
                self._pending += read

    def last_words(self) -> str:
        """Return a phrase that quotes the last line on the guest's console."""
        self._daemon.wait(0.5)
        return f"last on its console: {CONSOLE_NOISE.sub('', self._daemon.last_line()).strip()}"

    def _first_word(self, limit_s: float) -> Message:
        deadline = time.monotonic() + limit_s
        for found in self.messages(limit_s):
            if found["what"] == HELLO:
                return found
            if time.monotonic() > deadline:
                break
        raise GuestDied(f"the guest was not up in {limit_s:g} s; {self.last_words()}")

    def _pin(self) -> list[Path]:
        """Bind each of the guest's CPUs to a CPU of this machine; two guest CPUs on one CPU would slow each other."""
        tasks = Path(f"/proc/{self._daemon.pid}/task")
        threads = {}
        for task in tasks.iterdir():
            if found := re.match(r"CPU (\d+)/", (task / "comm").read_text()):
                threads[int(found[1])] = task
        for number, task in threads.items():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), {self.cpus[number]})
        return list(threads.values())

    def cpu_wait(self) -> CpuWait:
        """Read how long the guest's CPUs have waited so far (sched-stats.rst, second field of /proc/PID/schedstat)."""
        waited_ns = 0
        for task in self._threads:
            with suppress(OSError):
                waited_ns += int((task / "schedstat").read_text().split()[1])
        return CpuWait(time.monotonic(), waited_ns / 1e9)


def require_guest_programs() -> None:
    """Raises CannotHere that names all programs of a guest that are missing here."""
    missing, install = missing_programs(GUEST_PROGRAMS)
    hints = [install] if missing else []
    if find_spec("virtme") is None:
        missing.append(GUEST)
        hints.append(install_hint(GUEST))
    if missing:
        raise CannotHere(f"a guest needs programs that are missing here: {', '.join(missing)}", ", and ".join(hints))


def command(kernel: Kernel, accelerator: Accelerator, mark: str, folder: Path, cpus: int) -> list[str]:
    """Return QEMU's argument list, as virtme-ng makes it; the initramfs is written into `folder`.

    TunnelBench starts QEMU itself, and not through virtme-ng, so that QEMU ends with the controller.
    """
    initramfs = folder / "initramfs"
    initramfs.unlink(missing_ok=True)
    cache = made_cache_folder()
    _compile_worker(cache)
    init = cache / INIT.name
    init.write_bytes(INIT.read_bytes())
    init.chmod(0o755)  # which an installed package's files need not be
    is_cached = kernel.root.is_relative_to(cache)
    modules_root = CACHE_IN_GUEST / kernel.root.relative_to(cache) if is_cached else kernel.root
    # fmt: off
    argv = [*PYTHON, "-m", "virtme.commands.run", "--dry-run", "--show-command",
            "--kimg", str(kernel.image), "--mods=auto", "--force-9p", "--cpus", str(cpus), "--memory", MEMORY,
            "--rodir", f"{CACHE_IN_GUEST}={cache}", "--rodir", "/run/root=/",
            "--save-initramfs", str(initramfs), "--show-boot-console",
            "--script-sh", "true"]  # for the serial ports that a script has
    # fmt: on
    if accelerator is Accelerator.TCG:
        argv.append("--disable-kvm")
    printed = run_command(argv, timeout_s=60).stdout.strip().splitlines()
    environment = {"python": sys.executable, "cache": str(CACHE_IN_GUEST), "modules": str(modules_root)}
    qemu = [_adapted(word, init, environment) for word in shlex.split(printed[-1])]
    qemu[qemu.index("-kernel") + 1] = str(kernel.boot_image)
    return [qemu[0], "-name", name_option(mark), *qemu[1:]]


def _adapted(word: str, init: Path, environment: Mapping[str, str]) -> str:
    """Return an argument of virtme-ng's command for QEMU with TunnelBench's changes: no emulation in place of KVM, its
    own program as the first process, with its variables, and no status file."""
    if word == "accel=kvm:tcg":
        return "accel=kvm"
    if " init=" in word:
        # What the kernel does not know goes into the environment of its first process, and must stand before `init`.
        variables = " ".join(f"tunnelbench_{name}={value}" for name, value in environment.items())
        return re.sub(r" init=\S+", f" {variables} init={init}", word)
    return re.sub(r"^file,id=ret,path=.*", "null,id=ret", word)


def _compile_worker(cache: Path) -> None:
    """Compile the worker's Python modules on this machine, which is faster than in the guest, and keep the result."""
    folder = cache / "bytecode"
    environment = ["env", "-u", "PYTHONDONTWRITEBYTECODE"]
    run_command([*environment, *PYTHON, "-X", f"pycache_prefix={folder}", "-c", f"import {WORKER}"], timeout_s=60)


def emulated_cpu() -> str:
    """Return the CPU of a guest without hardware virtualisation; virtme-ng asks for all that QEMU knows (`max`)."""
    return f"max of QEMU {qemu_version('qemu-system-x86_64')}".strip()


def choose_accelerator(kernel: Kernel, mark: str, folder: Path) -> Accelerator:
    """Return KVM if the kernel boots under it, else TCG.

    The first call for a kernel boots a guest to find out. Later calls take the result from the cache.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return Accelerator.TCG
    memory = cache_folder() / "kvm.json"
    key = f"{kernel.version} on {machine_facts()['kernel']}, {machine_facts().get('cpu_model', '')}"
    known = _remembered(memory)
    if key not in known:
        known[key] = _boots(kernel, mark, folder)
        made_cache_folder()
        memory.write_text(json.dumps(known, indent=1) + "\n")
    return Accelerator.KVM if known[key] else Accelerator.TCG


def _boots(kernel: Kernel, mark: str, folder: Path) -> bool:
    try:
        with Guest(kernel, Accelerator.KVM, mark, folder, boot_limit_s=KVM_LIMIT_S):
            return True
    except GuestDied:
        return False


def _remembered(path: Path) -> dict[str, bool]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def left_guests(mark: str) -> list[int]:
    """List the processes of a run's guests that a killed run left behind."""
    return machine_processes(re.escape(mark))
