"""The output of `tunnelbench-dut facts`, made from the files of several routers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.router_script.conftest import Router

# What a small router of 2014 shows of itself, as far as it matters here.
SMALL_ROUTER = {
    "/tmp/sysinfo/model": "TP-Link TL-WR841N/ND v9\n",
    "/tmp/sysinfo/board_name": "tplink,tl-wr841-v9\n",
    "/proc/cpuinfo": "system type\t\t: Qualcomm Atheros QCA9533 ver 1 rev 1\nmachine\t\t\t: TP-Link TL-WR841N/ND v9\n"
    "processor\t\t: 0\ncpu model\t\t: MIPS 24Kc V7.4\nBogoMIPS\t\t: 366.18\n",
    "/proc/meminfo": "MemTotal:          27368 kB\nMemFree:            5120 kB\nMemAvailable:       4096 kB\n",
    "/proc/sys/kernel/osrelease": "5.15.150\n",
    "/etc/openwrt_release": "DISTRIB_ID='OpenWrt'\nDISTRIB_RELEASE='23.05.3'\nDISTRIB_REVISION='r23809-234f1a2efa'\n"
    "DISTRIB_TARGET='ath79/tiny'\nDISTRIB_ARCH='mips_24kc'\nDISTRIB_DESCRIPTION='OpenWrt 23.05.3'\n",
    "/sys/class/net/eth0/device/uevent": "",
    "/sys/class/net/eth0/queues/rx-0/rps_cpus": "1\n",
}

ARM_ROUTER = {
    "/proc/device-tree/model": "FriendlyElec NanoPi R4S\0",
    "/proc/device-tree/compatible": "friendlyarm,nanopi-r4s\0rockchip,rk3399\0",
    "/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid\n"
    "CPU part\t: 0xd03\n\nprocessor\t: 1\n",
    "/proc/meminfo": "MemTotal:        3947268 kB\n",
    "/proc/self/schedstat": "1 2 3\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "1416000\n",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "schedutil\n",
    "/etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
}

VARYING = ("architecture", "busybox", "tmp_free_kib")
"""Facts that depend on the machine that runs the test, not on the files that are read."""


def facts_of(router: Router, files: dict[str, bytes], root: Path) -> dict[str, Any]:
    for path, content in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    router.environment["TUNNELBENCH_DUT_FACTS_FROM"] = str(root)
    found: dict[str, Any] = json.loads(router.ok("facts"))
    return {name: value for name, value in found.items() if name not in VARYING}


def test_it_says_what_a_small_router_is(router: Router, tmp_path: Path) -> None:
    files = {path: text.encode() for path, text in SMALL_ROUTER.items()}
    assert facts_of(router, files, tmp_path / "small") == {
        "board": "TP-Link TL-WR841N/ND v9",
        "board_name": "tplink,tl-wr841-v9",
        "soc": "Qualcomm Atheros QCA9533 ver 1 rev 1",
        "cpu_model": "MIPS 24Kc V7.4",
        "cpus": 1,
        "bogomips": "366.18",
        "memory_mib": 26,
        "memory_available_kib": 4096,
        "kernel": "5.15.150",
        "system": "OpenWrt 23.05.3",
        "openwrt_release": "23.05.3",
        "openwrt_revision": "r23809-234f1a2efa",
        "openwrt_target": "ath79/tiny",
        "openwrt_arch": "mips_24kc",
        "rps_cpus": {"eth0": "1"},
        "schedstat": "no",
    }


def test_it_says_that_a_machine_is_virtual(router: Router, tmp_path: Path) -> None:
    for flags, said in (("fpu aes hypervisor", "yes"), ("fpu aes", None)):
        files = {"/proc/cpuinfo": f"processor\t: 0\nflags\t\t: {flags}\n".encode(), "/proc/meminfo": b""}
        assert facts_of(router, files, tmp_path / str(said)).get("virtual") == said


def test_it_says_what_a_router_with_a_device_tree_is(router: Router, tmp_path: Path) -> None:
    files = {path: text.encode() for path, text in ARM_ROUTER.items()}
    assert facts_of(router, files, tmp_path / "arm") == {
        "board": "FriendlyElec NanoPi R4S",
        "soc": "rockchip,rk3399",
        "cpu_part": "0xd03",
        "cpus": 2,
        "cpu_mhz": 1416,
        "cpu_mhz_from": "cpufreq",
        "bogomips": "48.00",
        "governor": "schedutil",
        "crypto_instructions": "aes pmull sha1 sha2 asimd",
        "memory_mib": 3854,
        "system": "Debian GNU/Linux 12 (bookworm)",
        "schedstat": "yes",
    }


HOSTILE = (
    (
        b'a "quoted" \\ back\\\\slash, $(reboot) `reboot` %s %n',
        'a "quoted" \\ back\\\\slash, $(reboot) `reboot` %s %n',
    ),
    (b"\tTab\x01\x1b[31m\x7f\r", "\tTab\x01\x1b[31m\x7f\r"),
    ("Müßig 路由器 🦀".encode(), "Müßig 路由器 🦀"),
    (b"\xff\xc0\xaf\xed\xa0\x80 \xe8\xb7", "\ufffd" * 6 + " " + "\ufffd" * 2),
    (b"first\nsecond", "first"),
    (b"cpu_mhz\t1\tx", "cpu_mhz\t1\tx"),
)
"""Content of a file, and the fact that is read from it."""


def test_whatever_a_file_holds_the_facts_are_json(router: Router, tmp_path: Path) -> None:
    for content, board in HOSTILE:
        files = {"/tmp/sysinfo/model": content, "/proc/cpuinfo": b"cpu MHz : 8 or so\n", "/proc/meminfo": b""}
        assert facts_of(router, files, tmp_path / "hostile")["board"] == board


def test_it_says_what_this_machine_is(router: Router) -> None:
    found = json.loads(router.ok("facts"))
    assert found["cpus"] == os.cpu_count()
    assert found["kernel"] == os.uname().release
    assert found["architecture"] == os.uname().machine
    assert found["tmp_free_kib"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_pipe_that_another_user_planted_does_not_hold_up_the_facts(router: Router, tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    planted = machine / "tmp" / "sysinfo"
    planted.mkdir(parents=True)
    os.mkfifo(planted / "model")
    os.chown(planted, 65534, 65534)
    files = {path: text.encode() for path, text in SMALL_ROUTER.items() if not path.startswith("/tmp/")}
    found = facts_of(router, files, machine)
    assert (found["cpus"], "board" in found) == (1, False)
