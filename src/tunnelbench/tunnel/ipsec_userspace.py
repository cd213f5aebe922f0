"""IPsec without the kernel's ESP: strongSwan's charon makes the ESP packets itself (kernel-libipsec)."""

from __future__ import annotations

from typing import Self

from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.testbed import ROUTER_SERVER
from tunnelbench.tunnel.requirements import path, tun_device
from tunnelbench.tunnel.strongswan import CHARON_PLUGINS, EspOptions, StrongSwan


class Options(EspOptions):
    """Options of `ipsec-userspace`."""


class IpsecUserspace(StrongSwan[Options]):
    """Plan entry: `kind = "ipsec-userspace"`, `cipher = "aes-128-cbc"`, `digest = "sha1"`.

    IKEv2 with a key that both ends know; charon itself makes ESP in tunnel mode, in UDP. Routers whose kernel has ESP
    use `ipsec` in practice.
    """

    kind = "ipsec-userspace"
    title = "IPsec in user space: strongSwan's own ESP, in UDP"
    options_type = Options
    tested_with = "strongSwan 5.9.8 with OpenSSL 3.0"
    plugins = "kernel-libipsec kernel-netlink"
    plans = {
        "all": {"name": "IPsec in user space, AES-128-GCM"},
        "userspace": {"name": "IPsec {cipher}", "cipher": ["aes-128-gcm", "chacha20-poly1305"]},
    }
    added_bytes = {
        "GCM, ChaCha20": "60, and 2 padded with the packet to 4",
        "CBC with SHA-1 / SHA-256 / SHA-512": "64 / 68 / 84, and 2 padded with the packet to 16",
        "none with SHA-1 / SHA-256 / SHA-512": "48 / 52 / 68, and 2 padded with the packet to 4",
    }
    needs = (
        tun_device(),
        path(
            "charon's libipsec",
            f"{CHARON_PLUGINS}/libstrongswan-kernel-libipsec.so",
            "libcharon-extra-plugins",
            openwrt="strongswan-mod-kernel-libipsec",
        ),
        *StrongSwan.needs,
    )
    in_udp = True  # libipsec knows nothing else

    @classmethod
    def algorithms(cls, options: Options) -> tuple[str, ...]:
        names = [options.cipher] if options.is_aead else [options.cipher, options.digest]
        return tuple(name for name in names if name != "none")

    def __enter__(self) -> Self:
        if self.ends.is_target_behind_server:  # install_route in strongSwan's kernel_libipsec_ipsec.c
            raise TunnelUnavailable(
                "charon's own ESP accepts only associations for addresses of its own ends, and the target of the "
                f'traffic is behind one: take the kind ipsec, or a testbed with topology = "{ROUTER_SERVER}"'
            )
        return super().__enter__()
