"""`tunnelbench run` as a user starts it: in a process of its own, on real tunnels, ended in every way."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.postgresql import cluster

from tunnelbench.host.host import RUN_FOLDER

pytestmark = pytest.mark.lab

TUNNELBENCH = str(Path(sys.executable).parent / "tunnelbench")
SHORT_PLAN = """
rounds = 1
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 2
interval_s = 0.5
[[tunnel]]
kind = "vxlan"
[[tunnel]]
kind = "tinc"
name = "tinc with Blowfish"
cipher = "bf-cbc"
digest = "sha1"
[[tunnel]]
kind = "l2tpv2-ppp"
name = "L2TP"
"""
LONG_PLAN = SHORT_PLAN.replace("rounds = 1", "rounds = 20")
TINY_PLAN = SHORT_PLAN[: SHORT_PLAN.index('[[tunnel]]\nkind = "tinc"')]
"""Three trials: back to back, no tunnel, and VXLAN."""
TAKE_DOWN_LIMIT_S = 5.0


@pytest.fixture
def plan(tmp_path: Path) -> Callable[[str], list[str]]:
    """The command that runs a plan, its results kept in the test's own folder."""

    def command(text: str) -> list[str]:
        path = tmp_path / "plan.toml"
        path.write_text(text)
        # No wait for quiet: what is tested holds on a busy machine, too.
        return [TUNNELBENCH, "run", str(path), "--store", str(tmp_path / "results.sqlite"), "--set", "quiet_wait_s=0"]

    return command


def run(argv: list[str], **kwargs: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=110, check=False, **kwargs)  # type: ignore[call-overload, no-any-return]


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"{text!r} was never printed")


def test_every_planned_trial_becomes_a_row_and_the_table_and_the_results_are_named(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    before = set(RUN_FOLDER.glob("*"))
    done = run(plan(SHORT_PLAN))
    assert done.returncode in {0, 3}, done.stderr  # 3: on a machine that others use, no figure counts
    assert "tinc with Blowfish" in done.stdout
    assert str(tmp_path / "results.sqlite") in done.stdout
    assert set(RUN_FOLDER.glob("*")) - before <= {RUN_FOLDER / "lock"}
    shown = run([TUNNELBENCH, "show", "last", "--json", "--store", str(tmp_path / "results.sqlite")])
    trials = {trial["spec"]["tunnel"]["name"]: trial for trial in json.loads(shown.stdout)["trials"]}
    outcomes = {name: trial["outcome"] for name, trial in trials.items()}
    assert outcomes == {
        "testers back to back": "measured",
        "none": "measured",
        "vxlan": "measured",
        "tinc with Blowfish": "refused",
        "L2TP": "unavailable",
    }
    assert "tcp port 655" in trials["tinc with Blowfish"]["reason"]
    assert "no adapter" in trials["L2TP"]["reason"]


@pytest.fixture
def hangup_is_heard() -> Iterator[None]:
    """Where these tests were started by nohup, a run would inherit that SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup_is_heard")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)], ids=str
)
def test_a_run_that_is_asked_to_end_takes_everything_down_and_keeps_its_trials(
    plan: Callable[[str], list[str]], number: signal.Signals, status: int
) -> None:
    with subprocess.Popen(plan(LONG_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        time.sleep(1.5)  # the baseline is being measured
        asked_s = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert time.monotonic() - asked_s < TAKE_DOWN_LIMIT_S
    assert process.returncode == status
    assert "1 trial" in errors
    assert "tunnelbench report" in errors
    assert "Traceback" not in errors


def test_a_second_interrupt_does_not_leave_half_of_it_behind(plan: Callable[[str], list[str]]) -> None:
    with subprocess.Popen(plan(LONG_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        time.sleep(1)
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "a moment please" in errors
    assert "Traceback" not in errors


def test_what_a_killed_run_leaves_dies_with_it_and_is_cleaned_and_the_rest_is_done_later(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    text = TINY_PLAN.replace("rounds = 1", "rounds = 2")
    store = ["--store", str(tmp_path / "results.sqlite")]
    before = namespaces()
    with subprocess.Popen(plan(text), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        time.sleep(1.5)  # the baseline is being measured
        process.kill()
        process.communicate(timeout=30)
    left = namespaces() - before
    assert len(left) == 3
    deadline = time.monotonic() + 3
    while pids := [pid for name in left for pid in processes_in(name)]:
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)

    decoy = f"tb-{os.urandom(3).hex()}-client"  # called like ours, and made by somebody else
    subprocess.run(["ip", "netns", "add", decoy], check=True)
    try:
        cleaned = run([TUNNELBENCH, "clean", *store])
        assert cleaned.returncode == 0, cleaned.stderr
        assert all(name in cleaned.stdout for name in left)
        assert namespaces() - before == {decoy}
    finally:
        subprocess.run(["ip", "netns", "del", decoy], check=True)
    assert "nothing of ours" in run([TUNNELBENCH, "clean", *store]).stdout

    done = run([TUNNELBENCH, "run", "--resume", "last", *store, "--json"])
    assert done.returncode in {0, 3}, done.stderr
    assert "1 trials are there, 4 are missing" in done.stderr
    sequences = [trial["spec"]["sequence"] for trial in json.loads(done.stdout)["trials"]]
    assert sequences == list(range(5))


def test_a_killed_run_is_gone_on_with_though_nobody_has_cleaned_up(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    store = ["--store", str(tmp_path / "results.sqlite")]
    with subprocess.Popen(plan(TINY_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        time.sleep(1.5)  # the baseline is being measured
        process.kill()
        process.communicate(timeout=30)
    done = run([TUNNELBENCH, "run", "--resume", "last", *store, "--json"])
    assert done.returncode in {0, 3}, done.stderr
    assert len(json.loads(done.stdout)["trials"]) == 3
    assert "nothing of ours" in run([TUNNELBENCH, "clean", *store]).stdout


def test_a_run_that_nohup_started_outlives_its_terminal(plan: Callable[[str], list[str]], tmp_path: Path) -> None:
    argv = ["nohup", *plan(TINY_PLAN)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=100)
    assert process.returncode in {0, 3}, errors
    listed = run([TUNNELBENCH, "list", "runs", "--store", str(tmp_path / "results.sqlite"), "--json"])
    assert json.loads(listed.stdout)[0]["status"] == "done"


def test_a_log_on_a_full_disk_does_not_end_the_run(plan: Callable[[str], list[str]], tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(plan(TINY_PLAN), stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, check=False)
    assert "Traceback" not in done.stderr
    listed = run([TUNNELBENCH, "list", "runs", "--store", str(tmp_path / "results.sqlite"), "--json"])
    (found,) = json.loads(listed.stdout)
    assert (found["status"], found["trials_recorded"]) == ("done", 3)


def test_a_request_to_end_is_obeyed_though_nobody_reads_what_we_say(plan: Callable[[str], list[str]]) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    with subprocess.Popen(plan(LONG_PLAN), stdout=subprocess.PIPE, stderr=writing, text=True) as process:
        wait_for_line(process, "back to back")
        asked_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        assert time.monotonic() - asked_s < TAKE_DOWN_LIMIT_S + 4  # each line that is not read may wait a second
    os.close(reading)
    os.close(writing)


def test_without_standard_streams_a_run_is_measured(plan: Callable[[str], list[str]], tmp_path: Path) -> None:
    argv = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *plan(TINY_PLAN)]
    assert subprocess.run(argv, timeout=100, check=False).returncode in {0, 3}
    listed = run([TUNNELBENCH, "list", "runs", "--store", str(tmp_path / "results.sqlite"), "--json"])
    assert json.loads(listed.stdout)[0]["trials_recorded"] == 3


def namespaces() -> set[str]:
    listed = subprocess.run(["ip", "-j", "netns"], check=True, capture_output=True, text=True).stdout
    return {entry["name"] for entry in json.loads(listed or "[]")}


def processes_in(namespace: str) -> list[str]:
    return subprocess.run(["ip", "netns", "pids", namespace], check=True, capture_output=True, text=True).stdout.split()


def test_the_store_of_a_team_may_restart_in_mid_run_and_holds_every_trial(plan: Callable[[str], list[str]]) -> None:
    argv = plan(TINY_PLAN.replace("rounds = 1", "rounds = 2"))
    with cluster() as server:
        url = server.new_database()
        argv[argv.index("--store") + 1] = url
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            for trial in ("back to back", "vxlan"):
                wait_for_line(process, trial)
                server.stop("immediate")
                time.sleep(2.5)  # a trial ends meanwhile, and waits to be stored
                server.start()
            _, errors = process.communicate(timeout=90)
        assert process.returncode in {0, 3}, errors
        listed = run([TUNNELBENCH, "list", "runs", "--store", url, "--json"])
        (found,) = json.loads(listed.stdout)
        assert (found["status"], found["trials_recorded"]) == ("done", 5)
        assert "nothing of ours" in run([TUNNELBENCH, "clean", "--store", url]).stdout


def test_a_store_that_is_full_ends_the_run_with_its_trials_kept(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=True)
    try:
        argv = plan(TINY_PLAN.replace("rounds = 1", "rounds = 20").replace("duration_s = 2", "duration_s = 1"))
        argv[argv.index("--store") + 1] = str(disk / "results.sqlite")
        done = run(argv)
        assert done.returncode == 3, done.stderr
        assert "full" in done.stderr
        assert "make room" in done.stderr
        assert "tunnelbench run --resume" in done.stderr
        assert "Traceback" not in done.stderr
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        store = ["--store", str(disk / "results.sqlite")]
        assert run([TUNNELBENCH, "clean", *store]).returncode == 0
        (found,) = json.loads(run([TUNNELBENCH, "list", "runs", *store, "--json"]).stdout)
        assert found["trials_recorded"] > 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_second_run_is_told_who_measures_already(plan: Callable[[str], list[str]]) -> None:
    argv = plan(LONG_PLAN)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        second = run(argv)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert second.returncode == 3
    assert "another run measures" in second.stderr
    assert f"process {process.pid}" in second.stderr


def test_without_root_there_is_one_sentence(tmp_path: Path) -> None:
    # The interpreter's own folder may be closed to others, so the child drops root itself, all modules loaded.
    code = (
        "import importlib.readers, os, sys, tunnelbench.cli.run, tunnelbench.plan.parse, tree_sitter_toml; "
        "os.setgid(65534); os.setuid(65534); tunnelbench.cli.main(sys.argv[1:])"
    )
    done = run([sys.executable, "-c", code, "run"], env=os.environ | {"HOME": str(tmp_path)})
    assert done.returncode == 3
    assert "root" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_program_is_named_with_its_package(plan: Callable[[str], list[str]], tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for directory in os.environ["PATH"].split(":"):
        for program in Path(directory).glob("*"):
            link = folder / program.name
            if program.name != "iperf3" and not link.exists():
                link.symlink_to(program)
    done = run(plan(SHORT_PLAN), env=os.environ | {"PATH": str(folder)})
    assert done.returncode == 3
    assert "iperf3" in done.stderr
    assert "apt-get install iperf3" in done.stderr


def test_on_a_terminal_the_current_trial_is_shown_with_its_rate(plan: Callable[[str], list[str]]) -> None:
    controller, terminal = pty.openpty()
    argv = [*plan(LONG_PLAN), "--set", "tcp.duration_s=4"]
    with subprocess.Popen(argv, stdout=terminal, stderr=terminal, env=os.environ | {"TERM": "xterm"}) as process:
        os.close(terminal)
        shown = b""
        parts = (b"testers back to back, 1448 bytes, out", b"on the wire", b"of 81 trials")
        deadline = time.monotonic() + 60
        while not all(part in shown for part in parts) and time.monotonic() < deadline:
            shown += os.read(controller, 65536)
        process.send_signal(signal.SIGINT)
        try:
            while os.read(controller, 65536):
                pass
        except OSError:
            pass  # the terminal's other end is closed
        os.close(controller)
        assert process.wait(30) == 130
    assert all(part in shown for part in parts)


def test_a_congestion_control_that_the_kernel_lacks_is_named_before_anything_is_measured(
    plan: Callable[[str], list[str]],
) -> None:
    done = run([*plan(SHORT_PLAN), "--set", "tcp.congestion_control=nonsense"])
    assert done.returncode == 3
    assert "congestion control nonsense" in done.stderr
    assert "Traceback" not in done.stderr


CIPHER_PLAN = """
rounds = 1
[cipher_speed]
[tcp]
payload_bytes = 1448
direction = "out"
duration_s = 1
interval_s = 0.5
[[tunnel]]
kind = "openvpn"
name = "Blowfish"
cipher = "BF-CBC"
auth = "none"
"""


def test_ciphers_are_measured_before_the_trials_and_not_again(plan: Callable[[str], list[str]]) -> None:
    argv = plan(CIPHER_PLAN)
    first = run([*argv, "--json"])
    assert first.returncode == 0, first.stderr
    assert first.stderr.startswith("openssl speed bf-cbc, as it comes, threads: 1\n")
    speeds = json.loads(first.stdout)["cipher_speeds"]
    assert {speed["algorithm"] for speed in speeds} == {"bf-cbc"}
    assert all(speed["bytes_per_s"]["16"] > 1e6 for speed in speeds)
    again = run([TUNNELBENCH, "run", "--resume", "last", *argv[argv.index("--store") :][:2]])
    assert "openssl speed bf-cbc" not in again.stdout
