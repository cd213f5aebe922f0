"""What the schemas of plan and testbed files share."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tunnelbench.model.text import printable

LONGEST_NAME = 80
LONGEST_TITLE = 200


def one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f'"{printable(text)}" holds a line break or another control character')
    return text


Title = Annotated[str, Field(max_length=LONGEST_TITLE), AfterValidator(one_line)]


class Table(BaseModel):
    """A table of a file: no key that is not known, no value that must be converted first."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def key_paths(model: type[Table]) -> list[tuple[str, ...]]:
    """Every key of a file, tables included."""
    paths: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        paths.append((name,))
        for annotation in (field.annotation, *get_args(field.annotation)):  # a table, or a table that may be missing
            if isinstance(annotation, type) and issubclass(annotation, Table):
                paths.extend((name, *inner) for inner in key_paths(annotation))
    return paths
