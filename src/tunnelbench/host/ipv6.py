"""Sets up IPv6 on single devices of a host, and nothing else: other addresses and announcements would cause traffic."""

from __future__ import annotations

from contextlib import ExitStack

from tunnelbench.host.host import Host

DEVICE_SETTINGS = (("addr_gen_mode", "1"), ("accept_ra", "0"), ("accept_dad", "0"), ("disable_ipv6", "0"))
"""Settings of a device below /proc/sys/net/ipv6/conf: no address of its own making, no routes from routers, no search
for another owner of an address, and IPv6 (Documentation/networking/ip-sysctl.rst)."""

ASSIGNED = ("exists", "already assigned")
"""Words of `ip` for an address that the device has already, by version."""

FORWARDING = "/proc/sys/net/ipv6/conf/all/forwarding"


def add_ipv6_address(host: Host, interface: str, device: str, stack: ExitStack) -> None:
    """Switch IPv6 on for a device, and give it an address with its prefix; both are undone when the stack closes.

    The device also gets a link-local address that ends alike: a router asks from that address who has the next one
    (net/ipv6/ndisc.c, ndisc_send_ns).
    """
    for name, value in DEVICE_SETTINGS:
        set_for_block(host, f"/proc/sys/net/ipv6/conf/{device}/{name}", value, stack)
    _add_address(host, interface, device, stack)
    if device != "lo":
        address = interface.partition("/")[0]
        _add_address(host, f"fe80::{address.rpartition('::')[2]}/64", device, stack)


def _add_address(host: Host, interface: str, device: str, stack: ExitStack) -> None:
    """Add an address that a device may have already."""
    argv = ["ip", "addr", "add", interface, "dev", device]
    done = host.run(argv, check=False)
    if done.returncode == 0:
        stack.callback(host.run, ["ip", "addr", "del", interface, "dev", device], check=False)
    elif not any(word in done.stderr for word in ASSIGNED):
        host.run(argv)  # raises with the error


def add_route(host: Host, destination: str, *way: str, stack: ExitStack) -> None:
    """Add a route, which is deleted when the stack closes."""
    host.ip("route", "add", destination, *way)
    stack.callback(host.run, ["ip", "route", "del", destination], check=False)


def set_for_block(host: Host, path: str, value: str, stack: ExitStack) -> None:
    """Write a value into a file of the kernel; the stack writes the former value when it closes."""
    before = host.run(["cat", path]).stdout.strip()
    if before != value:
        host.set_kernel_file(path, value)
        stack.callback(_put_back, host, path, before)


def _put_back(host: Host, path: str, value: str) -> None:
    if host.run(["cat", path], check=False).returncode == 0:  # else the device has gone
        host.set_kernel_file(path, value)
