"""Reads what the pages show from the store. It changes nothing there, and follows a store that is replaced."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from tunnelbench.analysis.compare.comparison import compare
from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import Side
from tunnelbench.cli.common_options import is_server, is_store_missing
from tunnelbench.cli.soak_reports import soak_reports
from tunnelbench.model.errors import CannotHere, StoreLost, UserError, WrongInput
from tunnelbench.model.progress import RunProgress
from tunnelbench.model.result import RUNNING, RunRecord, TrialRecord
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.report.compare import sheet
from tunnelbench.report.document import Document, compose
from tunnelbench.report.formats.html import LivePage, embedded_data, page, sheet_page
from tunnelbench.store.store import VALID_RUN_ID, Store
from tunnelbench.tunnel import weights

LISTED = 50
"""Number of runs on one page of the list."""
RUNS_OFFERED = 300
"""Number of the newest runs that can be chosen for a comparison."""
LATEST = 8
"""Number of the newest trials on the page of a run."""
KEPT_PAGES = 4
"""Number of reports that are kept in memory."""
HOME_HREF = "/"
CHARTS_HREF, LIVE_HREF = "/assets/charts.js", "/assets/live.js"
RULES_HREF = "/methodology"


class NoResults(UserError):
    """There is no store yet."""


class RunState(NamedTuple):
    """A run at one moment."""

    run: RunRecord
    progress: RunProgress | None
    latest: Sequence[TrialRecord]
    """The newest trials, the newest first."""


class Results:
    """The store at one place. Its methods may be called from several threads at a time."""

    def __init__(self, location: Path | str) -> None:
        self.location = location
        self._lock = Lock()
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        self._pages: OrderedDict[Hashable, str] = OrderedDict()

    def close(self) -> None:
        """Close the store; a second call has no effect."""
        with self._lock:
            store, self._store = self._store, None
            if store:
                store.close()

    def open(self) -> Store:
        """Return the store, opened again if its file was replaced. Raises NoResults, WrongInput, CannotHere."""
        if is_store_missing(self.location):
            self.close()
            raise NoResults(f"there are no results yet at {self.location}", "measure some: tunnelbench run")
        file = _identity(self.location)
        with self._lock:
            if self._store and self._file != file:
                self._store.close()
                self._store = None
            if self._store is None:
                self._store, self._file = Store.open(self.location, create=False, upgrades=False), file
            return self._store

    def newest(self, count: int, before: str | None = None) -> list[RunRecord]:
        """Return the newest runs, or those that began before the run `before`."""
        return self.open().newest_runs(count, before=before)

    def with_ids(self, ids: Collection[str]) -> dict[str, RunRecord]:
        """Return the runs with these ids that have begun, by id."""
        return {run.run_id: run for run in self.open().newest_runs(len(ids), only=ids)} if ids else {}

    def running(self) -> list[tuple[RunRecord, RunProgress | None]]:
        """Return the runs that are listed as running, each with its progress."""
        store = self.open()
        return [(run, self._progress(store, run)) for run in store.newest_runs(LISTED, status=RUNNING)]

    def run(self, reference: str) -> RunRecord:
        """Return the run of an id, of the beginning of one, or of `last`. Raises WrongInput if there is none."""
        if not VALID_RUN_ID.fullmatch(reference):
            raise WrongInput("there is no such run", "the list of runs has all names")
        return self.open().run(reference)

    def state(self, run_id: str) -> RunState:
        """Return a run with its progress and its newest trials."""
        store = self.open()
        run = self.run(run_id)
        latest = store.trials(run_id, with_raw=False, only=store.progress(run_id).latest_trials(LATEST))
        latest.sort(key=lambda record: (record.ended_at, record.spec.sequence), reverse=True)
        return RunState(run, self._progress(store, run), latest)

    @staticmethod
    def _progress(store: Store, run: RunRecord) -> RunProgress | None:
        try:
            return store.progress(run.run_id).read() if run.status == RUNNING else None
        except StoreLost:  # the progress is no result, and says nothing about the others
            return None

    def version(self, run_id: str) -> str:
        """Return a text that changes when the report of a run changes."""
        return self.open().progress(run_id).version()

    def report(self, run_id: str) -> str:
        """Return the report of a run as a page; it fills in while the run goes on."""
        return self._kept("report", run_id, lambda version: self._report(run_id, version))

    def data(self, run_id: str) -> str:
        """Return the data of the report as JSON."""
        return self._kept("data", run_id, lambda _: embedded_data(self._document(run_id)).text)

    def _kept(self, what: str, run_id: str, make: Callable[[str], str]) -> str:
        """Return a text, which is kept in memory and made anew when its run has changed."""
        version = self.version(run_id)
        key = (what, run_id, version)
        found = self._pages.get(key) or make(version)
        with self._lock:
            self._pages[key] = found
            self._pages.move_to_end(key)
            while len(self._pages) > KEPT_PAGES:
                self._pages.popitem(last=False)
        return found

    def _document(self, run_id: str) -> Document:
        store = self.open()
        run = store.run(run_id)
        records = store.trials(run_id, with_raw=False)
        return compose(run, records, None, store.cipher_speeds(run_id), soak_reports(store, run_id))

    def _report(self, run_id: str, version: str) -> str:
        document = self._document(run_id)
        here = f"/runs/{run_id}"
        live = None
        if document.run.status == RUNNING:
            live = LivePage(LIVE_HREF, f"/events{here}/report", here, version)
        return page(
            document, index_href=HOME_HREF, library_href=CHARTS_HREF, data_href=f"{here}/data.json",
            methodology_href=RULES_HREF, live=live,
        )  # fmt: skip

    def comparison(self, a: str, b: str) -> str:
        """Return the page that compares two runs or published results. Raises WrongInput."""
        found = compare(self._side(a), self._side(b))
        return sheet_page(sheet(found, weights()), index_href=HOME_HREF, library_href=CHARTS_HREF)

    def _side(self, name: str) -> Side:
        if name in reference_names():
            return side_of_reference(read_reference(name))
        run = self.run(name)
        return side_of_run(run, self.open().trials(run.run_id, with_raw=False))


def _identity(location: Path | str) -> tuple[int, int] | None:
    """Return device and inode of the file of a store; None for a server."""
    if is_server(location):
        return None
    try:
        found = Path(location).expanduser().stat()
    except OSError as error:
        raise CannotHere(f"{location}: {error.strerror}", "start serve as a user who can read it") from None
    return found.st_dev, found.st_ino
