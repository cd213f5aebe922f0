"""The rules that tests/conftest.py lays on the other tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = ROOT / "tests" / "conftest.py"

THREE_SKIPS = """
    import pytest

    def test_lazy():
        pytest.skip("no time")

    @pytest.mark.skipif(True, reason="no tun")
    def test_by_mark():
        pass

    def test_kernel():
        pytest.skip("kernel feature: no wireguard module")

    @pytest.mark.xfail(reason="known", strict=True)
    def test_known_fault():
        assert False
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project under our conftest, on a machine that is always quiet."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'src'}")
    # Locks of its own: this test has a turn, and would wait for a worker that waits for this test.
    locks = [pytester.makefile(".lock", **{name: ""}) for name in ("turns", "queue")]
    quiet = "import tests.quiet\ntests.quiet.Watch.disturbance = lambda self: ''\n"
    quiet += f"tests.quiet.LOCKS = tuple(map(__import__('pathlib').Path, {list(map(str, locks))}))\n"
    pytester.makeconftest(f"{CONFTEST.read_text()}\n{quiet}")
    pytester.makeini("[pytest]\nmarkers = lab: needs root")
    return pytester


def test_in_ci_a_skip_fails_unless_the_kernel_lacks_a_feature(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    project.makepyfile(THREE_SKIPS)
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1, errors=1, skipped=1, xfailed=1)  # a skip by mark happens in the set-up: an error
    result.stdout.fnmatch_lines(["*skipped, which CI does not accept: no time"])


def test_elsewhere_a_skip_is_a_skip(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    project.makepyfile(THREE_SKIPS)
    project.runpytest_subprocess().assert_outcomes(skipped=3, xfailed=1)


def test_in_ci_a_module_that_skips_itself_fails(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    project.makepyfile("""
        import pytest
        pytest.skip("not today", allow_module_level=True)
    """)
    project.runpytest_subprocess().assert_outcomes(errors=1)


@pytest.mark.lab
def test_a_lab_test_that_leaves_a_namespace_behind_fails(project: pytest.Pytester) -> None:
    name = f"tb-left-{os.getpid()}"
    project.makepyfile(f"""
        import subprocess
        import pytest

        @pytest.mark.lab
        def test_untidy():
            subprocess.run(["ip", "netns", "add", "{name}"], check=True)
    """)
    try:
        result = project.runpytest_subprocess()
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*left behind: *namespace {name}*"])


def test_programs_that_tests_start_heed_ctrl_c_where_pytest_was_started_without_it(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import subprocess, sys

        def test_of_a_program():
            says = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
            done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True)
            assert done.stdout == "False\\n"
    """)
    without_ctrl_c = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    done = project.run(*without_ctrl_c, sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
