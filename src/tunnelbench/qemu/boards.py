"""The boards that QEMU emulates for us, as data; one entry a board."""

from __future__ import annotations

from dataclasses import dataclass

from tunnelbench.model.errors import WrongInput


@dataclass(frozen=True)
class Board:
    """A router's hardware."""

    name: str
    title: str
    """As reports call it."""
    program: str
    package: str
    """The Debian package that holds the program."""
    hardware: tuple[str, ...]
    """QEMU's options for board and CPU."""
    memory: str
    architecture: str
    """Debian's name of it."""
    triplet: str
    """Of the folder of its libraries."""
    loader: str
    """Of shared libraries, as programs name it, without the leading slash."""
    kernel_package: str
    kernel_arguments: str
    interrupts_are_edge_triggered: bool = False
    """Whether firmware would have to set the PCI interrupts to level-triggered, and none does."""


MALTA = Board(
    name="malta",
    title="MIPS P5600 on a Malta board",
    program="qemu-system-mipsel",
    package="qemu-system-mips",
    # Not a 24Kf: with 16 TLB entries and no UserLocal register, glibc and OpenSSL 3 spend some 20,000 instructions a
    # packet in traps that a router's own C library and kernel do not have.
    hardware=("-machine", "malta", "-cpu", "P5600"),
    memory="256M",
    architecture="mipsel",
    triplet="mipsel-linux-gnu",
    loader="lib/ld.so.1",
    kernel_package="linux-image-4kc-malta",
    # Debian's programs are built for the older encoding of NaN, which the kernel refuses on this CPU (ENOEXEC).
    kernel_arguments="ieee754=relaxed",
    interrupts_are_edge_triggered=True,
)

X86_64 = Board(
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

BOARDS = {board.name: board for board in (MALTA, X86_64)}


def board_named(name: str) -> Board:
    """Raises WrongInput, with those that there are."""
    if name not in BOARDS:
        raise WrongInput(f"there is no virtual router {name}", f"there are {', '.join(BOARDS)}")
    return BOARDS[name]
