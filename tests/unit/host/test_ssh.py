"""Command lines of ssh: settings of the user do not reach the router."""

from __future__ import annotations

import subprocess
from ipaddress import ip_address
from pathlib import Path

import pytest

from tunnelbench.host.host import LocalHost
from tunnelbench.host.ssh import SshHost, SshServer, left_sockets, parse_ssh_connection
from tunnelbench.model.testbed import HostAccess

SETTINGS = """\
Host *
    ForwardAgent yes
    ForwardX11 yes
    GSSAPIDelegateCredentials yes
    PermitLocalCommand yes
    LocalCommand touch /tmp/here
    RemoteCommand touch /tmp/there
    Tunnel yes
    ControlPersist yes
    RemoteForward 9999 localhost:22
    ForkAfterAuthentication yes
    SendEnv *
    SetEnv PASSWORD=secret
"""


class Started(Exception):
    """The command line of ssh, before it runs."""


class Recorder(LocalHost):
    """This machine; it records a program instead of starting it."""

    def start(self, argv: list[str], **_: object) -> None:  # type: ignore[override]
        raise Started(*argv)


def command_lines(folder: Path) -> dict[str, list[str]]:
    config = folder / "config"
    config.write_text(SETTINGS)
    host = SshHost(
        "router",
        HostAccess("root@r", config=str(config)),
        Path("/tmp/there"),
        folder / "log",
        Recorder("local", folder, ()),
    )
    with pytest.raises(Started) as login:
        host.connect()
    host._socket_folder = folder
    return {"login": list(login.value.args), "command": host.command(["true"])}


@pytest.mark.parametrize("which", ["login", "command"])
def test_the_users_ssh_settings_hand_nothing_to_the_router(tmp_path: Path, which: str) -> None:
    argv = command_lines(tmp_path)[which]
    words = argv[argv.index("ssh") + 1 :]
    shown = subprocess.run(["ssh", "-G", *words], capture_output=True, text=True, check=True).stdout
    found = dict(line.partition(" ")[::2] for line in shown.splitlines())
    off = ("forwardagent", "forwardx11", "gssapidelegatecredentials", "permitlocalcommand", "tunnel", "controlpersist",
           "forkafterauthentication", "updatehostkeys")  # fmt: skip
    assert {found[name] for name in off} <= {"no", "false"}
    assert found["clearallforwardings"] == "yes"
    assert "remotecommand" not in found
    assert found["setenv"] == "TUNNELBENCH=1"
    assert "-N" in words or "sendenv" not in found  # with -N, no session is opened that could send variables


def test_files_of_a_testbed_are_named_from_root_because_ssh_starts_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    access = HostAccess("r", identity="keys/id", config="config")
    host = SshHost("router", access, tmp_path, tmp_path, LocalHost("l", tmp_path, ()))
    host._socket_folder = tmp_path
    assert f"-F {tmp_path}/config" in " ".join(host._login_options())
    assert f"-i {tmp_path}/keys/id" in " ".join(host._login_options())
    host.access = HostAccess("r", identity="~/.ssh/id", config="none")
    assert "-F none" in " ".join(host._login_options())
    assert "-i ~/.ssh/id" in " ".join(host._login_options())


def test_a_login_that_fails_or_is_interrupted_leaves_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.host.ssh.SOCKET_FOLDERS", tmp_path)
    monkeypatch.setattr("tunnelbench.host.ssh.SSH", ["sh", "-c", 'touch "$3"; exec sleep 60', "ssh"])
    host = SshHost("router", HostAccess("root@r"), Path("/tmp/there"), tmp_path / "log", LocalHost("l", tmp_path, ()))

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        host.connect()
    assert not list(tmp_path.glob("tunnelbench-ssh-*"))
    assert not host.is_connected


def test_only_folders_count_as_sockets_that_a_run_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.host.ssh.SOCKET_FOLDERS", tmp_path)
    ours = tmp_path / "tunnelbench-ssh-abcdef-1"
    ours.mkdir()
    (tmp_path / "tunnelbench-ssh-abcdef-2").symlink_to("/etc")
    (tmp_path / "tunnelbench-ssh-abcdef-3").touch()
    assert left_sockets("abcdef") == [ours]


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("192.0.2.2 40000 192.0.2.1 22\n", SshServer(ip_address("192.0.2.1"), 22)),
        ("fe80::2%eth0 40000 fe80::1%br-lan 2222\n", SshServer(ip_address("fe80::1"), 2222)),
        ("::ffff:192.0.2.2 40000 ::ffff:192.0.2.1 22\n", SshServer(ip_address("192.0.2.1"), 22)),
        ("UNKNOWN 65535 UNKNOWN 65535\n", None),
        ("\n", None),
        ("a banner\n192.0.2.2 40000 192.0.2.1 22\n", None),
        ("192.0.2.2 40000 192.0.2.1 99999\n", None),
    ],
)
def test_the_ssh_server_is_the_one_that_the_shell_names(text: str, server: SshServer | None) -> None:
    assert parse_ssh_connection(text) == server
