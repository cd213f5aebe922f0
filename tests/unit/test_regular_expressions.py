"""No regular expression takes more than linear time, whatever text it is given.

Each pattern of the sources is tried on texts that are made from the pattern itself: the part before a repetition, then
the repeated part very often, then an end that prevents a match.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from tests.cpu_time import TooSlow, cpu_time_limit

import tunnelbench
from tunnelbench.analysis.audit.quantities import LONGEST_NUMBER_CELL

PACKAGE = Path(tunnelbench.__file__).parent
METHODS = frozenset({"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
TAKES_A_PATTERN = {"_first": 0, "version_of": 2}
"""Functions that hand a pattern on, and the position of it among their arguments."""

LENGTHS = (20, 500, 10_000)
"""Lengths of the texts [characters]: each is tried only where the one before it was quick."""
LIMIT_S = 0.02
"""CPU time for a text [s]. For the longest text, quadratic time is 0.05 s to 0.5 s, and linear time 0.001 s."""
TRIES = 3
MOST_TEXTS = 80
"""Number of texts for each pattern."""

CUT = {"analysis/audit/quantities.py": LONGEST_NUMBER_CELL}
"""Length of the texts of modules that refuse a longer one before they look at it [characters]."""

GIVEN_UP_S = 1.0
"""CPU time after which a search is ended."""

CHARACTERS = "a0A :.,-_/|\\\"'([{<=*+@#%~`!;&\n\té\u00a0²±x"
ENDS = ("", "!", "\n", "a0", " z")


class Use(NamedTuple):
    """A pattern and how it is used."""

    place: str
    pattern: re.Pattern[Any]
    method: str


def modules() -> Iterator[tuple[str, ast.Module, ModuleType]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        module = importlib.import_module(name.removesuffix(".__init__"))
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text()), module


def uses() -> Iterator[Use]:
    """Yield every use of a regular expression in the sources."""
    called = {(node.func.value.id, node.func.attr) for _, tree, _ in modules() for node in ast.walk(tree)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
              and isinstance(node.func.value, ast.Name)}  # fmt: skip
    for place, tree, module in modules():
        for name, value in vars(module).items():
            for pattern in compiled(value):
                methods = {method for owner, method in called if owner == name} & METHODS
                yield from (Use(f"{place} {name}", pattern, method) for method in methods or {"search"})
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for function in functions:
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    yield from uses_of_call(place, node, function, vars(module))


def uses_of_call(place: str, node: ast.Call, function: ast.FunctionDef, known: Mapping[str, Any]) -> Iterator[Use]:
    flags, method = 0, "search"
    if isinstance(node.func, ast.Name) and node.func.id in TAKES_A_PATTERN:
        argument, flags = node.args[TAKES_A_PATTERN[node.func.id]], re.MULTILINE
    elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re" and node.args:
        if node.func.attr not in METHODS | {"compile"} or function.name in TAKES_A_PATTERN:
            return
        argument, method = node.args[0], node.func.attr.replace("compile", "search")
        named = [ast.unparse(word) for word in (*node.args[1:], *(each.value for each in node.keywords))]
        flags = sum(getattr(re, word.removeprefix("re.")) for word in named if re.fullmatch(r"re\.[A-Z]+", word))
    else:
        return
    texts = list(written(argument, function, known))
    assert texts, f"{place}:{node.lineno}: the pattern is not written where it is used"
    yield from (Use(f"{place}:{node.lineno}", re.compile(text, flags), method) for text in texts)


def compiled(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        yield from (pattern for each in value.values() for pattern in compiled(each))
    elif isinstance(value, tuple | list):
        yield from (pattern for each in value for pattern in compiled(each))


def written(  # noqa: C901, PLR0912 - one branch for each kind of expression
    node: ast.expr, function: ast.FunctionDef, known: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the texts that an expression can have; a part that only a run knows is `x`."""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = [list(written(part, function, known)) or ["x"] for part in node.values]
        yield from ("".join(chosen) for chosen in product(*parts))
    elif isinstance(node, ast.FormattedValue):
        yield from written(node.value, function, known)
    elif isinstance(node, ast.IfExp):
        yield from written(node.body, function, known)
        yield from written(node.orelse, function, known)
    elif isinstance(node, ast.BinOp):
        yield from (left + right for left in written(node.left, function, known)
                    for right in written(node.right, function, known))  # fmt: skip
    elif isinstance(node, ast.Name):
        if isinstance(known.get(node.id), str | int):
            yield str(known[node.id])
        for each in ast.walk(function):
            if not isinstance(each, ast.Assign):
                continue
            for target in each.targets:
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                values = each.value.elts if isinstance(each.value, ast.Tuple) else [each.value] * len(targets)
                for one, value in zip(targets, values, strict=True):
                    if ast.unparse(one) == node.id:
                        yield from written(value, function, known)
    elif isinstance(node, ast.Call):  # such as re.escape(name)
        yield "x"


def hostile(pattern: str, flags: int) -> Iterator[str]:
    """Yield prefixes and repeated parts, parted by a NUL, that make a pattern begin a match and continue it."""
    tree = parser.parse(pattern, flags & ~re.LOCALE)
    seen = set()
    for prefix, pumps in repetitions(list(tree), ""):
        for pump in pumps:
            if pump and (prefix, pump) not in seen:
                seen.add((prefix, pump))
                yield f"{prefix}\0{pump}"


def repetitions(items: list[Any], before: str) -> Iterator[tuple[str, Iterable[str]]]:
    """Walk through a pattern; after each part, what was matched until then may itself come again and again."""
    for item in items:
        operation, argument = item
        if operation in REPEATS:
            _, most, body = argument
            if most > 40:
                yield before, list(islice(samples(list(body)), 8))
            yield from repetitions(list(body), before)
        elif operation is sre.BRANCH:
            for branch in argument[1]:
                yield from repetitions(list(branch), before)
        elif operation is sre.SUBPATTERN:
            yield from repetitions(list(argument[3]), before)
        elif operation is sre.ATOMIC_GROUP:
            yield from repetitions(list(argument), before)
        elif operation in (sre.ASSERT, sre.ASSERT_NOT):
            yield from repetitions(list(argument[1]), before)
        before += next(samples([item]), "")
        if before:
            yield "", [before, f"{before} ", f"{before}\n"]


REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def samples(items: list[Any]) -> Iterator[str]:
    """Yield short texts that a part of a pattern matches, with each of several characters where it has a choice."""
    if not items:
        yield ""
        return
    for first in islice(samples_of(*items[0]), 30):
        for rest in islice(samples(items[1:]), 2 if len(items) > 3 else 6):
            yield first + rest


def samples_of(operation: Any, argument: Any) -> Iterator[str]:
    if operation is sre.LITERAL:
        yield chr(argument)
    elif operation in (sre.IN, sre.NOT_LITERAL, sre.ANY, sre.CATEGORY):
        yield from (each for each in CHARACTERS if one_of(operation, argument, each))
    elif operation is sre.BRANCH:
        for branch in argument[1]:
            yield from islice(samples(list(branch)), 3)
    elif operation is sre.SUBPATTERN:
        yield from samples(list(argument[3]))
    elif operation is sre.ATOMIC_GROUP:
        yield from samples(list(argument))
    elif operation in REPEATS:
        least, most, body = argument
        yield from (each * max(least, min(1, most)) for each in samples(list(body)))
    else:  # a place, such as ^ or a look-ahead, takes no character
        yield ""


def one_of(operation: Any, argument: Any, character: str) -> bool:
    state = parser.State()
    state.str = ""
    tree = parser.SubPattern(state, [(operation, argument)])
    from re import _compiler  # type: ignore[attr-defined]

    return bool(_compiler.compile(tree).fullmatch(character))


def slowest(use: Use) -> tuple[float, str]:
    """Return the CPU time of the slowest text [s], and the beginning of the text."""
    run: Callable[..., Any] = getattr(use.pattern, use.method)
    is_bytes = isinstance(use.pattern.pattern, bytes)
    pattern = use.pattern.pattern.decode() if is_bytes else use.pattern.pattern
    worst = (0.0, "")
    longest = CUT.get(use.place.partition(" ")[0].partition(":")[0], LENGTHS[-1])
    for each in islice(hostile(pattern, use.pattern.flags), MOST_TEXTS):
        prefix, _, pump = each.partition("\0")
        for end, length in product(ENDS, LENGTHS):
            if length > longest:
                continue
            text = prefix + pump * (length // len(pump)) + end
            given: Any = text.encode() if is_bytes else text
            took_s = LIMIT_S + 1
            for _ in range(TRIES if length > LENGTHS[0] else 1):
                began_s = time.process_time()
                with suppress(TooSlow), cpu_time_limit(GIVEN_UP_S):
                    found = run("", given) if use.method in {"sub", "subn"} else run(given)
                    if use.method == "finditer":
                        list(found)
                took_s = min(took_s, time.process_time() - began_s)
                if took_s <= LIMIT_S:
                    break
            worst = max(worst, (took_s, text[:60]))
            if took_s > LIMIT_S:
                return worst
    return worst


USES = sorted(set(uses()), key=lambda use: (use.place, use.method))


def test_the_sources_have_regular_expressions() -> None:
    assert len(USES) > 100


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.place} {use.method}")
def test_a_pattern_takes_linear_time(use: Use) -> None:
    took_s, text = slowest(use)
    assert took_s <= LIMIT_S, f"{use.pattern.pattern!r} takes {took_s:.2f} s for {text!r}..."


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"\d+x", r"[0-9:]*:[0-9:]*:[0-9:]*z", r"\([^)]*\)", r"\s+$"])
def test_a_pattern_that_backtracks_is_found(pattern: str) -> None:
    assert slowest(Use("here", re.compile(pattern), "search"))[0] > LIMIT_S
