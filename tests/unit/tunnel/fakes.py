"""Hosts and daemons that run nothing and give prepared output, for tests of adapters without root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from tunnelbench.host.command import Completed, last_lines
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.host import LocalHost
from tunnelbench.tunnel.base import End, Ends

Answer = Callable[[Sequence[str]], str]


class FakeHost(LocalHost):
    """Writes real files, runs nothing: what it is to run is remembered, and `answer` gives its output."""

    def __init__(self, name: str, folder: Path, answer: Answer = lambda _: "") -> None:
        super().__init__(name, folder, (0,))
        self.answer = answer
        self.commands: list[list[str]] = []
        self.daemons: list[FakeDaemon] = []
        self.programs = {"openvpn", "openssl", "tincd", "wg", "wireguard-go", "fastd", "taskset"}
        self.link_types = {"vxlan"}

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        self.commands.append(list(argv))
        return Completed(tuple(argv), 0, self.answer(argv), "")

    def start(self, argv: Sequence[str], *, has_input: bool = False, name: str = "") -> Daemon:
        self.commands.append(list(argv))
        self.daemons.append(FakeDaemon(self.answer(argv), name or Path(argv[0]).name))
        return self.daemons[-1].as_daemon

    def has_program(self, program: str) -> bool:
        return program in self.programs

    def has_path(self, path: str) -> bool:
        return True

    def read_machine(self, path: str) -> str:
        return "sleep\n" if path.startswith("/proc/0/") else super().read_machine(path)  # of a FakeDaemon

    def has_link_type(self, link_type: str, *arguments: str) -> bool:
        return link_type in self.link_types


class FakeDaemon:
    """A daemon that has printed `log` and runs until it is stopped."""

    def __init__(self, log: str, name: str = "program") -> None:
        self.log = log
        self.name = name
        self.host_name = "router"
        self.log_path = Path(f"/run/0001-{name}.log")
        self.is_running = True
        self.is_stopped = False
        self.ended_at_s = 0.0
        self.pid = 0
        self.process = self

    @property
    def as_daemon(self) -> Daemon:
        return cast("Daemon", self)

    def send_signal(self, number: int) -> None:
        """Nothing listens."""

    def output(self, limit_bytes: int = 0) -> str:
        return self.log

    def printed_since(self, size_bytes: int, limit_bytes: int = 0) -> str:
        return self.log[size_bytes:]

    def last_lines(self, count: int = 3) -> str:
        return last_lines(self.log, count)

    def last_line(self) -> str:
        return self.last_lines(1)

    def wait_for(self, text: str, timeout_s: float) -> bool:
        return text in self.log

    def stop(self) -> None:
        self.is_running = False


def make_ends(folder: Path, answer: Answer = lambda _: "") -> Ends:
    """Both ends of a tunnel on hosts that run nothing."""
    router = FakeHost("router", folder / "router", answer)
    server = FakeHost("server", folder / "server", answer)
    return Ends(
        router=End(
            router,
            "198.18.2.1",
            "wan",
            "198.18.3.1",
            reaches="198.18.4.1",
            wan_address6="2001:2::1",
            inner_address6="2001:2:0:3::1",
            reaches6="2001:2:0:4::1",
        ),
        server=End(
            server,
            "198.18.2.2",
            "wan",
            "198.18.3.2",
            reaches="198.18.1.0/24",
            wan_address6="2001:2::2",
            inner_address6="2001:2:0:3::2",
            reaches6="2001:2:0:1::/64",
        ),
        local=FakeHost("local", folder / "local", answer),
        mark="abcdef",
        prepare_device=lambda _host, _device: None,
    )


def commands(host: Any) -> list[str]:
    """Return the commands of a fake host, a line each."""
    return [" ".join(argv) for argv in host.commands]
