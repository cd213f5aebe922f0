"""The script that runs on routers, under the shells and with the programs that a stock OpenWrt has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "src" / "tunnelbench" / "data" / "router" / "tunnelbench-dut"

APPLETS = (
    "ash awk cat chmod cp cut df dirname dmesg du env expr find free grep head id kill less ln ls mkdir mkfifo mktemp "
    "mv pgrep pidof ps readlink rm rmdir sed seq sh sleep sort tail tee touch tr uname uniq wc which xargs"
)
"""Of those that OpenWrt's package/utils/busybox/Config-defaults.in builds. `date` is among them and left out here:
the script must not ask for the time of day. `setsid`, `timeout`, `nohup` and `stat` are not among them."""

SHELLS = {
    # Debian's static busybox finds its own applets first, setsid among them.
    "ash, setsid": ("ash", ""),
    "dash, start-stop-daemon": ("dash", "start-stop-daemon"),
    "dash, nothing to detach with": ("dash", ""),
}


WHOLE_SECONDS = "#!/usr/bin/dash\ncase $1 in *.*) exit 1 ;; esac\nexec /usr/bin/busybox sleep $1\n"
"""OpenWrt's sleep (FLOAT_DURATION is off in Config-defaults.in)."""


@dataclass
class Router:
    """A folder that stands for a router's /tmp, and the script on it."""

    tmp: Path
    environment: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.tmp / "tunnelbench-dut-test"

    def command(self, *arguments: object) -> list[str]:
        return [f"{self.environment['PATH']}/sh", str(SCRIPT), *map(str, arguments)]

    def run(self, *arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment, input=given, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def ok(self, *arguments: object, given: str = "") -> str:
        completed = self.run(*arguments, given=given)
        assert completed.returncode == 0, completed.stderr
        assert not completed.stderr
        return completed.stdout

    def lease(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ok("lease", "show"))
        return found

    def take(self, seconds: int = 60) -> None:
        self.ok("lease", "take", self.folder, "anna@laptop", seconds)

    def processes(self) -> dict[int, str]:
        """Process numbers and command lines of what runs because of this router."""
        mark = os.fsencode(self.tmp)
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes():
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found


def runs(pid: int) -> bool:
    """Whether a process does; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(holds: Callable[[], bool], within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def make_router(base: Path, shell: str, more: str = "") -> Router:
    programs = base / "bin"
    programs.mkdir()
    (base / "tmp").mkdir()
    for name in f"{APPLETS} {more}".split():
        (programs / name).symlink_to("/usr/bin/busybox")
    if shell == "dash":
        (programs / "sh").unlink()
        (programs / "sh").symlink_to("/usr/bin/dash")
        (programs / "sleep").unlink()
        (programs / "sleep").write_text(WHOLE_SECONDS)
        (programs / "sleep").chmod(0o755)
    tmp = base / "tmp"
    return Router(tmp, {"PATH": str(programs), "TUNNELBENCH_DUT_ROOT": str(tmp), "TUNNELBENCH_DUT_UNDO_LIMIT_S": "1"})


@pytest.fixture(params=SHELLS)
def router(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Router]:
    """One for each shell; afterwards nothing of it is left."""
    made = make_router(tmp_path, *SHELLS[request.param])
    yield made
    made.run("clean", "--force", "--all")
    assert list(made.tmp.iterdir()) == []
    assert eventually(lambda: not made.processes()), made.processes()


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
"""Of the machine that runs the test, whatever files are read."""


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
"""What a file holds, and what is told of it."""


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


def test_samples_hold_what_a_trial_needs_and_what_they_cost(router: Router) -> None:
    router.take()
    pid = int(router.ok("start", router.folder, "daemon", "sleep", "50"))
    began = time.monotonic()
    router.ok("sample", router.folder, 1, 2, pid)
    assert 1.9 <= time.monotonic() - began < 20
    header, *blocks = (router.folder / "samples").read_text().split("block ")
    assert header.startswith("samples 1 interval_s 1 seconds 2 pid ")
    own = header.split()[-1]
    kinds = [block.split("\n")[0] for block in blocks]
    assert kinds[0] == kinds[-1] == "full"
    assert set(kinds[1:-1]) == {"short"}
    assert len(kinds) >= 4
    assert blocks[-1].endswith("\nend\n")
    for block in blocks:
        lines = [line for line in block.split("\n")[1:] if line not in ("", "end")]
        files = [line.split(":")[0] for line in lines]
        assert files[0] == files[-1] == "/proc/uptime"
        assert files.count("/proc/uptime") == 3
        assert sum(line.startswith("/proc/stat:cpu") for line in lines) == (os.cpu_count() or 1) + 1
        assert {f"/proc/{own}/stat", f"/proc/{pid}/stat"} <= set(files)
        assert any(line.startswith("/proc/meminfo:MemAvailable:") for line in lines)
    assert {"/proc/softirqs", "/proc/interrupts", "/proc/net/dev", "/proc/1/stat"} <= {
        line.split(":")[0] for line in blocks[0].split("\n")
    }
    # User and system time of the sampler and of its children: what sampling cost, in ticks.
    own_stats = [line for line in blocks[-1].split("\n") if line.startswith(f"/proc/{own}/stat:")]
    assert sum(map(int, own_stats[-1].rsplit(")", 1)[1].split()[11:15])) < 100


def test_samples_end_when_their_folder_is_gone(router: Router) -> None:
    router.take()
    sampler = subprocess.Popen(
        router.command("sample", router.folder, 1, 50), env=router.environment, stderr=subprocess.PIPE, text=True
    )
    assert eventually((router.folder / "samples").exists)
    router.ok("clean", router.folder)
    assert "is there no space left?" in sampler.communicate(timeout=20)[1]
    assert sampler.returncode == 6


def test_a_second_controller_is_refused_and_told_by_whom(router: Router) -> None:
    router.take()
    second = router.tmp / "tunnelbench-dut-second"
    refused = router.run("lease", "take", second, "bert", 60)
    assert refused.returncode == 3
    assert refused.stderr.startswith("tunnelbench-dut: anna@laptop uses this router for another ")
    held = json.loads(refused.stdout)
    assert (held["state"], held["owner"], held["folder"]) == ("held", "anna@laptop", str(router.folder))
    assert 0 < held["left_s"] <= 60
    assert not second.exists()
    for verb in (["extend", router.folder, "bert", 60], ["release", router.folder, "bert"]):
        assert router.run("lease", *verb).returncode == 3
    router.ok("lease", "release", router.folder, "anna@laptop")
    assert router.lease() == {"state": "free"}
    router.ok("lease", "take", second, "bert", 60)


def test_of_many_controllers_at_once_one_gets_the_router(router: Router) -> None:
    takers = [
        subprocess.Popen(
            router.command("lease", "take", router.tmp / f"tunnelbench-dut-{number}", f"owner {number}", 60),
            env=router.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for number in range(6)
    ]  # fmt: skip
    codes = [taker.wait(timeout=60) for taker in takers]
    assert codes.count(0) == 1
    assert set(codes) == {0, 3}
    winner = codes.index(0)
    assert router.lease()["owner"] == f"owner {winner}"
    assert sorted(path.name for path in router.tmp.iterdir()) == [f"tunnelbench-dut-{winner}", "tunnelbench-dut.lock"]
    assert sum("watch" in line for line in router.processes().values()) == 1


def test_a_lease_that_ends_puts_everything_back_though_its_login_was_killed(router: Router, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = (
        f"sh {SCRIPT} lease take {router.folder} anna 3 && "
        f"echo 'echo first >>{log}' | sh {SCRIPT} undo add {router.folder} && "
        f"echo 'echo second >>{log}' | sh {SCRIPT} undo add {router.folder} && "
        f"sh {SCRIPT} start {router.folder} daemon sleep 50 && echo up && exec sleep 50"
    )
    login = subprocess.Popen(
        [f"{router.environment['PATH']}/sh", "-c", script],
        env=router.environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert login.stdout
    assert eventually(lambda: login.stdout is not None and login.stdout.readline() == "up\n")
    os.kill(login.pid, signal.SIGKILL)
    login.communicate()
    assert router.folder.exists()
    assert eventually(lambda: router.lease() == {"state": "free"})
    assert log.read_text() == "second\nfirst\n"
    assert list(router.tmp.iterdir()) == []
    assert eventually(lambda: not router.processes()), router.processes()


def test_a_lease_that_is_extended_does_not_end(router: Router) -> None:
    before = time.monotonic()
    router.take(5)
    router.ok("lease", "extend", router.folder, "anna@laptop", 50)
    time.sleep(max(0.0, 6.5 - (time.monotonic() - before)))
    assert router.lease()["state"] == "held"


def test_a_watchdog_that_was_killed_makes_the_lease_stale_and_comes_back_when_it_is_extended(router: Router) -> None:
    router.take()
    assert len(router.processes()) == 2, "the watchdog and its sleep"
    for pid in router.processes():
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: router.lease()["state"] == "stale")
    refused = router.run("lease", "take", router.tmp / "tunnelbench-dut-second", "bert", 60)
    assert refused.returncode == 4
    assert "clean --all" in refused.stderr
    router.ok("lease", "extend", router.folder, "anna@laptop", 60)
    assert router.lease()["state"] == "held"


def test_a_lease_of_before_a_reboot_is_removed_and_nothing_of_it_run(router: Router, tmp_path: Path) -> None:
    router.take()
    router.ok("undo", "add", router.folder, given=f"touch {tmp_path}/undone\n")
    (router.folder / "boot").write_text("5f3c2b1a-0000-0000-0000-000000000000\n")
    router.ok("clean", "--all")
    assert router.lease() == {"state": "free"}
    assert not (tmp_path / "undone").exists()


def test_what_was_undone_by_hand_is_not_undone_again(router: Router, tmp_path: Path) -> None:
    router.take()
    log = tmp_path / "log"
    numbers = [router.ok("undo", "add", router.folder, given=f"echo {name} >>{log}\n").strip() for name in "abc"]
    router.ok("undo", "run", router.folder, numbers[0])
    router.ok("undo", "run", router.folder, numbers[0])
    router.ok("undo", "drop", router.folder, numbers[1])
    router.ok("clean", router.folder)
    router.ok("clean", router.folder)
    assert log.read_text() == "a\nc\n"


def test_what_cannot_be_undone_is_kept_and_told_and_the_rest_is_done(router: Router, tmp_path: Path) -> None:
    router.take()
    for piece in (
        f"touch {tmp_path}/first",
        f"echo no such thing; test -e {tmp_path}/mended",
        f"touch {tmp_path}/last",
    ):
        router.ok("undo", "add", router.folder, given=piece + "\n")
    failed = router.run("clean", router.folder)
    assert failed.returncode == 5
    assert str(router.folder) in failed.stderr
    assert (tmp_path / "first").exists()
    assert (tmp_path / "last").exists()
    assert [path.name for path in (router.folder / "undo").iterdir()] == ["100002"]
    assert (router.folder / "clean.log").read_text() == "no such thing\n"
    assert router.lease()["state"] == "stale"
    (tmp_path / "mended").touch()
    router.ok("clean", router.folder)
    assert router.lease() == {"state": "free"}


def test_a_piece_that_hangs_does_not_keep_the_others_from_being_undone(router: Router, tmp_path: Path) -> None:
    router.take()
    router.ok("undo", "add", router.folder, given=f"touch {tmp_path}/first\n")
    router.ok("undo", "add", router.folder, given="exec sleep 50\n")
    assert router.run("clean", router.folder).returncode == 5
    assert (tmp_path / "first").exists()


def test_nothing_to_undo_is_refused(router: Router) -> None:
    router.take()
    assert router.run("undo", "add", router.folder).returncode == 6
    router.ok("clean", router.folder)


def test_programs_end_with_what_they_started_and_their_output_is_kept(router: Router) -> None:
    router.take()
    pid = int(router.ok("start", router.folder, "daemon", "sh", "-c", "echo told; trap '' TERM; sleep 50; sleep 50"))
    assert Path(f"/proc/{pid}/comm").read_text() == "sh\n"
    assert eventually(lambda: (router.folder / "daemon.log").read_text() == "told\n")
    router.ok("clean", router.folder)
    assert not runs(pid)


def test_a_process_that_only_has_a_recorded_number_lives_on(router: Router) -> None:
    router.take()
    (router.folder / "pids").mkdir()
    bystander = subprocess.Popen(["sleep", "50"])
    try:
        (router.folder / "pids" / str(bystander.pid)).write_text(f"{bystander.pid} 1\n")
        router.ok("clean", router.folder)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_program_that_is_missing_is_named(router: Router) -> None:
    router.take()
    missing = router.run("start", router.folder, "daemon", "openvpn-that-is-not-there")
    assert (missing.returncode, missing.stderr) == (1, "tunnelbench-dut: there is no openvpn-that-is-not-there\n")


NOT_OURS = (
    "",
    "/",
    "/etc",
    "{tmp}",
    "{tmp}/other",
    "{tmp}/tunnelbench-dut-",
    "{tmp}/tunnelbench-dut-a/../../etc",
    "{tmp}/tunnelbench-dut-a b",
    "{tmp}/tunnelbench-dut-$(reboot)",
    "{tmp}/tunnelbench-dut-ä",
    "tunnelbench-dut-a",
)


def test_a_folder_that_is_not_its_own_is_refused(router: Router) -> None:
    for name in NOT_OURS:
        folder = name.format(tmp=router.tmp)
        for words in (["clean", folder], ["lease", "take", folder, "anna", 5], ["sample", folder, 1, 1]):
            refused = router.run(*words)
            assert refused.returncode == 2, words
            assert refused.stderr.startswith("tunnelbench-dut: not "), words


def test_a_link_is_not_followed(router: Router, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    router.folder.symlink_to(tmp_path / "precious")
    assert router.run("lease", "take", router.folder, "anna", 5).returncode == 6
    router.ok("clean", "--force", router.folder)
    assert (tmp_path / "precious").is_dir()
    router.folder.unlink()


WRONG_CALLS = (
    "",
    "facts x",
    "lease",
    "lease take",
    "lease take FOLDER owner",
    "lease take FOLDER owner -1",
    "lease take FOLDER owner 1e3",
    "lease take FOLDER owner 010",
    "sample FOLDER 0 5",
    "sample FOLDER 1 x",
    "undo run FOLDER ../x",
    "start FOLDER ../x true",
    "clean",
)


def test_a_wrong_call_is_refused_before_anything_is_done(router: Router) -> None:
    router.folder.mkdir()
    for call in WRONG_CALLS:
        refused = router.run(*call.replace("FOLDER", str(router.folder)).split())
        assert refused.returncode == 2, call
        assert refused.stderr, call
        assert list(router.folder.iterdir()) == [], call
    assert router.lease() == {"state": "free"}
