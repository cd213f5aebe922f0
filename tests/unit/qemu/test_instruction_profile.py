"""Instructions by address get the names of kernel functions and of programs' files."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from tunnelbench.host.parsing import UnexpectedOutput
from tunnelbench.qemu import instruction_profile
from tunnelbench.qemu.instruction_profile import (
    LEAST_SHARE,
    MOST_PLACES,
    AddressNames,
    ProfileReader,
    can_profile,
    compile_plugin,
    parse_kernel_symbols,
    parse_program_files,
    shares,
)

KALLSYMS = """\
80100000 T _text
80100400 t ip_rcv_core
80100500 d some_data
80100800 T ip_forward
80100800 t ip_forward_alias
c0000000 t start_xmit\t[virtio_net]
"""
MAPS = """\
00400000-00410000 r-xp 00000000 fe:00 12 /usr/sbin/openvpn
00420000-00430000 rw-p 00000000 fe:00 12 /usr/sbin/openvpn
77000000-77100000 r-xp 00000000 fe:00 13 /usr/lib/mipsel-linux-gnu/libcrypto.so.3
77100000-77101000 r-xp 00000000 00:00 0
"""
NAMES = AddressNames(
    0x80000000, parse_kernel_symbols(KALLSYMS), [parse_program_files(MAPS, "openvpn"), parse_program_files("", "gone")]
)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (0, "unknown"),
        (0x3FFFFF, "other programs"),
        (0x400000, "openvpn/openvpn"),
        (0x420000, "other programs"),
        (0x770FFFFC, "openvpn/libcrypto.so.3"),
        (0x77100000, "openvpn/memory"),
        (0x77101000, "other programs"),
        (0x80000000, "kernel/unknown"),
        (0x801007FF, "kernel/vmlinux/ip_rcv_core"),
        (0x80100800, "kernel/vmlinux/ip_forward"),
        (0xC0000010, "kernel/virtio_net/start_xmit"),
    ],
)
def test_an_address_has_the_place_whose_range_holds_it(address: int, place: str) -> None:
    assert NAMES.place_of(address) == place


def test_hostile_names_stay_one_part_of_a_place() -> None:
    (place,) = parse_kernel_symbols(f"80100000 T a/<b>\x1b[2J{'x' * 500}").places
    assert place.startswith("kernel/vmlinux/a__b__[2J")
    assert len(place) < 150


@pytest.mark.parametrize("text", ["", "0000 T hidden", "no addresses here", "80100000 d only_data"])
def test_a_kernel_that_names_no_function_is_refused(text: str) -> None:
    with pytest.raises(UnexpectedOutput, match="/proc/kallsyms of the virtual router"):
        parse_kernel_symbols(text)


def write_counts(path: Path, *entries: tuple[int, int]) -> None:
    path.write_bytes(struct.pack("=Q", len(entries)) + b"".join(struct.pack("=QQ", *entry) for entry in entries))


def test_later_readings_have_the_same_blocks_and_new_ones(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    write_counts(counts, (0, 0), (0x80100800, 10), (0x400000, 5))
    reader = ProfileReader(counts, NAMES)
    before = reader.read()
    write_counts(counts, (0, 3), (0x80100800, 70), (0x400000, 5), (0x80100804, 12), (0x400040, 25))
    after = reader.read()
    assert before == {"unknown": 0, "kernel/vmlinux/ip_forward": 10, "openvpn/openvpn": 5}
    assert after == {"unknown": 3, "kernel/vmlinux/ip_forward": 82, "openvpn/openvpn": 30}
    assert shares(before, after) == {
        "kernel/vmlinux/ip_forward": 0.72,
        "openvpn/openvpn": 0.25,
        "unknown": 0.03,
    }


def test_places_with_few_instructions_are_put_together_by_group() -> None:
    after = {f"kernel/vmlinux/f{number}": 1000 for number in range(MOST_PLACES + 50)} | {"openvpn/rare": 1, "idle": 0}
    found = shares({}, after)
    assert sum(found.values()) == pytest.approx(1)
    assert len(found) == MOST_PLACES + 2
    assert found["kernel/others"] == pytest.approx(50 / (MOST_PLACES + 50), rel=1e-3)
    assert 0 < found["openvpn/others"] < LEAST_SHARE


def test_no_instruction_at_all_gives_no_shares() -> None:
    assert shares({"a": 5}, {"a": 5}) == {}


def test_the_plugin_is_built_without_a_warning(tmp_path: Path) -> None:
    library = compile_plugin("qemu-system-mipsel", tmp_path)
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    assert {"qemu_plugin_install", "qemu_plugin_version"} <= {line.split()[-1] for line in symbols.splitlines()}
    warnings = ["-Wall", "-Wextra", "-Werror", "-DPLUGIN_VERSION=2", "-fsyntax-only"]
    subprocess.run(["cc", *warnings, str(instruction_profile.SOURCE)], check=True)


def test_a_qemu_without_plugins_cannot_profile(tmp_path: Path) -> None:
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\necho '-plain option'\n")
    program.chmod(0o755)
    assert not can_profile(str(program))
    assert can_profile("qemu-system-mipsel")
