"""A run as one file to pass on, and back: what names people and machines is taken out, what comes in is not trusted."""

from tunnelbench.report.exchange.file import Exported, export
from tunnelbench.report.exchange.reading import Imported, read

__all__ = ["Exported", "Imported", "export", "read"]
