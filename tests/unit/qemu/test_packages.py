"""Packages for a virtual machine are chosen without the settings of this machine's apt."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tunnelbench.qemu import packages
from tunnelbench.qemu.packages import Archive

SETTINGS_OF_HOST = """\
APT::Default-Release "trixie";
APT::Install-Suggests "true";
APT::Update::Pre-Invoke { "echo hook"; };
APT::Update::Post-Invoke { "echo hook"; };
APT::Update::Post-Invoke-Success { "echo hook"; };
Acquire::http::Proxy "http://proxy.example:3142";
Dir::Etc::preferences "/etc/apt/pins-of-this-machine";
Dir::Etc::preferencesparts "/etc/apt/pins-of-this-machine.d";
"""


def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the settings that apt has while it fetches the lists, in the form of `apt-config dump`."""
    calls: list[Sequence[str]] = []

    def record(argv: Sequence[str], **_: Any) -> SimpleNamespace:
        calls.append(argv)
        return SimpleNamespace(stdout="")

    (host := tmp_path / "host.conf").write_text(SETTINGS_OF_HOST)
    monkeypatch.setattr(packages, "KEYRING", host)  # a file that exists
    monkeypatch.setattr(packages, "run_command", record)
    Archive("mipsel", tmp_path / "packages").refresh()
    ((program, *options, verb, _),) = calls
    assert (program, verb) == ("apt-get", "update")
    dump = ["env", f"APT_CONFIG={host}", "apt-config", *options, "dump"]
    return subprocess.run(dump, check=True, capture_output=True, text=True).stdout


def test_pins_and_hooks_of_this_machine_do_not_apply(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = settings(monkeypatch, tmp_path)
    assert [word for word in ("echo hook", "trixie", "pins-of-this-machine", 'Suggests "true"') if word in found] == []


def test_a_proxy_of_this_machine_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert 'Acquire::http::Proxy "http://proxy.example:3142";' in settings(monkeypatch, tmp_path)
