"""Conversion of a TOML text to values and key positions; the first syntax error ends it."""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from tunnelbench.model.toml_text import MOST_DOTS_IN_LINE, line_with_many_dots
from tunnelbench.plan.errors import FileError, FileErrors
from tunnelbench.plan.key_positions import Located, Position, first_syntax_error, locate
from tunnelbench.plan.messages import LONGEST_QUOTE, quoted

LONGEST_LINE = 10_000
"""Longest line that is read [characters]."""

LONGEST_INTEGER_DIGITS = 4300
"""Python's limit (sys.set_int_max_str_digits); TOML itself asks for 64 bits."""

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

_DUPLICATES = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Cannot redefine", "Duplicate inline table key")
"""First words of the messages of `tomllib` for a key or heading that occurs twice."""


class Parsed(NamedTuple):
    """The content of a TOML text."""

    data: dict[str, Any]
    located: Located


def parse(text: str, file: str) -> Parsed:
    """Read a TOML text; `file` is the name in error messages. Raises FileErrors with the first syntax error."""
    text = text.replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > LONGEST_LINE:
            message = f"the line is longer than {LONGEST_LINE} characters"
            raise _error(file, Position(number, LONGEST_LINE + 1), message)
    if (line_number := line_with_many_dots(text)) is not None:
        raise _error(file, Position(line_number, 1), f"the line has more than {MOST_DOTS_IN_LINE} dots")
    try:
        return Parsed(tomllib.loads(text), locate(text))
    except RecursionError as error:
        raise _error(file, Position(1, 1), "lists or tables are nested too deeply") from error
    except ValueError as error:
        raise _error(file, *_explanation(str(error), text)) from error


def _error(file: str, position: Position, message: str) -> FileErrors:
    return FileErrors([FileError(file, *position, "TOML", message)])


def _explanation(reason: str, text: str) -> tuple[Position, str]:
    """Return the position and a message for an error of `tomllib`."""
    place = _PLACE.search(reason)
    if place is None:  # Python itself refuses to read the number
        return _huge_number(text), "the number is too large"
    lines = text.split("\n")
    if place[1]:
        position = Position(int(place[1]), int(place[2]))
    else:
        position = first_syntax_error(text) or Position(len(lines), len(lines[-1]) + 1)
    return position, _message(reason[: place.start()], lines[position.line - 1][position.column - 1 :], not place[1])


def _message(reason: str, rest: str, is_at_end: bool) -> str:
    """Return TunnelBench's message for a message of `tomllib`; `rest` is the rest of the line, from the error on."""
    if reason.startswith("Invalid value"):
        value = re.split(r"[,\]}#]", rest, maxsplit=1)[0].strip()
        if not value or is_at_end:
            return "a value is missing or not complete"
        if value.lower() in ("true", "false"):
            return f"{value.lower()} is written in small letters"
        return f"{value[:LONGEST_QUOTE]} is not a value; a string is written {quoted(value)}"
    if reason.startswith(_DUPLICATES):
        blocks = "; each tunnel starts with [[tunnel]]" if "('tunnel',)" in reason else ""
        return f"the key or table is there already{blocks}"
    if reason.endswith("character '\\n'"):
        return "a string is not closed at the end of its line"
    return f"{reason[0].lower()}{reason[1:]}"


def _huge_number(text: str) -> Position:
    digits = re.search(rf"[\d_]{{{LONGEST_INTEGER_DIGITS},}}", text)
    before = text[: digits.start()] if digits else ""
    return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
