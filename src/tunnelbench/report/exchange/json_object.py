"""Reads a JSON object from a file that may come from anybody, within bounds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.text import printable

LARGEST_BYTES = 64_000_000
"""Largest file [bytes]; a run of ten thousand trials takes about half of it."""
DEEPEST_JSON = 24
"""Deepest nesting of objects and arrays; a file that `export` writes has 8 levels."""
MOST_VALUES = 3_000_000
"""Largest number of objects, arrays and commas in a file; each takes up to 150 bytes of memory."""
LONGEST_TEXT = 1_000_000
LARGEST_NUMBER = 2**63 - 1
"""Largest number that a database can hold."""


def json_object(content: bytes, hint: str, *, may_repeat_keys: bool = False) -> dict[str, Any]:
    """Return the object in a file. Raises WrongInput with the hint if there is none, or if it exceeds a bound.

    iperf3 3.12 writes some keys twice: with `may_repeat_keys`, the last value counts.
    """
    try:
        found = _object(content, dict if may_repeat_keys else _each_once)
        _require_plain(found)
    except WrongInput as error:
        raise WrongInput(error.message, hint) from None
    return found


def _object(content: bytes, made: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> dict[str, Any]:
    if len(content) > LARGEST_BYTES:
        raise WrongInput(f"it is larger than {LARGEST_BYTES // 1_000_000} MB")
    if sum(map(content.count, (b"{", b"[", b","))) > MOST_VALUES:
        raise WrongInput(f"it has more than {MOST_VALUES} values")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise WrongInput("it is not UTF-8") from None
    try:
        whole = json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=made)
    except RecursionError:
        raise WrongInput("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise WrongInput(f"it is not JSON: line {error.lineno}: {error.msg}") from None
    except ValueError:  # Python converts no number with thousands of digits
        raise WrongInput("it contains an invalid number: it has too many digits") from None
    if not isinstance(whole, dict):
        raise WrongInput("it is JSON, but not an object, so it is no run")
    return whole


def _require_plain(whole: Mapping[str, Any]) -> None:
    """Raise WrongInput for deep nesting, and for a text or number that no store can hold."""
    level: list[Any] = [whole]
    for _ in range(DEEPEST_JSON):
        below: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is dict:
                below += value
                below += value.values()
            elif kind is list:
                below += value
            elif kind is str:
                if len(value) > LONGEST_TEXT:
                    raise WrongInput(f"a text in it has more than {LONGEST_TEXT} characters")
                if "\0" in value:
                    raise WrongInput("a text in it holds a NUL byte")
            elif value is not None and not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
                raise WrongInput("a number in it is too large")
        level = below
    if level:
        raise WrongInput("it is nested too deeply")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Raises WrongInput if it has a key twice: programs differ in which of the values they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise WrongInput(f"an object in it has the key {printable(twice)[:60]!r} twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise WrongInput(f"it contains an invalid number: {name}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise WrongInput(f"a number in it is too large: {text[:40]}")
    return value
