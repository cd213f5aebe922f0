"""OpenSSH's tunnel (`ssh -w`): IP packets in an SSH connection; the router is the client."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import (
    IPV4_HEADER_BYTES,
    START_LIMIT_S,
    TCP_HEADER_BYTES,
    End,
    Outer,
    Requirement,
    Tunnel,
    TunnelOptions,
    equals,
    path,
    tun_device,
)
from tunnelbench.tunnel.private_run import FOLDER, private_run, private_run_programs
from tunnelbench.tunnel.versions import version_of

PORT = 22
SSHD = "/usr/sbin/sshd"

LENGTH_BYTES = 4
"""Of the packet (RFC 4253, 6); not padded to the block where it is not enciphered with the rest."""

MESSAGE_BYTES = 1 + 1 + 4 + 4 + 4
"""Length of the padding, type of the message, channel, length of the data (RFC 4254, 5.2), and the address family that
leads a packet in OpenSSH's tunnel (its PROTOCOL, 2.3)."""

SMALLEST_PADDING_BYTES = 4

BLOCK_BYTES = {"aes128-gcm": 16, "aes256-gcm": 16, "chacha20-poly1305": 8, "aes128-ctr": 16, "aes256-ctr": 16}
AEAD_TAG_BYTES = 16
MAC_BYTES = {"hmac-sha1-etm": 20, "hmac-sha2-256-etm": 32, "hmac-sha2-512-etm": 64}

Cipher = Literal["aes128-gcm", "aes256-gcm", "chacha20-poly1305", "aes128-ctr", "aes256-ctr"]


class Options(TunnelOptions):
    """Options of `ssh`."""

    cipher: Cipher = Field(default="chacha20-poly1305", description="cipher of the connection")
    mac: Literal["hmac-sha1-etm", "hmac-sha2-256-etm", "hmac-sha2-512-etm"] = Field(
        default="hmac-sha2-256-etm", description="MAC of the connection; GCM and Poly1305 have none beside them"
    )

    @property
    def is_aead(self) -> bool:
        return not self.cipher.endswith("-ctr")


class Ssh(Tunnel[Options]):
    """Plan entry: `kind = "ssh"`, `cipher = "aes128-gcm"`. TCP in TCP: a loss outside stalls all inside."""

    kind = "ssh"
    title = "OpenSSH's tunnel in user space: IP packets over TCP"
    options_type = Options
    tested_with = "OpenSSH 9.2p1 with OpenSSL 3.0"
    signs_of_restart = ("Connection closed", "Broken pipe", "Timeout, server")

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        # Not as programs, whose versions `doctor` asks for by --version: they know no such word.
        client = Requirement(
            "OpenSSH's client",
            lambda host: host.has_program("ssh") and host.has_program("ssh-keygen"),
            "apt-get install openssh-client",
        )
        return (tun_device(), client, path("OpenSSH's server", SSHD, "openssh-server"), *private_run_programs())

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        # OpenSSH's ChaCha20 is its own, and a MAC of it has no name in OpenSSL.
        return {"aes128-gcm": ("aes-128-gcm",), "aes256-gcm": ("aes-256-gcm",)}.get(options.cipher, ())

    @property
    def outer(self) -> Outer:
        return Outer("tcp", PORT)

    @property
    def hides_payload(self) -> bool:
        return True

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        options = self.options
        block = BLOCK_BYTES[options.cipher]
        unpadded = MESSAGE_BYTES + inner_packet_bytes + SMALLEST_PADDING_BYTES
        padded = -(-unpadded // block) * block
        tag = AEAD_TAG_BYTES if options.is_aead else MAC_BYTES[options.mac]
        return IPV4_HEADER_BYTES + TCP_HEADER_BYTES + LENGTH_BYTES + padded + tag

    def versions(self, end: End) -> Mapping[str, str]:
        # The server is of the same version, being of the same source package; asked for it, it prints its usage.
        argv = ["ssh", "-V"]
        return {
            "openssh": version_of(end.host, argv, r"OpenSSH_([^ ,]+)"),
            "openssl": version_of(end.host, argv, r"OpenSSL (\S+)"),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """What the router's client says of what it sends with."""
        cipher, mac = parse_keys(self.router_daemons[0].output())
        checks = [equals("cipher", cipher_name(self.options.cipher), cipher)]
        if not self.options.is_aead:
            checks.append(equals("mac", f"{self.options.mac}@openssh.com", mac))
        return tuple(checks)

    def _up(self) -> None:
        router, server = self.ends.router, self.ends.server
        keys = {name: self._new_key() for name in ("host", "user")}
        self._write(server, f"{FOLDER}/host.key", keys["host"][0], secret=True)
        self._write(server, f"{FOLDER}/authorized_keys", keys["user"][1])
        self._write(server, f"{FOLDER}/sshd_config", self._server_config())
        self._write(server, f"{FOLDER}/sshd/empty", "")  # the folder that sshd empties itself into
        enter = private_run(server, self._stack)
        sshd = self._start(server, [*enter, SSHD, "-D", "-e", "-f", "/run/sshd_config"], name="sshd")
        self._require(sshd, "Server listening", timeout_s=START_LIMIT_S)

        user_key = self._write(router, "user.key", keys["user"][0], secret=True)
        known_hosts = self._write(router, "known_hosts", f"{server.wan_address} {keys['host'][1]}")
        ssh = self._start(router, self._client_command(user_key, known_hosts))
        for daemon in (ssh, sshd):
            self._require(daemon, "Tunnel forwarding using interface", timeout_s=START_LIMIT_S)
        for end, _ in self.ends:
            self._address_device(end)

    def _new_key(self) -> tuple[str, str]:
        """A private key and its public one."""
        local = self.ends.local
        with tempfile.TemporaryDirectory(dir=local.folder) as folder:
            key = Path(folder, "key")
            local.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tunnelbench", "-f", str(key)])
            return key.read_text(), key.with_suffix(".pub").read_text()

    def _server_config(self) -> str:
        return f"""\
ListenAddress {self.ends.server.wan_address}:{PORT}
HostKey /run/host.key
AuthorizedKeysFile /run/authorized_keys
PidFile none
PermitRootLogin prohibit-password
PermitTunnel point-to-point
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
Compression no
LogLevel DEBUG1
Ciphers {cipher_name(self.options.cipher)}
MACs {self.options.mac}@openssh.com
"""

    def _client_command(self, key: str, known_hosts: str) -> list[str]:
        settings = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "ExitOnForwardFailure": "yes",
            "Compression": "no",
            "Ciphers": cipher_name(self.options.cipher),
            "MACs": f"{self.options.mac}@openssh.com",
        }
        words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        # fmt: off
        return ["ssh", "-F", "/dev/null", "-v", "-N", "-T", "-w", "0:0", "-p", str(PORT), "-i", key, *words,
                f"root@{self.ends.server.wan_address}"]
        # fmt: on


def cipher_name(cipher: str) -> str:
    """As OpenSSH has it."""
    return cipher if cipher.endswith("-ctr") else f"{cipher}@openssh.com"


def parse_keys(log: str) -> tuple[str, str]:
    """Cipher and MAC that the client sends with, of `ssh -v`; `unknown` where it tells none."""
    found = re.findall(r"kex: client->server cipher: (\S+) MAC: (\S+)", log)
    return found[-1] if found else ("unknown", "unknown")
