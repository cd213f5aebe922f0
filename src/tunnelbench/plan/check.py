"""Checks of values against schemas, and messages for the errors that pydantic finds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from tunnelbench.model.plan import OptionValue
from tunnelbench.model.text import counted
from tunnelbench.plan.errors import Faults
from tunnelbench.plan.key_positions import KeyPath
from tunnelbench.plan.messages import did_you_mean, key_text, nearest, not_one_of, value_text
from tunnelbench.plan.schema_base import TomlTable

AnyTable = TypeVar("AnyTable", bound=TomlTable)

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
    "string_too_short": lambda context: f"must have at least {counted(context['min_length'], 'character')}",
    "string_too_long": lambda context: f"must have at most {counted(context['max_length'], 'character')}",
    "too_short": lambda context: f"must have at least {counted(context['min_length'], 'value')}",
    "too_long": lambda context: f"must have at most {counted(context['max_length'], 'value')}",
}


_AMOUNTS = ("bytes", "amount", "amount_mb", "amount_bytes")
_NO_AMOUNT = (
    "a TCP trial has a duration and no amount of data, which would take minutes through a slow tunnel and a fraction "
    "of a second without one: set tcp.duration_s"
)
_REKEY = 'a change of keys is a test of UDP: set udp.test = "rekey", as in the shipped plan rekey'
ABSENT_KEYS: Mapping[KeyPath, str] = {("rekey",): _REKEY, **{("tcp", key): _NO_AMOUNT for key in _AMOUNTS}}
"""Keys that plans intentionally lack, each with the reason (docs/out-of-scope.md) or with the key that serves."""


class Problem(NamedTuple):
    """One error that a schema finds."""

    path: KeyPath
    """Keys from the checked table to the wrong value; empty if the error is that options contradict each other."""
    message: str


def check_table(
    model: type[AnyTable], data: Mapping[str, Any], known: Sequence[KeyPath], faults: Faults
) -> AnyTable | None:
    """Return the values of a file as its model, or None with all errors added; `known` are all keys of such a file."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        for details in error.errors():
            path = details["loc"]
            message = unknown_key(path, known) if details["type"] == "extra_forbidden" else error_words(details)
            faults.add(path, message)
        return None


def check_options(
    schema: type[BaseModel], options: Mapping[str, OptionValue]
) -> tuple[dict[str, OptionValue], list[Problem]]:
    """Return all options of a tunnel, defaults included, or the errors of the given ones.

    The result has no options with the value None. pydantic checks the options as JSON, because only then it accepts a
    string for a value of an enumeration and still no string for a number.
    """
    try:
        model = schema.model_validate_json(json.dumps(options), strict=True)
    except ValidationError as error:
        return {}, _merged(Problem(details["loc"][:1], error_words(details)) for details in error.errors())
    values = model.model_dump(mode="json", include=set(schema.model_fields))
    return {key: value for key, value in values.items() if value is not None}, []


def unknown_key(path: KeyPath, known: Sequence[KeyPath]) -> str:
    """Return the message for an unknown key: plans intentionally lack it, it belongs in another table, or a similar key
    was meant."""
    if reason := ABSENT_KEYS.get(path):
        return reason
    key, table = str(path[-1]), path[:-1]
    with_same_name = next((other for other in known if other[-1] == key), None)
    if with_same_name and any(other[:-1] == with_same_name for other in known):
        return f"unknown key; [{key}] is a table of its own"
    if with_same_name and len(with_same_name) == 1:
        return f"unknown key; {key} belongs at the top of the file, above the first table"
    if with_same_name:
        return f"unknown key; did you mean {key_text(with_same_name)}?"
    siblings = [str(other[-1]) for other in known if other[:-1] == table]
    if meant := nearest(key, siblings):
        # the name is enough for a tunnel's option: the number of its block does not help
        return f"unknown key; did you mean {meant if len(table) > 1 else key_text((*table, meant))}?"
    hint = did_you_mean(key, (key_text(other) for other in known if other[:-1] != table))
    return f"unknown key{hint}" if hint else f"unknown key; known are {', '.join(dict.fromkeys(siblings))}"


def _merged(problems: Iterable[Problem]) -> list[Problem]:
    """Join the problems of each option: pydantic reports one for each type of a union."""
    messages: dict[KeyPath, list[str]] = {}
    for path, message in problems:
        if message not in messages.setdefault(path, []):
            messages[path].append(message)
    return [Problem(path, "; or ".join(all_of_path)) for path, all_of_path in messages.items()]


def error_words(details: ErrorDetails) -> str:
    """Return TunnelBench's message for one error that pydantic found."""
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
    if kind not in get_args(ErrorType):  # a schema raised PydanticCustomError with its own message
        return details["msg"]
    return f"must not be {value_text(value)}"


def _number(bound: Any) -> str:
    return f"{bound:.0f}" if isinstance(bound, float) and bound.is_integer() else str(bound)
