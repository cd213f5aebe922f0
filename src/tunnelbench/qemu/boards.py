"""The data of the boards that QEMU emulates: one entry per board."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Board:
    """The hardware of a virtual router: the options for QEMU, and Debian's names for the architecture."""

    name: str
    title: str
    """Name of the board in reports."""
    program: str
    package: str
    """Debian package with QEMU's program for the board."""
    hardware: tuple[str, ...]
    """QEMU's options for board and CPU."""
    memory: str
    architecture: str
    """Name of the CPU architecture in Debian, such as `mipsel`."""
    triplet: str
    """Name of the folder with the architecture's libraries, such as `mipsel-linux-gnu`."""
    loader: str
    """Path of the dynamic loader in programs, without the leading slash."""
    kernel_package: str
    kernel_arguments: str
    interrupts_are_edge_triggered: bool = False
    """True if the guest must set the PCI interrupts to level-triggered; on real hardware the firmware does that."""


MALTA = Board(
    name="malta",
    title="MIPS P5600 on a Malta board",
    program="qemu-system-mipsel",
    package="qemu-system-mips",
    # Not a 24Kf: it has 16 TLB entries and no UserLocal register, so that glibc and OpenSSL 3 spend some 20,000
    # instructions per packet in traps. A router's own C library and kernel do not.
    hardware=("-machine", "malta", "-cpu", "P5600"),
    memory="256M",
    architecture="mipsel",
    triplet="mipsel-linux-gnu",
    loader="lib/ld.so.1",
    kernel_package="linux-image-4kc-malta",
    # Debian's programs have the older encoding of NaN; by default the kernel refuses them on this CPU (ENOEXEC).
    kernel_arguments="ieee754=relaxed",
    interrupts_are_edge_triggered=True,
)

X86_64_PC = Board(
    name="x86-64",
    title="x86-64 on a PC's board",
    program="qemu-system-x86_64",
    package="qemu-system-x86",
    hardware=("-machine", "pc,accel=tcg", "-cpu", "max"),
    memory="512M",
    architecture="amd64",
    triplet="x86_64-linux-gnu",
    loader="lib64/ld-linux-x86-64.so.2",
    kernel_package="linux-image-amd64",
    kernel_arguments="",
)

BOARDS = {board.name: board for board in (MALTA, X86_64_PC)}
