"""A limit of CPU time for code that could hang on its input."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlow(BaseException):
    """The code took more CPU time than its limit."""


@contextmanager
def cpu_time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow if the block takes more CPU time of this process than that [s]."""

    def too_slow(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
