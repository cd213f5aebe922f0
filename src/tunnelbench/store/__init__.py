"""The store of all runs. Each trial is committed when it ends."""

from tunnelbench.store.location import default_path
from tunnelbench.store.store import Store

__all__ = ["Store", "default_path"]
