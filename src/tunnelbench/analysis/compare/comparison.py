"""Faster, slower or a tie: one verdict for each row and figure, and what cannot be said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tunnelbench.analysis.compare.differences import bench_moved
from tunnelbench.analysis.compare.matching import Pair, match
from tunnelbench.analysis.compare.sides import Figure, Side, SideRow
from tunnelbench.analysis.ranks import Ratio, least_p, mann_whitney, ratio
from tunnelbench.analysis.signed_ranks import least_paired_p, paired_ratio, signed_rank
from tunnelbench.analysis.statistics import Estimate, estimate
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.reference import Comparable

TESTED_FROM = 5
"""Repeats on each side from which a difference can be tested (rule 18)."""
PAIRS_FROM = 8
"""Rounds from which two tunnels of one run can be tested: all 8 the same way is p = 0.0078 (`least_paired_p`)."""
ALPHA = 0.01
"""How often two equal samples may be called different, row by row.

Five against five reach p = 0.0079 and no less, so that this is the strictest level at which five rounds can say
anything. Of 100 rows of two equal runs fewer than one is called different by chance: a fifth of the 5 % that are
allowed, which leaves room for what differs between two runs and is no chance.
"""
SMALLEST = 0.03
"""What the layout of code in memory alone moves NAT by (openwrt-devel, June-July 2022): nothing below it counts."""


class Verdict(StrEnum):
    """What is said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    CHEAPER = "cheaper"
    DEARER = "dearer"
    TIE = "tie"
    HIGHER = "higher"
    """Outside the spread, and too few repeats to exclude chance."""
    LOWER = "lower"
    MISSING = "no figure"

    @property
    def is_difference(self) -> bool:
        return self in {Verdict.FASTER, Verdict.SLOWER, Verdict.CHEAPER, Verdict.DEARER}

    @property
    def is_worse(self) -> bool:
        return self in {Verdict.SLOWER, Verdict.DEARER}


@dataclass(frozen=True)
class Line:
    """One figure of one pair of rows."""

    pair: Pair
    figure: Figure
    a: Estimate | None
    b: Estimate | None
    """None: no trial counts."""
    ratio: Ratio | None
    """B over A."""
    p: float | None
    """Of the exact Mann-Whitney test, of pairs the signed-rank test; None: too few repeats to test."""
    verdict: Verdict
    remarks: tuple[str, ...]

    @property
    def says_nothing_of_the_router(self) -> bool:
        """Whether the testers were the limit on both sides, of which a rate then speaks."""
        return self.figure.is_rate and self.pair.a.is_tester_limited and self.pair.b.is_tester_limited

    def worse_by(self) -> float:
        """By which share of A's figure B is worse; negative where it is better, 0 where there is no ratio."""
        if self.ratio is None:
            return 0.0
        return 1 - self.ratio.value if self.figure.is_better_when_high else self.ratio.value - 1


@dataclass(frozen=True)
class Comparison:
    """Two results side by side."""

    a: Side
    b: Side
    lines: tuple[Line, ...]
    only_in_a: tuple[SideRow, ...]
    only_in_b: tuple[SideRow, ...]
    bench_moved: float | None
    """Factor by which the testers alone moved with TCP; None: not known."""
    bench_moved_udp: float | None = None
    """With UDP."""
    is_paired: bool = False
    """Two tunnels of one run: compared round by round."""

    @property
    def bench_is_not_known_for(self) -> tuple[str, ...]:
        """Traffic of which there are rows and no calibration that counts on both sides."""
        moved = {"tcp": self.bench_moved, "udp": self.bench_moved_udp}
        compared = {line.pair.a.traffic for line in self.lines}
        return tuple(traffic for traffic, factor in moved.items() if factor is None and traffic in compared)

    @property
    def tested(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.p is not None)

    @property
    def different(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.verdict.is_difference)

    def regressions(self, share: float) -> tuple[Line, ...]:
        """Lines that are tested to be worse, and by more than this share; the testers' own are left out."""
        return tuple(
            line
            for line in self.different
            if line.verdict.is_worse and line.worse_by() > share and not line.says_nothing_of_the_router
        )


def compare(a: Side, b: Side) -> Comparison:
    """B against A. WrongInput where figures of one of them stand beside nothing but their like."""
    for side, other in ((a, b), (b, a)):
        kind = side.comparability
        alike = kind is not None and other.comparability is not None and kind.name == other.comparability.name
        if kind is not None and kind.comparable is Comparable.NO and not alike:
            raise WrongInput(f"{side.name}: {kind.label}", f"see it alone: tunnelbench show {side.name}")
    pairs, only_in_a, only_in_b = match(a, b)
    moved = {traffic: bench_moved(a, b, traffic) for traffic in ("tcp", "udp")}
    is_paired = bool(a.tunnel and b.tunnel) and a.name == b.name
    published = a.comparability is not None or b.comparability is not None

    def line(pair: Pair, figure: Figure) -> Line:
        if is_paired:
            return _paired_line(pair, figure)
        return _line(pair, figure, moved.get(pair.a.traffic) or 1.0, is_published=published)

    lines = tuple(line(pair, figure) for pair in pairs for figure in _figures(pair, is_paired=is_paired))
    return Comparison(a, b, lines, tuple(only_in_a), tuple(only_in_b), moved["tcp"], moved["udp"], is_paired)


def _figures(pair: Pair, *, is_paired: bool) -> Sequence[Figure]:
    """The figures that both have, else one that either has. Pairs of a round need no baseline between them."""
    sought = [figure for figure in Figure if not (is_paired and figure.is_relative)]
    common = [figure for figure in sought if figure in pair.a.figures and figure in pair.b.figures]
    found = [figure for figure in sought if figure in pair.a.figures or figure in pair.b.figures]
    return common or found[:1] or [pair.a.expected]


def _line(pair: Pair, figure: Figure, moved: float, *, is_published: bool) -> Line:
    values, others = ([*row.figures.get(figure, {}).values()] for row in (pair.b, pair.a))
    if not values or not others or min(*values, *others, 1.0) <= 0:
        return _missing(pair, figure, others, values)
    own, other = estimate(values), estimate(others)
    quotient = ratio(values, others, 1 - ALPHA)
    is_tested = min(len(values), len(others)) >= TESTED_FROM
    p = mann_whitney(values, others) if is_tested else None
    remarks = [*pair.unlike, *_remarks(pair, figure)]
    verdict = Verdict.TIE
    if not own.ties_with(other):
        verdict, why = _judge(figure, quotient.value, p, 1.0 if figure.is_relative else moved)
        remarks += why
        if p is None and not is_published:
            remarks.append(_untested(len(others), len(values)))
    return Line(pair, figure, other, own, quotient, p, verdict, tuple(remarks))


def _untested(others: int, values: int) -> str:
    """Why so many trials of A against so many of B show no difference."""
    counts, least = f"{others} against {values} trials", least_p(values, others)
    if least > ALPHA:
        return f"{counts} cannot show a difference (p at least {least:.2g})"
    return f"{counts} are not tested: that takes {TESTED_FROM} on each side"


def _paired_line(pair: Pair, figure: Figure) -> Line:
    """B over A in each round in which both count: what moved the machine from round to round is in neither."""
    of_a, of_b = pair.a.figures.get(figure, {}), pair.b.figures.get(figure, {})
    rounds = sorted(of_a.keys() & of_b.keys())
    values, others = [of_b[number] for number in rounds], [of_a[number] for number in rounds]
    if not rounds or min(*values, *others, 1.0) <= 0:
        return _missing(pair, figure, others, values)
    quotients = [value / other for value, other in zip(values, others, strict=True)]
    quotient = paired_ratio(quotients, 1 - ALPHA)
    p = signed_rank(quotients) if len(rounds) >= PAIRS_FROM else None
    remarks = [*pair.unlike, *_remarks(pair, figure)]
    verdict = Verdict.TIE
    if min(quotients) > 1 or max(quotients) < 1 or (p is not None and p <= ALPHA):
        verdict, why = _judge(figure, quotient.value, p, 1.0)
        remarks += why
        if p is None:
            least = least_paired_p(len(rounds))
            remarks.append(f"{len(rounds)} rounds cannot show a difference (p at least {least:.2g})")
    return Line(pair, figure, estimate(others), estimate(values), quotient, p, verdict, tuple(remarks))


def _missing(pair: Pair, figure: Figure, others: Sequence[float], values: Sequence[float]) -> Line:
    sides = [(name, row) for name, row, each in (("A", pair.a, others), ("B", pair.b, values)) if not each]
    why = _of_sides([(name, "; ".join(row.remarks) or "no trial counts") for name, row in sides])
    a, b = (estimate(each) if each else None for each in (others, values))
    return Line(pair, figure, a, b, None, None, Verdict.MISSING, (*why, *pair.unlike))


def _judge(figure: Figure, quotient: float, p: float | None, moved: float) -> tuple[Verdict, list[str]]:
    """What a difference outside the spread is worth, and why it is worth no more."""
    if p is None:
        return (Verdict.HIGHER if quotient > 1 else Verdict.LOWER), []
    if p > ALPHA:
        return Verdict.TIE, []
    if max(quotient, 1 / quotient) <= moved:
        return Verdict.TIE, [f"apart, but by no more than the testers alone moved ({moved - 1:.0%})"]
    if abs(quotient - 1) < SMALLEST:
        return Verdict.TIE, [f"apart, but by under {SMALLEST:.0%}: the layout of code in memory moves as much"]
    return _difference(figure, quotient), []


def _difference(figure: Figure, quotient: float) -> Verdict:
    if figure.is_better_when_high:
        return Verdict.FASTER if quotient > 1 else Verdict.SLOWER
    if figure.is_delay:
        return Verdict.SLOWER if quotient > 1 else Verdict.FASTER
    return Verdict.DEARER if quotient > 1 else Verdict.CHEAPER


def _remarks(pair: Pair, figure: Figure) -> Sequence[str]:
    limited = [name for name, row in (("A", pair.a), ("B", pair.b)) if row.is_tester_limited]
    said = []
    if limited and figure.is_rate:
        said.append(f"tester-limited in {' and '.join(limited)}")
    return [*said, *_of_sides([(name, ", ".join(row.remarks)) for name, row in (("A", pair.a), ("B", pair.b))])]


def _of_sides(said: Sequence[tuple[str, str]]) -> list[str]:
    """`A and B: why` where both say the same, else each with its letter; nothing for one that says nothing."""
    names: dict[str, list[str]] = {}
    for name, words in said:
        if words:
            names.setdefault(words, []).append(name)
    return [f"{' and '.join(letters)}: {words}" for words, letters in names.items()]
