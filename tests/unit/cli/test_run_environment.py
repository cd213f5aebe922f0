"""Environment variables that change the speed of programs reach no program of a run."""

from __future__ import annotations

import os

import pytest

from tunnelbench.cli.run import leave_out_tuning


def test_variables_that_change_the_speed_of_programs_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENSSL_ia32cap", "~0x200000200000000")
    monkeypatch.setenv("GOMAXPROCS", "1")
    monkeypatch.setenv("LANG", "C")
    leave_out_tuning()
    assert os.environ.keys().isdisjoint({"OPENSSL_ia32cap", "GOMAXPROCS"})
    assert os.environ["LANG"] == "C"
    said = capsys.readouterr().err
    assert "does not use OPENSSL_ia32cap, which changes the speed of programs" in said
