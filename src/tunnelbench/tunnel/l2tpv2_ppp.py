"""PPP in L2TPv2 (RFC 2661), as many routers have it: xl2tpd sets it up, pppd speaks PPP, the kernel carries the data.

Both programs need files in /run. pppd reads the files in /etc/ppp and runs the scripts there. Each end has a mount
namespace in which folders of the run are mounted over /run and /etc/ppp. Therefore neither the machine's options nor
its scripts are used.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from tunnelbench.host.command import last_lines
from tunnelbench.model.errors import TunnelRefused
from tunnelbench.model.frames import udp_packet_bytes
from tunnelbench.model.result import Check
from tunnelbench.tunnel.base import End, Outer, Tunnel, TunnelOptions, is_so
from tunnelbench.tunnel.private_run import FOLDER, private_run, private_run_programs
from tunnelbench.tunnel.requirements import kernel_feature, path, program
from tunnelbench.tunnel.versions import kernel_version, version_of

PORT = 1701

DATA_HEADER_BYTES = 6
"""Length of the header of data messages: flags, tunnel and session. The kernel sends them without length, sequence and
offset (RFC 2661, section 3.1)."""

HDLC_BYTES = 2
"""Length of address and control (RFC 1662, section 3.1), which the kernel always sends (net/l2tp/l2tp_ppp.c)."""

PROTOCOL_BYTES = 2
"""Length of PPP's protocol field (RFC 1661, section 2). pppd's plugin for L2TP never agrees to shorten it."""

PPP_SOCKET = (24, 1)
"""Address family AF_PPPOX and protocol PX_PROTO_OL2TP (linux/if_pppox.h)."""

PPP_DEVICE = "/dev/ppp"
PPPD_PLUGINS = "/usr/lib/pppd"

LOG = "pppd.log"
SECRETS_FILE = "l2tp-secrets"

CALL_LIMIT_S = 20.0
"""Limit for a call [s]. xl2tpd waits a second between attempts; programs start slowly in an emulated guest."""


class Options(TunnelOptions):
    ipv4_only_inside = "PPP is set up without IPv6CP (RFC 5072)"
    ipv4_only_outside = "xl2tpd has IPv4 sockets only"

    mtu: int = Field(
        default=1462, ge=576, le=8900, description="MTU and MRU of PPP [bytes]; 1462 just fits a frame of Ethernet"
    )
    echo_interval_s: int = Field(
        default=1, ge=1, le=3600, description="interval of the LCP echoes that the router's pppd asks for [s]"
    )
    echo_failure: int = Field(
        default=5, ge=1, le=1000, description="number of echoes without an answer after which pppd gives the session up"
    )


class L2tpV2Ppp(Tunnel[Options]):
    """Plan entry: `kind = "l2tpv2-ppp"`. The router calls (LAC), the server answers (LNS); no cipher, no login.

    The ends listen on their WAN addresses alone, and prove to each other that they know the tunnel's secret (RFC 2661,
    section 5.1.1), which is new for each tunnel: nobody else on the network can call.
    PPP carries IP alone and compresses neither headers nor data. The router's pppd asks for LCP echoes, and each
    trial reports how many had no answer.
    """

    kind = "l2tpv2-ppp"
    title = "PPP over L2TPv2: xl2tpd and pppd, the data by the kernel, no cipher"
    options_type = Options
    tested_with = "xl2tpd 1.3.18, pppd 2.4.9, Linux 6.1 (Debian 12)"
    plans = {"all": {"name": "PPP/L2TPv2"}}
    added_bytes = {"": "38"}
    weight = 3
    is_on_virtual_router = True
    signs_of_restart = (
        "pppd exited",
        "pppd terminated",
        " closed to ",
        "retries exceeded",
        "Connection established to",
    )
    device = "ppp0"
    needs = (
        kernel_feature(
            "PPP over L2TP", lambda host: host.knows_socket(*PPP_SOCKET), "l2tp_ppp", openwrt="kmod-pppol2tp"
        ),
        program("xl2tpd", openwrt="xl2tpd"),
        program("pppd", "ppp", openwrt="ppp"),
        path("pppd's plugins", PPPD_PLUGINS, "ppp", openwrt="ppp-mod-pppol2tp"),
        *private_run_programs(),
    )
    outer = Outer("udp", PORT)
    hides_payload = False

    def outer_packet_bytes(self, inner_packet_bytes: int) -> int:
        return udp_packet_bytes(DATA_HEADER_BYTES + HDLC_BYTES + PROTOCOL_BYTES + inner_packet_bytes)

    def versions(self, end: End) -> Mapping[str, str]:
        return {
            **kernel_version(end.host),
            "xl2tpd": version_of(end.host, ["xl2tpd", "--version"], r"xl2tpd-(\S+)"),
            "ppp": version_of(end.host, ["pppd", "--version"], r"pppd version (\S+)"),
        }

    def negotiated(self) -> tuple[Check, ...]:
        """Check that the kernel carries the data; xl2tpd does so itself, in user space, if the kernel cannot."""
        return tuple(self._kernel_session(end) for end, _ in self.ends)

    def _kernel_session(self, end: End) -> Check:
        sent, received = parse_session(end.host.read("/proc/net/pppol2tp"), self.device)
        reason = f"the {end.host.name}'s kernel has sent {sent} and received {received} packets of the session"
        return is_so(f"kernel-session-{end.host.name}", bool(sent and received), reason)

    @property
    def has_died(self) -> bool:
        # xl2tpd outlives its calls.
        return super().has_died or any(
            f"pppd {ended}" in daemon.output() for daemon in self.router_daemons for ended in ("exited", "terminated")
        )

    def keep_alives(self) -> tuple[bool, ...]:
        return parse_echoes(self.ends.router.host.read_machine(str(self._log(self.ends.router))))

    def _up(self) -> None:
        secret = secrets.token_hex(16)
        for end, other in reversed(list(self.ends)):
            is_router = end is self.ends.router
            self._write(end, f"{FOLDER}/xl2tpd.conf", lac_conf(end, other) if is_router else lns_conf(end, other))
            self._write(end, f"{FOLDER}/{SECRETS_FILE}", f"* * {secret}\n", secret=True)
            self._write(end, f"{FOLDER}/ppp/options", self._ppp_options(end, other))
            # The log is made here, so that it is deleted with the tunnel; pppd appends to it.
            self._write(end, f"{FOLDER}/{LOG}", "", secret=True)
            enter = private_run(end, self._stack)
            end.host.run([*enter, "mount", "--bind", "/run/ppp", "/etc/ppp"])
            if not end.host.has_path(PPP_DEVICE):
                # A container's /dev holds a selection; the kernel's own holds every device.
                end.host.run([*enter, "mount", "-t", "devtmpfs", "devtmpfs", "/dev"])
            # fmt: off
            daemon = self._start(end, [*enter, "xl2tpd", "-D", "-c", "/run/xl2tpd.conf", "-p", "/run/xl2tpd.pid",
                                       "-C", "/run/xl2tpd-control"], name="xl2tpd")
            # fmt: on
            self._require(daemon, "Listening on IP address")
        for end, _ in self.ends:
            self._await_call(end)

    def _await_call(self, end: End) -> None:
        """Wait until pppd has its addresses."""
        deadline = time.monotonic() + CALL_LIMIT_S
        log = str(self._log(end))
        while "remote IP address" not in end.host.read_machine(log):
            ended = self._deaths()
            if ended or time.monotonic() > deadline:
                (daemon,) = self.router_daemons if end is self.ends.router else self.server_daemons
                said = end.host.read_machine(log).strip()
                last = last_lines(said) if said else daemon.last_lines()
                reason = ended or f"no call in {CALL_LIMIT_S:g} s"
                raise TunnelRefused(f"{self.kind}: {reason}; last on the {end.host.name}: {last}")
            time.sleep(0.02)

    def _log(self, end: End) -> Path:
        return end.host.folder / FOLDER / LOG

    def _ppp_options(self, end: End, other: End) -> str:
        options = self.options
        echoes = ""
        if end is self.ends.router:
            echoes = f"lcp-echo-interval {options.echo_interval_s}\nlcp-echo-failure {options.echo_failure}\n"
        # With a single `debug` pppd does not log the echoes.
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
    """Return the configuration of the server, which answers."""
    return f"""\
[global]
listen-addr = {end.wan_address}
port = {PORT}
auth file = /run/{SECRETS_FILE}
[lns default]
challenge = yes
local ip = {end.inner_address}
ip range = {other.inner_address}-{other.inner_address}
require authentication = no
length bit = no
"""


def lac_conf(end: End, other: End) -> str:
    """Return the configuration of the router, which connects only once, so that the loss of a session is detected."""
    return f"""\
[global]
listen-addr = {end.wan_address}
port = {PORT}
auth file = /run/{SECRETS_FILE}
[lac tunnel]
challenge = yes
lns = {other.wan_address}
autodial = yes
redial = no
require authentication = no
length bit = no
"""


def parse_session(text: str, device: str) -> tuple[int, int]:
    """Return the packets that the kernel has sent and received in the session of a PPP device, by /proc/net/pppol2tp.

    Both are 0 if it has no such session (net/l2tp/l2tp_ppp.c, pppol2tp_seq_session_show).
    """
    found = re.search(
        rf"(\d{{1,20}})/\d{{1,20}}/\d{{1,20}} (\d{{1,20}})/\d{{1,20}}/\d{{1,20}}\s+interface {re.escape(device)}\b",
        text,
    )
    return (int(found[1]), int(found[2])) if found else (0, 0)


def parse_echoes(log: str) -> tuple[bool, ...]:
    """Return one value for each LCP echo request of pppd: True if it was answered. The last one is left out if it has
    no answer."""
    answered: list[bool] = []
    latest: dict[str, int] = {}
    # The number is one byte, so that numbers repeat.
    for sent, received in re.findall(r"sent \[LCP EchoReq id=(\w+)|rcvd \[LCP EchoRep id=(\w+)", log):
        if sent:
            latest[sent] = len(answered)
            answered.append(False)
        elif received in latest:
            answered[latest[received]] = True
    return tuple(answered if not answered or answered[-1] else answered[:-1])
