"""Report formats, one module each: the class `Format` of a module in this folder is the format of the module's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tunnelbench.model.errors import WrongInput

if TYPE_CHECKING:
    from tunnelbench.report.document import Document, Style
    from tunnelbench.report.sheet import Sheet


class ReportFormat(ABC):
    """A format that reports are written in. Each text that it returns ends with a line break."""

    @abstractmethod
    def render(self, document: Document, style: Style) -> str:
        """Return the report of a run."""


class SheetFormat(ReportFormat):
    """A format that can also print a sheet, which is a comparison or an audit."""

    @abstractmethod
    def render_sheet(self, sheet: Sheet, style: Style) -> str:
        """Return a sheet."""


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, sorted."""
    names = (entry.name for folder in __path__ for entry in Path(folder).iterdir())
    return tuple(sorted(name.removesuffix(".py") for name in names if name.endswith(".py") and name != "__init__.py"))


def report_format(name: str) -> ReportFormat:
    """Return the format of that name. Raises WrongInput if there is none."""
    if name not in format_names():
        raise WrongInput(f"there is no report format {name!r}", hint=f"formats: {', '.join(format_names())}")
    found: ReportFormat = import_module(f"{__name__}.{name}").Format()
    return found


def sheet_format(name: str) -> SheetFormat:
    """Return the format of that name. Raises WrongInput if there is none, or if it can hold no sheet."""
    found = report_format(name)
    if not isinstance(found, SheetFormat):
        hint = f"formats of tables: {', '.join(sheet_format_names())}"
        raise WrongInput(f"the report format {name!r} has only runs", hint=hint)
    return found


def sheet_format_names() -> tuple[str, ...]:
    """Return the names of the formats that can hold a sheet. All formats are imported for it."""
    return tuple(name for name in format_names() if isinstance(report_format(name), SheetFormat))
