"""Testers in namespaces that merge packets after they have arrived (GRO), and cut them just before they leave (GSO).

Each frame on the cable still is one packet (rule 1). A veth that merges packets uses NAPI, and polls on the CPU of
whoever sent, which is the router's. A kernel thread for the poll, bound to the tester's CPUs, does the work where it
belongs (Documentation/networking/napi.rst, "Threaded NAPI").
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.host import Host
from tunnelbench.host.procfs import KTHREADD, all_processes, allowed_cpus

THREADED_FILE = "/sys/class/net/{}/threaded"
"""`1` if a kernel thread, which may run on any CPU, processes the packets that arrive at a device; 0 unless set."""

TESTER_OFFLOADS = ("generic-receive-offload", "generic-segmentation-offload")
"""Features, as ethtool names them, that are on while a tester's device merges packets."""

NOT_SEEN = "the kernel's threads cannot be seen here, as in a container"
TOO_OLD = "this kernel has no threads for a device's packets, which Linux has since 5.12"


class CannotMerge(Exception):
    """Raised if packets cannot be merged on the tester's CPUs; the text is the reason."""


@dataclass(frozen=True)
class MergingDevice:
    """A tester's device that merges packets."""

    host: Host
    device: str
    threads: frozenset[int]
    """Kernel threads that process the packets which arrive at the device."""

    def stop(self) -> None:
        """Let the device merge no packets; it may have gone."""
        switch_back(self.host, self.device)

    @property
    def cpus(self) -> set[int]:
        """The CPUs on which the device's packets may be processed."""
        return allowed_cpus(self.threads)


def merge(host: Host, device: str) -> MergingDevice:
    """Let a device merge packets on its host's CPUs. Raises CannotMerge, and then leaves the device as it was."""
    try:
        return MergingDevice(host, device, frozenset(_start_threads(host, device)))
    except CannotMerge:
        switch_back(host, device)
        raise


def _start_threads(host: Host, device: str) -> set[int]:
    """Switch merging on, and bind the threads for it, which are returned. Raises CannotMerge."""
    before = polling_threads(device)
    try:
        host.run(["ethtool", "-K", device, *(word for name in TESTER_OFFLOADS for word in (name, "on"))])
        host.set_kernel_file(THREADED_FILE.format(device), "1")
    except CommandFailed:
        raise CannotMerge(TOO_OLD) from None
    threads = polling_threads(device) - before
    if not threads:
        raise CannotMerge(NOT_SEEN)
    try:
        for thread in threads:
            os.sched_setaffinity(thread, host.cpus)
    except OSError as error:
        raise CannotMerge(f"the thread of a device cannot be bound to CPUs: {error.strerror}") from None
    return threads


def switch_back(host: Host, device: str) -> None:
    """Undo what `merge` has set; the device may have gone."""
    with suppress(CommandFailed):
        host.set_kernel_file(THREADED_FILE.format(device), "0")
    host.run(["ethtool", "-K", device, *(word for name in TESTER_OFFLOADS for word in (name, "off"))], check=False)


def polling_threads(device: str) -> set[int]:
    """Return the kernel threads of the devices of this name, of all networks of this machine, by their numbers."""
    return {
        number
        for number, process in all_processes().items()
        if process.parent == KTHREADD and process.name.startswith(f"napi/{device}-")
    }
