"""A kind of tunnel: what it is, what it needs, its options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tunnelbench.cli.drawing import cell, columns, drawn, facts, heading, title, word
from tunnelbench.cli.needs import Availability, availability, carried_by, kinds
from tunnelbench.cli.output import emit, emit_json
from tunnelbench.host.readiness import probing_host
from tunnelbench.report.text import one_line
from tunnelbench.tunnel import PLANNED, adapter

TYPE_WORDS = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "string"}


def show(kind: str, *, as_json: bool) -> None:
    """Write what there is to say of a known kind."""
    with probing_host() as host:
        here = availability(kind, host)
    about, tested_with, options = described(kind)
    if as_json:
        # fmt: off
        emit_json({"kind": kind, "title": kinds()[kind], "about": about, "tested_with": tested_with,
                   "available": here.answer, "carried_by": carried_by(kind, here),
                   "needs": here.needs, "options": options})
        # fmt: on
    else:
        kernel = carried_by(kind, here)
        emit(drawn(title(f"{kind}: {kinds()[kind]}"), *picture(about, tested_with, here, options, kernel)))


def described(kind: str) -> tuple[str, str, Mapping[str, Mapping[str, Any]]]:
    """What an adapter says of itself, what it was tested with, and the JSON schema of each of its options."""
    if kind in PLANNED:
        return "A plan may name it; its rows then say that it has no adapter yet.", "", {}
    tunnel = adapter(kind)
    return inspect.getdoc(tunnel) or "", tunnel.tested_with, tunnel.options_type.model_json_schema()["properties"]


def picture(
    about: str, tested_with: str, here: Availability, options: Mapping[str, Mapping[str, Any]], kernel: str
) -> Iterator[RenderableType]:
    """All of it but the title, for people."""
    for paragraph in about.split("\n\n"):
        yield cell(paragraph)
    yield Text()
    tested = [("Tested with", tested_with)] if tested_with else []
    yield facts([("Available here", word(here.answer)), ("Kernel to carry it", kernel), *tested])
    if here.needs:
        yield heading("Needs")
        yield columns([(word(need.status), need.name, need.remedy or need.found) for need in here.needs])
    if options:
        yield heading("Options")
        rows = [(key, default_text(schema.get("default")), meaning(schema)) for key, schema in options.items()]
        yield columns(rows, ("key", "default", "meaning"))


def default_text(value: Any) -> str:
    """A default as a plan would have it; empty where the option may be left out for good."""
    return "" if value is None else str(value)


def meaning(schema: Mapping[str, Any]) -> Text:
    """What an option means, and below that what it may be."""
    return cell(schema.get("description", "")).append(f"\n{one_line(type_text(schema))}", style="dim")


def type_text(schema: Mapping[str, Any]) -> str:
    """The JSON schema of an option in words; that it may be left out is told by its default."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return type_text(choice)
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    text = TYPE_WORDS.get(schema.get("type", ""), "value")
    for key, preposition in (("minimum", "from"), ("maximum", "to"), ("pattern", "that matches")):
        if key in schema:
            text += f" {preposition} {schema[key]}"
    return text
