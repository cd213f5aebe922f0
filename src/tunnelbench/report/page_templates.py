"""The templates of HTML pages, and the files that pages include."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = "report/templates"


@cache
def resource(folder: str, name: str) -> str:
    """Return the text of a file of the package."""
    return files("tunnelbench").joinpath(folder, name).read_text(encoding="utf-8")


def environment(filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Return Jinja's environment for templates that use some filters. It escapes each text that it inserts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - 60 ms, only for pages

    found = Environment(
        loader=PackageLoader("tunnelbench", TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(filters)
    return found
