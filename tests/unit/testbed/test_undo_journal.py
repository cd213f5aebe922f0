"""The journal of changes of this machine's own network."""

from __future__ import annotations

from pathlib import Path

from tunnelbench.testbed.undo_journal import UndoJournal


def test_a_change_is_undone_although_the_line_before_it_was_cut_off(tmp_path: Path) -> None:
    journal = UndoJournal(tmp_path)
    journal.note(["touch", str(tmp_path / "first")])
    with journal.path.open("a") as file:
        file.write('[["touch", "')  # as on a full disk
    journal.note(["touch", str(tmp_path / "second")])
    assert journal.undo_all() == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]
