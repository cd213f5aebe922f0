"""The documentation agrees with the code and the files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tunnelbench.plan import shipped_plans, shipped_testbeds

ROOT = Path(__file__).parents[2]
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()
DOCUMENTS = [path for folder in (".", "docs", "examples") for path in sorted((ROOT / folder).glob("*.md"))]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", RELIABILITY)))


def test_the_promises_name_tests() -> None:
    heads = ("| promise |", "| what | limit |")
    rows = [line for line in RELIABILITY.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert len(rows) > 40
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+`", row)] == []


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda word: word)
def test_each_promise_has_its_test(path: str, name: str) -> None:
    assert re.search(rf"^\s*def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "path",
    sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")) + sorted(ROOT.glob("examples/*.md")),
    ids=lambda path: path.name,
)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("name", [*shipped_plans(), *shipped_testbeds()])
def test_each_shipped_plan_and_testbed_is_named_in_the_documents(name: str) -> None:
    named = re.compile(rf"`{re.escape(name)}`|(?:\brun|--on) {re.escape(name)}(?![\w-])")
    assert [path.name for path in DOCUMENTS if named.search(path.read_text())] != []
