"""The counts of a trial of TCP connections, and the figures that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

FULL_TRACKER_SHARE = 0.99
"""Share of its limit from which a list of connections counts as full: it is read five times a second only."""


@dataclass(frozen=True)
class TrackerReading:
    """Connection tracking of the router, read at one moment."""

    entries: int
    """Connections that the router's kernel tracks."""
    limit: int | None
    """Most connections that the kernel tracks (nf_conntrack_max); None: not reported."""


@dataclass(frozen=True)
class ConnectionCounts:
    """The counts of both ends of one trial. Each connection that was begun has exactly one outcome: established,
    refused, timed out or failed."""

    duration_s: float
    """Time in which connections were opened [s]."""
    intended_per_s: float | None
    """Intended rate of new connections; None: as fast as possible."""
    begun: int
    established: int
    """Connections on which the far end's answer arrived."""
    refused: int
    timed_out: int
    failed: int
    closed: int
    """Established connections that both ends closed in order."""
    broken: int
    """Established connections that ended in another way."""
    unsent: int
    """Connections that the client's kernel refused to begin, because no port or no memory was free."""
    open_max: int
    """Most connections that were established at the same time."""
    accepted: int
    """Connections that the program at the far end accepted."""
    opening_s: float
    """Time from the first to the last established connection [s]."""
    establishment_p50_ns: float | None = None
    establishment_p99_ns: float | None = None
    establishment_max_ns: float | None = None
    """Time from the begin of a connection to the far end's answer: median, 99th percentile, longest; None: no
    connection was established."""
    tracked_before: TrackerReading | None = None
    tracked_most: TrackerReading | None = None
    """Reading with the most entries during the trial; None: the router reports none."""

    @property
    def established_per_s(self) -> float:
        """New connections per second."""
        return (self.established - 1) / self.opening_s if self.established > 1 and self.opening_s else 0.0

    @property
    def not_established(self) -> int:
        """Connections that were begun and not established."""
        return self.begun - self.established

    @property
    def has_full_tracker(self) -> bool:
        """True if the router's list of connections reached its limit, as far as the readings show it."""
        most = self.tracked_most
        return most is not None and most.limit is not None and most.entries >= most.limit * FULL_TRACKER_SHARE

    @property
    def shows_limit(self) -> bool:
        """True if connections were not established because a list was full: the router says so, or they are those that
        were begun last.

        A list with room for some establishes them as fast as they are begun, and then no more. On a path that is too
        slow for the opening rate, others are still established. The line between both is half of the time in which
        those that are not established would have been begun.
        """
        if not self.not_established or self.intended_per_s is None:
            return False
        return (
            self.has_full_tracker
            or self.opening_s * self.intended_per_s <= self.established - 1 + self.not_established / 2
        )

    @property
    def tracked(self) -> int | None:
        """Connections in the list of the router's tracking, at most, those of earlier trials included; None: unknown.

        A new connection takes the entry of an earlier one with the same ports, so the growth of the list says less.
        """
        return None if self.tracked_most is None else self.tracked_most.entries
