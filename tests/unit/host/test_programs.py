"""The programs that every run needs."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from tunnelbench.host.command import DIE_WITH_CONTROLLER, FILE_LIMIT
from tunnelbench.host.programs import REQUIRED_PROGRAMS, qemu_version, require_programs
from tunnelbench.model.errors import CannotHere


def test_every_missing_program_is_named_with_the_packages_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"ip", "tcpdump", "iperf3", "ping", "nft", "taskset"}
    monkeypatch.setattr(shutil, "which", lambda program, **_: f"/bin/{program}" if program in there else None)
    with pytest.raises(CannotHere) as caught:
        require_programs()
    assert caught.value.message == "a run needs programs that are missing here: tc, ss, ethtool, setpriv, prlimit"
    assert caught.value.hint == "apt-get install ethtool iproute2 util-linux"


def test_where_all_are_there_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program, **_: f"/bin/{program}")
    require_programs()


def test_the_programs_in_front_of_each_daemon_are_required() -> None:
    assert {DIE_WITH_CONTROLLER[0], FILE_LIMIT[0]} <= REQUIRED_PROGRAMS.keys()


@pytest.mark.parametrize(("printed", "version"), [
    ("QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg-7+deb12u13)\nCopyright\n", "7.2.17"), ("nothing", ""),
])  # fmt: skip
def test_the_version_of_qemu_is_read(monkeypatch: pytest.MonkeyPatch, printed: str, version: str) -> None:
    def ran(argv: list[str]) -> SimpleNamespace:
        assert argv == ["qemu-system-mipsel", "--version"]
        return SimpleNamespace(stdout=printed)

    monkeypatch.setattr("tunnelbench.host.programs.run_command", ran)
    assert qemu_version("qemu-system-mipsel") == version
