"""OpenVPN between two fixed ends: TLS with a CA of its own, or a static key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from tunnelbench.host.command import Daemon
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.result import Check
from tunnelbench.tunnel import certificates
from tunnelbench.tunnel.base import (
    ETHERNET_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    TCP_HEADER_BYTES,
    UDP_HEADER_BYTES,
    End,
    Outer,
    Requirement,
    Tunnel,
    TunnelOptions,
    equals,
    key_maker,
    program,
    tun_device,
)
from tunnelbench.tunnel.versions import version_of

PORT = 1194

CIPHER_BLOCK_BYTES = {
    "AES-128-CBC": 16, "AES-192-CBC": 16, "AES-256-CBC": 16,
    "CAMELLIA-128-CBC": 16, "CAMELLIA-256-CBC": 16,
    "BF-CBC": 8, "CAST5-CBC": 8, "DES-EDE3-CBC": 8,
}  # fmt: skip
"""Block, and so IV, of the ciphers in CBC mode."""

DIGEST_BYTES = {"none": 0, "MD5": 16, "SHA1": 20, "SHA224": 28, "SHA256": 32, "SHA384": 48, "SHA512": 64}

LEGACY_CIPHERS = {"BF-CBC", "CAST5-CBC"}
"""What OpenSSL 3 keeps in its legacy provider."""

OPCODE_AND_PEER_ID_BYTES = 4
"""P_DATA_V2; a static key's packets have neither."""

PACKET_ID_BYTES = 4
STATIC_KEY_PACKET_ID_BYTES = 8
"""With a static key the packet number comes with a time stamp."""

AEAD_TAG_BYTES = 16

STREAM_LENGTH_BYTES = 2
"""In TCP each record is led by its length."""

MASK = "OPENSSL_ia32cap=~0x200000200000000:~0x0"
"""Takes AES and carry-less multiplication, and nothing else, from what OpenSSL sees of the CPU (OPENSSL_ia32cap(3));
without the colon it would lose AVX2 and SHA, too."""

X86_64 = Requirement(
    "a CPU of x86-64",
    lambda host: host.run(["uname", "-m"]).stdout.strip() == "x86_64",
    "leave aes_instructions out, or take a machine that is one",
)

Cipher = Literal[
    "AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "CHACHA20-POLY1305",
    "AES-128-CBC", "AES-192-CBC", "AES-256-CBC", "CAMELLIA-128-CBC", "CAMELLIA-256-CBC",
    "BF-CBC", "CAST5-CBC", "DES-EDE3-CBC", "none",
]  # fmt: skip


class Options(TunnelOptions):
    """Options of `openvpn`."""

    mode: Literal["tls", "static-key"] = Field(default="tls", description="how the ends agree on keys")
    transport: Literal["udp", "tcp"] = Field(default="udp", description="what carries the tunnel's packets")
    dev: Literal["tun", "tap"] = Field(default="tun", description="IP packets, or Ethernet frames")
    cipher: Cipher = Field(default="AES-256-GCM", description="cipher of the data channel")
    auth: Literal["SHA1", "SHA224", "SHA256", "SHA384", "SHA512", "MD5", "none"] = Field(
        default="SHA1", description="digest of the data channel; AEAD ciphers (GCM, Poly1305) have none beside them"
    )
    mssfix: int | None = Field(
        default=None, ge=0, le=65535, description="OpenVPN's mssfix [bytes], 0 for off; left out: its own default"
    )
    tun_mtu: int | None = Field(
        default=None, ge=576, le=9000, description="MTU of the tunnel's device [bytes]; left out: its own default, 1500"
    )
    tls_wrap: Literal["none", "tls-auth", "tls-crypt"] = Field(
        default="none", description="with mode = tls: a second key that signs, or enciphers, the control channel"
    )
    sndbuf: int | None = Field(
        default=None, ge=2048, le=16_777_216, description="send buffer of the socket [bytes]; left out: the system's"
    )
    rcvbuf: int | None = Field(
        default=None, ge=2048, le=16_777_216, description="receive buffer of the socket [bytes]; left out: the system's"
    )
    reneg_sec: int | None = Field(
        default=None, ge=0, le=604_800, description="new keys after so many seconds, 0 for never; left out: 3600"
    )
    reneg_bytes: int | None = Field(
        default=None, ge=0, le=2**62, description="new keys after so many bytes; left out: its own default"
    )
    aes_instructions: bool = Field(
        default=True, description="false: OpenSSL does without the CPU's AES instructions (x86-64 only)"
    )
    program: str = Field(default="openvpn", description="name or path of the program at both ends")

    @property
    def is_aead(self) -> bool:
        return self.cipher.endswith(("-GCM", "-POLY1305"))

    @field_validator("program")
    @classmethod
    def _is_a_program(cls, value: str) -> str:
        # It becomes the first word of a command that root runs: nothing that could pass for an option or a second word.
        if not re.fullmatch(r"(/[A-Za-z0-9._+/-]+|[A-Za-z0-9._+][A-Za-z0-9._+-]*)", value):
            raise ValueError("must be a plain name such as openvpn, or a full path such as /opt/openvpn/sbin/openvpn")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.mode == "static-key" and self.is_aead:
            raise ValueError(f'OpenVPN refuses {self.cipher} with a static key; take a CBC cipher, or mode = "tls"')
        if self.mode == "static-key" and self.tls_wrap != "none":
            raise ValueError(f'there is no control channel for {self.tls_wrap} to wrap; take mode = "tls"')
        if self.mode == "static-key" and (self.reneg_sec, self.reneg_bytes) != (None, None):
            raise ValueError('a static key is never renegotiated; take mode = "tls"')
        return self


class OpenVpn(Tunnel[Options]):
    """Plan entry: `kind = "openvpn"`, `cipher = "AES-128-CBC"`, `auth = "SHA1"`.

    The kernel's data channel (DCO) is always switched off: this is the program in user space.
    """

    kind = "openvpn"
    title = "OpenVPN in user space: TLS or static key, UDP or TCP, tun or tap"
    options_type = Options
    tested_with = "OpenVPN 2.6.14 with OpenSSL 3.0"
    signs_of_restart = ("process restarting", "Inactivity timeout")
    signs_of_rekey = ("Control Channel: TLS",)

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        needs = (tun_device(), program(options.program, "openvpn"), key_maker("openssl"))
        return needs if options.aes_instructions else (*needs, X86_64)

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        names = [options.cipher] if options.is_aead else [options.cipher, options.auth]
        if not options.aes_instructions:  # by itself the cipher is measured with them
            names = [name for name in names if not name.startswith("AES-")]
        return tuple(name.lower() for name in names if name != "none")

    @property
    def outer(self) -> Outer:
        return Outer(self.options.transport, PORT)

    @property
    def hides_payload(self) -> bool:
        return self.options.cipher != "none"

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        options = self.options
        plain = inner_packet_bytes + (ETHERNET_HEADER_BYTES if options.dev == "tap" else 0)
        if options.mode == "tls":
            plain += PACKET_ID_BYTES
            head = OPCODE_AND_PEER_ID_BYTES
        else:
            plain += STATIC_KEY_PACKET_ID_BYTES
            head = 0
        if options.is_aead:
            record = head + AEAD_TAG_BYTES + plain
        elif options.cipher == "none":
            record = head + DIGEST_BYTES[options.auth] + plain
        else:
            block = CIPHER_BLOCK_BYTES[options.cipher]
            padded = (plain // block + 1) * block  # PKCS #7 always adds at least one byte
            record = head + DIGEST_BYTES[options.auth] + block + padded
        if options.transport == "tcp":
            return IPV4_HEADER_BYTES + TCP_HEADER_BYTES + STREAM_LENGTH_BYTES + record
        return IPV4_HEADER_BYTES + UDP_HEADER_BYTES + record

    def versions(self, end: End) -> Mapping[str, str]:
        argv = [self.options.program, "--version"]
        return {
            "openvpn": version_of(end.host, argv, r"^OpenVPN (\S+)"),
            "openssl": version_of(end.host, argv, r"library versions: OpenSSL (\S+?),? "),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """What the router's daemon says of its data channel (verb 4)."""
        cipher, auth = parse_data_channel(self.router_daemons[0].output())
        checks = [equals("cipher", self.options.cipher, cipher)]
        if not self.options.is_aead:
            checks.append(equals("digest", self.options.auth, auth))
        if not self.options.aes_instructions:
            environment = self.ends.router.host.read_machine(f"/proc/{self.router_daemons[0].pid}/environ")
            found = MASK if MASK in environment.split("\0") else "all instructions"
            checks.append(equals("aes-instructions", MASK, found))
        return tuple(checks)

    def _up(self) -> None:
        if self.options.mode == "tls":
            files = self._tls_files()
            if self.options.tls_wrap != "none":
                text = self._new_static_key()
                for end, _ in self.ends:
                    files[end.host.name][self.options.tls_wrap] = self._write(end, "wrap.key", text, secret=True)
        else:
            text = self._new_static_key()
            files = {
                end.host.name: {"secret": self._write(end, "static.key", text, secret=True)} for end, _ in self.ends
            }
        # The server first: a client that finds nobody waits seconds before it tries again.
        for end, other in reversed(list(self.ends)):
            config = self._write(end, "openvpn.conf", self._config(end, other, files[end.host.name]))
            masked = [] if self.options.aes_instructions else ["env", MASK]
            name = Path(self.options.program).name
            daemon = self._start(end, [*masked, self.options.program, "--config", config], name=name)
            if end is self.ends.server:
                self._await(
                    daemon, "link local" if self.options.transport == "udp" else "Listening for incoming TCP", 5
                )
        # With a static key there is no handshake, and OpenVPN calls itself initialised at the peer's first packet only.
        ready = "Initialization Sequence Completed" if self.options.mode == "tls" else "link remote"
        for daemon in (*self.router_daemons, *self.server_daemons):
            self._await(daemon, ready, 15)

    def _await(self, daemon: Daemon, text: str, timeout_s: float) -> None:
        try:
            self._require(daemon, text, timeout_s)
        except TunnelRefused as error:
            raise TunnelRefused(first_complaint(daemon.output()) or error.message) from None

    def _new_static_key(self) -> str:
        key = self.ends.local.folder / "static.key"
        self.ends.local.run([self.options.program, "--genkey", "secret", str(key)])
        text = key.read_text()
        key.unlink()
        return text

    def _tls_files(self) -> dict[str, dict[str, str]]:
        """Certificates of a new CA; its key is gone when this returns."""
        authority = certificates.new_authority(self.ends.local, [end.host.name for end, _ in self.ends])
        return {
            end.host.name: {
                "ca": self._write(end, "ca.crt", authority.certificate),
                "cert": self._write(end, "end.crt", authority.issued[end.host.name].certificate),
                "key": self._write(end, "end.key", authority.issued[end.host.name].key, secret=True),
            }
            for end, _ in self.ends
        }

    def _config(self, end: End, other: End, files: Mapping[str, str]) -> str:
        options = self.options
        is_server = end is self.ends.server
        protocol = {"udp": "udp4", "tcp": "tcp4-server" if is_server else "tcp4-client"}[options.transport]
        lines = [
            f"dev {self.device}",
            f"dev-type {options.dev}",
            f"proto {protocol}",
            *(
                [f"local {end.wan_address}", f"lport {PORT}"]
                if is_server
                else ["nobind", f"remote {other.wan_address} {PORT}"]
            ),
            f"ifconfig {end.inner_address} {other.inner_address if options.dev == 'tun' else '255.255.255.0'}",
            *(f"{key} {path}" for key, path in files.items()),
            f"auth {options.auth}",
            "disable-dco",
            "script-security 1",
            "verb 4",
        ]
        if options.mode == "tls":
            lines += ["tls-server", "dh none"] if is_server else ["tls-client"]
            # Both ends name one cipher only, so that there is nothing to fall back to.
            lines += [f"data-ciphers {options.cipher}", f"data-ciphers-fallback {options.cipher}"]
            lines += ["remote-cert-tls client" if is_server else "remote-cert-tls server"]
        else:
            lines += [f"cipher {options.cipher}"]
        if options.cipher in LEGACY_CIPHERS:
            lines += ["providers legacy default"]
        if options.tls_wrap == "tls-auth":
            lines += [f"key-direction {0 if is_server else 1}"]
        for name in ("mssfix", "tun_mtu", "sndbuf", "rcvbuf", "reneg_sec", "reneg_bytes"):
            if (value := getattr(options, name)) is not None:
                lines += [f"{name.replace('_', '-')} {value}"]
        return "\n".join(lines) + "\n"


def parse_data_channel(log: str) -> tuple[str, str]:
    """Cipher and digest that OpenVPN 2.4 to 2.6 says it sends with, `unknown` where it says nothing.

    A cipher or digest of none is told by a warning (2.4, 2.5) or by name (2.6).
    """
    cipher = re.findall(r"Outgoing (?:Data Channel|Static Key Encryption): Cipher '([^']+)' initialized", log)
    auth = re.findall(r"Outgoing (?:Data Channel|Static Key Encryption): Using \d+ bit message hash '([^']+)'", log)
    summary = re.findall(r"Data Channel: (?:using negotiated )?cipher '([^']+)'(?:, auth '([^']+)')?", log)
    no_cipher = ["none"] if "'--cipher none' was specified" in log else []
    no_auth = ["none"] if "'--auth none' was specified" in log else []
    told_ciphers = cipher or no_cipher or [name for name, _ in summary]
    told_auths = auth or no_auth or [name for _, name in summary if name]
    return (told_ciphers or ["unknown"])[-1], (told_auths or ["unknown"])[-1]


def first_complaint(log: str) -> str:
    """The line of a log that says why OpenVPN gave up, in a sentence; empty where there is none."""
    for line in log.splitlines():
        if any(words in line for words in ("Options error:", "ERROR", "Cannot", "unsupported", "not supported")):
            return f"openvpn gave up: {line.strip()}"
    return ""
