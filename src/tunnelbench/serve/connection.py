"""A connection of the server: uvicorn limits the time between two requests, but not the time in which one arrives."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_LIMIT_S = 10.0
"""Longest time in which the first line and the headers of a request must arrive [s]."""


class Connection(H11Protocol):
    """A connection that ends if no request arrives in time.

    The server has a largest number of connections. At that number, a new connection ends the one that has been without
    a request for longest, so that clients that send nothing do not keep others away.
    """

    _limit: asyncio.TimerHandle | None = None
    _idle_since_s = 0.0

    @property
    def is_idle(self) -> bool:
        """True if no request is being answered."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr] # None at first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        super().connection_made(transport)
        self._idle_since_s = self.loop.time()
        self._watch()
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            others = [each for each in self.connections if isinstance(each, Connection) and each is not self]
            idle = [each for each in others if each.is_idle and not each.transport.is_closing()]
            if idle:
                min(idle, key=lambda each: each._idle_since_s).transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        self._idle_since_s = self.loop.time()
        super().on_response_complete()  # sets uvicorn's limit of the time until the next request begins

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_limit()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the limit with the first byte of a request, and end it when the request is complete."""
        if not self.is_idle:
            self._end_limit()
        elif self._limit is None:
            self._limit = self.loop.call_later(REQUEST_LIMIT_S, self.transport.close)

    def _end_limit(self) -> None:
        if self._limit:
            self._limit.cancel()
            self._limit = None
