"""Programs that it starts, and calls that it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.router_script.conftest import Router, eventually, runs


def test_programs_end_with_what_they_started_and_their_output_is_kept(router: Router) -> None:
    router.take()
    pid = int(router.ok("start", router.folder, "daemon", "sh", "-c", "echo started; trap '' TERM; sleep 50; sleep 50"))
    # BusyBox runs its programs as /proc/self/exe, and then names them.
    assert eventually(lambda: Path(f"/proc/{pid}/comm").read_text() == "sh\n")
    assert eventually(lambda: (router.folder / "daemon.log").read_text() == "started\n")
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
    assert router.run("lease", "take", router.folder, "anna", 5).returncode == 1
    router.ok("clean", "--force", router.folder)
    assert (tmp_path / "precious").is_dir()
    router.folder.unlink()


def test_a_folder_that_others_can_write_to_is_refused(router: Router) -> None:
    router.folder.mkdir()
    (router.folder / "undo").mkdir()
    for mode in (0o770, 0o707, 0o1777):
        router.folder.chmod(mode)
        for words in (["lease", "take", router.folder, "anna", 5], ["clean", router.folder]):
            refused = router.run(*words)
            assert refused.returncode == 1, words
            assert "can be written by others" in refused.stderr
    router.folder.chmod(0o700)


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
