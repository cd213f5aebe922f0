"""Rules of plain English that a program can check: how docstrings begin, and words that confuse readers."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = [path for folder in ("src", "benches", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
RUST = sorted((ROOT / "engine").rglob("*.rs"))
DOCUMENTS = [path for folder in (".", "docs", "examples") for path in sorted((ROOT / folder).glob("*.md"))]
FRAGMENTS = frozenset(
    re.findall(
        r"\w+",
        "After And As Because Before Beside But By From How If In It Its Like Nor Not Of On Since So Such "
        "Than That Them They To Until What When Where Whether Which Who Whom Whose With",
    )
)
"""Words that open no sentence about a function, a class or a field: "What it counts", "Whether it is up"."""
WORDS = re.compile(
    r"\b(?:told|tells|tell whom|strangers?|gone on with|go on with|goes on with|nobody knows|"
    r"is owed|mends?|mended|spoilt)\b",
    re.IGNORECASE,
)
"""Words for which there is a usual one: is reported, background load, continued, unknown, fixes."""
NAME = re.compile(r"(?:\b|_)(?:told|tells)(?:\b|_)")
"""A name with one of these words: `told`, `is_told_from_nothing`, `test_a_log_tells_no_method`."""


def docstrings(source: str) -> list[tuple[int, str]]:
    """Return line and text of each docstring, those under fields and constants included."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for child in node.body:
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    found.append((child.lineno, str(child.value.value)))  # noqa: PERF401 # plainer than one of three levels
    return found


def texts(source: str) -> list[tuple[int, str]]:
    """Return line and text of each string and comment of a Python source."""
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in kinds]


def fragments(source: str) -> list[str]:
    """Return the first line of each docstring that opens with a word of a fragment."""
    return [
        f"{line}: {text.strip().splitlines()[0]}"
        for line, text in docstrings(source)
        if (words := text.split()) and words[0].strip("`\"'(,.:") in FRAGMENTS
    ]


def comments(source: str) -> list[tuple[int, str]]:
    """Return line and text of each comment of a Rust source."""
    return [
        (number, comment)
        for number, line in enumerate(source.splitlines(), 1)
        for comment in re.findall(r"//[/!]?\s*(.*)", line)
    ]


def odd_words(lines: list[tuple[int, str]]) -> list[str]:
    """Return each word of the list with its line."""
    return [f"{number}: {found.group()}" for number, text in lines for found in WORDS.finditer(text)]


def of(path: Path, found: list[str]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{each}" for each in found]


def test_a_docstring_opens_with_a_verb_or_a_noun() -> None:
    assert [each for path in PYTHON for each in of(path, fragments(path.read_text()))] == []


def odd_names(source: str) -> list[str]:
    """Return each name of a Python source that has such a word, with its line."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        f"{token.start[0]}: {token.string}"
        for token in tokens
        if token.type == tokenize.NAME and NAME.search(token.string)
    ]


def test_names_use_the_usual_words() -> None:
    assert [each for path in PYTHON for each in of(path, odd_names(path.read_text()))] == []


def test_an_odd_name_is_found() -> None:
    assert odd_names("told = is_told_from_nothing(untold)\nteller = 'told'") == ["1: told", "1: is_told_from_nothing"]


def test_sources_use_the_usual_words() -> None:
    sources = [path for path in PYTHON if path != Path(__file__)]  # this file has the words of the list
    found = [each for path in sources for each in of(path, odd_words(texts(path.read_text())))]
    assert found + [each for path in RUST for each in of(path, odd_words(comments(path.read_text())))] == []


def test_documents_use_the_usual_words() -> None:
    lines = {path: list(enumerate(path.read_text().splitlines(), 1)) for path in DOCUMENTS}
    assert [each for path in DOCUMENTS for each in of(path, odd_words(lines[path]))] == []


@pytest.mark.parametrize(
    "source",
    ['"""What it is."""', 'def f():\n    """Whether."""', 'class A:\n    a: int\n    """`Of` it."""', "a = 1\n'Of.'"],
)
def test_a_fragment_is_found(source: str) -> None:
    assert len(fragments(source)) == 1
    assert (
        fragments(source.replace("What", "The packet that").replace("Whether", "Return").replace("Of", "Packets")) == []
    )


def test_an_odd_word_is_found_in_strings_comments_and_documents() -> None:
    assert odd_words(texts('x = "it is told"  # strangers\nstrangers = f"{x} it mends"')) == [
        "1: told",
        "1: strangers",
        "2: mends",
    ]
    assert odd_words(comments("let mend = 1; // Nobody knows.\n/// A packet.")) == ["1: Nobody knows"]
    assert odd_words([(7, "recommended, amend, retold, a stranger")]) == ["7: stranger"]
