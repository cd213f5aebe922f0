"""Publishes the progress of a run in its store, for `tunnelbench serve`. The run does not wait for it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tunnelbench.cli.progress import Progress, describe
from tunnelbench.measure.clock_check import now
from tunnelbench.measure.request import Observer
from tunnelbench.model.plan import TrialSpec, TunnelSpec
from tunnelbench.model.progress import MOST_RATES, RunProgress
from tunnelbench.model.result import TrialRecord
from tunnelbench.model.text import printable
from tunnelbench.store.progress import ProgressTable

log = logging.getLogger(__name__)

PUBLISH_INTERVAL_S = 2.0
"""Time between two publications [s]."""
END_WAIT_S = 1.0
"""Longest wait for a publication that is under way when the run ends [s]."""


class PublishedProgress(Observer):
    """An observer that passes each event on to a `Progress`, and publishes the state from a thread of its own.

    The thread writes to the store without waiting for other writers. It stays on the CPUs of the controller, and never
    runs on the router's. A failure to publish is logged at the level of debug messages, and has no other effect.
    """

    def __init__(self, progress: Progress, table: ProgressTable) -> None:
        self._progress = progress
        self._table = table
        self._activity = "setting up the testbed"
        self._trial: TrialSpec | None = None
        self._rates_bps: deque[float] = deque(maxlen=MOST_RATES)
        self._busy_share: float | None = None
        self._ended = threading.Event()

    def tried_out(self, found: str) -> None:
        self._progress.tried_out(found)

    def cipher_starts(self, what: str) -> None:
        self._note(what)
        self._progress.cipher_starts(what)

    def tunnel_comes_up(self, tunnel: TunnelSpec, round_number: int) -> None:
        self._note(f"round {round_number}: starting and proving tunnel {tunnel.name}")
        self._progress.tunnel_comes_up(tunnel, round_number)

    def trial_starts(self, spec: TrialSpec) -> None:
        self._progress.trial_starts(spec)
        self._note(f"round {spec.round}: {describe(spec)}", spec)

    def second_passed(self, rate_bps: float, router_busy_share: float | None) -> None:
        self._rates_bps.append(max(0.0, rate_bps))
        self._busy_share = router_busy_share
        self._progress.second_passed(rate_bps, router_busy_share)

    def recovered(self, done: str) -> None:
        self._progress.recovered(done)

    def waited_for_quiet(self, seconds: float) -> None:
        self._progress.waited_for_quiet(seconds)

    def trial_ended(self, record: TrialRecord) -> None:
        self._progress.trial_ended(record)
        self._note(f"round {record.spec.round}: after {describe(record.spec)}")

    def _note(self, activity: str, trial: TrialSpec | None = None) -> None:
        self._rates_bps.clear()
        self._activity, self._trial, self._busy_share = printable(activity), trial, None

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Publish while the block runs."""
        thread = threading.Thread(target=self._publish_until_the_end, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(END_WAIT_S)

    def _publish_until_the_end(self) -> None:
        while not self._ended.wait(PUBLISH_INTERVAL_S):
            try:
                self._table.publish(self._state())
            except Exception as error:  # noqa: BLE001 # whatever it is, the run continues
                log.debug("the progress was not published: %s", printable(f"{type(error).__name__}: {error}"))
        with suppress(Exception):
            self._table.close()

    def _state(self) -> RunProgress:
        progress, trial = self._progress, self._trial
        return RunProgress(
            updated_at=now(),
            activity=self._activity,
            trials_done=progress.done,
            left_s=progress.left_s,
            trial_passed_s=max(0.0, time.monotonic() - progress.trial_started_s) if trial else None,
            trial_expected_s=progress.plan.expected_trial_s(trial) if trial else None,
            rates_bps=tuple(self._rates_bps),
            router_busy_share=self._busy_share,
        )
