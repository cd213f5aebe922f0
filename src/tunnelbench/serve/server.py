"""Starts the server of the pages, and ends it when a signal asks for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType

import uvicorn

from tunnelbench.cli.common_options import is_store_missing
from tunnelbench.serve.access import Access
from tunnelbench.serve.connection import Connection
from tunnelbench.serve.queue import opened_queue
from tunnelbench.serve.results import Results
from tunnelbench.serve.site import Site

MOST_CONNECTIONS = 200
"""Largest number of open connections; if all of them have requests, further ones get the status 503."""
LARGEST_HEAD_BYTES = 16384
"""Largest size of the first line and the headers of a request."""
LOWEST_PRIORITY = 19


class PageServer(uvicorn.Server):
    """A server that ends the streams of events first, which would hold it up."""

    def __init__(self, config: uvicorn.Config, site: Site) -> None:
        super().__init__(config)
        self._site = site

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._site.end()


def serve(listener: socket.socket, location: Path | str, access: Access, say: Callable[[str], object]) -> None:
    """Serve the pages until a signal. Raises WrongInput or CannotHere if the store cannot be read."""
    with closing(Results(location)) as results, opened_queue(location) as queue:
        if not is_store_missing(location):
            results.open()
        address, port = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        say(f"tunnelbench: the pages are at http://{shown}:{port}/ (Ctrl-C ends the server)")
        site = Site(results, queue, access, say)
        config = uvicorn.Config(
            site.app(),
            http=Connection, ws="none", loop="asyncio", lifespan="off", interface="asgi3",
            log_config=None, access_log=False, server_header=False, proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS, h11_max_incomplete_event_size=LARGEST_HEAD_BYTES,
            timeout_keep_alive=10, timeout_graceful_shutdown=1,
        )  # fmt: skip
        with suppress(OSError):  # a run on this machine comes first
            os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
        PageServer(config, site).run(sockets=[listener])
