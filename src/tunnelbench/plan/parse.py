"""TOML text to values and positions, with the faults of syntax in plain words.

`tomllib` stops at its first fault. Where that is on a line that holds one whole `key = value`, the line is left out
and the rest read on, so that one forgotten pair of quotes does not hide the other faults of the file; elsewhere, what
stands above it is read.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from tunnelbench.plan.errors import FileError
from tunnelbench.plan.locate import KeyPath, Located, Position, locate
from tunnelbench.plan.wording import LONGEST_QUOTE, key_text, quoted

LONGEST_LINE = 10_000
"""`tomllib` takes quadratic time for dotted keys, which are as long as their line [characters]."""

MOST_SYNTAX_ERRORS = 20
"""After so many the text is something other than TOML."""

LONGEST_MENDED = 100_000
"""Longer texts are not read on after a fault: each goes through the parser again [characters]."""

LONGEST_STATEMENT_LINES = 50
"""How far above a fault its beginning is looked for."""

LONGEST_INTEGER_DIGITS = 4300
"""Python's limit (sys.set_int_max_str_digits); TOML itself asks for 64 bits."""

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\s*=")

_DUPLICATES = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Cannot redefine", "Duplicate inline table key")

_WORDS = (
    *((start, "the key or table is there already") for start in _DUPLICATES),
    ("Expected newline", "what follows the value does not belong there"),
    ("Expected '='", 'a key is followed by "=" and a value'),
    ("Expected ']'", 'a table heading ends with "]"'),
    ("Expected ']]'", 'the heading of a block ends with "]]"'),
    ("Invalid statement", "a line is key = value, [table], [[block]] or a # comment"),
    ("Invalid initial character", "a key is missing, or has a character that only a quoted key may have"),
    ("Invalid date", "there is no such date or time"),
    ("Unterminated string", "a string is not closed"),
    ("Illegal character '\\n'", "a string is not closed at the end of its line"),
    ("Found invalid character '\\n'", "a string is not closed at the end of its line"),
    ("Illegal character", "a control character is not allowed here"),
    ("Found invalid character", "a control character is not allowed here"),
    ("Unclosed array", 'a list has commas between its values and a "]" at its end'),
    ("Unclosed inline table", 'a table in one line has commas between its keys and a "}" at its end'),
    ("Unescaped '\\'", "a backslash is written \\\\, or the string is put into single quotes"),
    ("Escaped character", "the escape stands for no character"),
    ("Invalid hex value", "the escape stands for no character"),
)


class Parsed(NamedTuple):
    """What could be read of a text."""

    data: dict[str, Any] | None
    """None: nothing can be said beyond the errors."""
    located: Located
    errors: list[FileError]
    """Faults of syntax; where there are any, `data` lacks their lines."""


def parse(text: str, file: str) -> Parsed:
    """Read a TOML text; `file` is the name that its errors carry."""
    lines = text.replace("\r\n", "\n").split("\n")
    errors: list[FileError] = []

    def note(position: Position, path: KeyPath, message: str) -> None:
        errors.append(FileError(file, *position, key_text(path) or "TOML", message))

    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            note(Position(number, LONGEST_LINE + 1), (), f"the line is longer than {LONGEST_LINE} characters")
            return Parsed(None, locate(""), errors)
    while len(errors) < MOST_SYNTAX_ERRORS:
        current = "\n".join(lines)
        try:
            return Parsed(tomllib.loads(current), locate(current), errors)
        except RecursionError:
            note(Position(1, 1), (), "lists or tables are nested too deeply")
            break
        except ValueError as error:
            position, path, message = _fault(str(error), current, lines)
        faulty = lines[position.line - 1]
        start = _start(lines, position.line)
        if start == position.line:
            note(position, path or _key_on(faulty, locate("\n".join(lines[: start - 1])).last_table), message)
        else:
            note(position, path, f"{message} (in what starts on line {start})" if start else message)
        if start is None or len(text) > LONGEST_MENDED:
            break
        if start == position.line and _is_whole(faulty):
            lines[start - 1] = ""
        else:
            del lines[start - 1 :]
    return Parsed(None, locate(""), errors)


def _fault(reason: str, text: str, lines: list[str]) -> tuple[Position, KeyPath, str]:
    """Place, key where it is known, and words for what `tomllib` says."""
    place = _PLACE.search(reason)
    if place is None:  # Python's own refusal to read a number
        return _huge_number(text), (), "the number is too large"
    located = locate(text)
    if located.duplicates and reason.startswith(_DUPLICATES):
        duplicate = located.duplicates[0]
        name = "heading" if duplicate.is_heading else "key"
        message = f"the {name} is there already, on line {duplicate.first.line}"
        if duplicate.is_heading and duplicate.path == ("tunnel",):
            message += "; each tunnel starts with [[tunnel]]"
        return duplicate.position, duplicate.path, message
    at_end = place[1] is None
    if at_end and located.first_error:
        position = located.first_error
    elif at_end:
        position = Position(len(lines), len(lines[-1]) + 1)
    else:
        position = Position(int(place[1]), int(place[2]))
    if at_end and reason.startswith("Invalid value"):
        is_bare = lines[position.line - 1].rstrip().endswith("=")
        return position, (), "a value is missing" if is_bare else "a list or a table is not closed"
    return position, (), _words(reason, lines[position.line - 1][position.column - 1 :])


def _words(reason: str, rest: str) -> str:
    """Our words for a reason of `tomllib`; `rest` is the line from the place of the fault on."""
    if reason.startswith("Invalid value"):
        value = re.split(r"[,\]}#]", rest, maxsplit=1)[0].strip()
        if not value:
            return "a value is missing"
        if value.lower() in ("true", "false"):
            return f"{value.lower()} is written in small letters"
        return f"{value[:LONGEST_QUOTE]} is not a value; a string is written {quoted(value)}"
    for start, words in _WORDS:
        if reason.startswith(start):
            return words
    return "is not TOML"


def _huge_number(text: str) -> Position:
    digits = re.search(rf"[\d_]{{{LONGEST_INTEGER_DIGITS},}}", text)
    before = text[: digits.start()] if digits else ""
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _start(lines: list[str], line: int) -> int | None:
    """The line on which the statement on this line starts: what stands above it is TOML by itself."""
    for start in range(line, max(0, line - LONGEST_STATEMENT_LINES), -1):
        try:
            tomllib.loads("\n".join(lines[: start - 1]))
        except (ValueError, RecursionError):
            continue
        return start
    return None


def _is_whole(line: str) -> bool:
    """Whether the line is `key = value` with nothing open at its end; a lost heading would misplace the keys below."""
    balanced = all(line.count(opening) == line.count(closing) for opening, closing in ("[]", "{}"))
    return bool(_ASSIGNMENT.match(line)) and balanced and '"""' not in line and "'''" not in line


def _key_on(line: str, table: KeyPath) -> KeyPath:
    key = _ASSIGNMENT.match(line)
    return (*table, *key[1].split(".")) if key else ()
