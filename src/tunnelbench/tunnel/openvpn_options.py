"""Options of OpenVPN in a plan."""

from __future__ import annotations

import math
import re
from typing import Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from tunnelbench.model.ip_versions import SMALLEST_IPV6_MTU_BYTES, IpVersion
from tunnelbench.tunnel.clients import ServerOptions
from tunnelbench.tunnel.openvpn_packets import is_aead

USUAL_PROGRAM = "openvpn"
"""The system's own program, which the search path finds."""

NEGOTIATED = "negotiated"
"""Value of `cipher` if the ends agree on one."""

Cipher = Literal[
    "AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "CHACHA20-POLY1305",
    "AES-128-CBC", "AES-192-CBC", "AES-256-CBC", "CAMELLIA-128-CBC", "CAMELLIA-256-CBC",
    "BF-CBC", "CAST5-CBC", "DES-EDE3-CBC", "none",
]  # fmt: skip


Library = Literal["openssl", "mbedtls"]

FRAMING_BYTES = {"lzo": 1, "lz4": 1, "lz4-v2": 0, "stub": 1, "stub-v2": 0}
"""Bytes that a packet which is not compressed gets, by the value of `compress` (lzo.c, comp-lz4.c, compstub.c)."""

COMP_LZO_FRAMING_BYTES = 1
"""The same with `comp-lzo`, whatever its value."""

LINK_MTU_ROOM_BYTES = 170
"""More than the MTU of the device is below link-mtu in any tunnel [bytes]. OpenVPN 2.5 subtracts up to 163: 120 for
cipher and digest before the ends agree (crypto_max_overhead in crypto.c), 32 in a tap, 5 for compression and fragment,
4 for the opcode, 2 in TCP; 2.6 subtracts up to 102 (frame_calculate_protocol_header_size in mtu.c)."""

USUAL_RENEGOTIATION_S = 3600
"""OpenVPN's own `reneg-sec` [s]."""

BYTES_LOOK_INTERVAL_S = 15.0
"""Longest interval at which OpenVPN compares the amount of data with `reneg-bytes` [s] (TLS_MULTI_REFRESH in ssl.h)."""


class Options(ServerOptions):
    ipv4_only_inside = ipv4_only_outside = ""
    rekey_option = "reneg_sec"
    rekey_bytes_option = "reneg_bytes"
    rekey_bytes_delay_s = BYTES_LOOK_INTERVAL_S

    mode: Literal["tls", "static-key"] = Field(default="tls", description="how the ends agree on keys")
    transport: Literal["udp", "tcp"] = Field(default="udp", description="what carries the tunnel's packets")
    dev: Literal["tun", "tap"] = Field(default="tun", description="IP packets, or Ethernet frames")
    outside: IpVersion | None = Field(
        default=IpVersion.IPV4, description="IP version of the packets on the WAN that carry the tunnel"
    )
    cipher: Cipher | Literal["negotiated"] = Field(
        default="AES-256-GCM",
        description="cipher of the data channel; negotiated: the ends agree on one of data_ciphers",
    )
    data_ciphers: str | None = Field(
        default=None,
        description="with cipher = negotiated: ciphers that both ends offer, the preferred one first, with colons "
        "between them, such as AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305 (OpenVPN's default)",
    )
    auth: Literal["SHA1", "SHA224", "SHA256", "SHA384", "SHA512", "MD5", "none"] = Field(
        default="SHA1", description="digest of the data channel; AEAD ciphers (GCM, Poly1305) need none"
    )
    mssfix: int | None = Field(
        default=None, ge=0, le=65535, description="OpenVPN's mssfix [bytes], 0 for off; left out: its own default"
    )
    tun_mtu: int | None = Field(
        default=None, ge=576, le=9000, description="MTU of the tunnel's device [bytes]; left out: its own default, 1500"
    )
    link_mtu_bytes: int | None = Field(
        default=None,
        ge=750,
        le=9100,
        description="OpenVPN's link-mtu [bytes]: about the longest UDP datagram, which gives the MTU of the tunnel's "
        "device; left out: tun_mtu does",
    )
    fragment: int | None = Field(
        default=None,
        ge=256,
        le=65535,
        description="largest UDP datagram [bytes]: OpenVPN itself splits what is longer; left out: it does not",
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
        default=None,
        ge=0,
        le=604_800,
        description="interval between changes of keys [s], which the server begins; 0 for never; left out: 3600, and "
        "either end begins",
    )
    others_rekey: bool | None = Field(
        default=None,
        description="with clients: each but the first changes its keys every reneg_sec, and the first one never; a "
        "plan with the UDP test rekey sets it for several clients",
    )
    reneg_bytes: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,  # OpenVPN 2.6 keeps the number in an int
        description="number of bytes between changes of keys; left out: keys do not change after a number of bytes. "
        "OpenVPN's own default is 64 MB for ciphers with blocks of 64 bits and without a cipher",
    )
    script_delay_ms: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="with mode = tls: a script of the server (tls-verify) takes this long at each handshake [ms], and "
        "the server forwards nothing meanwhile; left out: no script",
    )
    aes_instructions: bool = Field(
        default=True, description="false: OpenSSL does without the CPU's AES instructions (x86-64 only)"
    )
    engine: str | None = Field(
        default=None, description="OpenSSL engine that is to do the ciphers, such as afalg; left out: none"
    )
    providers: str | None = Field(
        default=None,
        description="OpenSSL providers to load, with colons between them, as legacy:default; left out: the default "
        "one, and the legacy one for ciphers that need it",
    )
    fast_io: bool | None = Field(
        default=None,
        description="OpenVPN writes without asking first whether the socket or device takes data (fast-io); needs "
        "transport = udp",
    )
    txqueuelen: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="length of the queue of the tunnel's device [packets], from which OpenVPN reads; left out: the "
        "system's, and 100 with OpenVPN 2.4",
    )
    bridged: bool | None = Field(
        default=None,
        description="with dev = tap: a bridge of the router joins its LAN and the tunnel; left out: the router routes",
    )
    compress: Literal["lzo", "lz4", "lz4-v2", "stub", "stub-v2"] | None = Field(
        default=None,
        description="compression of the packets (compress); the two stubs compress nothing and keep the room for it; "
        "left out: none. See also content",
    )
    comp_lzo: Literal["yes", "adaptive", "no"] | None = Field(
        default=None,
        description="the same by the older option comp-lzo: always, while the data compress well, or never; left out: "
        "none",
    )
    processes: int = Field(
        default=1,
        ge=1,
        le=8,
        description="tunnels side by side, a process each at both ends; connections are shared out by address and port "
        "(ECMP), so that some idle if tcp.streams or udp.flows is lower",
    )
    program: str = Field(default=USUAL_PROGRAM, description="name or path of the program at both ends")
    library: Library | None = Field(
        default=None,
        description="crypto library that the program must have been built with; left out: any",
    )

    @property
    def rekey_interval_s(self) -> float:
        interval_s = USUAL_RENEGOTIATION_S if self.reneg_sec is None else self.reneg_sec
        return (interval_s or math.inf) if self.mode == "tls" else math.inf

    @property
    def rekey_bytes(self) -> float:
        # Only the first client has traffic, and the changes of keys of the others are measured.
        return math.inf if self.has_rekeying_others else self.reneg_bytes or math.inf

    @property
    def has_rekeying_others(self) -> bool:
        """True if all clients but the first change their keys; with one client, there are no others."""
        return bool(self.others_rekey) and (self.clients or 0) > 1

    @property
    def offered(self) -> tuple[str, ...]:
        """Ciphers that both ends offer."""
        return tuple(self.data_ciphers.split(":")) if self.data_ciphers else (self.cipher,)

    @property
    def algorithm(self) -> str:
        """Algorithm of compression, as `compress` names it; `none` if packets are not compressed."""
        if self.comp_lzo in {"yes", "adaptive"}:
            return "lzo"
        return self.compress if self.compress in {"lzo", "lz4", "lz4-v2"} else "none"

    @property
    def framing_bytes(self) -> int:
        """Bytes that compression adds to a packet which is not compressed."""
        return FRAMING_BYTES[self.compress] if self.compress else COMP_LZO_FRAMING_BYTES * bool(self.comp_lzo)

    @field_validator("fast_io", "bridged", "others_rekey")
    @classmethod
    def _without_false(cls, value: bool | None) -> bool | None:
        return value or None  # runs of earlier versions have stored no such option

    @field_validator("data_ciphers")
    @classmethod
    def _is_a_list_of_ciphers(cls, value: str | None) -> str | None:
        for name in value.split(":") if value is not None else ():
            if name not in get_args(Cipher) or name == "none":
                raise ValueError(f"must be ciphers with colons between them; there is no cipher {name!r:.40}")
        return value

    @field_validator("engine", "providers")
    @classmethod
    def _is_a_name(cls, value: str | None, info: ValidationInfo) -> str | None:
        # The value becomes a word of a configuration that root's OpenVPN reads: no path and no second option.
        word = "[A-Za-z0-9][A-Za-z0-9_-]*"
        pattern = word if info.field_name == "engine" else f"{word}(:{word})*"
        if value is not None and not re.fullmatch(pattern, value):
            raise ValueError(
                "must be a name such as afalg"
                if info.field_name == "engine"
                else "must be names with colons between them"
            )
        return value

    @field_validator("program")
    @classmethod
    def _is_a_program(cls, value: str) -> str:
        # The value becomes the first word of a command that root runs: no option and no second word.
        if not re.fullmatch(r"(/[A-Za-z0-9._+/-]+|[A-Za-z0-9._+][A-Za-z0-9._+-]*)", value):
            raise ValueError("must be a plain name such as openvpn, or a full path such as /opt/openvpn/sbin/openvpn")
        return value

    @model_validator(mode="after")
    def _suits_clients(self) -> Self:
        if self.clients and (self.mode, self.dev, self.processes) != ("tls", "tun", 1):
            raise ValueError('clients of one server need mode = "tls", dev = "tun" and one process')
        return self

    @model_validator(mode="after")
    def _others_know_when_to_rekey(self) -> Self:
        if self.others_rekey and not (self.clients and self.reneg_sec):
            raise ValueError(
                "with others_rekey, which the UDP test rekey sets, all clients but the first change their keys every "
                "reneg_sec: set clients and reneg_sec"
            )
        return self

    @model_validator(mode="after")
    def _suits_link_mtu(self) -> Self:
        if self.link_mtu_bytes is None:
            return self
        if self.tun_mtu is not None:
            raise ValueError("tun_mtu and link_mtu_bytes both set the MTU of the device; leave one of them out")
        if self.clients:
            raise ValueError(
                "a server of OpenVPN 2.6 gives its clients its tun-mtu, so that only its own device obeys link-mtu: "
                "set tun_mtu in place of link_mtu_bytes"
            )
        needed_bytes = SMALLEST_IPV6_MTU_BYTES + LINK_MTU_ROOM_BYTES
        if self.inside is IpVersion.IPV6 and self.link_mtu_bytes < needed_bytes:
            raise ValueError(
                f'inside = "ipv6" needs a device of {SMALLEST_IPV6_MTU_BYTES} bytes or more (RFC 8200), which '
                f"link_mtu_bytes = {self.link_mtu_bytes} may not leave: set it to {needed_bytes} or more, or set "
                f"tun_mtu = {SMALLEST_IPV6_MTU_BYTES} or more in its place"
            )
        return self

    @model_validator(mode="after")
    def _suits_library_transport_and_compression(self) -> Self:
        of_openssl = {"engine": self.engine, "providers": self.providers, "aes_instructions": not self.aes_instructions}
        if self.library == "mbedtls" and (given := [name for name, value in of_openssl.items() if value]):
            raise ValueError(f'{given[0]} is a setting of OpenSSL; leave it out, or set library = "openssl"')
        if self.fast_io and self.transport == "tcp":
            raise ValueError('fast_io is for UDP only, and OpenVPN ignores it with TCP; set transport = "udp"')
        if self.compress and self.comp_lzo:
            raise ValueError("compress and comp_lzo are two names of one setting; leave one of them out")
        return self

    @model_validator(mode="after")
    def _suits_a_bridge(self) -> Self:
        if not self.bridged:
            return self
        if self.dev != "tap":
            raise ValueError('a bridge forwards Ethernet frames; set dev = "tap"')
        if self.inside is IpVersion.IPV6:
            raise ValueError('a bridge is set up for IPv4 packets only; leave bridged out, or set inside = "ipv4"')
        if self.firewall or self.rules:
            raise ValueError("a bridge forwards frames past firewall and rules; leave them out")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.cipher == NEGOTIATED) != (self.data_ciphers is not None):
            raise ValueError('cipher = "negotiated" and data_ciphers need each other; set both or neither')
        if self.processes > 1 and self.dev == "tap":
            raise ValueError('several processes need IP routes; set dev = "tun"')
        if self.processes > 1 and self.inside is IpVersion.IPV6:
            raise ValueError('several processes share out IPv4 only; set processes = 1, or inside = "ipv4"')
        if self.mode == "static-key" and self.cipher == NEGOTIATED:
            raise ValueError('a static key allows no negotiation; set mode = "tls"')
        if self.fragment is not None and self.transport == "tcp":
            raise ValueError('fragment splits UDP datagrams; set transport = "udp"')
        if self.mode == "static-key" and is_aead(self.cipher):
            raise ValueError(f'OpenVPN refuses {self.cipher} with a static key; take a CBC cipher, or mode = "tls"')
        if self.mode == "static-key" and self.tls_wrap != "none":
            raise ValueError(
                f'{self.tls_wrap} needs a control channel, which a static key does not have; set mode = "tls"'
            )
        if self.mode == "static-key" and (self.reneg_sec, self.reneg_bytes) != (None, None):
            raise ValueError('a static key is never renegotiated; set mode = "tls"')
        if self.mode == "static-key" and self.script_delay_ms is not None:
            raise ValueError('a static key has no handshake, and so no script; set mode = "tls"')
        return self
