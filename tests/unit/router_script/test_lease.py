"""One controller at a time, and a lease that ends puts everything back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.unit.router_script.conftest import SCRIPT, Router, eventually


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
