"""Makes a tunnel of each combination of the values in a `[[tunnel]]` block, and names the tunnels."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from tunnelbench.model.plan import BASELINE_KIND, BASELINE_NAME, OptionValue

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
"""Placeholder in a name, such as `{cipher}`."""


def count(choices: Mapping[str, Sequence[OptionValue]]) -> int:
    """Return the number of combinations of the lists."""
    return math.prod(len(values) for values in choices.values())


def combinations(choices: Mapping[str, Sequence[OptionValue]]) -> Iterator[dict[str, OptionValue]]:
    """Yield one dictionary for each combination; the first option varies slowest."""
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


def filled_name(template: str, options: Mapping[str, OptionValue]) -> str:
    """Return a template of a name with its placeholders replaced by values; an option without a value is shown as
    default."""
    return PLACEHOLDER.sub(lambda match: option_text(options[match[1]]) if match[1] in options else "default", template)


def default_name(
    kind: str,
    options: Mapping[str, OptionValue],
    defaults: Mapping[str, object],
    varied: frozenset[str],
) -> str:
    """Return the kind, then `key=value` for each option that differs from its default or that the plan varies.

    The baseline is `no tunnel`, because "none" could be taken for a cipher.
    """
    named = (
        f"{key}={option_text(value)}"
        for key, value in options.items()
        if key in varied or key not in defaults or defaults[key] != value
    )
    return " ".join((BASELINE_NAME if kind == BASELINE_KIND else kind, *named))


def option_text(value: OptionValue) -> str:
    """Return a value as TOML writes it, strings without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
