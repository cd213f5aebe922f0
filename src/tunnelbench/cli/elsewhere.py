"""What `tunnelbench doctor --on TESTBED` says of the hosts that are reached by SSH; nothing is changed there."""

from __future__ import annotations

import platform
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from tunnelbench.cli.needs import requirements
from tunnelbench.host.host import RUN_FOLDER
from tunnelbench.host.lent import LentHost
from tunnelbench.host.programs import REQUIRED_PROGRAMS
from tunnelbench.host.readiness import PURPOSES, Finding, Status, Wanted, met
from tunnelbench.measure.engines import find_engine
from tunnelbench.model.errors import CannotHere
from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.testbed import firewall, open_testbed
from tunnelbench.testbed.ssh import RADIO_NOT_TOLD, SshTestbed
from tunnelbench.traffic import engine
from tunnelbench.tunnel import adapters

INSTALLERS = {
    "opkg": "opkg update && opkg install",
    "apk": "apk add",
    "apt-get": "apt-get install",
}
"""How a package is installed, by the program that does it; the first that a host has."""

OPENWRT_PACKAGES = {
    "/dev/net/tun": "kmod-tun",
    "the program openvpn": "openvpn-openssl",
    "the program xl2tpd": "xl2tpd",
    "the program pppd": "ppp",
    "the program swanctl": "strongswan-swanctl",
    "the program nebula-cert": "nebula-cert",
    "the program unshare": "unshare",
    "the program nsenter": "nsenter",
    "OpenSSH's client": "openssh-client openssh-keygen",
    "OpenSSH's server": "openssh-server",
    "the program tincd": "tinc",
    "the program wg": "wireguard-tools",
    "the program fastd": "fastd",
    "the program nebula": "nebula",
    "the program openconnect": "openconnect",
    "the program ocserv": "ocserv",
    "pppd's plugins": "ppp-mod-pppol2tp",
    "charon": "strongswan-charon strongswan-mod-kdf strongswan-mod-kernel-netlink strongswan-mod-random "
    "strongswan-mod-socket-default strongswan-mod-vici",
    "charon's OpenSSL": "strongswan-mod-openssl",
    "charon's libipsec": "strongswan-mod-kernel-libipsec",
    "the kernel's ESP": "kmod-ipsec4",
    "the kernel's xfrm": "kmod-xfrm-interface ip-full",
    "the kernel's wireguard": "kmod-wireguard",
    "the kernel's vxlan": "kmod-vxlan ip-full",
    "the kernel's geneve": "kmod-geneve ip-full",
    "the kernel's gre": "kmod-gre ip-full",
    "the kernel's ipip": "kmod-ipip ip-full",
    "the kernel's sit": "kmod-sit ip-full",
    "the kernel's l2tp": "kmod-l2tp-eth kmod-l2tp-ip ip-full",
    "the kernel's PPP over L2TP": "kmod-pppol2tp",
}
"""What OpenWrt's feeds call the packages that hold a requirement.

Programs of tunnels and of OpenSSH were looked up in openwrt/packages (net/*/Makefile) as it was in August 2026, on the
branches openwrt-23.05, openwrt-24.10 and master. Modules are those of openwrt/openwrt's netsupport.mk from after Linux
5.18; ip, ppp, unshare, nsenter and wg are from Makefiles there of which some are older. ip-full, for ip-tiny knows no
vxlan, l2tp and xfrm (170-ip_tiny.patch of its iproute2), and BusyBox's ip still less. openwrt/packages has neither
wireguard-go nor boringtun, and had n2n in version 2, which the adapter does not know; ifconfig is BusyBox's.
"""

SAID = {
    "board": "board",
    "soc": "SoC",
    "memory_mib": "memory [MiB]",
    "memory_available_kib": "of it free [KiB]",
    "tmp_free_kib": "room in /tmp [KiB]",
    "kernel": "kernel",
    "system": "system",
    "openwrt_target": "OpenWrt target",
    "busybox": "BusyBox",
    "flow_offloading": "flow offloading",
    "flow_offloading_hw": "the same in hardware",
    "flowtables": "flow tables in the kernel",
    "packet_steering": "packet steering",
    "gro": "GRO",
    "rps_cpus": "RPS",
    "governor": "governor",
    "schedstat": "schedstat",
}
"""Facts that are told as they are, and what people call them."""


def examine(spec: TestbedSpec) -> dict[str, list[Finding]]:
    """What a run needs of a testbed's hosts, by host."""
    name = f"doctor-{secrets.token_hex(3)}"
    folder = RUN_FOLDER / name
    testbed = open_testbed(spec, name, folder)
    sections: dict[str, list[Finding]] = {}
    try:
        for host in testbed.lent if isinstance(testbed, SshTestbed) and spec.router else ():
            looker = LentHost(host.name, host.access, f"{name}-{host.name}", host.log_folder, testbed.local)
            sections[f"{host.name}, {host.access.host}"] = list(of_host(looker))
        if (
            isinstance(testbed, SshTestbed)
            and spec.router
            and not any(each.status is Status.MISSING for each in all_of(sections))
        ):
            sections["cables"] = list(cables(testbed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return sections


def all_of(sections: Mapping[str, list[Finding]]) -> Iterator[Finding]:
    for findings in sections.values():
        yield from findings


def of_host(host: LentHost) -> Iterator[Finding]:
    """One host: its connection, what it is, whose it is, and what its tunnels lack."""
    with ExitStack() as stack:
        stack.callback(host.close)
        try:
            host.connect()
        except CannotHere as error:
            yield Finding("SSH", Status.MISSING, error.message, "everything goes over it", error.hint)
            return
        stack.callback(host.forget)
        yield Finding("SSH", Status.OK, "", "logs in without a question")
        facts = host.facts()
        yield processor(facts)
        for key, called in SAID.items():
            if key in facts:
                yield Finding(called, Status.OK, told(facts[key]), "as it tells")
        yield Finding("firewall", Status.OK, firewall.kind(host), "rules are added for a run and removed")
        yield lease(host)
        manager = next((each for each in INSTALLERS if host.has_program(each)), "")
        if host.name != "router":
            yield from programs(host, manager)
        if host.name != "client":  # it knows nothing of tunnels
            yield from tunnels(host, manager)


def processor(facts: Mapping[str, Any]) -> Finding:
    """What it computes with."""
    parts = [str(facts.get("cpu_model", facts.get("architecture", "not told"))), f"{facts.get('cpus', '?')} CPUs"]
    if "cpu_mhz" in facts:
        parts.append(f"{facts['cpu_mhz']} MHz ({facts.get('cpu_mhz_from', 'not told where from')})")
    crypto = facts.get("crypto_instructions")
    return Finding("CPU", Status.OK, ", ".join(parts), f"with {crypto}" if crypto else "no crypto instructions told")


def told(value: object) -> str:
    """A fact as text."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return str(value)


def lease(host: LentHost) -> Finding:
    """Whether somebody uses it."""
    found = host.lease()
    why = "one controller at a time"
    if found["state"] == "free":
        return Finding("lease", Status.OK, "free", why)
    who = f"{found['state']}: {found.get('owner', 'unknown')}"
    return Finding("lease", Status.WARNING, who, why, "wait, or tunnelbench clean --on TESTBED")


def tunnels(host: LentHost, manager: str) -> Iterator[Finding]:
    """What the tunnels need of their end there, each thing once."""
    users: dict[str, list[str]] = {}
    needed = {}
    for kind in adapters():
        for requirement in requirements(kind):
            if not requirement.makes_keys:
                users.setdefault(requirement.what, []).append(kind)
                needed[requirement.what] = requirement
    for what, requirement in needed.items():
        package = OPENWRT_PACKAGES.get(what, "")
        remedy = requirement.remedy
        if manager in ("opkg", "apk"):
            remedy = f"{INSTALLERS[manager]} {package}" if package else "no package of OpenWrt is known to hold it"
        wanted = Wanted(what, f"for {', '.join(users[what])}", remedy, Status.ABSENT)
        yield met(wanted, partial(requirement.is_met, host))


def programs(host: LentHost, manager: str) -> Iterator[Finding]:
    """What every run needs of a tester."""
    for program, package in REQUIRED_PROGRAMS.items():
        remedy = f"{INSTALLERS.get(manager, 'install')} {package}"
        yield met(Wanted(program, PURPOSES[program], remedy), partial(host.has_program, program))
    yield packet_engine(host)


def packet_engine(host: LentHost) -> Finding:
    """Where a run with [udp] would take the tester's engine from."""
    wanted = Wanted(engine.PROGRAM, "for plans with [udp]", "install TunnelBench there", Status.ABSENT)
    architecture, found = find_engine(host)
    if found:
        return wanted.found(Status.OK, found)
    if architecture == platform.machine():
        return wanted.found(Status.OK, "this machine's is copied for a run")
    return wanted.found(
        Status.ABSENT, f"none there, and this machine's is for {platform.machine()}, not {architecture}"
    )


def cables(testbed: SshTestbed) -> Iterator[Finding]:
    """Whether devices and addresses can be told, and what tells of a cable that is none."""
    why = "client, router and server are joined by them"
    try:
        testbed.look()
    except CannotHere as error:
        yield Finding("cables", Status.MISSING, error.message, why, error.hint)
        return
    found = testbed.survey
    if found is None:
        yield Finding("cables", Status.UNKNOWN, "", why)
        return
    lan = f"{found.client.device} {found.client.interface} - {found.router_lan.device} {found.router_lan.interface}"
    wan = f"{found.router_wan.device} {found.router_wan.interface} - {found.server.device} {found.server.interface}"
    yield Finding("cables", Status.OK, f"LAN {lan}; WAN {wan}", why)
    if RADIO_NOT_TOLD in testbed.notes:
        why = "tells band, rate and signal of the LAN, which is wireless"
        yield Finding("iw", Status.ABSENT, "", why, f"{INSTALLERS['apt-get']} iw")
