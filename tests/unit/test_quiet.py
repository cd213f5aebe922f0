"""A further try is given only to a lab test that failed while the machine was not quiet, and it is reported."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests import quiet
from tests.quiet import Reading, Watch, judge

from tunnelbench.host.procfs import all_processes

ROOT = Path(__file__).parents[2]

FAILS_ONCE = """
    import pathlib
    import pytest

    @pytest.fixture(scope="module")
    def shared():
        number = len(list(pathlib.Path().glob("made-*")))
        pathlib.Path(f"made-{number}").touch()
        return number

    @pytest.mark.lab
    def test_second_try_passes(shared):
        assert shared == 1, "the first try"

    def test_not_of_the_lab(shared):
        assert False
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project with the plugin."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'src'}")
    pytester.makeini("[pytest]\nmarkers =\n  lab\n  alone")
    return pytester


def make_conftest(project: pytest.Pytester, disturbance: str) -> None:
    """Give the project a machine that is measured as disturbed, or as quiet."""
    project.makeconftest(f"""
        import pathlib
        import tests.quiet
        pytest_plugins = ["tests.quiet"]
        tests.quiet.LOCKS = (pathlib.Path("turns.lock").absolute(), pathlib.Path("queue.lock").absolute())
        tests.quiet.Watch.disturbance = lambda self: {disturbance!r}
        tests.quiet.QUIET_LIMIT_S = 0
    """)
    project.makefile(".lock", turns="", queue="")


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_second_try_on_a_disturbed_machine_is_counted_and_printed(project: pytest.Pytester, workers: str) -> None:
    make_conftest(project, "the hypervisor took 40% of the CPU time")
    project.makepyfile(FAILS_ONCE)
    result = project.runpytest_subprocess("-n", workers)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*further tries, because the machine was not quiet: 1*",
            "*::test_second_try_passes: the hypervisor took 40% of the CPU time; failed in call with: *AssertionError",
        ]
    )
    assert len(list(project.path.glob("made-*"))) == 2


def test_a_test_that_fails_on_a_quiet_machine_has_failed(project: pytest.Pytester) -> None:
    make_conftest(project, "")
    project.makepyfile(FAILS_ONCE)
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=2)
    result.stdout.no_fnmatch_line("*further tries*")
    assert len(list(project.path.glob("made-*"))) == 1


def test_a_test_that_fails_three_times_has_failed_and_shows_each_failure(project: pytest.Pytester) -> None:
    make_conftest(project, "the hypervisor took 40% of the CPU time")
    project.makepyfile(FAILS_ONCE.replace("shared == 1", "shared == 5"))
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E       assert 2 == 5",
            "*Try 1*",
            "E       assert 0 == 5",
            "*Try 2*",
            "E       assert 1 == 5",
            "*further tries, because the machine was not quiet: 2*",
        ]
    )


def test_a_fixture_that_fails_on_a_disturbed_machine_is_made_once_more(project: pytest.Pytester) -> None:
    make_conftest(project, "the hypervisor took 40% of the CPU time")
    project.makepyfile(FAILS_ONCE.replace("return number", "assert number\n        return number"))
    result = project.runpytest_subprocess("-k", "second")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*failed in setup with: *"])


def test_during_a_second_try_no_other_worker_runs_a_test_or_loses_its_time(project: pytest.Pytester) -> None:
    make_conftest(project, "the hypervisor took 40% of the CPU time")
    project.makepyfile("""
        import pathlib, time, pytest

        @pytest.mark.lab
        def test_second_try_passes():
            for path in pathlib.Path().glob("tried"):
                for _ in range(60):  # the others would run in these three seconds
                    count = len(list(pathlib.Path().glob("began-*")))
                    assert count == len(list(pathlib.Path().glob("ended-*")))
                    time.sleep(0.05)
                return
            pathlib.Path("tried").touch()
            time.sleep(0.5)
            assert len(list(pathlib.Path().glob("began-*"))) == 0, "the others run at the first try"

        @pytest.mark.timeout(1.5)  # less than the neighbours wait
        @pytest.mark.parametrize("number", range(40))
        def test_neighbour(number):
            pathlib.Path(f"began-{number}").touch()
            time.sleep(0.05)
            pathlib.Path(f"ended-{number}").touch()
    """)
    result = project.runpytest_subprocess("-n", "2", "--dist", "worksteal")
    result.assert_outcomes(passed=41)
    result.stdout.fnmatch_lines(["*failed in call with: *"])


def test_a_test_that_hangs_gets_no_second_try(project: pytest.Pytester) -> None:
    make_conftest(project, "the hypervisor took 40% of the CPU time")
    project.makepyfile("""
        import pathlib, time, pytest

        @pytest.mark.lab
        @pytest.mark.timeout(0.2)
        def test_hangs():
            pathlib.Path("once").touch(exist_ok=False)
            time.sleep(60)
    """)
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Timeout*"])
    result.stdout.no_fnmatch_line("*further tries*")


def at(*stolen_s: float) -> list[Reading]:
    """Readings each half a second on two CPUs, by what the hypervisor took in each window [s]."""
    return [Reading(sum(stolen_s[:count]), float(count)) for count in range(len(stolen_s) + 1)]


def test_a_machine_without_disturbance_is_quiet() -> None:
    assert judge(at(0.02, 0.04, 0.03, 0.01), {"sshd": 0.01}) == ""
    assert judge(at(), {}) == ""


def test_time_taken_by_the_hypervisor_disturbs_on_average_or_in_one_window() -> None:
    steady = judge(at(*[0.06] * 10), {})
    assert steady == "the hypervisor took 6% of the CPU time, 6% in the worst 0.5 s"
    burst = judge(at(*[0.0] * 19, 0.4, 0.0), {})
    assert burst == "the hypervisor took 2% of the CPU time, 40% in the worst 0.5 s"


def waited(*waited_s: float) -> list[Reading]:
    """Readings each half a second, by the time in each window in which a process waited for a CPU [s]."""
    return [Reading(0.0, float(count), sum(waited_s[:count]), count / 2) for count in range(len(waited_s) + 1)]


def test_waiting_for_a_cpu_disturbs_on_average_or_in_one_window() -> None:
    steady = waited(*[0.3] * 6)
    assert judge(steady, {}, is_alone=False) == "processes waited for a CPU 60% of the time, 60% in the worst 0.5 s"
    burst = waited(*[0.1] * 8, 0.48, 0.1)
    assert judge(burst, {}, is_alone=False) == "processes waited for a CPU 28% of the time, 96% in the worst 0.5 s"
    assert judge(waited(*[0.2] * 8, 0.4, 0.2), {}, is_alone=False) == ""
    assert judge(steady, {}) == ""


def test_other_processes_disturb_by_their_sum_and_are_named_in_its_order() -> None:
    found = judge(at(0.0, 0.0, 0.0, 0.0), {"cc": 0.3, "cron": 0.01, "rustc": 0.5, "sh": 0.02, "ps": 0.0, "awk": 0.03})
    assert found == "other processes used 22% of the CPU time (rustc, cc, awk, sh, cron)"


@pytest.mark.parametrize("is_alone", [True, False])
def test_only_a_test_that_runs_alone_is_disturbed_by_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_alone: bool
) -> None:
    monkeypatch.setattr(quiet, "OTHERS_LIMIT", 0.001)  # a busy machine may give the process little CPU time
    program = shutil.copy("/bin/sh", tmp_path / "burner")
    watch = Watch(is_alone=is_alone)
    # A process whose parent has ended is nobody's child here, like a process of another user.
    orphan = ["sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", program, "-c", "while :; do :; done"]
    pid = int(subprocess.run(orphan, check=True, capture_output=True, text=True).stdout)
    try:
        while all_processes()[pid].own_s < 0.2:
            time.sleep(0.05)
        disturbance = watch.disturbance()
    finally:
        os.kill(pid, signal.SIGKILL)
    assert ("burner" in disturbance) is is_alone
