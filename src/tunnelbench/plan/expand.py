"""Lists of options to their product, and names for what comes out. Nothing here reads, writes or checks."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from tunnelbench.model.plan import OptionValue

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
"""`{cipher}` in a name."""


def count(choices: Mapping[str, Sequence[OptionValue]]) -> int:
    """How many combinations the lists give."""
    return math.prod(len(values) for values in choices.values())


def combinations(choices: Mapping[str, Sequence[OptionValue]]) -> Iterator[dict[str, OptionValue]]:
    """One dictionary for each combination; the first option varies slowest."""
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def filled_name(template: str, options: Mapping[str, OptionValue]) -> str:
    """The template with the values of the options it names; an option without a value is at its program's default."""
    return PLACEHOLDER.sub(lambda match: option_text(options[match[1]]) if match[1] in options else "default", template)


def default_name(
    kind: str,
    options: Mapping[str, OptionValue],
    defaults: Mapping[str, object],
    varied: frozenset[str],
) -> str:
    """The kind, then `key=value` for what differs from the defaults and for what the plan varies, in its order."""
    named = (
        f"{key}={option_text(value)}"
        for key, value in options.items()
        if key in varied or key not in defaults or defaults[key] != value
    )
    return " ".join((kind, *named))


def option_text(value: OptionValue) -> str:
    """A value as TOML writes it, strings without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
