"""Published results that ship: `data/references/NAME.toml` says what they are, `NAME.csv` beside it holds the rows."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.reference import Comparability, Comparable, Reference

CLASSES_FILE = "classes.toml"


def reference_names() -> list[str]:
    """Names of all references, sorted."""
    return sorted(entry.name.removesuffix(".csv") for entry in _folder().iterdir() if entry.name.endswith(".csv"))


@cache
def read_reference(name: str) -> Reference:
    """The reference of that name; WrongInput where there is none."""
    names = reference_names()
    if name not in names:
        raise WrongInput(f"there is no reference {name!r}", f"references: {', '.join(names)}")
    head = tomllib.loads(_text(f"{name}.toml"))
    columns = tuple(head["columns"])
    everywhere = head.get("every_row", {})
    rows = [{**everywhere, **row} for row in csv.DictReader(io.StringIO(_text(f"{name}.csv")), strict=True)]
    return Reference(
        name=name,
        title=head["title"],
        source=head["source"],
        url=head.get("url", ""),
        date=head["date"],
        method=head["method"],
        comparability=_classes()[head["comparability"]],
        columns=columns,
        rows=tuple({column: row[column] for column in columns} for row in rows),
    )


def _folder() -> Traversable:
    return files("tunnelbench") / "data" / "references"


def _text(file: str) -> str:
    return (_folder() / file).read_text(encoding="utf-8")


@cache
def _classes() -> Mapping[str, Comparability]:
    return {
        name: Comparability(name, Comparable(each["comparable"]), each["meaning"])
        for name, each in tomllib.loads(_text(CLASSES_FILE)).items()
    }
