"""The data of the boards that QEMU emulates: one entry per board."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class System:
    """Debian's names for a CPU architecture. Boards of one system boot from one image."""

    architecture: str
    """Name of the CPU architecture in Debian, such as `mipsel`."""
    triplet: str
    """Name of the folder with the architecture's libraries, such as `mipsel-linux-gnu`."""
    loader: str
    """Path of the dynamic loader in programs, without the leading slash."""
    kernel_package: str


@dataclass(frozen=True)
class Board:
    """The hardware of a virtual machine: the options for QEMU, and the system that runs on it."""

    name: str
    title: str
    """Name of the board in reports."""
    program: str
    package: str
    """Debian package with QEMU's program for the board."""
    hardware: tuple[str, ...]
    """QEMU's options for board and CPU."""
    memory: str
    system: System
    kernel_arguments: str = ""
    console: str = "ttyS0"
    """Name of the serial port in the kernel."""
    kernel_start: int = 1 << 63
    """First address of the kernel and of its modules; programs have lower addresses."""
    interrupts_are_edge_triggered: bool = False
    """True if the guest must set the PCI interrupts to level-triggered; on real hardware the firmware does that."""


MIPSEL = System(
    architecture="mipsel",
    triplet="mipsel-linux-gnu",
    loader="lib/ld.so.1",
    kernel_package="linux-image-4kc-malta",
)
ARM64 = System(
    architecture="arm64",
    triplet="aarch64-linux-gnu",
    loader="lib/ld-linux-aarch64.so.1",
    kernel_package="linux-image-arm64",
)
ARMHF = System(
    architecture="armhf",
    triplet="arm-linux-gnueabihf",
    loader="lib/ld-linux-armhf.so.3",
    kernel_package="linux-image-armmp",
)
AMD64 = System(
    architecture="amd64",
    triplet="x86_64-linux-gnu",
    loader="lib64/ld-linux-x86-64.so.2",
    kernel_package="linux-image-amd64",
)

MALTA = Board(
    name="malta",
    title="MIPS P5600 on a Malta board",
    program="qemu-system-mipsel",
    package="qemu-system-mips",
    # Not a 24Kf: it has 16 TLB entries and no UserLocal register, so that glibc and OpenSSL 3 spend some 20,000
    # instructions per packet in traps. A router's own C library and kernel do not.
    hardware=("-machine", "malta", "-cpu", "P5600"),
    memory="256M",
    system=MIPSEL,
    # Debian's programs have the older encoding of NaN; by default the kernel refuses them on this CPU (ENOEXEC).
    kernel_arguments="ieee754=relaxed",
    kernel_start=0x8000_0000,
    interrupts_are_edge_triggered=True,
)

VIRT_ARM64 = Board(
    name="virt-arm64",
    title="ARM Cortex-A53 on QEMU's board virt",
    program="qemu-system-aarch64",
    package="qemu-system-arm",
    hardware=("-machine", "virt", "-cpu", "cortex-a53"),
    memory="256M",
    system=ARM64,
    # Debian's kernel separates its page tables from those of programs (KPTI) if its own address is random, although
    # this CPU has no need of it. QEMU then translates addresses anew after each system call: programs with many
    # system calls run at a sixth of the speed.
    kernel_arguments="kpti=off",
    console="ttyAMA0",
)

VIRT_ARMHF = Board(
    name="virt-armhf",
    title="ARM Cortex-A7 on QEMU's board virt",
    program="qemu-system-arm",
    package="qemu-system-arm",
    # By default, the PCI registers are above 4 GB, where a kernel without LPAE does not reach them.
    hardware=("-machine", "virt,highmem=off", "-cpu", "cortex-a7"),
    memory="256M",
    system=ARMHF,
    console="ttyAMA0",
    kernel_start=0xBF00_0000,  # modules are below the kernel itself
)

X86_64_PC = Board(
    name="x86-64",
    title="x86-64 on a PC's board",
    program="qemu-system-x86_64",
    package="qemu-system-x86",
    hardware=("-machine", "pc,accel=tcg", "-cpu", "max"),
    memory="512M",
    system=AMD64,
)
"""The board of the virtual gateway at the tunnel's far end: its CPU has all instructions that QEMU emulates, and
therefore differs between versions of QEMU."""

PC_X86_64 = Board(
    name="pc-x86-64",
    title="x86-64 with AES instructions (Westmere) on a PC's board",
    program="qemu-system-x86_64",
    package="qemu-system-x86",
    # With RDRAND the kernel has random numbers after 0.3 s; without it, after 20 s at 125 MIPS.
    hardware=("-machine", "pc,accel=tcg", "-cpu", "Westmere,+rdrand"),
    memory="256M",
    system=AMD64,
    kernel_arguments="nopti",  # KPTI would slow down the emulation, as on VIRT_ARM64
)

PC_X86_64_NO_AES = replace(
    PC_X86_64,
    name="pc-x86-64-no-aes",
    title="x86-64 without AES instructions (Westmere) on a PC's board",
    hardware=("-machine", "pc,accel=tcg", "-cpu", "Westmere,+rdrand,-aes,-pclmulqdq"),
)

BOARDS = {board.name: board for board in (MALTA, VIRT_ARM64, VIRT_ARMHF, PC_X86_64, PC_X86_64_NO_AES, X86_64_PC)}

EMULATED = "on a virtual router, emulated"
"""The fact `guest` of a run on one of these boards."""
