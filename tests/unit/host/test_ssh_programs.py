"""Pieces of shell that make folders and files on a host behind SSH."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tunnelbench.host.command import CommandFailed, Completed
from tunnelbench.host.host import LocalHost
from tunnelbench.host.ssh import SshHost
from tunnelbench.host.ssh_programs import MAKE_FOLDER, PUT_FILE, SshDaemon, in_shell
from tunnelbench.model.testbed import HostAccess

NOBODY = 65534
SHELLS = (["dash"], ["busybox", "ash"])


def run(shell: list[str], script: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [*shell, *in_shell(script, *arguments)[1:]]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture(params=SHELLS, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    return found


def test_a_folder_is_made_for_its_user_alone_and_found_again(shell: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for _ in range(2):
        assert run(shell, MAKE_FOLDER, str(folder)).returncode == 0
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused(shell: list[str], tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(mode)
    done = run(shell, MAKE_FOLDER, str(folder))
    assert (done.returncode, done.stderr) == (1, "other users can write to it\n")


def test_a_link_in_the_place_of_the_folder_is_refused(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    done = run(shell, PUT_FILE, str(tmp_path / "run"), str(tmp_path / "run" / "script"), stdin="true\n")
    assert (done.returncode, "a link" in done.stderr) == (1, True)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_folder_of_another_user_is_refused_with_the_script_in_it(shell: list[str], tmp_path: Path) -> None:
    script = tmp_path / "run" / "tunnelbench-dut"
    script.parent.mkdir()
    script.write_text("touch /root/pwned\n")
    os.chown(script.parent, NOBODY, NOBODY)
    for argv in ((MAKE_FOLDER, str(script.parent)), (PUT_FILE, str(script.parent), str(script))):
        done = run(shell, *argv, stdin="true\n")
        assert (done.returncode, "belongs to another user" in done.stderr) == (1, True)


def test_a_file_replaces_what_lies_in_its_place_and_a_reader_keeps_the_old(shell: list[str], tmp_path: Path) -> None:
    folder, script = tmp_path / "run", tmp_path / "run" / "sub" / "script"
    assert run(shell, PUT_FILE, str(folder), str(script), stdin="old\n").returncode == 0
    with script.open() as reader:
        assert run(shell, PUT_FILE, str(folder), str(script), stdin="new\n").returncode == 0
        assert reader.read() == "old\n"
    assert script.read_text() == "new\n"
    assert script.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in script.parent.iterdir()] == ["script"]


@pytest.mark.parametrize("printed", ["²", "9" * 5000, "-1", "1 2", ""])
def test_a_process_number_that_is_none_is_a_sentence(tmp_path: Path, printed: str) -> None:
    class Answering(SshHost):
        """A host that prints something in place of a process number."""

        def command(self, argv: object) -> list[str]:
            return ["true"]

        def run(self, argv: object, **_: object) -> Completed:
            return Completed((), 0, printed, "")

    host = Answering("router", HostAccess("r"), tmp_path, tmp_path, LocalHost("local", tmp_path, ()))
    daemon = SshDaemon(host, ["vpn"], tmp_path / "0001-vpn.log", "vpn", has_input=True)
    daemon.close_input()
    daemon.process.wait()
    with pytest.raises(CommandFailed, match=r"`vpn` does not start on the router \(status 0\): no output"):
        _ = daemon.pid
