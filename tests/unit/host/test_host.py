"""Hosts: files that may hold keys, and the argument lists that run a command in a namespace."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tunnelbench.host.host import LocalHost, make_private
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.model.errors import CannotHere


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def host(tmp_path: Path) -> LocalHost:
    return LocalHost("local", tmp_path, (0,))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_file_is_for_its_owner_alone_whatever_the_umask(host: LocalHost, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = host.write("tinc/rsa_key.priv", "secret")
    finally:
        os.umask(before)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert path.read_text() == "secret"


def test_a_file_that_is_written_again_is_replaced_whole(host: LocalHost) -> None:
    host.write("name", "a long text")
    assert host.write("name", "short").read_text() == "short"


def test_each_daemon_of_a_host_has_a_log_of_its_own(host: LocalHost) -> None:
    daemons = [host.start(["/bin/echo", word]) for word in ("one", "two")]
    for daemon in daemons:
        assert daemon.wait(10)
    assert [daemon.log_path.name for daemon in daemons] == ["0001-echo.log", "0002-echo.log"]
    assert [daemon.output() for daemon in daemons] == ["one\n", "two\n"]
    assert {daemon.name for daemon in daemons} == {"echo"}


def test_files_are_read_one_after_the_other_and_written_through_the_host(host: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    host.set_kernel_file(str(tmp_path / "b"), "two\n")
    assert host.read(str(tmp_path / "a"), str(tmp_path / "b")) == "one\ntwo\n"


def test_a_program_is_found_by_name_and_by_path_and_else_not(host: LocalHost, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    assert host.has_program("sh")
    assert host.has_program("/bin/sh")
    assert not host.has_program("no-such-program")
    assert not host.has_program(str(plain)), "it is not executable"
    assert not host.has_program(str(tmp_path)), "it is a directory"
    assert not host.has_program("/etc/passwd/openvpn")


def test_commands_run_in_the_namespace_on_the_cpus_of_the_host(tmp_path: Path) -> None:
    host = NamespaceHost("router", tmp_path, (2, 3), "tb-abc-router")
    assert host.command(["iperf3", "-s"]) == [
        "ip", "netns", "exec", "tb-abc-router", "taskset", "-c", "2,3", "iperf3", "-s",
    ]  # fmt: skip
    assert host.command(["ip", "link"]) == ["ip", "-n", "tb-abc-router", "link"]
    host.realtime_priority = 1
    assert host.command(["iperf3", "-s"])[6:] == ["2,3", "chrt", "--fifo", "1", "iperf3", "-s"]


def test_a_private_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    before = os.umask(0)
    try:
        make_private(folder)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def others_can_write(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def group_can_write(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def is_a_link(folder: Path) -> None:
    folder.symlink_to(folder.parent)


@pytest.mark.parametrize("plant", [others_can_write, group_can_write, is_a_link, Path.touch])
def test_a_folder_of_runs_that_others_could_have_filled_is_refused(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    plant(tmp_path / "runs")
    with pytest.raises(CannotHere, match="is not used, because"):
        make_private(tmp_path / "runs")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a folder of root's")
def test_a_user_hears_that_only_root_can_use_the_folder_of_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_private(tmp_path / "runs")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(CannotHere, match="only root can use"):
        make_private(tmp_path / "runs")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_runs_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir(mode=0o700)
    os.chown(tmp_path / "runs", 65534, 65534)
    with pytest.raises(CannotHere, match="belongs to another user"):
        make_private(tmp_path / "runs")
