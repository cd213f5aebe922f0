"""`tunnelbench check` names every error of every file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.conftest import CommandLine

WRONG = Path(__file__).parents[1] / "plan" / "wrong"
GOOD_PLAN = 'rounds = 1\n[[tunnel]]\nkind = "vxlan"\n[[tunnel]]\nkind = "gre"\n'


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_good_plan_and_a_good_testbed_are_ok(type_in: CommandLine, tmp_path: Path) -> None:
    plan, testbed = write(tmp_path / "p.toml", GOOD_PLAN), write(tmp_path / "t.toml", 'kind = "netns"\n')
    result = type_in("check", plan, testbed)
    assert (result.exit_code, result.stdout) == (0, f"{plan}: ok\n{testbed}: ok\n")


def test_all_errors_of_all_files_come_in_the_order_of_the_files(type_in: CommandLine, tmp_path: Path) -> None:
    first = write(tmp_path / "a.toml", '[tcp]\nduration_s = 0\n[[tunnel]]\nkind = "vxlan"\nvni = "x"\n')
    good = write(tmp_path / "b.toml", GOOD_PLAN)
    last = write(tmp_path / "c.toml", 'kind = "netns"\n[link]\nmtu_bytes = 1\n')
    result = type_in("check", first, good, last)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{first}:2:1: tcp.duration_s: must be at least 1, not 0",
        f'{first}:5:1: tunnel[1].vni: must be a whole number, not the string "x"',
        f"{good}: ok",
        f"{last}:3:1: link.mtu_bytes: must be at least 576, not 1",
    ]


def test_a_file_that_is_not_there_is_an_error_among_others(type_in: CommandLine, tmp_path: Path) -> None:
    good = write(tmp_path / "good.toml", GOOD_PLAN)
    result = type_in("check", tmp_path / "none.toml", good)
    assert result.exit_code == 1
    assert result.stdout == f"{tmp_path}/none.toml:1:1: file: there is no such file\n{good}: ok\n"


def test_shipped_plans_and_testbeds_are_checked_by_their_names(type_in: CommandLine) -> None:
    result = type_in("check", "wr841n", "all", "malta", "--on", "malta")
    assert (result.exit_code, result.stdout) == (0, "wr841n: ok\nall: ok\nmalta: ok\n")
    refused = type_in("check", "soak", "--on", "malta")
    assert refused.exit_code == 1
    assert "soak: cannot run on testbed malta" in refused.stdout


def test_json_has_each_file_with_its_errors(type_in: CommandLine, tmp_path: Path) -> None:
    good = write(tmp_path / "good.toml", GOOD_PLAN)
    result = type_in("check", "--json", WRONG / "neither.toml", good)
    wrong, fine = json.loads(result.stdout)
    assert result.exit_code == 1
    assert fine == {"file": str(good), "errors": []}
    assert wrong["errors"][0].keys() == {"file", "line", "column", "key", "message"}


def test_a_hostile_name_is_inert(type_in: CommandLine, tmp_path: Path) -> None:
    file = write(tmp_path / "a\x1b[31m\n.toml", GOOD_PLAN)
    assert type_in("check", file).stdout == f"{tmp_path}/a\\x1b[31m\\n.toml: ok\n"
