"""`tunnelbench run` as a user starts it: in a process of its own, on real tunnels, ended in every way."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lab.awaiting import await_traffic
from tests.lab.bench import TUNNELBENCH
from tests.postgresql import cluster

from tunnelbench.host.host import RUN_FOLDER

pytestmark = pytest.mark.lab

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
kind = "openvpn-dco"
name = "DCO"
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
    without_sudo = {name: value for name, value in os.environ.items() if name != "SUDO_UID"}
    done = run([*plan(SHORT_PLAN), "--open"], cwd=tmp_path, env=without_sudo)
    assert done.returncode in {0, 3}, done.stderr  # 3: on a machine that others use, no figure counts
    (page,) = tmp_path.glob("tunnelbench-*.html")
    assert f"the page of the run is in {page.as_uri()}\n" in done.stderr
    assert "tinc with Blowfish" in page.read_text()
    assert "tinc with Blowfish" in done.stdout
    assert str(tmp_path / "results.sqlite") in done.stdout
    assert set(RUN_FOLDER.glob("*")) - before <= {RUN_FOLDER / "lock"}
    shown = run([TUNNELBENCH, "show", "last", "--json", "--store", str(tmp_path / "results.sqlite")])
    trials = {trial["spec"]["tunnel"]["name"]: trial for trial in json.loads(shown.stdout)["trials"]}
    # On a machine that others use, a trial may end without a valid figure.
    outcomes = {name: trial["outcome"].replace("void", "measured") for name, trial in trials.items()}
    assert outcomes == {
        "testers back to back": "measured",
        "no tunnel": "measured",
        "vxlan": "measured",
        "tinc with Blowfish": "refused",
        "DCO": "unavailable",
    }
    assert "tcp port 655" in trials["tinc with Blowfish"]["reason"]
    assert "no adapter" in trials["DCO"]["reason"]


@pytest.fixture
def signals_are_heard() -> Iterator[None]:
    """Undo that SIGHUP is ignored under nohup, and SIGINT in a shell's background: a run would inherit it."""
    before = {
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_are_heard")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)], ids=str
)
def test_a_run_that_is_asked_to_end_takes_everything_down_and_keeps_its_trials(
    plan: Callable[[str], list[str]], number: signal.Signals, status: int
) -> None:
    with subprocess.Popen(plan(LONG_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        await_traffic(process.pid)
        asked_s = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        assert time.monotonic() - asked_s < TAKE_DOWN_LIMIT_S
    assert process.returncode == status
    assert "1 trial" in errors
    assert "tunnelbench report" in errors
    assert "Traceback" not in errors


@pytest.mark.usefixtures("signals_are_heard")
def test_a_second_interrupt_does_not_leave_half_of_it_behind(plan: Callable[[str], list[str]]) -> None:
    with subprocess.Popen(plan(LONG_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        await_traffic(process.pid)
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)  # signals of one moment are one signal
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "please wait" in errors
    assert "Traceback" not in errors


def test_a_killed_run_is_cleaned_up_and_resume_measures_the_rest(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    text = TINY_PLAN.replace("rounds = 1", "rounds = 2")
    store = ["--store", str(tmp_path / "results.sqlite")]
    before = namespaces()
    with subprocess.Popen(plan(text), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        await_traffic(process.pid)
        process.kill()
        process.communicate(timeout=30)
    left = namespaces() - before
    assert len(left) == 3
    deadline = time.monotonic() + 3
    while pids := [pid for name in left for pid in processes_in(name)]:
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)

    decoy = f"tb-{os.urandom(3).hex()}-client"  # the name of a run's namespace, but not made by a run
    subprocess.run(["ip", "netns", "add", decoy], check=True)
    try:
        cleaned = run([TUNNELBENCH, "clean", *store])
        assert cleaned.returncode == 0, cleaned.stderr
        assert all(name in cleaned.stdout for name in left)
        assert namespaces() - before == {decoy}
    finally:
        subprocess.run(["ip", "netns", "del", decoy], check=True)
    assert "no run has left anything behind" in run([TUNNELBENCH, "clean", *store]).stdout

    done = run([TUNNELBENCH, "run", "--resume", "last", *store, "--json"])
    assert done.returncode in {0, 3}, done.stderr
    assert "1 trial stored, 4 missing" in done.stderr
    sequences = [trial["spec"]["sequence"] for trial in json.loads(done.stdout)["trials"]]
    assert sequences == list(range(5))


def test_a_killed_run_is_gone_on_with_though_nobody_has_cleaned_up(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    store = ["--store", str(tmp_path / "results.sqlite")]
    with subprocess.Popen(plan(TINY_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        await_traffic(process.pid)
        process.kill()
        process.communicate(timeout=30)
    done = run([TUNNELBENCH, "run", "--resume", "last", *store, "--json"])
    assert done.returncode in {0, 3}, done.stderr
    assert len(json.loads(done.stdout)["trials"]) == 3
    assert "no run has left anything behind" in run([TUNNELBENCH, "clean", *store]).stdout


def test_a_run_that_nohup_started_outlives_its_terminal(plan: Callable[[str], list[str]], tmp_path: Path) -> None:
    argv = ["nohup", *plan(TINY_PLAN)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=100)
    assert process.returncode in {0, 3}, errors
    listed = run([TUNNELBENCH, "list", "runs", "--store", str(tmp_path / "results.sqlite"), "--json"])
    assert json.loads(listed.stdout)[0]["status"] == "done"


def test_a_table_that_cannot_be_written_is_an_error_and_the_run_is_stored(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(plan(TINY_PLAN), stdout=full, stderr=subprocess.PIPE, text=True, timeout=100, check=False)
    assert done.returncode == 3
    assert "tunnelbench: the output cannot be written: No space left on device" in done.stderr
    assert "hint: the run is stored: tunnelbench report " in done.stderr
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
        assert time.monotonic() - asked_s < TAKE_DOWN_LIMIT_S + 4  # each line that cannot be written may wait 1 s
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
                time.sleep(2.5)  # the outage; a trial ends during it, and waits to be stored
                server.start()
            _, errors = process.communicate(timeout=90)
        assert process.returncode in {0, 3}, errors
        listed = run([TUNNELBENCH, "list", "runs", "--store", url, "--json"])
        (found,) = json.loads(listed.stdout)
        assert (found["status"], found["trials_recorded"]) == ("done", 5)
        assert "no run has left anything behind" in run([TUNNELBENCH, "clean", "--store", url]).stdout


def test_a_store_that_is_full_ends_the_run_with_its_trials_kept(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "tmpfs", str(disk)], check=True)
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


def test_a_store_that_is_deleted_in_mid_run_ends_it_and_the_trials_are_kept(
    plan: Callable[[str], list[str]], tmp_path: Path
) -> None:
    with subprocess.Popen(plan(LONG_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        for file in tmp_path.glob("results.sqlite*"):
            file.unlink()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 3, errors
    assert "Traceback" not in errors
    (kept,) = tmp_path.glob("tunnelbench-*.json")
    assert f"and its 2 trials are in {kept}" in errors
    done = run([TUNNELBENCH, "import", str(kept), "--store", str(tmp_path / "new.sqlite")])
    assert done.returncode == 0, done.stderr


def test_a_run_whose_folder_is_deleted_ends_in_a_sentence(plan: Callable[[str], list[str]], tmp_path: Path) -> None:
    with subprocess.Popen(plan(LONG_PLAN), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        (folder,) = RUN_FOLDER.glob("*-*-*")
        shutil.rmtree(folder)
        _, errors = process.communicate(timeout=90)
    assert process.returncode == 3, errors
    assert f"{folder}, which holds the files of the run, was deleted while it was measured" in errors
    assert "Traceback" not in errors
    assert f"tunnelbench run --resume {folder.name} measures the missing trials" in errors
    assert not namespaces()


def test_a_second_run_names_the_run_that_measures_already(plan: Callable[[str], list[str]]) -> None:
    argv = plan(LONG_PLAN)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for_line(process, "back to back")
        second = run(argv)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert second.returncode == 3
    assert "another run is measuring" in second.stderr
    assert f"process {process.pid}" in second.stderr


def test_without_root_there_is_one_sentence(tmp_path: Path) -> None:
    # The clone and the interpreter may lie in a folder that only root can read: this user may read every file.
    # fmt: off
    user = [
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
        "--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=-all,+dac_read_search",
    ]
    # fmt: on
    done = run([*user, TUNNELBENCH, "run"], env=os.environ | {"HOME": str(tmp_path)})
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
        parts = (b"testers back to back, 1448 bytes, up", b"on the wire", b"of 81 trials")
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


def test_a_missing_congestion_control_is_named_before_anything_is_measured(
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
    assert first.returncode in {0, 3}, first.stderr  # 3: on a machine that others use, no figure counts
    assert first.stderr.startswith("openssl speed bf-cbc, as it comes, threads: 1\n")
    speeds = json.loads(first.stdout)["cipher_speeds"]
    assert {speed["algorithm"] for speed in speeds} == {"bf-cbc"}
    assert all(speed["bytes_per_s"]["16"] > 1e6 for speed in speeds)
    again = run([TUNNELBENCH, "run", "--resume", "last", *argv[argv.index("--store") :][:2]])
    assert "openssl speed bf-cbc" not in again.stdout
