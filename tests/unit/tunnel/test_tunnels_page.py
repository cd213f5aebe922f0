"""docs/tunnels.md: its table is made from the adapters, and the page of a release has every tunnel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.release import CHANGELOG, faults

from tunnelbench.tunnel import PLANNED, adapters

PAGE = Path(__file__).parents[3] / "docs" / "tunnels.md"
HEAD = "| kind | options | bytes added |\n|---|---|---|\n"
TABLE = re.compile(r"(<!-- written by `make docs` -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(kinds: list[str]) -> str:
    rows = [(kind, *row) for kind in kinds for row in adapters()[kind].added_bytes.items()]
    return HEAD + "".join(f"| `{kind}` | {options or 'any'} | {text} |\n" for kind, options, text in rows)


def test_the_table_is_made_from_the_adapters(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text()
    if request.config.getoption("force_regen"):
        PAGE.write_text(TABLE.sub(lambda found: found[1] + table(sorted(adapters())) + found[3], page))
        return
    found = TABLE.search(page)
    assert found is not None
    kinds = sorted({*re.findall(r"^\| `(\S+)` \|", found[2], re.MULTILINE)})
    assert faults(kinds, sorted(adapters()), CHANGELOG.read_text()) == [], "run `make docs`"
    assert found[2] == table(kinds), "run `make docs`"


def test_only_before_a_release_a_tunnel_may_be_missing() -> None:
    assert faults(["none"], ["none", "vxlan"], "# Changelog\n\n## 0.2.0 - unreleased\n") == []
    released = "# Changelog\n\n## 0.2.0 - 2026-12-01\n\n## 0.1.0 - unreleased\n"
    assert faults(["none"], ["none", "vxlan"], released) == ["vxlan is missing"]
    assert faults(["sock"], [], released) == ["there is no sock"]


def test_the_page_names_tunnels_that_exist_and_those_that_are_planned() -> None:
    page = PAGE.read_text()
    assert set(re.findall(r"^\*\*([a-z0-9-]+)\.\*\*", page, re.MULTILINE)) <= set(adapters())
    assert [kind for kind in PLANNED if f"`{kind}`" not in page] == []
