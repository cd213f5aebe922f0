"""PPP in L2TPv2 (RFC 2661), as many routers have it: xl2tpd sets it up, pppd speaks PPP, the kernel carries the data.

Both programs insist on files in /run, and pppd reads whatever lies in /etc/ppp and runs what it finds there. Each end
has a mount namespace in which folders of the run lie over both; neither the machine's options nor its scripts are used.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.result import Check, Verdict
from tunnelbench.tunnel.base import (
    IPV4_HEADER_BYTES,
    START_LIMIT_S,
    UDP_HEADER_BYTES,
    End,
    Outer,
    Requirement,
    Tunnel,
    TunnelOptions,
    path,
    program,
)
from tunnelbench.tunnel.private_run import FOLDER, private_run, private_run_programs
from tunnelbench.tunnel.versions import kernel_version, version_of

PORT = 1701

DATA_HEADER_BYTES = 6
"""Flags, tunnel and session of a data message without length, sequence and offset, as the kernel sends it (RFC 2661,
section 3.1)."""

HDLC_BYTES = 2
"""Address and control (RFC 1662, section 3.1), which the kernel always sends (net/l2tp/l2tp_ppp.c)."""

PROTOCOL_BYTES = 2
"""PPP's protocol field (RFC 1661, section 2). pppd's plugin for L2TP never agrees to shorten it."""

PPP_SOCKET = (24, 1)
"""AF_PPPOX and PX_PROTO_OL2TP (linux/if_pppox.h)."""

PPP_DEVICE = "/dev/ppp"
PLUGINS = "/usr/lib/pppd"

LOG = "pppd.log"

CALL_LIMIT_S = 20.0
"""xl2tpd waits a second between its attempts; its programs start slowly in an emulated guest."""


class Options(TunnelOptions):
    """Options of `l2tpv2-ppp`."""

    mtu: int = Field(
        default=1462, ge=576, le=8900, description="MTU and MRU of PPP [bytes]; 1462 just fits a frame of Ethernet"
    )
    echo_interval_s: int = Field(
        default=1, ge=1, le=3600, description="the router's pppd asks for an LCP echo as often as this [s]"
    )
    echo_failure: int = Field(
        default=5, ge=1, le=1000, description="so many echoes without an answer, and pppd gives the session up"
    )


class L2tpV2Ppp(Tunnel[Options]):
    """Plan entry: `kind = "l2tpv2-ppp"`. The router calls (LAC), the server answers (LNS); no cipher, no login.

    PPP agrees on IP alone: neither headers nor data are compressed. The router's pppd asks for LCP echoes, and each
    trial says how many had no answer.
    """

    kind = "l2tpv2-ppp"
    title = "PPP over L2TPv2: xl2tpd and pppd, the data by the kernel, no cipher"
    options_type = Options
    tested_with = "xl2tpd 1.3.18, pppd 2.4.9, Linux 6.1 (Debian 12)"
    signs_of_restart = (
        "pppd exited",
        "pppd terminated",
        " closed to ",
        "retries exceeded",
        "Connection established to",
    )
    device = "ppp0"

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        ppp = Requirement(
            "the kernel's PPP over L2TP",
            lambda host: host.knows_socket(*PPP_SOCKET),
            "modprobe l2tp_ppp, or a kernel that has it",
            ("l2tp_ppp",),
        )
        return (
            ppp,
            program("xl2tpd"),
            program("pppd", "ppp"),
            path("pppd's plugins", PLUGINS, "ppp"),
            *private_run_programs(),
        )

    @property
    def outer(self) -> Outer:
        return Outer("udp", PORT)

    @property
    def hides_payload(self) -> bool:
        return False

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        headers = IPV4_HEADER_BYTES + UDP_HEADER_BYTES + DATA_HEADER_BYTES + HDLC_BYTES + PROTOCOL_BYTES
        return headers + inner_packet_bytes

    def versions(self, end: End) -> Mapping[str, str]:
        return {
            **kernel_version(end.host),
            "xl2tpd": version_of(end.host, ["xl2tpd", "--version"], r"xl2tpd-(\S+)"),
            "ppp": version_of(end.host, ["pppd", "--version"], r"pppd version (\S+)"),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """Who carries the data: xl2tpd does so itself, in user space, where it finds no kernel to do it."""
        return tuple(self._kernel_session(end) for end, _ in self.ends)

    def _kernel_session(self, end: End) -> Check:
        sent, received = parse_session(end.host.read("/proc/net/pppol2tp"), self.device)
        verdict = Verdict.OK if sent and received else Verdict.VOID
        reason = f"the {end.host.name}'s kernel has sent {sent} and received {received} packets of the session"
        return Check(f"kernel-session-{end.host.name}", verdict, reason, rule=3)

    @property
    def has_died(self) -> bool:
        # xl2tpd outlives its calls.
        return super().has_died or any(
            f"pppd {ended}" in daemon.output() for daemon in self.router_daemons for ended in ("exited", "terminated")
        )

    def keep_alives(self) -> tuple[bool, ...]:
        return parse_echoes(self.ends.router.host.read_machine(str(self._log(self.ends.router))))

    def _up(self) -> None:
        for end, other in reversed(list(self.ends)):
            is_router = end is self.ends.router
            self._write(end, f"{FOLDER}/xl2tpd.conf", lac_conf(other) if is_router else lns_conf(end, other))
            self._write(end, f"{FOLDER}/ppp/options", self._ppp_options(end, other))
            # It is made here so that it goes with the tunnel; pppd appends to it.
            self._write(end, f"{FOLDER}/{LOG}", "", secret=True)
            enter = private_run(end, self._stack)
            end.host.run([*enter, "mount", "--bind", "/run/ppp", "/etc/ppp"])
            if not end.host.has_path(PPP_DEVICE):
                # A container's /dev has what somebody put there; the kernel's own has every device that there is.
                end.host.run([*enter, "mount", "-t", "devtmpfs", "devtmpfs", "/dev"])
            # fmt: off
            daemon = self._start(end, [*enter, "xl2tpd", "-D", "-c", "/run/xl2tpd.conf", "-p", "/run/xl2tpd.pid",
                                       "-C", "/run/xl2tpd-control"], name="xl2tpd")
            # fmt: on
            self._require(daemon, "Listening on IP address", timeout_s=START_LIMIT_S)
        for end, _ in self.ends:
            self._await_call(end)

    def _await_call(self, end: End) -> None:
        """Wait until pppd has its addresses."""
        deadline = time.monotonic() + CALL_LIMIT_S
        log = str(self._log(end))
        while "remote IP address" not in end.host.read_machine(log):
            (daemon,) = self.router_daemons if end is self.ends.router else self.server_daemons
            if time.monotonic() > deadline or not daemon.is_running:
                last = (end.host.read_machine(log).strip() or daemon.last_line()).splitlines()[-1]
                raise TunnelRefused(f"{self.kind}: no call in {CALL_LIMIT_S:g} s; last on the {end.host.name}: {last}")
            time.sleep(0.02)

    def _log(self, end: End) -> Path:
        return end.host.folder / FOLDER / LOG

    def _ppp_options(self, end: End, other: End) -> str:
        options = self.options
        echoes = ""
        if end is self.ends.router:
            echoes = f"lcp-echo-interval {options.echo_interval_s}\nlcp-echo-failure {options.echo_failure}\n"
        # Twice `debug`: once leaves the echoes out.
        return f"""\
{end.inner_address}:{other.inner_address}
ifname {self.device}
mtu {options.mtu}
mru {options.mtu}
noauth
nolock
noccp
novj
noaccomp
nopcomp
noipv6
nomultilink
{echoes}debug
debug
logfile /run/{LOG}
"""


def lns_conf(end: End, other: End) -> str:
    """The server answers."""
    return f"""\
[global]
listen-addr = {end.wan_address}
port = {PORT}
[lns default]
local ip = {end.inner_address}
ip range = {other.inner_address}-{other.inner_address}
require authentication = no
length bit = no
"""


def lac_conf(other: End) -> str:
    """The router calls, once: a session that is lost stays lost, and is seen to be."""
    return f"""\
[global]
port = {PORT}
[lac tunnel]
lns = {other.wan_address}
autodial = yes
redial = no
require authentication = no
length bit = no
"""


def parse_session(text: str, device: str) -> tuple[int, int]:
    """Packets that the kernel has sent and received in the session of a PPP device, by /proc/net/pppol2tp; none where
    it has no such session (net/l2tp/l2tp_ppp.c, pppol2tp_seq_session_show)."""
    found = re.search(rf"(\d+)/\d+/\d+ (\d+)/\d+/\d+\s+interface {re.escape(device)}\b", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def parse_echoes(log: str) -> tuple[bool, ...]:
    """Of each LCP echo that pppd has asked for, whether it was answered; the last is left out while it may yet be."""
    answered: list[bool] = []
    latest: dict[str, int] = {}
    # The number is one byte, so that it comes again.
    for sent, received in re.findall(r"sent \[LCP EchoReq id=(\w+)|rcvd \[LCP EchoRep id=(\w+)", log):
        if sent:
            latest[sent] = len(answered)
            answered.append(False)
        elif received in latest:
            answered[latest[received]] = True
    return tuple(answered if not answered or answered[-1] else answered[:-1])
