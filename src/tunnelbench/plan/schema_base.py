"""Base class of the schemas of plan and testbed files."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tunnelbench.model.text import printable

LONGEST_TUNNEL_NAME = 80
LONGEST_TITLE = 200


def one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f'"{printable(text)}" holds a line break or another control character')
    return text


Title = Annotated[str, Field(max_length=LONGEST_TITLE), AfterValidator(one_line)]


class TomlTable(BaseModel):
    """A table of a file. It accepts no unknown key, and no value that needs a conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    def as_fields(self) -> dict[str, Any]:
        """Return the values by key, with lists as tuples, as arguments for a dataclass of the package `model`."""
        return {key: tuple(value) if isinstance(value, list) else value for key, value in self}


def key_paths(model: type[TomlTable]) -> list[tuple[str, ...]]:
    """Return every key of a file, tables included."""
    paths: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        paths.append((name,))
        for annotation in (field.annotation, *get_args(field.annotation)):  # a table, or an optional table
            if isinstance(annotation, type) and issubclass(annotation, TomlTable):
                paths.extend((name, *inner) for inner in key_paths(annotation))
    return paths
