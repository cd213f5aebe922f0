"""Coroutines in tests that may share a process with tests of a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

R = TypeVar("R")


def in_own_loop(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in a thread: tests of a browser leave an event loop running in the main thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
