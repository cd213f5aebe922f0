"""One controller at a time, and a lease that ends puts everything back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.router_script.conftest import SCRIPT, Router, eventually


def test_a_second_controller_is_refused_with_the_name_of_the_first(router: Router) -> None:
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
    router.environment["TUNNELBENCH_DUT_NAP_LIMIT_S"] = "1"
    log = tmp_path / "log"
    script = (
        f"sh {SCRIPT} lease take {router.folder} anna 60 && "
        f"echo 'echo first >>{log}' | sh {SCRIPT} undo add {router.folder} && "
        f"echo 'echo second >>{log}' | sh {SCRIPT} undo add {router.folder} && "
        f"sh {SCRIPT} start {router.folder} daemon sleep 50 && echo up && exec sleep 50"
    )
    login = subprocess.Popen(
        [f"{router.environment['PATH']}/sh", "-c", script],
        env=router.environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert login.stdout is not None
        is_up = "up\n" in login.stdout
    finally:
        login.kill()
        login.communicate()
    assert is_up
    assert router.folder.exists()
    router.ok("lease", "extend", router.folder, "anna", 1)
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


def test_a_lease_that_becomes_shorter_ends_when_its_watchdog_looks_again(router: Router) -> None:
    router.environment["TUNNELBENCH_DUT_NAP_LIMIT_S"] = "1"
    router.take()
    router.ok("lease", "extend", router.folder, "anna@laptop", 1)
    assert eventually(lambda: router.lease() == {"state": "free"})


def test_a_watchdog_sleeps_to_the_end_of_the_lease_if_its_naps_may_be_longer(router: Router) -> None:
    router.environment["TUNNELBENCH_DUT_NAP_LIMIT_S"] = "1000"
    router.take(77)
    ends = ("sleep 77", "sleep 76")
    assert eventually(lambda: any(line.strip().endswith(ends) for line in router.processes().values()))


@pytest.mark.parametrize("nap_limit_s", ["0", "010", "-1", "ten", "5m", "1; reboot", "99999999"])
def test_naps_of_a_length_that_is_no_number_are_30_s(nap_limit_s: str, router: Router) -> None:
    router.environment["TUNNELBENCH_DUT_NAP_LIMIT_S"] = nap_limit_s
    router.take(77)
    assert eventually(lambda: any(line.strip().endswith("sleep 30") for line in router.processes().values()))


def test_a_killed_watchdog_makes_the_lease_stale_and_an_extension_restarts_it(router: Router) -> None:
    router.take()
    assert eventually(lambda: len(router.processes()) == 2), "the watchdog and its sleep"
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


NOBODY = 65534


def plant_link(lock: Path) -> None:
    lock.symlink_to(f"/proc/{os.getpid()}/cwd/owner")


PLANTED: dict[str, Callable[[Path], None]] = {"link": plant_link, "file": Path.touch, "folder": Path.mkdir}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_a_lock_that_another_user_planted_holds_nothing(router: Router, plant: Callable[[Path], None]) -> None:
    lock = router.tmp / "tunnelbench-dut.lock"
    plant(lock)
    os.chown(lock, NOBODY, NOBODY, follow_symlinks=False)
    assert router.lease() == {"state": "free"}
    router.take()
    assert router.lease()["state"] == "held"
    assert lock.readlink() == router.folder / "owner"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_planted_lock_that_cannot_be_removed_is_named(router: Router) -> None:
    lock = router.tmp / "tunnelbench-dut.lock"
    (lock / "full").mkdir(parents=True)
    os.chown(lock, NOBODY, NOBODY)
    refused = router.run("lease", "take", router.folder, "anna", 60)
    assert (refused.returncode, "remove it" in refused.stderr) == (6, True)
    assert not router.folder.exists()
    (lock / "full").rmdir()
    lock.rmdir()


IN_ITS_OWN_TMP = """
mount -t proc proc /proc
mount -t tmpfs tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
cat >/run/script
mkdir -p /tmp/tunnelbench-dut.lock/full
chown -R nobody /tmp/tunnelbench-dut.lock
sh /run/script lease take /tmp/tunnelbench-dut-test anna@laptop 60 >/dev/null
readlink /var/run/tunnelbench-dut.lock
sh /run/script clean /tmp/tunnelbench-dut-test >/dev/null
ls /run
"""
"""Takes and ends a lease in folders of its own, with a lock in /tmp that another user has planted and filled."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_where_only_root_writes_to_var_run_a_lock_planted_in_tmp_hinders_nothing() -> None:
    unshared = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    done = subprocess.run(
        [*unshared, "sh", "-ec", IN_ITS_OWN_TMP],
        input=SCRIPT.read_text(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["/tmp/tunnelbench-dut-test/owner", "script"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("what", ["--all", "FOLDER"])
def test_a_folder_of_another_user_hinders_neither_lease_nor_clean(router: Router, what: str) -> None:
    planted = router.tmp / "tunnelbench-dut-planted"
    for name, text in (("owner", "\x1b[2J"), ("expires", "99999999")):
        planted.mkdir(exist_ok=True)
        (planted / name).write_text(f"{text}\n")
    (planted / "undo").mkdir()
    (planted / "undo" / "100001").write_text(f"touch {router.tmp}/undone\n")
    os.chown(planted, NOBODY, NOBODY)
    (router.tmp / "tunnelbench-dut.lock").symlink_to(planted / "owner")  # of a folder that was there once
    assert router.lease() == {"state": "stale", "folder": str(planted)}
    router.ok("clean", what.replace("FOLDER", str(planted)))
    assert router.lease() == {"state": "free"}
    router.take()
    router.ok("lease", "release", router.folder, "anna@laptop")
    assert {path.name for path in router.tmp.iterdir()} == {planted.name}
    for path in (planted / "undo" / "100001", planted / "owner", planted / "expires"):
        path.unlink()
    (planted / "undo").rmdir()
    planted.rmdir()
