"""Requirements of tunnels: programs, files and kernel features, each with the packages that bring it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from tunnelbench.host.host import Host


@dataclass(frozen=True)
class Requirement:
    """Something that both ends of a tunnel must have before it can come up."""

    what: str
    """Name in messages, such as `the program openvpn` or `the kernel's vxlan`."""
    is_met: Callable[[Host], bool]
    name: str = ""
    """Name in the lists of `doctor`; empty: `what`."""
    is_program: bool = False
    """True if `name` is a program whose version `doctor` asks for."""
    debian: str = ""
    """Debian packages that bring it, with blanks between them; empty if none does."""
    openwrt: str = ""
    """OpenWrt packages that bring it, with blanks between them; empty if none is known. The names are in
    openwrt/packages (net/*/Makefile) and, for modules, in netsupport.mk of openwrt/openwrt. The names of the adapters
    here are those of August 2026, branches openwrt-23.05, openwrt-24.10 and master; ip, ppp, unshare, nsenter and wg
    are from older Makefiles.
    """
    crate: str = ""
    """Rust program to be built by cargo, as `NAME@VERSION`, if no Debian package brings it."""
    fix: str = ""
    """Command or advice if neither a Debian package nor a crate brings it, such as `modprobe vxlan`."""
    modules: tuple[str, ...] = ()
    """Kernel modules that bring it; empty if it is no feature of the kernel."""
    starts_program: bool = False
    """True if `is_met` starts a program that a plan may name; only a run does that."""
    makes_keys: bool = False
    """True if it only makes keys, so that the controller's machine alone needs it."""

    @property
    def remedy(self) -> str:
        """Command that brings it on Debian, or other advice."""
        if self.crate:
            name, _, version = self.crate.partition("@")
            return f"cargo install --locked --version {version} --root {sys.prefix} {name}"
        return f"apt-get install {self.debian}" if self.debian else self.fix


def program(name: str, debian: str = "", *, openwrt: str = "") -> Requirement:
    """Return the requirement of a program; without `debian` the package has the name of the program."""
    return Requirement(
        f"the program {name}",
        lambda host: host.has_program(name),
        name,
        is_program=True,
        debian=debian or name,
        openwrt=openwrt,
    )


def key_maker(name: str) -> Requirement:
    """Return the requirement of a program that makes keys or certificates on the controller's machine."""
    return replace(program(name), makes_keys=True)


def path(what: str, name: str, debian: str, *, openwrt: str = "") -> Requirement:
    """Return the requirement of a file; `what` is its name in messages, `name` its path."""
    return Requirement(what, lambda host: host.has_path(name), debian=debian, openwrt=openwrt)


def tun_device() -> Requirement:
    """Return the requirement of the kernel's tun, from which a program in user space gets its device."""
    return Requirement(
        "/dev/net/tun", lambda host: host.has_path("/dev/net/tun"), openwrt="kmod-tun", fix="modprobe tun"
    )


def ipv6() -> Requirement:
    """Return the requirement of IPv6 in the kernel, for tunnels whose outer packets are IPv6."""
    return kernel_feature("IPv6", lambda host: host.has_path("/proc/sys/net/ipv6"), fix="a kernel that has it")


def kernel_feature(
    name: str, is_met: Callable[[Host], bool], *modules: str, openwrt: str = "", fix: str = ""
) -> Requirement:
    """Return the requirement of a kernel feature that `modules` bring."""
    fix = fix or f"modprobe {' '.join(modules)}, or a kernel that has {'them' if len(modules) > 1 else 'it'}"
    return Requirement(f"the kernel's {name}", is_met, name, openwrt=openwrt, fix=fix, modules=modules)


def link_type(name: str, module: str = "", *arguments: str, openwrt: str = "") -> Requirement:
    """Return the requirement of a type of network device, as `ip link` calls it.

    `arguments` are those without which `ip link add` makes no device of this type. OpenWrt needs ip-full, too: ip-tiny
    does not support vxlan, l2tp and xfrm (170-ip_tiny.patch of its iproute2), and BusyBox's ip supports even fewer
    types.
    """
    packages = openwrt or f"kmod-{name} ip-full"
    return kernel_feature(name, lambda host: host.has_link_type(name, *arguments), module or name, openwrt=packages)
