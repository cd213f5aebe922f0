"""The programs that every run needs."""

from __future__ import annotations

import shutil

import pytest

from tunnelbench.host.programs import require_programs
from tunnelbench.model.errors import CannotHere


def test_every_missing_program_is_named_with_the_packages_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"ip", "tcpdump", "iperf3", "ping", "nft", "taskset"}
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}" if program in there else None)
    with pytest.raises(CannotHere) as caught:
        require_programs()
    assert caught.value.message == "missing here: tc, ss, ethtool, setpriv"
    assert caught.value.hint == "apt-get install ethtool iproute2 util-linux"


def test_where_all_are_there_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
    require_programs()
