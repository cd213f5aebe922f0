"""OpenVPN between two fixed ends, or as a server with clients: TLS with a CA of its own, or a static key."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

from tunnelbench.host.cpu_features import AES_MASK_X86
from tunnelbench.host.daemon import Daemon
from tunnelbench.host.ssh_programs import in_shell
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.frames import ETHERNET_HEADER_BYTES, TIMESTAMPED_TCP_HEADER_BYTES, UDP_HEADER_BYTES
from tunnelbench.model.ip_versions import IpVersion
from tunnelbench.model.result import Check
from tunnelbench.model.text import PROGRAM_TITLES
from tunnelbench.tunnel import certificates
from tunnelbench.tunnel.base import PROGRAM_START_LIMIT_S, End, Outer, equals, is_so, source_words
from tunnelbench.tunnel.clients import ServerTunnel
from tunnelbench.tunnel.openvpn_options import NEGOTIATED, USUAL_PROGRAM, Options
from tunnelbench.tunnel.openvpn_output import (
    first_complaint,
    has_peer_id,
    parse_compression,
    parse_data_channel,
    parse_engine,
    parse_library,
    rekey_of_client,
)
from tunnelbench.tunnel.openvpn_packets import LEGACY_CIPHERS, Packets, is_aead
from tunnelbench.tunnel.requirements import Requirement, ipv6, key_maker, program, tun_device
from tunnelbench.tunnel.versions import UNKNOWN, printed_by

PORT = 1194

BUILT_IN_PROVIDERS = {"default", "base", "null"}
"""Providers of OpenSSL 3 that have no library of their own."""

HASH_POLICY = "/proc/sys/net/ipv4/fib_multipath_hash_policy"
HASH_BY_PORTS = "1"
"""Value of the hash policy that uses ports (Documentation/networking/ip-sysctl.rst). The value 0 uses only addresses,
and a trial has only two of them."""

NETMASK = "255.255.255.0"
"""Mask of the network of all inner addresses."""

CLIENTS_FOLDER = "clients"
"""Folder with a file of settings for each client of a server (`client-config-dir`)."""

MANY_HANDSHAKES = "connect-freq-initial 100000 1"
"""Lifts OpenVPN's limit of 100 new clients in ten seconds, which would be measured in place of the server's CPU."""

LINK_MTU_TOLERANCE_BYTES = 60
"""Largest difference between link-mtu and the longest datagram. OpenVPN computes the MTU of the device before the ends
have agreed on their packets: the datagrams of 2.6.14 have from 27 bytes less than link-mtu (AES-GCM) to 16 bytes more
(CBC in a tap), and those of 2.5.1 up to 50 bytes less (a tap with fragment)."""

STREAM_LENGTH_BYTES = 2
"""Length of the field before each record in TCP that holds the record's length."""

OF_SOME_VERSIONS = (
    "disable-dco", "connect-freq-initial",  # from 2.6 on
    "data-ciphers", "data-ciphers-fallback", "allow-compression",  # from 2.5 on
    "ncp-disable", "ncp-ciphers",  # 2.4 and 2.5; 2.6 has another name for the second one
)  # fmt: skip
"""Options that not every version from 2.4 on knows. OpenVPN ignores those that it does not know
(ignore-unknown-option), so that nothing needs to ask the program for its version before it runs."""

STATIC_KEY_BYTES = 256
STATIC_KEY_LINE_DIGITS = 32

SHORTEST_COMPRESSED_BYTES = 100
"""Length from which on OpenVPN tries to compress a packet, or a frame of a tap (COMPRESS_THRESHOLD in comp.h)."""

X86_64 = Requirement(
    "a CPU of x86-64",
    lambda host: host.run(["uname", "-m"]).stdout.strip() == "x86_64",
    fix="leave aes_instructions out, or use an x86-64 machine",
)

TLS_REFRESH_S = 15
"""Time without work on the TLS session after which OpenVPN looks at it (TLS_MULTI_REFRESH in ssl_common.h)."""

LOOK_AT_TLS = """\
date -s "@$(($(date +%s) + $1))" >/dev/null || exit
shift
kill -USR2 "$@"
"""
"""Sets the clock ahead, and lets OpenVPN notice it: each SIGUSR2 makes it print its statistics."""

SLOW_SCRIPT = """\
# OpenVPN calls this for each certificate of the chain; the client's own has depth 0.
[ "$1" = 0 ] && sleep {delay_s:g}
exit 0
"""

PLAN_ENTRY = {"name": "OpenVPN AES-128-GCM", "cipher": "AES-128-GCM"}


class OpenVpn(ServerTunnel[Options]):
    """Plan entry: `kind = "openvpn"`, `cipher = "AES-128-CBC"`, `auth = "SHA1"`.

    The kernel's data channel (DCO) is always switched off: this is the program in user space. The configuration is one
    that the versions from 2.4 on read.
    """

    kind = "openvpn"
    weight = 4
    is_on_virtual_router = True
    title = "OpenVPN in user space: TLS or static key, UDP or TCP, tun or tap"
    options_type = Options
    tested_with = "OpenVPN 2.6.14 with OpenSSL 3.0"
    plans = {"all": PLAN_ENTRY, "userspace": PLAN_ENTRY}
    added_bytes = {
        "TLS, GCM and ChaCha20-Poly1305": "52",
        "TLS, CBC": "32 and the digest, a block, and 4 padded with the packet to the block by at least 1",
        "TLS, no cipher": "36 and the digest",
        "TLS, OpenVPN 2.4 and 2.5 without `clients`": "3 less, before the cipher",
        "static key": "4 less before the cipher, 4 more inside it",
        '`dev = "tap"`': "14 more, inside the cipher",
        "`fragment`": "4 more, inside the cipher, in each piece",
        "`comp_lzo`, `compress` except `lz4-v2` and `stub-v2`, random content": "1 more, inside the cipher",
        "TCP": "26 more",
    }
    _further: dict[int, str]
    """Configuration file of each client of the option `handshakes`, by its number from 1."""
    _agreed = ""
    """Cipher that the ends agreed on, by the router's log."""
    _has_peer_id = True
    """True if data packets contain a peer id, by the router's log; a tunnel that is not up counts as one of 2.6."""
    signs_of_restart = ("process restarting", "Inactivity timeout")
    signs_of_rekey = ("Control Channel: TLS",)

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        needs = [tun_device(), program(options.program, "openvpn", openwrt="openvpn-openssl"), key_maker("openssl")]
        needs += [] if options.aes_instructions else [X86_64]
        needs += [ipv6()] if IpVersion.IPV6 in {options.inside, options.outside} else []
        needs += [_engines(options.program)] if options.engine is not None else []
        if options.library or not options.aes_instructions:
            needs += [_built_with(options.library or "openssl", options.program)]
        return tuple(needs)

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        if options.cipher == NEGOTIATED:
            return ()  # unknown before the tunnel is up
        if options.library == "mbedtls" or (options.library is None and options.program != USUAL_PROGRAM):
            return ()  # it has another library, or one that is not known
        names = [options.cipher] if is_aead(options.cipher) else [options.cipher, options.auth]
        if not options.aes_instructions:  # the cipher on its own is measured with these instructions
            names = [name for name in names if not name.startswith("AES-")]
        return tuple(name.lower() for name in names if name != "none")

    @property
    def outer(self) -> Outer:
        return Outer(self.options.transport, PORT, self.outside.number, self.options.processes)

    def devices_at(self, end: End) -> tuple[str, ...]:
        clients = self.options.clients or 1 if end is self.ends.router else 1
        return tuple(map(self.device_of, range(max(clients, self.options.processes))))

    @property
    def is_bridged(self) -> bool:
        return bool(self.options.bridged)

    @property
    def cipher(self) -> str:
        """Cipher of the data channel; if the ends negotiate it, the one in use, and before that the first offered."""
        return self._agreed or self.options.offered[0]

    @property
    def hides_payload(self) -> bool:
        return self.options.cipher != "none"

    @property
    def compresses(self) -> bool:
        return self.options.algorithm != "none"

    @property
    def longest_uncompressed_bytes(self) -> int:
        header_bytes = ETHERNET_HEADER_BYTES if self.options.dev == "tap" else 0
        return SHORTEST_COMPRESSED_BYTES - 1 - header_bytes if self.compresses else 0

    @property
    def pauses_compression(self) -> bool:
        return self.options.comp_lzo == "adaptive"

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        """Return the length of the outer packet; with `fragment` the longest piece's."""
        return max(self.outer_packets_bytes(inner_packet_bytes))

    def outer_packets_bytes(self, inner_packet_bytes: int) -> tuple[int, ...]:
        is_tcp = self.options.transport == "tcp"
        transport_bytes = TIMESTAMPED_TCP_HEADER_BYTES + STREAM_LENGTH_BYTES if is_tcp else UDP_HEADER_BYTES
        head_bytes = self.outer.ip_header_bytes + transport_bytes
        records = self._packets(self.options.fragment).records_bytes(inner_packet_bytes)
        return tuple(head_bytes + record for record in records)

    def _packets(self, fragment: int | None) -> Packets:
        """Return the rules by which packets become records, which are split with `fragment`."""
        options = self.options
        return Packets(
            self.cipher,
            options.auth,
            options.mode == "tls",
            self._has_peer_id,
            options.dev == "tap",
            fragment,
            options.framing_bytes,
        )

    def versions(self, end: End) -> Mapping[str, str]:
        text = printed_by(end.host, [self.options.program, "--version"])
        found = re.search(r"^OpenVPN (\S+)", text)
        library, version = parse_library(text)
        return {"openvpn": found[1] if found else UNKNOWN, library: version}

    def negotiated(self) -> tuple[Check, ...]:
        """Compare the data channel in the router's log (verb 4), and the devices, with what was asked for."""
        of_daemons = (check for daemon in self.router_daemons for check in self._negotiated_by(daemon))
        return (*of_daemons, *self._queues(), *self._link_mtu())

    def _queues(self) -> Iterator[Check]:
        """Check the length of the queue of each device."""
        wanted = self.options.txqueuelen
        for end, _ in self.ends if wanted is not None else ():
            for device in self.devices_at(end):
                found = end.host.device_queue_packets(device)
                reason = f"asked for {wanted} packets; the queue of {device} on the {end.host.name} takes {found}"
                yield is_so("txqueuelen", found == wanted, reason)

    def _link_mtu(self) -> Iterator[Check]:
        """Check that OpenVPN has computed the MTU of each device from link-mtu, which a version could ignore."""
        wanted = self.options.link_mtu_bytes
        if wanted is None:
            return
        for end, _ in self.ends:
            for device in self.devices_at(end):
                mtu_bytes = end.host.device_mtu_bytes(device) or 0
                (longest,) = self._packets(None).records_bytes(mtu_bytes)
                reason = (
                    f"asked for datagrams of {wanted} bytes; {device} on the {end.host.name} has an MTU of {mtu_bytes}"
                    f", which makes datagrams of {longest}"
                )
                yield is_so("link-mtu", abs(longest - wanted) <= LINK_MTU_TOLERANCE_BYTES, reason)

    def _negotiated_by(self, daemon: Daemon) -> tuple[Check, ...]:
        cipher, auth = parse_data_channel(daemon.output())
        if self.options.cipher == NEGOTIATED:
            offered = self.options.offered
            reason = f"asked for one of {', '.join(offered)}, in use: {cipher}"
            checks = [is_so("cipher", cipher in offered, reason)]
        else:
            checks = [equals("cipher", self.options.cipher, cipher)]
        if not is_aead(self.cipher):
            checks.append(equals("digest", self.options.auth, auth))
        checks += self._loaded(daemon)
        checks += self._settings(daemon)
        if not self.options.aes_instructions:
            environment = self.ends.router.host.read_machine(f"/proc/{daemon.pid}/environ")
            found = AES_MASK_X86 if AES_MASK_X86 in environment.split("\0") else "all instructions"
            checks.append(equals("aes-instructions", AES_MASK_X86, found))
        return tuple(checks)

    def _loaded(self, daemon: Daemon) -> list[Check]:
        """Check the engine by the log, and the providers by the libraries that the running program has mapped."""
        checks = []
        if self.options.engine is not None:
            checks.append(equals("engine", self.options.engine, parse_engine(daemon.output())))
        for name in self.options.providers.split(":") if self.options.providers else ():
            if name not in BUILT_IN_PROVIDERS:
                mapped = self.ends.router.host.read_machine(f"/proc/{daemon.pid}/maps")
                checks.append(equals("provider", name, name if f"/{name}.so" in mapped else "not loaded"))
        return checks

    def _settings(self, daemon: Daemon) -> list[Check]:
        """Check settings that a version of OpenVPN may ignore, by its log."""
        checks = []
        if self.options.fast_io:
            found = "on" if "fast_io = ENABLED" in daemon.output() else "off"
            checks.append(equals("fast-io", "on", found))
        if self.compresses:
            checks.append(equals("compression", self.options.algorithm, parse_compression(daemon.output())))
        return checks

    def _up(self) -> None:
        if self.options.clients:
            self._up_with_clients()
            return
        files = self._write_keys()
        # The server starts first: a client that finds no server waits seconds before it tries again.
        for end, other in reversed(list(self.ends)):
            for number in range(self.options.processes):
                daemon = self._start_one(end, self._config(end, other, files[end.host.name], number), number)
                if end is self.ends.server:
                    self._await(
                        daemon, "link local" if self.options.transport == "udp" else "Listening for incoming TCP"
                    )
        # With a static key there is no handshake, and OpenVPN reports "Initialization" only at the peer's first packet.
        ready = "Initialization Sequence Completed" if self.options.mode == "tls" else "link remote"
        for daemon in self.daemons:
            self._await(daemon, ready)
        self._note_agreement()

    def _write_keys(self) -> dict[str, dict[str, str]]:
        """Write the files with certificates and keys; returns their paths by the host and the option of OpenVPN."""
        if self.options.mode == "tls":
            files = self._write_certificates()
            if self.options.tls_wrap != "none":
                text = new_static_key()
                for end, _ in self.ends:
                    files[end.host.name][self.options.tls_wrap] = self._write(end, "wrap.key", text, secret=True)
            return files
        text = new_static_key()
        return {end.host.name: {"secret": self._write(end, "static.key", text, secret=True)} for end, _ in self.ends}

    def _note_agreement(self) -> None:
        """Read what the ends have agreed about their packets, by the router's log."""
        log = self.router_daemons[0].output()
        self._has_peer_id = bool(self.options.clients) or has_peer_id(log)
        if self.options.cipher == NEGOTIATED:
            agreed, _ = parse_data_channel(log)
            self._agreed = agreed if agreed in self.options.offered else ""

    def _up_with_clients(self) -> None:
        """Start the server, then the clients; each has a certificate, and gets its address from the server.

        Further clients, of the option `handshakes`, have all that they need for a later start.
        """
        caller, called = self.ends.router, self.ends.server
        self._further = {}
        names = [f"client-{number + 1}" for number in range(self.options.all_clients)]
        authority = certificates.new_authority(self.ends.local, [called.host.name, *names])
        wrap = new_static_key() if self.options.tls_wrap != "none" else ""

        def files_of(end: End, name: str) -> dict[str, str]:
            issued = authority.issued[name]
            files = {
                "ca": self._write(end, "ca.crt", authority.certificate),
                "cert": self._write(end, f"{name}.crt", issued.certificate),
                "key": self._write(end, f"{name}.key", issued.key, secret=True),
            }
            return files | ({self.options.tls_wrap: self._write(end, "wrap.key", wrap, secret=True)} if wrap else {})

        for number, name in enumerate(names):
            pushed = f"ifconfig-push {self.inner_address_of(number)} {NETMASK}\n"
            behind = f"iroute {self.traffic_address_of(number)} 255.255.255.255\n"
            folder = Path(self._write(called, f"{CLIENTS_FOLDER}/{name}", pushed + behind)).parent
        server = self._start_one(called, self._config(called, caller, files_of(called, called.host.name), 0, folder), 0)
        self._await(server, "Initialization Sequence Completed")
        # All files exist before a client starts: a file that all share must not change while one reads it.
        files = [files_of(caller, name) for name in names]
        for number, name in enumerate(names):
            config = self._config(caller, called, files[number], number)
            if number < (self.options.clients or 0):
                self._start_one(caller, config, number)
            else:
                self._further[number] = self._write(caller, f"{name}.conf", config)
        for daemon in self.router_daemons:
            self._await(daemon, "Initialization Sequence Completed")
        self._note_agreement()

    def rekeys_since(self, sizes: tuple[int, ...], *, is_frequent: bool = False) -> list[str]:
        if not self.options.has_rekeying_others:
            return super().rekeys_since(sizes, is_frequent=is_frequent)
        # The server's log names the client of each change of keys.
        return list(self._said_since(self.server_daemons, sizes[len(self.router_daemons) :], self.signs_of_rekey))

    def is_of_another_client(self, rekey: str) -> bool:
        return rekey_of_client(rekey) > 1

    def before_trial(self) -> None:
        """Let OpenVPN on a virtual router look at its TLS session while nothing waits to be sent.

        If a packet waits, OpenVPN 2.6 then works on the session for each packet until nothing has left it for 2 s
        (`check_tls` in forward.c, `tls_process` in ssl.c), which takes 5,000 to 13,500 more instructions. A trial that
        is shorter than TLS_REFRESH_S has none of that now, and of others each fifth had some.
        """
        host = self.end_under_test.host
        if self.options.mode == "tls" and host.has_own_clock:
            pids = [str(daemon.pid) for daemon in self.daemons_under_test]
            host.run(in_shell(LOOK_AT_TLS, str(TLS_REFRESH_S + 1), *pids))

    @contextmanager
    def joined(self, number: int) -> Iterator[str]:
        caller = self.ends.router
        argv = [self.options.program, "--config", self._further[number]]
        daemon = caller.host.start(argv, name=f"{Path(self.options.program).name}-{number + 1}")
        try:
            if not daemon.wait_for("Initialization Sequence Completed", PROGRAM_START_LIMIT_S):
                raise TunnelRefused(first_complaint(daemon.output()) or f"client {number + 1}: {daemon.last_lines()}")
            yield self.device_of(number)
        finally:
            daemon.stop()
            daemon.log_path.unlink(missing_ok=True)  # a trial has hundreds

    def device_of(self, number: int) -> str:
        """Return the name of the device of a process or client, counted from 0."""
        return f"tun{number}"

    def _start_one(self, end: End, text: str, number: int) -> Daemon:
        """Start one process; the first has the program's name, each other also its number."""
        mark = f"-{number + 1}" if number else ""
        config = self._write(end, f"openvpn{mark}.conf", text)
        masked = [] if self.options.aes_instructions else ["env", AES_MASK_X86]
        name = Path(self.options.program).name + mark
        return self._start(end, [*masked, self.options.program, "--config", config], name=name)

    def _route(self) -> None:
        """Add the routes. With several processes, the kernel selects one for each connection by addresses and ports."""
        if self.options.processes == 1:
            super()._route()
            return
        for end, other in self.ends:
            before = end.host.run(["cat", HASH_POLICY]).stdout.strip()
            end.host.set_kernel_file(HASH_POLICY, HASH_BY_PORTS)
            self._stack.callback(end.host.set_kernel_file, HASH_POLICY, before)
            ways = [
                word
                for number, device in enumerate(self.devices_at(end))
                for word in ("nexthop", "via", inner_address(other, number), "dev", device)
            ]
            end.host.ip("route", "add", end.reaches, *source_words(end), *ways)
            self._stack.callback(end.host.run, ["ip", "route", "del", end.reaches], check=False)

    def _await(self, daemon: Daemon, text: str) -> None:
        try:
            self._require(daemon, text)
        except TunnelRefused as error:
            raise TunnelRefused(first_complaint(daemon.output()) or error.message) from None

    def _config(
        self, end: End, other: End, files: Mapping[str, str], number: int = 0, clients_folder: Path | None = None
    ) -> str:
        """Return the configuration of one process. A server of several clients has the settings of each in a file of
        `clients_folder`, and pushes them to it."""
        options = self.options
        is_server = end is self.ends.server
        port, version = PORT + (0 if options.clients else number), self.outside.number
        here, there = self._outer_address(end), self._outer_address(other)
        protocol = {"udp": f"udp{version}", "tcp": f"tcp{version}-{'server' if is_server else 'client'}"}[
            options.transport
        ]
        lines = [
            # A version that does not know one of these options would end.
            f"ignore-unknown-option {' '.join(OF_SOME_VERSIONS)}",
            f"dev {self.device_of(number)}",
            f"dev-type {options.dev}",
            f"proto {protocol}",
            *([f"local {here}", f"lport {port}"] if is_server else ["nobind", f"remote {there} {port}"]),
            *self._addressing(end, other, number, clients_folder),
            *(f"{key} {path}" for key, path in files.items()),
            f"auth {options.auth}",
            "disable-dco",
            f"script-security {1 if options.script_delay_ms is None else 2}",
            "verb 4",
            *(self._tls(end, is_server=is_server) if options.mode == "tls" else [f"cipher {options.cipher}"]),
            *self._library(),
        ]
        if options.tls_wrap == "tls-auth":
            lines += [f"key-direction {0 if is_server else 1}"]
        if options.reneg_sec is not None:
            begins = not is_server and number > 0 if options.has_rekeying_others else is_server
            # Only one end begins: two ends that begin at about the same time make two handshakes of one.
            lines += [f"reneg-sec {options.reneg_sec if begins else 0}"]
        if options.compress or options.comp_lzo:
            # Without this line, OpenVPN 2.5 and 2.6 decompress only.
            lines += ["allow-compression yes"]
        if options.fast_io:
            lines += ["fast-io"]
        if options.link_mtu_bytes is not None:
            lines += [f"link-mtu {options.link_mtu_bytes}"]
        for name in ("mssfix", "tun_mtu", "fragment", "sndbuf", "rcvbuf", "txqueuelen", "compress", "comp_lzo"):
            if (value := getattr(options, name)) is not None:
                lines += [f"{name.replace('_', '-')} {value}"]
        return "\n".join(lines) + "\n"

    def _tls(self, end: End, *, is_server: bool) -> list[str]:
        """Return the lines of TLS: its roles, the ciphers that it may agree on, and the changes of keys."""
        options, first = self.options, self.options.offered[0]
        lines = ["tls-server", "dh none"] if is_server else ["client" if options.clients else "tls-client"]
        # Unless they negotiate, both ends name only one cipher, so that there is nothing to fall back to. OpenVPN 2.4
        # has neither of the first two options: there, `cipher` names it. Two fixed ends negotiate from 2.6 on.
        lines += [f"data-ciphers {':'.join(options.offered)}", f"data-ciphers-fallback {first}", f"cipher {first}"]
        lines += [f"ncp-ciphers {':'.join(options.offered)}"] if options.cipher == NEGOTIATED else ["ncp-disable"]
        lines += ["remote-cert-tls client" if is_server else "remote-cert-tls server"]
        # Without this line, OpenVPN changes the keys every 64 MB if the cipher has blocks of 64 bits or is none. On
        # a fast router, that happens in each second of a trial.
        lines += [f"reneg-bytes {options.reneg_bytes or 0}"]
        if is_server and options.script_delay_ms is not None:
            script = self._write(end, "verify.sh", SLOW_SCRIPT.format(delay_s=options.script_delay_ms / 1000))
            lines += [f'tls-verify "/bin/sh {script}"']
        return lines

    def _library(self) -> list[str]:
        """Return the lines on the crypto library."""
        options, lines = self.options, []
        if options.providers:
            lines += ["providers " + " ".join(options.providers.split(":"))]
        elif LEGACY_CIPHERS & set(options.offered):
            # OpenVPN 2.4 and 2.5 have no such option, and OpenSSL 1.1 has these ciphers without it.
            lines += ["ignore-unknown-option providers", "providers legacy default"]
        if options.engine:
            lines += [f"engine {options.engine}"]
        return lines

    def _addressing(self, end: End, other: End, number: int, clients_folder: Path | None) -> list[str]:
        """Return the lines that give a process its inner address, or let the server give it."""
        if clients_folder:
            # fmt: off
            lines = ["mode server", "topology subnet", f"ifconfig {end.inner_address} {NETMASK}",
                     'push "topology subnet"', f"client-config-dir {clients_folder}", "ccd-exclusive"]
            # fmt: on
            return [*lines, MANY_HANDSHAKES] if self.options.handshakes and self.options.transport == "udp" else lines
        if self.options.clients:
            return []
        far = inner_address(other, number) if self.options.dev == "tun" else NETMASK
        return [f"ifconfig {inner_address(end, number)} {far}"]


def inner_address(end: End, number: int) -> str:
    """Return the address of one end of a process's tunnel; each process has a pair of its own."""
    return str(ip_address(end.inner_address) + 2 * number)


def _built_with(library: str, name: str) -> Requirement:
    """Return the requirement of a program that was built with a crypto library."""
    return Requirement(
        f"{PROGRAM_TITLES[library]} in {name}",
        lambda host: parse_library(printed_by(host, [name, "--version"]))[0] == library,
        fix=f"an OpenVPN built with {PROGRAM_TITLES[library]}, as program",
        starts_program=True,
    )


def _engines(name: str) -> Requirement:
    """Return the requirement of OpenSSL engines; without them, as in Debian's build, OpenVPN only logs a warning."""
    return Requirement(
        f"OpenSSL engines in {name}",
        lambda host: "Sorry" not in host.run([name, "--show-engines"], check=False).stdout,
        fix="an OpenVPN built with --with-openssl-engine, as program",
        starts_program=True,
    )


def new_static_key() -> str:
    """Return a new static key, as `openvpn --genkey` writes it; the words of that command differ between versions."""
    digits = secrets.token_hex(STATIC_KEY_BYTES)
    lines = [digits[at : at + STATIC_KEY_LINE_DIGITS] for at in range(0, len(digits), STATIC_KEY_LINE_DIGITS)]
    return "\n".join(["-----BEGIN OpenVPN Static key V1-----", *lines, "-----END OpenVPN Static key V1-----", ""])
