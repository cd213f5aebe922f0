"""A figure of a report: its name, unit and heading, where it is read from, and how it is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tunnelbench.analysis.connections import ConnectionRow
from tunnelbench.analysis.number_format import percent, significant
from tunnelbench.analysis.statistics import Estimate, estimate_known
from tunnelbench.analysis.summary import Row
from tunnelbench.analysis.udp import UdpRow
from tunnelbench.model.result import TrialRecord
from tunnelbench.report.text import one_line

PLACE = "place"
"""Key of the terminal's first column, which names payload, direction and test; `Figure.under` may name this key."""

AnyRow = Row | UdpRow | ConnectionRow

Read = Callable[[Any], Any]
"""Function from the source of a figure, such as a measurement, to its value; None if there is no value."""


class Spread(Enum):
    """The formats that print the spread of a figure: its lowest and highest value or an interval."""

    EVERYWHERE = "everywhere"
    NOT_IN_TERMINAL = "not in the terminal"
    NOWHERE = "nowhere"


@dataclass(frozen=True)
class FigureText:
    """The text of a figure in a table; empty if there is no figure."""

    median: str = ""
    spread: str = ""
    """Lowest and highest value; empty if their texts equal that of the median."""
    note: str = ""
    """Short remark that is printed with the figure."""
    is_best: bool = False
    is_lower_bound: bool = False
    """True if the testers were the limit, so that the router may do better."""

    def __bool__(self) -> bool:
        return bool(self.median)


@dataclass(frozen=True)
class TableRow:
    """A row of a table: a row of the analysis and the trials behind it. A search has a row for NDR and one for PDR."""

    row: AnyRow
    trials: tuple[TrialRecord, ...] = ()
    """Trials of the row, those that do not count among them."""
    goal: str = ""
    """`NDR` or `PDR` of a search, else empty."""

    @property
    def measurements(self) -> list[Any]:
        """Measurements of the trials that count."""
        return [record.measurement for record in self.trials if record.counts]


@dataclass(frozen=True)
class Figure:
    """A figure of trials, of table rows, or of both. Its name holds for both directions of traffic."""

    key: str
    """Name in JSON, with the unit of the data; CSV adds the prefix of the measurement, such as `udp_`."""
    title: str = ""
    """Heading of the figure's column, without the unit; empty: tables for people do not have the figure."""
    unit: str = ""
    """Unit of the printed figure; empty if the title or the text of the figure names the unit."""
    help: str = ""
    """Sentence for legends and for the schema."""
    of_trial: Read | None = None
    """Reads the measurement of a trial (of a soak its summary); None: only rows have the figure."""
    of_row: Read | None = None
    """Reads the row of the analysis; None: the median of `of_trial` over the trials that count."""
    needs_router: bool = False
    """True if a calibration has no such figure, because it has no router."""
    is_stored: bool = False
    """True if the stored measurement has the figure, so that the JSON of a trial does not repeat it."""
    is_row_data: bool = True
    """True if the JSON of a row has the figure."""
    is_in_csv: bool = True
    """True if the figure is a single value, which fits into a cell of CSV."""
    scale: float = 1.0
    """Factor from the data to the printed figure."""
    digits: int = 4
    """Significant digits of the printed figure."""
    is_share: bool = False
    """True if a share of 1 is printed in per cent."""
    is_optional: bool = False
    """True if a table leaves out the figure's column when no row has the figure."""
    is_rate: bool = False
    """True for a rate: if the testers were the limit, it is a lower bound."""
    of_table: Read | None = None
    """Reads a `TableRow` (of a soak its summary) for a table, in place of `of_row`; it may return a text."""
    is_shown: Callable[[TableRow], bool] = lambda _: True
    """Returns False for a row whose cell a table leaves empty; the JSON of the row has the figure in any case."""
    spread: Spread = Spread.EVERYWHERE
    short: str = ""
    """Heading in a terminal; empty: the heading of the other formats."""
    under: str = ""
    """Key of the figure below which a terminal prints this figure, in the same column."""
    narrow_under: str = ""
    """The same as `under`, in a terminal that is too narrow for a column of its own."""

    @property
    def heading(self) -> str:
        """Heading of the figure's column, with the unit."""
        return f"{self.title} [{self.unit}]" if self.unit else self.title

    def of_trials(self, measurements: Sequence[Any]) -> Estimate | None:
        """Return the median of a figure of trials; None where no trial has it."""
        return estimate_known(map(self.of_trial, measurements)) if self.of_trial else None

    def of_row_data(self, found: TableRow) -> Any:
        """Return the figure of a row as data, in the unit of its key."""
        if self.of_row:
            return self.of_row(found.row)
        return None if self.needs_router and found.row.is_calibration else self.of_trials(found.measurements)

    def is_lower_bound(self, row: AnyRow) -> bool:
        """Return whether the testers, not the router, set the figure of a row."""
        return self.is_rate and row.figures is not None and row.figures.is_tester_limited

    def scaled(self, found: Estimate) -> Estimate:
        """Return an estimate in the printed unit."""
        low, high = found.low * self.scale, found.high * self.scale
        return Estimate(found.median * self.scale, low, high, found.count)

    def text(self, found: TableRow, *, thousands: bool = False) -> FigureText:
        """Return the figure as a table prints it; `thousands`: with commas in large numbers."""
        value = self.of_table(found) if self.of_table else self.of_row_data(found)
        text = self.printed(value if self.is_shown(found) else None, thousands=thousands)
        return replace(
            text, is_best=self.key in best_of(found.row), is_lower_bound=bool(text) and self.is_lower_bound(found.row)
        )

    def printed(self, value: Any, *, thousands: bool = False) -> FigureText:
        """Return a value as text: an estimate with its spread, a number, or a text as it is."""
        if value is None or isinstance(value, FigureText):
            return value or FigureText()
        if isinstance(value, str):
            return FigureText(one_line(value))
        if not isinstance(value, Estimate):
            return FigureText(self._number(value, value, thousands=thousands))
        mid, low, high = (
            self._number(each, value.median, thousands=thousands) for each in (value.median, value.low, value.high)
        )
        has_spread = low != high and self.spread is not Spread.NOWHERE
        return FigureText(mid, f"{low.removesuffix('%')}-{high}" if has_spread else "")

    def _number(self, value: float, like: float, *, thousands: bool) -> str:
        if self.is_share:
            return percent(value, like=like)
        if isinstance(value, int):
            return f"{value:,}" if thousands else str(value)
        return significant(value * self.scale, self.digits, like=like * self.scale, thousands=thousands)


def best_of(row: AnyRow) -> frozenset[str]:
    """Return the keys of a row's figures that are the best of its group.

    The share of the baseline counts as the best where the throughput does.
    """
    best = row.best if isinstance(row, Row) else frozenset()
    return best | {"share_of_baseline"} if "throughput_bps" in best else best


def read(path: str) -> Read:
    """Return a function that reads an attribute path such as `row.figures`; it returns None if an attribute is None."""
    names = path.split(".")

    def follow(value: Any) -> Any:
        for name in names:
            value = None if value is None else getattr(value, name)
        return value

    return follow
