"""Values against schemas: what pydantic finds, in words for the one who wrote the file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from tunnelbench.model.plan import OptionValue
from tunnelbench.plan.errors import Faults
from tunnelbench.plan.locate import KeyPath
from tunnelbench.plan.tables import Table
from tunnelbench.plan.wording import did_you_mean, key_text, nearest, not_one_of, value_text

AnyTable = TypeVar("AnyTable", bound=Table)

_TYPES = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "a table",
    "model": "a table",
}
"""The first word of pydantic's error types, such as `int_type`, `int_from_float`, `model_type`."""

_BOUNDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than_equal": lambda context: f"must be at least {_number(context['ge'])}",
    "greater_than": lambda context: f"must be more than {_number(context['gt'])}",
    "less_than_equal": lambda context: f"must be at most {_number(context['le'])}",
    "less_than": lambda context: f"must be less than {_number(context['lt'])}",
    "multiple_of": lambda context: f"must be a multiple of {_number(context['multiple_of'])}",
    "string_pattern_mismatch": lambda context: f"must match {context['pattern']}",
}

_LENGTHS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "string_too_short": lambda context: f"must have at least {_count(context['min_length'], 'character')}",
    "string_too_long": lambda context: f"must have at most {_count(context['max_length'], 'character')}",
    "too_short": lambda context: f"must have at least {_count(context['min_length'], 'value')}",
    "too_long": lambda context: f"must have at most {_count(context['max_length'], 'value')}",
}


class Problem(NamedTuple):
    """One finding of a schema."""

    path: KeyPath
    """Below what was checked; empty: the options do not go together."""
    message: str


def check_table(
    model: type[AnyTable], data: Mapping[str, Any], known: Sequence[KeyPath], faults: Faults
) -> AnyTable | None:
    """Values of a file as its model, or None with every fault noted; `known` are all keys of such a file."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        for details in error.errors():
            path = details["loc"]
            message = unknown_key(path, known) if details["type"] == "extra_forbidden" else _words(details)
            faults.add(path, message, needs_whole_file=details["type"] == "missing")
        return None


def check_options(
    schema: type[BaseModel], options: Mapping[str, OptionValue]
) -> tuple[dict[str, OptionValue], list[Problem]]:
    """All options of a tunnel, defaults filled in, or what is wrong with those given.

    Options that a schema leaves at None are left out. Checked as JSON, for that is the way to have pydantic take a
    string for an enumeration's value and yet no string for a number.
    """
    try:
        model = schema.model_validate_json(json.dumps(options), strict=True)
    except ValidationError as error:
        return {}, _merged(Problem(details["loc"][:1], _words(details)) for details in error.errors())
    values = model.model_dump(mode="json", include=set(schema.model_fields))
    return {key: value for key, value in values.items() if value is not None}, []


def unknown_key(path: KeyPath, known: Sequence[KeyPath]) -> str:
    """What to say of a key that is not known there: it belongs elsewhere, or another was meant."""
    key, table = str(path[-1]), path[:-1]
    elsewhere = next((other for other in known if other[-1] == key), None)
    if elsewhere and len(elsewhere) == 1:
        return f"unknown key; {key} belongs at the top of the file, above the first table"
    if elsewhere:
        return f"unknown key; did you mean {key_text(elsewhere)}?"
    siblings = [str(other[-1]) for other in known if other[:-1] == table]
    if meant := nearest(key, siblings):
        # Of a tunnel's options the name is enough, its number says nothing.
        return f"unknown key; did you mean {meant if len(table) > 1 else key_text((*table, meant))}?"
    hint = did_you_mean(key, (key_text(other) for other in known if other[:-1] != table))
    return f"unknown key{hint}" if hint else f"unknown key; known are {', '.join(dict.fromkeys(siblings))}"


def _merged(problems: Iterable[Problem]) -> list[Problem]:
    """One problem for each option: a union of types is at fault in each of its types."""
    messages: dict[KeyPath, list[str]] = {}
    for path, message in problems:
        if message not in messages.setdefault(path, []):
            messages[path].append(message)
    return [Problem(path, "; or ".join(all_of_path)) for path, all_of_path in messages.items()]


def _words(details: ErrorDetails) -> str:
    """Our words for one error of pydantic."""
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    if kind == "missing":
        return "is missing"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind in ("literal_error", "enum"):
        return not_one_of(
            value, [text or number for text, number in re.findall(r"'([^']*)'|(-?\d+)", context["expected"])]
        )
    if bound := _BOUNDS.get(kind):
        return f"{bound(context)}, not {value_text(value)}"
    if length := _LENGTHS.get(kind):
        return length(context)
    if type_name := _TYPES.get(kind.split("_")[0]):
        the_string = "the string " * isinstance(value, str)
        return f"must be {type_name}, not {the_string}{value_text(value)}"
    if kind not in get_args(ErrorType):  # raised by a schema as PydanticCustomError, in its own words
        return details["msg"]
    return f"must not be {value_text(value)}"


def _number(bound: Any) -> str:
    return f"{bound:.0f}" if isinstance(bound, float) and bound.is_integer() else str(bound)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
