"""Entry point of the command `tunnelbench`.

A Ctrl-C ends the process at once until the command line handles signals, as SIGTERM does. Python would raise
KeyboardInterrupt, and it drops an exception in the callback of a weak reference, which each import has: the program
would go on as if nobody had pressed Ctrl-C.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background ignores SIGINT
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tunnelbench.cli import main  # this import takes most of the time

__all__ = ["main"]
