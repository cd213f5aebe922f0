"""The option `line` of tunnels: expansion, names, and where it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of, plan_of

from tunnelbench.model.lines import LineName
from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.testbed import TestbedSpec

PLAN = '[[tunnel]]\nkind = "none"\nname = "no tunnel, {line}"\nline = ["adsl", "gigabit"]\n'


def tunnels(folder: Path, text: str) -> tuple[TunnelSpec, ...]:
    return plan_of(folder, text).tunnels


def errors(folder: Path, text: str, kind: str) -> list[str]:
    return errors_of(folder, text, TestbedSpec("lab", kind))


def test_each_line_makes_a_tunnel_that_is_not_the_baseline(tmp_path: Path) -> None:
    found = tunnels(tmp_path, PLAN)
    assert [(each.name, each.conditions.line, each.is_baseline) for each in found] == [
        ("no tunnel", None, True),
        ("no tunnel, adsl", LineName.ADSL, False),
        ("no tunnel, gigabit", LineName.GIGABIT, False),
    ]


def test_a_list_may_have_the_cable_without_a_line(tmp_path: Path) -> None:
    text = '[[tunnel]]\nkind = "vxlan"\nline = ["none", "lte"]\n'
    found = tunnels(tmp_path, text)
    assert [(each.name, each.conditions.line) for each in found[1:]] == [
        ("vxlan line=none", None),
        ("vxlan line=lte", LineName.LTE),
    ]
    assert "line" not in found[1].options
    assert errors(tmp_path, text.replace('["none", "lte"]', '"none"'), "ssh") == []
    named = tunnels(tmp_path, text.replace("line =", 'name = "V"\nline ='))
    assert [each.name for each in named[1:]] == ["V", "V line=lte"]
    assert [each.name for each in tunnels(tmp_path, PLAN.replace("adsl", "none"))] == [
        "no tunnel, none",
        "no tunnel, gigabit",
    ]


def test_a_name_shows_the_line(tmp_path: Path) -> None:
    (_, found) = tunnels(tmp_path, '[[tunnel]]\nkind = "vxlan"\nname = "V"\nline = "lte"\n')
    assert found.name == "V line=lte"


def test_a_line_that_is_not_known_is_refused(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, PLAN.replace("gigabit", "isdn"), "netns")
    assert found.startswith("4: tunnel[1].line: ")
    assert "adsl" in found


@pytest.mark.parametrize("kind", ["ssh", "qemu"])
def test_a_line_is_refused_where_the_cables_are_not_ours(kind: str, tmp_path: Path) -> None:
    assert errors(tmp_path, PLAN, "netns") == []
    (found,) = errors(tmp_path, PLAN, kind)
    assert found.startswith(
        "4: tunnel[1].line: cannot be had on testbed lab: a line needs cables that TunnelBench makes"
    )
