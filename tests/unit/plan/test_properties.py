"""Properties of any file: expansion, positions, and a reader that no content breaks."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tunnelbench.plan import FileErrors, check_file, read_plan
from tunnelbench.plan.expand import combinations, count
from tunnelbench.plan.key_positions import Position, locate
from tunnelbench.plan.overrides import parse_override
from tunnelbench.plan.parse import parse
from tunnelbench.plan.schema import TcpTable
from tunnelbench.testbed import KINDS

Schemas = Mapping[str, type[BaseModel]]

unhurried = settings(deadline=None)
"""Tests share their machine with measurements."""

KEYS = st.text("abcdef-_. é\"'#[]=\\\t", min_size=1, max_size=5)
TEXTS = st.text(st.characters(exclude_categories=["Ll", "Cs"]), max_size=8)
"""Without small letters, so that no value can be one of the words that a message must not hold."""

SCALARS = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), TEXTS, st.dates())
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))

WORDS = st.sampled_from(
    [
        "[[tunnel]]", "[tcp]", "[link]", "[tunnel]", "kind", "name", "title", "rounds", "cipher", "mssfix",
        "=", "=", ".", ",", '"', '"""', "'", "'''", "[", "]", "{", "}", "#", "\\", "\\u0000", "\n", "\n", "\r\n", "\0",
        "1", "0", "-1", "1.5", "inf", "nan", "0x10", "1e400", "true", "2020-01-01", "25:00:00", '"none"', '"openvpn"',
        '"gre"', '"AES-128-GCM"', '"{cipher}"', "é", "\ufeff",
    ]
)  # fmt: skip
PARTS = st.lists(st.one_of(WORDS, st.text(max_size=3)), max_size=40)

LINES = st.sampled_from(
    [
        "[[tunnel]]", '[[tunnel]]\nkind = "openvpn"', '[[tunnel]]\nkind = "gre"', "[tcp]", 'kind = "none"',
        'cipher = ["BF-CBC", "none"]', 'name = "{cipher}"', 'name = "x"', "mssfix = [1, 2000]", "tcp.streams = 2",
        "x = { a = [1, { b = 2 }] }", "auth = [", "]", "duration_s = nan", "payload_bytes = [75, 76]", "rounds = 2",
        "[tunnel.x]", '"quoted key" = 1', "kind = openvpn", 'title = """', '"""', 'mode = "static-key"',
    ]
)  # fmt: skip


OPTIONS = st.sampled_from(["mode", "transport", "cipher", "auth", "mssfix", "tun_mtu", "compress", "method", "name"])
LIKELY = st.integers(0, 1500) | st.sampled_from(["none", "tls", "SHA1"])
TCP_KEYS = st.sampled_from([*TcpTable.model_fields])
PLANS = st.builds(
    lambda tcp, kind, options: {"tcp": tcp, "tunnel": [{"kind": kind, **options}]},
    st.dictionaries(TCP_KEYS, VALUES | st.integers(0, 100)),
    st.sampled_from(["none", "openvpn", "tinc", "gre", "fastd"]),
    st.dictionaries(OPTIONS, SCALARS | st.lists(SCALARS, max_size=3) | LIKELY),
)


@unhurried
@given(st.dictionaries(st.text("abc", min_size=1), st.lists(st.integers(), min_size=1, max_size=4), max_size=4))
def test_the_product_has_every_combination_once_and_the_last_option_varies_fastest(
    choices: dict[str, list[int]],
) -> None:
    expanded = list(combinations(choices))
    assert len(expanded) == count(choices) == math.prod(map(len, choices.values()))
    indices = {key: range(len(values)) for key, values in choices.items()}
    places = [tuple(combination.values()) for combination in combinations(indices)]
    assert places == sorted(set(places))
    assert [list(combination) for combination in expanded] == [list(choices)] * len(expanded)
    assert all(value in choices[key] for combination in expanded for key, value in combination.items())


@unhurried
@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True), min_size=1, max_size=3))
def test_a_block_becomes_as_many_tunnels_as_its_product(
    tmp_path_factory: pytest.TempPathFactory, schemas: Schemas, known_kinds: Mapping[str, str], lists: list[list[int]]
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    options: dict[str, Sequence[int]] = {f"option{number}": values for number, values in enumerate(lists)}
    path.write_text(tomli_w.dumps({"rounds": 1, "tunnel": [{"kind": "gre", **options}]}))
    tunnels = read_plan(str(path), schemas, (), known_kinds).plan.tunnels[1:]
    assert [tuple(tunnel.options.values()) for tunnel in tunnels] == list(itertools.product(*lists))
    assert len({tunnel.name for tunnel in tunnels}) == len(tunnels)


@unhurried
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_every_key_of_a_file_is_found_where_it_stands(data: dict[str, Any]) -> None:
    text = tomli_w.dumps(data)
    parsed = parse(text, "file")
    lines = text.split("\n")
    for path in _paths(parsed.data):
        position = parsed.located.position(path)
        assert position is not None, path
        rest = lines[position.line - 1][position.column - 1 :]
        if isinstance(path[-1], str):
            assert rest.startswith(path[-1] if re.fullmatch("[A-Za-z0-9_-]+", path[-1]) else ('"', "'"))


def test_columns_count_characters_and_blocks_are_numbered() -> None:
    located = locate('"é é".a = 1\r\n[[t]]\n  [[ t ]] # x\n "k\\u0041" = [1,\n\n  "é", {z = 1}]\n[t.u]\nv=2\n')
    expected = {
        ("é é",): (1, 1),
        ("é é", "a"): (1, 7),
        ("t",): (2, 3),
        ("t", 0): (2, 3),
        ("t", 1): (3, 6),
        ("t", 1, "kA"): (4, 2),
        ("t", 1, "kA", 1): (6, 3),
        ("t", 1, "kA", 2, "z"): (6, 9),
        ("t", 1, "u"): (7, 4),
        ("t", 1, "u", "v"): (8, 1),
    }
    assert {path: located.position(path) for path in expected} == expected
    assert located.position(("t", 0)) == Position(line=2, column=3)


@unhurried
@given(st.one_of(st.binary(max_size=200), PARTS.map(lambda parts: " ".join(parts).encode("utf-8", "surrogatepass"))))
def test_no_bytes_break_the_reader(
    tmp_path_factory: pytest.TempPathFactory, schemas: Schemas, known_kinds: Mapping[str, str], content: bytes
) -> None:
    _check(tmp_path_factory.mktemp("plan") / "file.toml", content, schemas, known_kinds)


@unhurried
@given(st.lists(LINES, max_size=15).map("\n".join))
def test_no_lines_of_a_plan_break_the_reader(
    tmp_path_factory: pytest.TempPathFactory, schemas: Schemas, known_kinds: Mapping[str, str], content: str
) -> None:
    _check(tmp_path_factory.mktemp("plan") / "file.toml", content.encode(), schemas, known_kinds)


@unhurried
@given(PLANS)
def test_no_values_break_the_reader_or_bring_out_the_words_of_pydantic(
    tmp_path_factory: pytest.TempPathFactory, schemas: Schemas, known_kinds: Mapping[str, str], plan: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("plan") / "file.toml"
    for message in _check(path, tomli_w.dumps(plan).encode(), schemas, known_kinds):
        for jargon in ("Input should", "valid ", "pydantic", "Value error", "literal", "validation", "None", "dict"):
            assert jargon not in message


@unhurried
@given(st.one_of(st.text(), st.builds("{}={}".format, st.sampled_from(["rounds", "a.b", "x"]), st.text())))
def test_no_flag_breaks_the_reader(text: str) -> None:
    try:
        shown = ".".join(parse_override(text).path)
        assert text.strip().startswith(shown)
    except FileErrors as error:
        shown = error.message
    assert shown
    assert shown.isprintable()


def _check(path: Path, content: bytes, schemas: Schemas, known_kinds: Mapping[str, str]) -> list[str]:
    """Errors of the content, each of one printable line and within the file; reading it as a plan agrees."""
    path.write_bytes(content)
    errors = check_file(str(path), schemas, KINDS, known_kinds)
    lines = content.count(b"\n") + 1
    for error in errors:
        assert str(error).isprintable()
        assert str(error).startswith(f"{path}:{error.line}:{error.column}: {error.key}: ")
        assert error.line is not None
        assert 1 <= error.line <= lines
        assert error.column is not None
        assert error.column >= 1
    try:
        loaded = read_plan(str(path), schemas, (), known_kinds)
    except FileErrors as error:
        is_plan, refusals = False, error.errors
    else:
        is_plan, refusals = loaded.plan.tunnels[0].is_baseline, ()
    assert is_plan != bool(refusals)
    assert not (is_plan and errors)
    return [error.message for error in errors]


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of all values down to the depth at which plans have keys."""
    if len(path) > 4:
        return []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, inner in items for found in ((*path, key), *_paths(inner, (*path, key)))]
