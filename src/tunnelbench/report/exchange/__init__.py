"""A run as one file for others, and back. Export removes names of people and machines; import trusts nothing."""

from tunnelbench.report.exchange.file import Exported, export
from tunnelbench.report.exchange.parse import Imported, read

__all__ = ["Exported", "Imported", "export", "read"]
