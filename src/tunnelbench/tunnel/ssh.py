"""OpenSSH's tunnel (`ssh -w`): IP packets in an SSH connection; the router is the client."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from tunnelbench.model.frames import AEAD_TAG_BYTES, tcp_packet_bytes
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import DeviceMtuOptions, End, Outer, Tunnel, equals
from tunnelbench.tunnel.private_run import FOLDER, private_run, private_run_programs
from tunnelbench.tunnel.requirements import Requirement, path, tun_device
from tunnelbench.tunnel.versions import UNKNOWN, version_of

PORT = 22
SSHD = "/usr/sbin/sshd"

LENGTH_BYTES = 4
"""Size of the packet length field (RFC 4253, section 6), which AEAD and EtM ciphers leave out of the padding."""

MESSAGE_BYTES = 1 + 1 + 4 + 4 + 4
"""Bytes of padding length, message type, channel, data length (RFC 4254, section 5.2) and, in OpenSSH's tunnel, the
address family before a packet (OpenSSH's PROTOCOL, section 2.3)."""

SMALLEST_PADDING_BYTES = 4

PACKET_BLOCK_BYTES = {"aes128-gcm": 16, "aes256-gcm": 16, "chacha20-poly1305": 8, "aes128-ctr": 16, "aes256-ctr": 16}
MOST_BYTES_OF_KEYS = {8: 2**30, 16: 2**36}
"""Amount of data in one direction after which OpenSSH changes the keys [bytes], by the block of the cipher: 1 GiB, and
2^32 blocks of 16 bytes (ssh_set_newkeys in packet.c; RFC 4344, section 3.2)."""
MAC_BYTES = {"hmac-sha1-etm": 20, "hmac-sha2-256-etm": 32, "hmac-sha2-512-etm": 64}

Cipher = Literal["aes128-gcm", "aes256-gcm", "chacha20-poly1305", "aes128-ctr", "aes256-ctr"]


class Options(DeviceMtuOptions):
    ipv4_only_inside = ipv4_only_outside = ""

    cipher: Cipher = Field(default="chacha20-poly1305", description="cipher of the connection")
    mac: Literal["hmac-sha1-etm", "hmac-sha2-256-etm", "hmac-sha2-512-etm"] = Field(
        default="hmac-sha2-256-etm", description="MAC of the connection; GCM and Poly1305 need none"
    )

    @property
    def rekey_bytes(self) -> float:
        return MOST_BYTES_OF_KEYS[PACKET_BLOCK_BYTES[self.cipher]]

    @property
    def is_aead(self) -> bool:
        """True if the cipher also authenticates."""
        return not self.cipher.endswith("-ctr")


PLAN_ENTRY = {"name": "SSH AES-128-GCM", "cipher": "aes128-gcm"}


class Ssh(Tunnel[Options]):
    """Plan entry: `kind = "ssh"`, `cipher = "aes128-gcm"`.

    The tunnel is TCP in TCP: a lost outer packet stalls all inner connections. OpenSSH changes the keys after each GiB
    in one direction with ChaCha20-Poly1305, and after each 64 GiB with the other ciphers.
    """

    kind = "ssh"
    title = "OpenSSH's tunnel in user space: IP packets over TCP"
    options_type = Options
    tested_with = "OpenSSH 9.2p1 with OpenSSL 3.0"
    plans = {"all": PLAN_ENTRY, "userspace": PLAN_ENTRY}
    added_bytes = {
        "GCM": "72, and 18 padded with the packet to 16",
        "ChaCha20": "72, and 18 padded with the packet to 8",
        "CTR with SHA-1 / SHA-256 / SHA-512 (ETM)": "76 / 88 / 120, and 18 padded with the packet to 16",
    }
    signs_of_restart = ("Connection closed", "Broken pipe", "Timeout, server")
    signs_of_rekey = ("rekeying out",)
    needs = (
        tun_device(),
        # `doctor` asks a program for its version by --version, which ssh-keygen and sshd do not know.
        Requirement(
            "OpenSSH's client",
            lambda host: host.has_program("ssh") and host.has_program("ssh-keygen"),
            debian="openssh-client",
            openwrt="openssh-client openssh-keygen",
        ),
        path("OpenSSH's server", SSHD, "openssh-server", openwrt="openssh-server"),
        *private_run_programs(),
    )
    hides_payload = True

    @property
    def outer(self) -> Outer:
        return Outer("tcp", PORT, self.outside.number)

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        # OpenSSH has a ChaCha20 of its own, and its MACs have no name in OpenSSL.
        return {"aes128-gcm": ("aes-128-gcm",), "aes256-gcm": ("aes-256-gcm",)}.get(options.cipher, ())

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        options = self.options
        block = PACKET_BLOCK_BYTES[options.cipher]
        unpadded = MESSAGE_BYTES + inner_packet_bytes + SMALLEST_PADDING_BYTES
        padded = -(-unpadded // block) * block
        tag = AEAD_TAG_BYTES if options.is_aead else MAC_BYTES[options.mac]
        return tcp_packet_bytes(LENGTH_BYTES + padded + tag, self.outer.ip_header_bytes)

    def versions(self, end: End) -> Mapping[str, str]:
        # The server has the same version, for it is of the same source package; it cannot be asked.
        argv = ["ssh", "-V"]
        return {
            "openssh": version_of(end.host, argv, r"OpenSSH_([^ ,]+)"),
            "openssl": version_of(end.host, argv, r"OpenSSL (\S+)"),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the algorithms in the router's log with what was asked for."""
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
        self._write(server, f"{FOLDER}/sshd/empty", "")  # makes the folder into which sshd locks itself (chroot)
        enter = private_run(server, self._stack)
        sshd = self._start(server, [*enter, SSHD, "-D", "-e", "-f", "/run/sshd_config"], name="sshd")
        self._require(sshd, "Server listening")

        user_key = self._write(router, "user.key", keys["user"][0], secret=True)
        known_hosts = self._write(router, "known_hosts", f"{self._outer_address(server)} {keys['host'][1]}")
        ssh = self._start(router, self._client_command(user_key, known_hosts))
        for daemon in (ssh, sshd):
            self._require(daemon, "Tunnel forwarding using interface")
        for end, _ in self.ends:
            self._address_device(end)

    def _new_key(self) -> tuple[str, str]:
        """Return a new private key and its public key."""
        local = self.ends.local
        with tempfile.TemporaryDirectory(dir=local.folder) as folder:
            key = Path(folder, "key")
            local.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tunnelbench", "-f", str(key)])
            return key.read_text(), key.with_suffix(".pub").read_text()

    def _server_config(self) -> str:
        return f"""\
ListenAddress {self._outer_socket(self.ends.server, PORT)}
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
                f"root@{self._outer_address(self.ends.server)}"]
        # fmt: on


def cipher_name(cipher: str) -> str:
    """Return OpenSSH's name of a cipher."""
    return cipher if cipher.endswith("-ctr") else f"{cipher}@openssh.com"


def parse_keys(log: str) -> tuple[str, str]:
    """Return the cipher and the MAC with which the client sends, by the log of `ssh -v`; `unknown` if it has none."""
    found = re.findall(r"kex: client->server cipher: (\S+) MAC: (\S+)", log)
    return found[-1] if found else (UNKNOWN, UNKNOWN)
