"""A virtual machine over this machine's own files: started by QEMU as virtme-ng would, spoken to line by line."""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from tunnelbench.guest.kernel import Kernel
from tunnelbench.guest.wire import HELLO, Message, message
from tunnelbench.host.cache import cache_folder
from tunnelbench.host.command import Daemon, run_command
from tunnelbench.host.facts import machine_facts
from tunnelbench.model.errors import CannotHere

MEMORY = "2G"

BOOT_LIMIT_S = 240.0
"""From QEMU's start to the worker's first word; without hardware virtualisation some 20 s on a quiet machine."""

KVM_LIMIT_S = 20.0
"""The same under KVM, where it takes a few seconds or, behind some hypervisors, for ever."""

SILENCE_LIMIT_S = 90.0
"""A guest that lives says so every few seconds."""

NAME_PREFIX = "tunnelbench-"
"""A guest's QEMU is called so, followed by the mark of its run: by that `clean` knows it."""

CACHE_IN_GUEST = Path("/run/tunnelbench-cache")
"""Where the guest sees the cache, wherever that lies here: some folders of this machine are hidden from it."""

CONSOLE_NOISE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")

PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "depmod": "kmod"}
"""What a guest needs beyond a run on the machine's own kernel, and the Debian package that holds it."""

WORKER = "tunnelbench.guest.worker"

INIT = Path(__file__).with_name("init.sh")


class Accelerator(StrEnum):
    """How a guest's instructions are carried out."""

    KVM = "kvm"
    TCG = "tcg"
    """Translated by QEMU: an emulated CPU."""

    @property
    def words(self) -> str:
        return "inside a guest" if self is Accelerator.KVM else "inside a guest, emulated"


class GuestDied(Exception):
    """A guest ended, or fell silent."""


@dataclass(frozen=True)
class CpuWait:
    """What the threads that are a guest's CPUs had, up to one moment."""

    clock_s: float
    waited_s: float
    """Ready to run and kept waiting by others on this machine, summed over the guest's CPUs [s]."""


class Guest:
    """A guest that is up once it is made, and gone when its block is left."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it at once: nothing of it is kept."""
        self._daemon.kill()

    def send(self, text: bytes) -> None:
        """Hand it a line. Raises GuestDied where it takes none."""
        stream = self._daemon.process.stdin
        if stream is None:
            raise ValueError("a guest has an input")
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            raise GuestDied(self.last_words()) from None

    def messages(self, silence_limit_s: float = SILENCE_LIMIT_S) -> Iterator[Message]:
        """What it says, as it comes. Raises GuestDied when it ends, or says nothing for so long."""
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
        """The last line on its console."""
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
        """Each of the guest's CPUs gets one of this machine's: two that share one would slow each other."""
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
        """How long its CPUs have waited up to now; sched-stats.rst, the second field of /proc/PID/schedstat."""
        waited_ns = 0
        for task in self._threads:
            with suppress(OSError):
                waited_ns += int((task / "schedstat").read_text().split()[1])
        return CpuWait(time.monotonic(), waited_ns / 1e9)


def require_guest_programs() -> None:
    """Raises CannotHere that names everything that a guest needs and is not here."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    hints = []
    if missing:
        hints.append("apt-get install " + " ".join(sorted({PROGRAMS[program] for program in missing})))
    if find_spec("virtme") is None:
        missing.append("virtme-ng")
        hints.append("pip install 'tunnelbench[guest]'")
    if missing:
        raise CannotHere(f"missing here for a guest: {', '.join(missing)}", ", and ".join(hints))


def command(kernel: Kernel, accelerator: Accelerator, mark: str, folder: Path, cpus: int) -> list[str]:
    """The argument list of QEMU, as virtme-ng makes it; its initramfs is written into `folder`.

    QEMU is started by us and not by virtme-ng, so that it ends with the controller.
    """
    initramfs = folder / "initramfs"
    initramfs.unlink(missing_ok=True)
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    _compile_worker(cache)
    init = cache / INIT.name
    init.write_bytes(INIT.read_bytes())
    init.chmod(0o755)  # which an installed package's files need not be
    is_cached = kernel.root.is_relative_to(cache)
    modules_root = CACHE_IN_GUEST / kernel.root.relative_to(cache) if is_cached else kernel.root
    # fmt: off
    argv = [sys.executable, "-m", "virtme.commands.run", "--dry-run", "--show-command",
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
    return [qemu[0], "-name", f"{NAME_PREFIX}{mark},debug-threads=on", *qemu[1:]]


def _adapted(word: str, init: Path, environment: Mapping[str, str]) -> str:
    """An argument of virtme-ng's: KVM or an error, our first process, and no file for a status that nobody reads."""
    if word == "accel=kvm:tcg":
        return "accel=kvm"
    if " init=" in word:
        # What the kernel does not know goes into the environment of its first process, and must stand before `init`.
        variables = " ".join(f"tunnelbench_{name}={value}" for name, value in environment.items())
        return re.sub(r" init=\S+", f" {variables} init={init}", word)
    return re.sub(r"^file,id=ret,path=.*", "null,id=ret", word)


def _compile_worker(cache: Path) -> None:
    """Compile what the worker imports, here, where that is quick and can be kept."""
    folder = cache / "bytecode"
    environment = ["env", "-u", "PYTHONDONTWRITEBYTECODE"]
    run_command(
        [*environment, sys.executable, "-X", f"pycache_prefix={folder}", "-c", f"import {WORKER}"], timeout_s=60
    )


def emulated_cpu() -> str:
    """What a guest has for a CPU without hardware virtualisation: virtme-ng asks for all that QEMU knows (`max`)."""
    printed = run_command(["qemu-system-x86_64", "--version"]).stdout
    found = re.search(r"version (\S+)", printed)
    return f"max of QEMU {found[1]}" if found else "max of QEMU"


def choose_accelerator(kernel: Kernel, mark: str, folder: Path) -> Accelerator:
    """KVM where this kernel really boots under it, tried once with a short limit and remembered; TCG otherwise."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return Accelerator.TCG
    memory = cache_folder() / "kvm.json"
    key = f"{kernel.version} on {machine_facts()['kernel']}, {machine_facts().get('cpu_model', '')}"
    known = _remembered(memory)
    if key not in known:
        known[key] = _boots(kernel, mark, folder)
        memory.parent.mkdir(parents=True, exist_ok=True)
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
    """Processes that are guests of a run; of one that was killed there is none, unless the kernel missed it."""
    wanted = f"{NAME_PREFIX}{mark},debug-threads=on".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words: Sequence[bytes] = (process / "cmdline").read_bytes().split(b"\0")
            if b"-name" in words and wanted in words:
                found.append(int(process.name))
    return found
