"""Where results are kept: one store for all runs, each trial committed when it ends."""

from tunnelbench.store.location import default_path
from tunnelbench.store.store import Store

__all__ = ["Store", "default_path"]
