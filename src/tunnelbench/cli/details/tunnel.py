"""Show a kind of tunnel: its description, its requirements, its options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from tunnelbench.cli.availability import Availability, availability, carried_by, kinds
from tunnelbench.cli.common_options import emit, emit_json
from tunnelbench.cli.layout import cell, columns, drawn, facts, findings, heading, title, word
from tunnelbench.host.preflight import probing_host
from tunnelbench.report.text import one_line
from tunnelbench.tunnel import PLANNED, adapter

TYPE_WORDS = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "string"}


def show(kind: str, *, as_json: bool) -> None:
    """Write a kind of tunnel in full."""
    with probing_host() as host:
        here = availability(kind, host)
    about, tested_with, options = described(kind)
    added = adapter(kind).added_bytes if kind not in PLANNED else {}
    if as_json:
        # fmt: off
        emit_json({"kind": kind, "title": kinds()[kind], "about": about, "tested_with": tested_with,
                   "available": here.answer, "carried_by": carried_by(kind, here),
                   "needs": here.needs, "options": options, "added_bytes": added})
        # fmt: on
    else:
        kernel = carried_by(kind, here)
        emit(drawn(title(f"{kind}: {kinds()[kind]}"), *picture(about, tested_with, here, options, kernel, added=added)))


def described(kind: str) -> tuple[str, str, Mapping[str, Mapping[str, Any]]]:
    """Return an adapter's description, the versions it was tested with, and the JSON schema of each option."""
    if kind in PLANNED:
        return "A plan may name it; its rows then report that there is no adapter yet.", "", {}
    tunnel = adapter(kind)
    schema = tunnel.options_type.model_json_schema()
    options = resolved(schema["properties"], schema.get("$defs", {}))
    return inspect.getdoc(tunnel) or "", tunnel.tested_with, options


def resolved(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a part of a JSON schema in which each reference is replaced by what it refers to."""
    if isinstance(schema, list):
        return [resolved(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    referred = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
    return referred | {key: resolved(value, definitions) for key, value in schema.items() if key != "$ref"}


def picture(
    about: str,
    tested_with: str,
    here: Availability,
    options: Mapping[str, Mapping[str, Any]],
    kernel: str,
    *,
    added: Mapping[str, str],
) -> Iterator[RenderableType]:
    """Yield the parts of a tunnel's description for people, without its title."""
    for paragraph in about.split("\n\n"):
        yield cell(paragraph)
    yield Text()
    tested = [("Tested with", tested_with)] if tested_with else []
    yield facts([("Available here", word(here.answer)), ("Kernel with support", kernel), *tested])
    if here.needs:
        yield heading("Needs")
        yield from findings([(word(need.status), need.name, need.found, need.remedy) for need in here.needs])
    if added:
        yield heading("Bytes added to a packet")
        yield columns([(variant.replace("`", ""), text.replace("`", "")) for variant, text in added.items()])
    if options:
        yield heading("Options")
        rows = [(key, default_text(schema.get("default")), meaning(schema)) for key, schema in options.items()]
        yield columns(rows, ("key", "default", "meaning"))


def default_text(value: Any) -> str:
    """Format an option's default in the syntax of a plan; empty if there is none."""
    return "" if value is None else str(value)


def meaning(schema: Mapping[str, Any]) -> Text:
    """Describe an option, and below that its values."""
    return cell(schema.get("description", "")).append(f"\n{one_line(type_text(schema))}", style="dim")


def type_text(schema: Mapping[str, Any]) -> str:
    """Describe the JSON schema of an option. The default shows whether a plan may leave the option out."""
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
