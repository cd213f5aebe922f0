"""Entry point of the command `tunnelbench`.

Until the command line handles signals, Ctrl-C ends the process at once, as SIGTERM does. Otherwise Python would raise
KeyboardInterrupt. Python drops an exception that is raised in the callback of a weak reference, and such a callback
runs at each import; the program would then continue in spite of Ctrl-C.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background ignores SIGINT
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from tunnelbench.cli import main  # this import takes most of the time

__all__ = ["main"]
