"""Changes of an input that know what JSON, lines and words are; a fuzzer's own changes only know bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from tests.fuzz.target import ANSWER_MARK, LONGEST_INPUT_BYTES

STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, -0.5, 0.1, 1e-300, 1e308, float("nan"), float("inf"), 10**19, 2**63, 10**400, "", "7",
    "text", "\ud800", "\x1b[2J\n", "-", [], {}, [[]], [{}], {"a": 1}, ["x"], [0] * 50,
)  # fmt: skip
"""Values that a program or a person may put into JSON in place of the right one."""

NUMBERS = ("0", "-1", "1", "65536", "4294967296", "9223372036854775808", "1e400", "nan", "9" * 400, "0.0", "+1", "_")


def mutated(data: bytes, choose: random.Random, words: Sequence[str] = ()) -> bytes:
    """Return a changed input: sometimes one value of its JSON, sometimes a line, a word, a number or a byte."""
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        data = choose.choice(CHANGES)(data, choose, words)
    return data[:LONGEST_INPUT_BYTES]


def _json(data: bytes, choose: random.Random, words: Sequence[str]) -> bytes:
    """Replace, remove or repeat one value of a JSON document; of one of the documents if there are several."""
    mark = ANSWER_MARK.encode()
    parts = data.split(mark)
    place = choose.randrange(len(parts))
    head, brace, body = _json_start(parts[place])
    try:
        document = json.loads(brace + body)
    except (ValueError, RecursionError):
        return _line(data, choose, words)
    changed = json.dumps(_replaced(document, choose), indent=choose.choice((None, 1)))
    parts[place] = head + changed.encode(errors="surrogatepass")
    return mark.join(parts)


def _json_start(part: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a text in front of its first bracket: an input may begin with the name of a parser."""
    found = [place for place in (part.find(b"{"), part.find(b"[")) if place >= 0]
    start = min(found, default=len(part))
    return part[:start], part[start : start + 1], part[start + 1 :]


def _replaced(document: Any, choose: random.Random) -> Any:
    if isinstance(document, dict) and document and choose.random() < 0.9:
        key = choose.choice(sorted(document))
        if choose.random() < 0.1:
            return {other: value for other, value in document.items() if other != key}
        return {**document, key: _replaced(document[key], choose)}
    if isinstance(document, list) and document and choose.random() < 0.9:
        position = choose.randrange(len(document))
        if choose.random() < 0.2:
            return [*document, document[position]] if choose.random() < 0.5 else document[:position]
        return [*document[:position], _replaced(document[position], choose), *document[position + 1 :]]
    return choose.choice(STRANGE)


def _line(data: bytes, choose: random.Random, words: Sequence[str]) -> bytes:
    """Remove, repeat, exchange or cut a line."""
    lines = data.split(b"\n")
    at, other = choose.randrange(len(lines)), choose.randrange(len(lines))
    match choose.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            lines[at] = lines[at][: choose.randrange(len(lines[at]) + 1)]
    return b"\n".join(lines)


def _word(data: bytes, choose: random.Random, words: Sequence[str]) -> bytes:
    """Insert a word of the format, or repeat a piece of the input many times."""
    at = choose.randrange(len(data) + 1)
    if words and choose.random() < 0.8:
        piece = choose.choice(words).encode(errors="surrogatepass")
    else:
        piece = data[at : at + choose.randrange(1, 30)] * choose.choice((1, 2, 50, 500))
    return data[:at] + piece + data[at + choose.choice((0, 0, len(piece))) :]


def _number(data: bytes, choose: random.Random, words: Sequence[str]) -> bytes:
    """Replace the digits at one place by another number."""
    digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return _byte(data, choose, words)
    start = end = choose.choice(digits)
    while start and 48 <= data[start - 1] <= 57:
        start -= 1
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    return data[:start] + choose.choice(NUMBERS).encode() + data[end:]


def _byte(data: bytes, choose: random.Random, words: Sequence[str]) -> bytes:
    """Change, insert or remove a few bytes, or cut the input off."""
    at = choose.randrange(len(data) + 1)
    match choose.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes([choose.randrange(256)]) + data[at:]
        case 2:
            return data[:at] + data[at + choose.randrange(1, 9) :]
        case _:
            return data[:at] + bytes([choose.randrange(256)]) + data[at + 1 :]


CHANGES = (_json, _json, _json, _line, _word, _number, _number, _byte)
