"""OpenSSH's tunnel: its log as evidence, its configuration and its secrets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.output.samples import samples
from tests.unit.tunnel.cases import IP_VERSIONS, TunnelCase
from tests.unit.tunnel.fakes import FakeDaemon, FakeHost, commands, make_ends

from tunnelbench.host.command import Completed
from tunnelbench.model.result import Verdict
from tunnelbench.tunnel.ssh import Options, Ssh, parse_keys

TUNNELS = (
    TunnelCase(
        "ssh",
        lengths=(
            ({}, 336),
            ({"cipher": "aes128-gcm"}, 344),
            ({"cipher": "aes128-ctr"}, 360),
            ({"outside": "ipv6"}, 356),
        ),
        seen=(({}, "tcp port 22, a stream, hidden"),),
        refused=({"cipher": "none"},),
        exact=(
            {"cipher": "aes128-gcm"},
            {"cipher": "chacha20-poly1305"},
            {"cipher": "aes256-ctr", "mac": "hmac-sha1-etm"},
            *IP_VERSIONS,
        ),
        may_change_machine=True,
        version_commands={"openssh": ("ssh", "-V")},
        samples={cipher: {"cipher": cipher} for cipher in ("aes128-gcm", "chacha20-poly1305", "aes128-ctr")},
    ),
)

LOGS = samples("openssh-*/*.log")
UP = "Server listening\nTunnel forwarding using interface tun0\n"


class KeyHost(FakeHost):
    """Writes what ssh-keygen would."""

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 0, check: bool = True) -> Completed:
        if argv[0] == "ssh-keygen":
            Path(argv[-1]).write_text("SECRET")
            Path(argv[-1]).with_suffix(".pub").write_text("ssh-ed25519 PUBLIC\n")
        return super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)


def make_tunnel(folder: Path, **options: Any) -> Ssh:
    ends = make_ends(folder, lambda _: UP)
    ends.local.folder.mkdir(exist_ok=True)
    ends.local.__class__ = KeyHost
    return Ssh(Options.model_validate(options), ends)


@pytest.mark.parametrize("name", LOGS)
def test_a_connection_by_what_was_asked_for_is_proven(name: str, tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path, cipher=Path(name).stem)
    tunnel.router_daemons = [FakeDaemon(LOGS[name]).as_daemon]
    assert {check.verdict for check in tunnel.negotiated()} == {Verdict.OK}


@pytest.mark.parametrize("log", ["", *LOGS.values()])
def test_a_connection_by_anything_else_is_void(log: str, tmp_path: Path) -> None:
    tunnel = make_tunnel(tmp_path, cipher="aes256-ctr", mac="hmac-sha1-etm")
    tunnel.router_daemons = [FakeDaemon(log).as_daemon]
    assert {check.verdict for check in tunnel.negotiated()} == {Verdict.VOID}


def test_a_log_without_a_connection_gives_nothing() -> None:
    assert parse_keys("debug1: Connecting to 198.18.2.2") == ("unknown", "unknown")


def test_nothing_of_the_users_own_is_read_and_only_one_cipher_is_offered(tmp_path: Path) -> None:
    with make_tunnel(tmp_path, cipher="aes128-gcm") as tunnel:
        (client,) = (line for line in commands(tunnel.ends.router.host) if line.startswith("ssh "))
        server = tunnel.configuration["server/run/sshd_config"].splitlines()
    for words in ("-F /dev/null", "StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null",
                  "Ciphers=aes128-gcm@openssh.com", "Compression=no"):  # fmt: skip
        assert words in client
    assert {"Ciphers aes128-gcm@openssh.com", "ListenAddress 198.18.2.2:22", "PidFile none"} <= set(server)


def test_the_server_has_a_run_folder_of_its_own(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        ran = commands(tunnel.ends.server.host)
        assert ran[0] == "unshare --mount --propagation private sleep infinity"
        assert ran[1] == f"nsenter --mount=/proc/0/ns/mnt --root=/proc/0/root mount --bind {tmp_path}/server/run /run"
        assert ran[2].startswith("nsenter --mount=/proc/0/ns/mnt --root=/proc/0/root /usr/sbin/sshd -D ")
        assert [daemon.name for daemon in tunnel.server_daemons] == ["sshd"]


def test_secrets_are_deleted_and_never_kept_with_the_results(tmp_path: Path) -> None:
    with make_tunnel(tmp_path) as tunnel:
        keys = list(tmp_path.rglob("*.key"))
        assert [key.stat().st_mode & 0o777 for key in keys] == [0o600, 0o600]
        assert "SECRET" not in "".join(tunnel.configuration.values())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("log", LOGS.values())
def test_a_connection_that_comes_up_is_no_restart(log: str) -> None:
    assert not any(sign in log for sign in Ssh.signs_of_restart)


REKEY = "debug1: ssh_set_newkeys: rekeying out, input 55 bytes 6 blocks, output 1073741824 bytes 134217728 blocks"


@pytest.mark.parametrize("log", LOGS.values())
def test_the_first_keys_of_a_connection_are_no_rekey_and_later_ones_are(log: str) -> None:
    assert not any(sign in log for sign in Ssh.signs_of_rekey)
    assert any(sign in REKEY for sign in Ssh.signs_of_rekey)
