"""What the documentation says of the code is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", RELIABILITY)))


def test_the_promises_name_tests() -> None:
    rows = [line for line in RELIABILITY.splitlines() if line.startswith("| ") and "| promise |" not in line]
    assert len(rows) > 40
    assert [row for row in rows if not re.search(r"`tests/[\w/]+\.py::\w+`", row)] == []


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda word: word)
def test_each_promise_has_its_test(path: str, name: str) -> None:
    assert re.search(rf"^\s*def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/*.md")), ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []
