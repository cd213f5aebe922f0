"""CPUs of a router behind SSH: some are switched off for the trials of a tunnel, and on again afterwards.

Linux moves the interrupts of a CPU that is switched off to another one, and leaves them there when the CPU is back
(docs.kernel.org/core-api/cpu_hotplug.html). So their former CPUs are written back.
"""

from __future__ import annotations

import re
from contextlib import ExitStack

from tunnelbench.host.leased_host import LeasedHost
from tunnelbench.host.ssh_programs import in_shell
from tunnelbench.model.errors import TunnelUnavailable
from tunnelbench.model.text import counted

ONLINE_FILE = "/sys/devices/system/cpu/cpu{}/online"

LIST_AFFINITIES = "for f in /proc/irq/[0-9]*/smp_affinity; do echo $f $(cat $f); done 2>/dev/null; true"
RESTORE = 'while [ $# -ge 2 ]; do echo "$2" >"$1"; shift 2; done 2>/dev/null; true'
"""Shell that writes masks back; some interrupts have one that nobody can change."""

AFFINITY = re.compile(r"^(/proc/irq/\d{1,6}/smp_affinity) ([0-9a-f,]{1,1024})$", re.MULTILINE)


def limit(router: LeasedHost, count: int, undo: ExitStack) -> None:
    """Leave a router its first `count` CPUs until `undo` closes.

    Raises TunnelUnavailable if the router has fewer, or if its kernel cannot switch a CPU off.
    """
    every = router.cpus
    if count > len(every):
        raise TunnelUnavailable(f"the router has {counted(len(every), 'CPU')}")
    spare = every[count:]
    for cpu in spare:
        if not router.has_path(ONLINE_FILE.format(cpu)):
            raise TunnelUnavailable(f"the router's kernel cannot switch its CPU {cpu} off (CONFIG_HOTPLUG_CPU)")
    if not spare:
        return

    def switch_on() -> None:
        router.cpus = every
        for cpu in spare:
            router.set_kernel_file(ONLINE_FILE.format(cpu), "1")
        router.run(restore)

    masks = affinities(router.shell(LIST_AFFINITIES))
    restore = in_shell(RESTORE, *(word for pair in masks.items() for word in pair))
    router.run_undoable(["true"], restore)  # noted before the CPUs, because undo commands run in reverse order
    undo.callback(switch_on)
    for cpu in spare:
        router.set_kernel_file(ONLINE_FILE.format(cpu), "0")
    router.cpus = every[:count]


def affinities(text: str) -> dict[str, str]:
    """Return the mask of CPUs of each interrupt, by its file, from the output of LIST_AFFINITIES."""
    return dict(AFFINITY.findall(text))
