"""The instruction count of a virtual router: a program whose instructions are known is counted right.

`make test` leaves it out, because the boot of the router takes a minute of CPU time; `make test-boards` runs it.
"""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path

import pytest

from tunnelbench.qemu.boards import MALTA
from tunnelbench.qemu.fixed_speed import MachineWork
from tunnelbench.qemu.image import find_image
from tunnelbench.qemu.instruction_profile import read_counts
from tunnelbench.qemu.machine import ALIAS, VirtualMachine
from tunnelbench.qemu.programs import INSTALL_SCRIPT
from tunnelbench.qemu.speed_trial import judge_speed
from tunnelbench.tunnel import virtual_router_packages

pytestmark = pytest.mark.lab

SPEED_MIPS = 1000.0
"""A speed that no machine reaches, so that the router works without a pause."""

FEW, MANY = 20_000_000, 320_000_000
"""Turns of the loop; the difference of both programs leaves out the command over SSH that starts them."""

INSTRUCTIONS_PER_TURN = 3
ERROR_LIMIT_SHARE = 0.005
IDLE_S = 5.0
BOOT_LIMIT_S = 400.0
COMMAND_LIMIT_S = 100.0
BASE = 0x400000


def program(turns: int) -> bytes:
    """Return a program for little-endian MIPS that counts down in a loop of three instructions, and ends."""
    code = (
        0x3C080000 | turns >> 16,  # lui $t0, turns >> 16
        0x35080000 | turns & 0xFFFF,  # ori $t0, $t0, turns & 0xffff
        0x2508FFFF,  # loop: addiu $t0, $t0, -1
        0x1500FFFE,  # bne $t0, $zero, loop
        0x00000000,  # nop, which the branch executes
        0x24020FA1,  # li $v0, 4001: exit
        0x24040000,  # li $a0, 0
        0x0000000C,  # syscall
    )
    header_bytes, program_header_bytes = 52, 32
    size = header_bytes + program_header_bytes + 4 * len(code)
    start = BASE + header_bytes + program_header_bytes
    header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 8, 1, start, header_bytes, 0, 0x50001001,
                         header_bytes, program_header_bytes, 1, 0, 0, 0)  # fmt: skip
    segment = struct.pack("<8I", 1, 0, BASE, BASE, size, size, 5, 0x1000)
    return header + segment + struct.pack(f"<{len(code)}I", *code)


@pytest.mark.timeout(600)
def test_the_instructions_of_a_known_program_are_counted_within_half_a_per_cent(tmp_path: Path) -> None:
    image = find_image(MALTA, virtual_router_packages(), print)
    programs = {f"turns-{turns}": program(turns) for turns in (FEW, MANY)}
    machine = VirtualMachine(
        MALTA,
        image,
        "test00",
        tmp_path / "machine",
        speed_mips=SPEED_MIPS,
        programs=programs,
        is_first=True,
        has_profile=True,
    )
    assert machine.instruction_counts is not None
    counts = machine.instruction_counts

    def run(command: str) -> None:
        ssh = ["ssh", "-F", str(tmp_path / "machine" / "ssh_config"), ALIAS, command]
        subprocess.run(ssh, check=True, timeout=COMMAND_LIMIT_S)

    def in_user_mode() -> int:
        """Return the instructions since the start of the machine that were not in the kernel."""
        addresses, instructions = read_counts(counts)
        return sum(number for at, number in zip(addresses, instructions, strict=True) if at < MALTA.kernel_start)

    def counted(before: MachineWork) -> tuple[int, float]:
        """Return the instructions of the machine since an earlier reading, and the time since then on its own clock."""
        after = machine.work()
        assert after.instructions is not None
        assert before.instructions is not None
        assert after.lag_s is not None
        assert before.lag_s is not None
        own_s = after.clock_s - after.lag_s - before.clock_s + before.lag_s
        return after.instructions - before.instructions, own_s

    try:
        machine.wait_until_up(BOOT_LIMIT_S)
        run(INSTALL_SCRIPT)
        before, spent_s = machine.work(), machine.cpu_s()
        time.sleep(IDLE_S)
        idle, idle_s = counted(before)
        found, of_user = [], []
        for turns in (FEW, MANY):
            before, of_user_before = machine.work(), in_user_mode()
            run(f"/usr/sbin/turns-{turns}")
            found.append(counted(before))
            of_user.append(in_user_mode() - of_user_before)
        trial = judge_speed(before, machine.work(), SPEED_MIPS, machine.cpu_s() - spent_s)
    finally:
        machine.stop()
    assert not trial.is_held
    assert 0 < trial.executed_mips < SPEED_MIPS
    (few, few_s), (many, many_s) = found
    of_kernel = idle / idle_s * (many_s - few_s)  # its clock ticks
    known = (MANY - FEW) * INSTRUCTIONS_PER_TURN
    print(f"{known} instructions: {many - few - of_kernel:.0f} counted, {of_user[1] - of_user[0]} in user mode")
    assert many - few - of_kernel == pytest.approx(known, rel=ERROR_LIMIT_SHARE)
    assert of_user[1] - of_user[0] == pytest.approx(known, rel=ERROR_LIMIT_SHARE)
