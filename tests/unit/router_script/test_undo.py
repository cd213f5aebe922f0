"""The undo commands of a router: some are run, some are not, and some fail."""

from __future__ import annotations

from pathlib import Path

from tests.unit.router_script.conftest import Router


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


def test_a_change_that_cannot_be_undone_is_kept_and_reported_and_the_rest_is_done(
    router: Router, tmp_path: Path
) -> None:
    router.take()
    for piece in (
        f"touch {tmp_path}/first",
        f"echo no such thing; test -e {tmp_path}/repaired",
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
    (tmp_path / "repaired").touch()
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
