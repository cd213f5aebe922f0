"""The signals that ask the controller to end, and the exception that each becomes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import CodeType, FrameType
from typing import Any, ClassVar, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

ASK_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

REPEAT = signal.SIGALRM
"""Signal that raises a lost AskedToEnd again."""

REPEAT_S = 0.01
"""Time from the loss of an AskedToEnd to the signal that raises it again [s]."""


class AskedToEnd(BaseException):
    """A signal asked the controller to end: everything is taken down while this exception travels up to `cli`.

    The exception can be lost on its way. Python drops an exception that leaves a `__del__` method (such as that of
    `Popen`) or the callback of a weak reference (such as that of an import), and code can replace it by an error that
    is handled. Therefore an exception that is deleted before `cli` has caught it asks for REPEAT.
    """

    is_repeated: ClassVar[bool] = False
    """True from the start of `cli` until it has caught the exception or has nothing left to take down."""
    number: ClassVar[int] = signal.SIGINT
    """Signal that asked."""

    def __del__(self) -> None:
        if AskedToEnd.is_repeated:
            ask_again()


def ask_again() -> None:
    """Ask for REPEAT. The repeated signal comes after a delay: at a place where an exception is lost, one that comes at
    once would be lost, too."""
    signal.setitimer(signal.ITIMER_REAL, REPEAT_S)


def asking_to_end() -> list[signal.Signals]:
    """Return the signals that ask to end, without those that the parent process ignores, as `nohup` does."""
    return [number for number in ASK_TO_END if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C inside the block. A program that the block starts does not ignore it: `exec` resets handlers."""
    previous = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


class Undisturbed:
    """Holds back signals that ask to end until a block or a function is left, then raises them.

    A signal in the middle of taking down would leave a part of the set-up behind. `undisturbed` is the only instance:
    write `with undisturbed:`, or decorate a function with `@undisturbed`. Blocks may stand in each other.
    """

    def __init__(self) -> None:
        self._previous: list[dict[int, Any]] = []
        """Handlers that each block has replaced, the outermost block first."""
        self._held: list[int] = []
        self._beginnings: set[CodeType] = {Undisturbed.__enter__.__code__}
        """Code that begins to hold signals back."""

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        def held_back(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        self._beginnings.add(held_back.__code__)
        return wraps(function)(held_back)

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Python runs signal handlers in the main thread only
        numbers = [*asking_to_end(), *([REPEAT] if callable(signal.getsignal(REPEAT)) else [])]
        # Handlers instead of a signal mask: a thread that draws would receive the signals that this one masks.
        self._previous.append({number: signal.signal(number, self._hold) for number in numbers})

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._previous.pop().items():
            signal.signal(number, handler)
        if not self._previous:
            held, self._held = self._held, []
            for heard in held:
                signal.raise_signal(heard)

    def _hold(self, number: int, _frame: FrameType | None) -> None:
        self._held.append(number)

    def is_beginning(self, frame: FrameType | None) -> bool:
        """Return True if a signal handler has interrupted the start of a block or function that is `undisturbed`.

        Python runs a handler as early as at the first instruction of `__enter__`, when no handler is replaced yet.
        """
        while frame is not None and frame.f_code not in self._beginnings:
            frame = frame.f_back
        return frame is not None


undisturbed = Undisturbed()
