"""Comparison of two results: a verdict such as faster, slower or tie for each row and figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tunnelbench.analysis.compare.differences import bench_moved
from tunnelbench.analysis.compare.matching import Pair, match
from tunnelbench.analysis.compare.sides import LOAD_FIGURES, ComparedFigure, Side, SideRow
from tunnelbench.analysis.mann_whitney import Ratio, least_p, mann_whitney, ratio
from tunnelbench.analysis.statistics import Estimate, estimate
from tunnelbench.analysis.wilcoxon import least_paired_p, paired_ratio, signed_rank
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.reference import Comparable

TESTED_FROM = 5
"""Smallest number of repeats on each side with which a difference can be tested (rule 18)."""
PAIRS_FROM = 8
"""Smallest number of rounds for a test of two tunnels of one run: 8 differences of equal sign give p = 0.0078."""
ALPHA = 0.01
"""Significance level: the largest probability that two equal samples are reported as different.

Five rounds against five reach p = 0.0079 at least, so this is the strictest usable level. Of 100 rows of two equal runs
fewer than one is reported as different by chance. That is a fifth of the allowed 5 %, which leaves room for differences
between two runs that are not chance.
"""
SMALLEST = 0.03
"""Smallest difference that is reported.

The layout of code in memory alone changes the throughput of NAT by as much (openwrt-devel, June-July 2022).
"""


class ComparisonVerdict(StrEnum):
    """Verdict on B compared with A."""

    FASTER = "faster"
    SLOWER = "slower"
    CHEAPER = "cheaper"
    DEARER = "dearer"
    TIE = "tie"
    HIGHER = "higher"
    """Outside the spread, but with too few repeats for a test."""
    LOWER = "lower"
    UNDECIDED = "undecided"
    """The lower figure is a lower bound, so that its router may carry as much as the other one, or more."""
    MISSING = "no figure"

    @property
    def is_difference(self) -> bool:
        return self.is_worse or self in {ComparisonVerdict.FASTER, ComparisonVerdict.CHEAPER}

    @property
    def is_worse(self) -> bool:
        return self in {ComparisonVerdict.SLOWER, ComparisonVerdict.DEARER}


@dataclass(frozen=True)
class ComparisonRow:
    """One figure of one pair of rows."""

    pair: Pair
    figure: ComparedFigure
    a: Estimate | None
    b: Estimate | None
    """Median and spread of each side; None: no trial counts."""
    ratio: Ratio | None
    """Ratio of B to A."""
    p: float | None
    """Result of the exact Mann-Whitney test, or of the signed-rank test for pairs; None: too few repeats to test."""
    verdict: ComparisonVerdict
    remarks: tuple[str, ...]

    @property
    def is_tester_limited(self) -> bool:
        """True if the figure is a rate and the testers, not the router, were the limit on both sides."""
        return self.figure.is_rate and self.pair.a.is_tester_limited and self.pair.b.is_tester_limited

    @property
    def is_planned(self) -> bool:
        """True if the plan sets the figure on both sides, so that it differs only if a router does not carry so much.

        A load in per cent is no such figure: it is a part of a rate that was measured.
        """
        rows = self.pair.a, self.pair.b
        return self.figure in LOAD_FIGURES and all(row.is_paced and not row.test.endswith("%") for row in rows)

    def is_apart(self, share: float) -> bool:
        """Return True if the figure differs by more than this share, or if one side does not have it."""
        return self.ratio is None or abs(self.ratio.value - 1) > share

    def worse_by(self) -> float:
        """Return the share of A's figure by which B is worse: negative if B is better, 0 if there is no ratio."""
        if self.ratio is None:
            return 0.0
        return 1 - self.ratio.value if self.figure.is_better_when_high else self.ratio.value - 1


@dataclass(frozen=True)
class Comparison:
    """Two results side by side."""

    a: Side
    b: Side
    rows: tuple[ComparisonRow, ...]
    only_in_a: tuple[SideRow, ...]
    only_in_b: tuple[SideRow, ...]
    bench_moved: float | None
    """Factor by which the calibration (testers without a router) differs between A and B for TCP; None: unknown."""
    bench_moved_udp: float | None = None
    """The same factor for UDP."""
    is_paired: bool = False
    """True for two tunnels of one run, which are compared round by round."""

    @property
    def traffic_without_calibration(self) -> tuple[str, ...]:
        """Kinds of traffic that are compared without a calibration that counts on both sides."""
        moved = {"tcp": self.bench_moved, "udp": self.bench_moved_udp}
        compared = {row.pair.a.traffic for row in self.rows}
        return tuple(traffic for traffic, factor in moved.items() if factor is None and traffic in compared)

    @property
    def unlike_speeds_mips(self) -> tuple[str, str] | None:
        """The fixed speeds of the virtual routers of A and B [million instructions per second], if they differ.

        Only the instructions of a packet are then comparable: the speed of the routers is in all other figures.
        """
        a, b = (side.facts.get("guest_speed_mips", "").removesuffix(".0") for side in (self.a, self.b))
        return (a, b) if a and b and a != b else None

    @property
    def tested(self) -> tuple[ComparisonRow, ...]:
        """Rows of which a test can tell whether B is worse."""
        return tuple(row for row in self.rows if row.p is not None and row.verdict is not ComparisonVerdict.UNDECIDED)

    @property
    def different(self) -> tuple[ComparisonRow, ...]:
        return tuple(row for row in self.rows if row.verdict.is_difference)

    @property
    def untested(self) -> tuple[Pair, ...]:
        """Matched rows without a tested figure that hide a regression.

        A has enough trials of such a row for a test, or B has no figure of it, or no row of its tunnel is tested. Other
        rows without a test have too few trials in A.
        """
        tested = {id(row.pair) for row in self.tested}
        tunnels = {row.pair.a.name for row in self.tested}
        least = PAIRS_FROM if self.is_paired else TESTED_FROM
        pairs = {id(row.pair): row.pair for row in self.rows if row.pair.a.figures and id(row.pair) not in tested}
        return tuple(
            pair
            for pair in pairs.values()
            if pair.a.trials >= least or not pair.b.figures or pair.a.name not in tunnels
        )

    def regressions(self, share: float) -> tuple[ComparisonRow, ...]:
        """Return the rows that are worse by a test and by more than this share."""
        return tuple(row for row in self.different if row.verdict.is_worse and row.worse_by() > share)

    @property
    def own_figures(self) -> tuple[ComparisonRow, ...]:
        """Figures of the routers themselves, each once.

        Ratios to the baseline are left out, rates that the testers limited on both sides, and the CPU time per packet
        of routers of fixed speed, which is the number of instructions divided by the speed. Rates that the plan sets
        are in it, although they show only if the routers carry so much.
        """
        return tuple(
            row
            for row in self.rows
            if not (row.figure.is_relative or row.is_tester_limited)
            and not (row.figure is ComparedFigure.COST and _have_fixed_speed(row.pair))
            and (row.a is not None or row.b is not None)
        )

    def judged(self, share: float) -> tuple[ComparisonRow, ...]:
        """Return the routers' own figures, those that the plan sets only if they differ by more than this share."""
        return tuple(row for row in self.own_figures if not row.is_planned or row.is_apart(share))

    def apart(self, share: float) -> tuple[ComparisonRow, ...]:
        """Return the routers' own figures that differ by more than this share, or that one side does not have."""
        return tuple(row for row in self.own_figures if row.is_apart(share))


def compare(a: Side, b: Side) -> Comparison:
    """Compare B with A.

    Raises WrongInput if a side is comparable only with results of its own class, and if one side alone is simulated.
    """
    for side, other in ((a, b), (b, a)):
        kind = side.comparability
        alike = kind is not None and other.comparability is not None and kind.name == other.comparability.name
        if kind is not None and kind.comparable is Comparable.NO and not alike:
            raise WrongInput(f"{side.name}: {kind.label}", f"see it alone: tunnelbench show {side.name}")
    if a.is_simulated != b.is_simulated:
        name = (a if a.is_simulated else b).name
        message = f"run {name} is simulated: a model drew its figures, which are compared with those of no measurement"
        raise WrongInput(message, "compare it with another simulated run")
    pairs, only_in_a, only_in_b = match(a, b)
    moved = {traffic: bench_moved(a, b, traffic) for traffic in ("tcp", "udp")}
    is_paired = bool(a.tunnel and b.tunnel) and a.name == b.name
    published = a.comparability is not None or b.comparability is not None

    def compared(pair: Pair, figure: ComparedFigure) -> ComparisonRow:
        if is_paired:
            return _paired_row(pair, figure)
        return _row(pair, figure, moved.get(pair.a.traffic) or 1.0, is_published=published)

    rows = tuple(compared(pair, figure) for pair in pairs for figure in _figures(pair, is_paired=is_paired))
    return Comparison(a, b, rows, tuple(only_in_a), tuple(only_in_b), moved["tcp"], moved["udp"], is_paired)


def _figures(pair: Pair, *, is_paired: bool) -> Sequence[ComparedFigure]:
    """Return the figures that both rows have, else one that either row has; with `is_paired`, no ratios to the
    baseline."""
    sought = [figure for figure in ComparedFigure if not (is_paired and figure.is_relative)]
    common = [figure for figure in sought if figure in pair.a.figures and figure in pair.b.figures]
    found = [figure for figure in sought if figure in pair.a.figures or figure in pair.b.figures]
    return common or found[:1] or [pair.a.expected]


def _row(pair: Pair, figure: ComparedFigure, moved: float, *, is_published: bool) -> ComparisonRow:
    values, others = ([*row.figures.get(figure, {}).values()] for row in (pair.b, pair.a))
    if not values or not others or min(*values, *others, 1.0) <= 0:
        return _missing(pair, figure, others, values)
    own, other = estimate(values), estimate(others)
    quotient = ratio(values, others, 1 - ALPHA)
    is_tested = min(len(values), len(others)) >= TESTED_FROM
    p = mann_whitney(values, others) if is_tested else None
    remarks = [*pair.unlike, *_remarks(pair, figure)]
    verdict = ComparisonVerdict.TIE
    if not own.ties_with(other):
        verdict, why = _judge(figure, quotient.value, p, 1.0 if _is_of_router_alone(pair, figure) else moved)
        remarks += why
        if p is None and not is_published:
            remarks.append(_untested(len(others), len(values)))
        verdict = _unless_open(pair, figure, quotient.value, verdict)
    return ComparisonRow(pair, figure, other, own, quotient, p, verdict, tuple(remarks))


def _is_of_router_alone(pair: Pair, figure: ComparedFigure) -> bool:
    """Return True if a change of the testers does not change the figure.

    Ratios to the baseline are such figures. On virtual routers of fixed speed, all figures are such figures, except
    delays, rates that a tester limited, and rates at full speed of a router that had idle time: the testers and the
    machine below them decide how much of its time such a router waits.
    """
    if figure.is_relative:
        return True
    if not _have_fixed_speed(pair) or figure.is_delay:
        return False
    rows = pair.a, pair.b
    return not figure.is_rate or all((row.is_paced or row.is_router_full) and not row.is_tester_limited for row in rows)


def _have_fixed_speed(pair: Pair) -> bool:
    return pair.a.has_fixed_speed and pair.b.has_fixed_speed


def _untested(others: int, values: int) -> str:
    """Return the reason why no test is made: A has `others` trials and B has `values`, which is too few."""
    counts, least = f"{others} against {values} trials", least_p(values, others)
    if least > ALPHA:
        return f"{counts} are too few to show a difference (p at least {least:.2g})"
    return f"{counts} are not tested: a test needs {TESTED_FROM} on each side"


def _paired_row(pair: Pair, figure: ComparedFigure) -> ComparisonRow:
    """Compare the rounds in which both trials count; the speed of the machine cancels out in each round."""
    of_a, of_b = pair.a.figures.get(figure, {}), pair.b.figures.get(figure, {})
    rounds = sorted(of_a.keys() & of_b.keys())
    values, others = [of_b[number] for number in rounds], [of_a[number] for number in rounds]
    if not rounds or min(*values, *others, 1.0) <= 0:
        return _missing(pair, figure, others, values)
    quotients = [value / other for value, other in zip(values, others, strict=True)]
    quotient = paired_ratio(quotients, 1 - ALPHA)
    p = signed_rank(quotients) if len(rounds) >= PAIRS_FROM else None
    remarks = [*pair.unlike, *_remarks(pair, figure)]
    verdict = ComparisonVerdict.TIE
    if min(quotients) > 1 or max(quotients) < 1 or (p is not None and p <= ALPHA):
        verdict, why = _judge(figure, quotient.value, p, 1.0)
        remarks += why
        if p is None:
            least = least_paired_p(len(rounds))
            remarks.append(f"{len(rounds)} rounds are too few to show a difference (p at least {least:.2g})")
        verdict = _unless_open(pair, figure, quotient.value, verdict)
    return ComparisonRow(pair, figure, estimate(others), estimate(values), quotient, p, verdict, tuple(remarks))


def _missing(pair: Pair, figure: ComparedFigure, others: Sequence[float], values: Sequence[float]) -> ComparisonRow:
    sides = [(name, row) for name, row, each in (("A", pair.a, others), ("B", pair.b, values)) if not each]
    why = _of_sides([(name, "; ".join(row.remarks) or "no trial counts") for name, row in sides])
    a, b = (estimate(each) if each else None for each in (others, values))
    return ComparisonRow(pair, figure, a, b, None, None, ComparisonVerdict.MISSING, (*why, *pair.unlike))


def _judge(
    figure: ComparedFigure, quotient: float, p: float | None, moved: float
) -> tuple[ComparisonVerdict, list[str]]:
    """Return the verdict on a difference that exceeds the spread, and the reason if the verdict is a tie all the
    same."""
    if p is None:
        return (ComparisonVerdict.HIGHER if quotient > 1 else ComparisonVerdict.LOWER), []
    if p > ALPHA:
        return ComparisonVerdict.TIE, []
    if max(quotient, 1 / quotient) <= moved:
        return ComparisonVerdict.TIE, [
            f"different, but not by more than the testers without a router ({moved - 1:.0%})"
        ]
    if abs(quotient - 1) < SMALLEST:
        return ComparisonVerdict.TIE, [
            f"different, but by less than {SMALLEST:.0%}, which the layout of code in memory can cause"
        ]
    return difference_verdict(figure, quotient), []


def _unless_open(pair: Pair, figure: ComparedFigure, quotient: float, verdict: ComparisonVerdict) -> ComparisonVerdict:
    """Return the verdict, or UNDECIDED if the lower rate is a lower bound."""
    lower = pair.b if quotient < 1 else pair.a
    is_open = figure.is_rate and lower.is_tester_limited
    return ComparisonVerdict.UNDECIDED if is_open and verdict is not ComparisonVerdict.TIE else verdict


def difference_verdict(figure: ComparedFigure, quotient: float) -> ComparisonVerdict:
    """Return the verdict on a difference that a test has found; `quotient` is B over A."""
    if figure.is_better_when_high:
        return ComparisonVerdict.FASTER if quotient > 1 else ComparisonVerdict.SLOWER
    if figure.is_delay:
        return ComparisonVerdict.SLOWER if quotient > 1 else ComparisonVerdict.FASTER
    return ComparisonVerdict.DEARER if quotient > 1 else ComparisonVerdict.CHEAPER


def _remarks(pair: Pair, figure: ComparedFigure) -> Sequence[str]:
    limited = [name for name, row in (("A", pair.a), ("B", pair.b)) if row.is_tester_limited]
    said = []
    if limited and figure.is_rate:
        said.append(f"tester-limited in {' and '.join(limited)}")
    return [*said, *_of_sides([(name, ", ".join(row.remarks)) for name, row in (("A", pair.a), ("B", pair.b))])]


def _of_sides(said: Sequence[tuple[str, str]]) -> list[str]:
    """Return `A and B: text` if both texts are equal, else one entry for each side; empty texts are left out."""
    names: dict[str, list[str]] = {}
    for name, words in said:
        if words:
            names.setdefault(words, []).append(name)
    return [f"{' and '.join(letters)}: {words}" for words, letters in names.items()]
