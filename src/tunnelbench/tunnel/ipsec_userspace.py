"""IPsec without the kernel's: strongSwan's charon with its own ESP (kernel-libipsec)."""

from __future__ import annotations

from tunnelbench.tunnel.base import Requirement, path, tun_device
from tunnelbench.tunnel.strongswan import PLUGINS, EspOptions, StrongSwan


class Options(EspOptions):
    """Options of `ipsec-userspace`."""


class IpsecUserspace(StrongSwan[Options]):
    """Plan entry: `kind = "ipsec-userspace"`, `cipher = "aes-128-cbc"`, `digest = "sha1"`.

    IKEv2 with a key that both ends know; ESP in tunnel mode, in UDP, made by charon itself. It is not what a router
    runs whose kernel has ESP.
    """

    kind = "ipsec-userspace"
    title = "IPsec in user space: strongSwan's own ESP, in UDP"
    options_type = Options
    tested_with = "strongSwan 5.9.8 with OpenSSL 3.0"
    plugins = "kernel-libipsec kernel-netlink"
    in_udp = True
    """Which is all that libipsec does."""

    @classmethod
    def requirements(cls, options: Options) -> tuple[Requirement, ...]:
        libipsec = f"{PLUGINS}/libstrongswan-kernel-libipsec.so"
        return (
            tun_device(),
            path("charon's libipsec", libipsec, "libcharon-extra-plugins"),
            *super().requirements(options),
        )
