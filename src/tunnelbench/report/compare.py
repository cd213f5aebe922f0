"""A comparison as a sheet: the rows, what differs beside them, and what cannot be said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tunnelbench.analysis.compare.comparison import (
    ALPHA,
    PAIRS_FROM,
    SMALLEST,
    TESTED_FROM,
    Comparison,
    Line,
    Verdict,
)
from tunnelbench.analysis.compare.differences import bench_ratios, differences
from tunnelbench.analysis.compare.order import EXPECTATION, Inversion, order
from tunnelbench.analysis.compare.sides import Figure, Side, SideRow
from tunnelbench.analysis.numbers import significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.model.plan import IMIX_PAYLOAD_BYTES
from tunnelbench.model.reference import Comparable
from tunnelbench.report.sheet import Section, Sheet

HEADER = ("tunnel", "payload", "direction", "figure", "A", "B", "B / A", "p", "verdict", "remarks")
NUMBERS = (1, 4, 5, 6, 7)

SPREADS = (
    "A and B are medians with their spread. B / A is the quotient of the medians; behind it the interval that goes with"
    f" the test ({1 - ALPHA:.0%}), or least to greatest quotient where trials are too few."
)
RELATIVE = (
    f"{Figure.SHARE}, {Figure.COST_SHARE}: each trial over that of its own round without a tunnel. What the machine did"
    " to both is not in it."
)
TESTED = (
    "faster, slower, cheaper, dearer: the spreads are apart, p of the exact Mann-Whitney test is at most"
    f" {ALPHA:g}, there are {TESTED_FROM} trials or more on each side, and the medians differ by {SMALLEST:.0%} or"
    f" more, and by more than the testers alone moved. Of equal rows {ALPHA:.0%} at most are called so by chance."
)
PAIRS = (
    "Two tunnels of one run: each round gives one B / A. Printed are its median and the interval that goes with the"
    f" test ({1 - ALPHA:.0%}), or the least and the greatest where rounds are too few. What moved the machine from"
    " round to round is not in it."
)
TESTED_PAIRS = (
    f"faster, slower, cheaper, dearer: p of the exact signed-rank test is at most {ALPHA:g}, over {PAIRS_FROM} rounds"
    f" or more, and B / A is {SMALLEST:.0%} or more from 1."
)
TOO_FEW = f"higher, lower: the spreads are apart, and under {TESTED_FROM} trials nobody can say whether by chance."
TOO_FEW_PAIRS = f"higher, lower: all rounds say so, and under {PAIRS_FROM} nobody can say whether by chance."
TIE = "tie: anything less."


def _legend(found: Comparison) -> tuple[str, ...]:
    if found.is_paired:
        return (PAIRS, TESTED_PAIRS, TOO_FEW_PAIRS, TIE)
    relative = (RELATIVE,) if any(line.figure.is_relative for line in found.lines) else ()
    return (SPREADS, *relative, TESTED, TOO_FEW, TIE)


def sheet(found: Comparison, *, fail_share: float | None = None) -> Sheet:
    """The comparison; `fail_share`: what was asked to count as a regression."""
    unlike = differences(found.a, found.b)
    return Sheet(
        title="Comparison of B with A",
        facts=tuple(_facts(found)),
        cautions=tuple(_cautions(found)),
        header=HEADER,
        rows=tuple(_cells(line) for line in found.lines),
        numbers=NUMBERS,
        sections=tuple(
            section
            for section in (
                Section("Verdict", tuple(_verdict(found, fail_share))),
                Section("Order", tuple(_order(found))),
                Section("What differs", tuple(f"{each.what}: {each.a} against {each.b}" for each in unlike)),
                Section("Only on one side", tuple(_left_over(found))),
                Section("How to read it", _legend(found) if found.lines else ()),
            )
            if section.items
        ),
        data={
            "a": _side_data(found.a),
            "b": _side_data(found.b),
            "rows": [_line_data(line) for line in found.lines],
            "differences": unlike,
            "only_in_a": [_label(row) for row in found.only_in_a],
            "only_in_b": [_label(row) for row in found.only_in_b],
            "alpha": ALPHA,
            "smallest_difference": SMALLEST,
            "testers_alone": bench_ratios(found.a, found.b),
            "testers_alone_udp": bench_ratios(found.a, found.b, "udp"),
            "is_paired": found.is_paired,
            "bench_moved": found.bench_moved,
            "bench_moved_udp": found.bench_moved_udp,
            "regressions": None
            if fail_share is None
            else [_label(line.pair.b) + f" {line.figure}" for line in found.regressions(fail_share)],
        },
    )


def _facts(found: Comparison) -> Iterator[tuple[str, str]]:
    for letter, side in (("A", found.a), ("B", found.b)):
        yield letter, side.title
        if side.comparability is not None and side.comparability.comparable is Comparable.YES:
            yield f"{letter} is", side.comparability.label
    if said := {**bench_ratios(found.a, found.b), **bench_ratios(found.a, found.b, "udp")}:
        ratios = ", ".join(f"{place} {ratio:.3f}" for place, ratio in said.items())
        yield "Testers alone, B / A", f"{ratios}; single trials, without a router"


def _cautions(found: Comparison) -> Iterator[str]:
    for letter, side in (("A", found.a), ("B", found.b)):
        for remark in side.remarks:
            yield f"{letter}: {remark}."
        if side.comparability is not None and side.comparability.comparable is not Comparable.YES:
            yield f"{letter} was not measured as runs are. {side.comparability.label}."
    if (found.a.comparability is None) != (found.b.comparability is None):
        yield (
            "A published table has one figure a row and no spread: nothing can be tested against it. Device, programs "
            "and bench differ all at once, so that no ratio says which of them made it."
        )
    elif found.bench_is_not_known_for and found.a.comparability is None:
        of = f" of {found.bench_is_not_known_for[0].upper()}" if len(found.bench_is_not_known_for) == 1 else ""
        yield f"No calibration{of} counts on both sides: whether the bench itself moved between A and B is not known."
    if not found.lines:
        yield "No row of A is of the same tunnel, settings, payload, direction and traffic as a row of B."
    elif not found.tested and found.is_paired:
        yield f"Nothing is tested: that takes {PAIRS_FROM} rounds in which a trial of each tunnel counts."
    elif not found.tested:
        yield f"Nothing is tested: that takes {TESTED_FROM} trials that count on each side."


def _cells(line: Line) -> tuple[str, ...]:
    row = line.pair.a
    return (
        row.name,
        _payload(row),
        row.direction,
        f"{line.figure} ({row.test})" if row.test else line.figure,
        _estimate(line.a),
        _estimate(line.b),
        _ratio(line),
        "" if line.p is None else significant(line.p, 2),
        line.verdict,
        "; ".join(line.remarks),
    )


def _payload(row: SideRow) -> str:
    if row.payload_bytes == IMIX_PAYLOAD_BYTES and row.traffic == "udp":
        return "mix"
    return "" if row.payload_bytes is None else str(row.payload_bytes)


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return ""
    median, low, high = (significant(each, like=found.median) for each in (found.median, found.low, found.high))
    return median if low == high else f"{median} ({low}-{high})"


def _ratio(line: Line) -> str:
    if line.ratio is None:
        return ""
    value, low, high = (significant(each, 3, like=line.ratio.value) for each in
                        (line.ratio.value, line.ratio.low, line.ratio.high))  # fmt: skip
    return value if low == high else f"{value} ({low}-{high})"


def _verdict(found: Comparison, fail_share: float | None) -> Iterator[str]:
    words = Counter(line.verdict for line in found.lines)
    counted = ", ".join(f"{words[word]} {word}" for word in Verdict if words[word])
    if found.lines:
        tested, different = len(found.tested), len(found.different)
        share = f" ({different / tested:.0%} of the tested)" if tested else ""
        yield f"{len(found.lines)} figures: {counted}; {tested} tested, {different} different{share}."
    silent = [line for line in found.lines if line.says_nothing_of_the_router]
    if silent:
        yield f"{len(silent)} rates are tester-limited on both sides: they say nothing of the router."
    if fail_share is not None:
        worse = found.regressions(fail_share)
        named = "; ".join(f"{_label(line.pair.b)}: {line.figure} {line.worse_by():.1%} worse" for line in worse)
        yield f"Worse by more than {significant(fail_share * 100, 3)} %, and tested: {named or 'none'}."


def _order(found: Comparison) -> Iterator[str]:
    """Beside a published table: whether both are in the order that is to be expected, and if not, why."""
    if (found.a.comparability is None) == (found.b.comparability is None):
        return
    orders = [(letter, order(side)) for letter, side in (("A", found.a), ("B", found.b))]
    if not any(each.pairs for _, each in orders):
        return
    yield f"Expected: {EXPECTATION}."
    for letter, each in orders:
        kept = each.pairs - len(each.inversions)
        yield f"{letter}: {kept} of {each.pairs} pairs of one payload and direction are in that order."
        for inversion in each.inversions:
            yield f"{letter}: {_inverted(inversion)}"


def _inverted(found: Inversion) -> str:
    place = " ".join(filter(None, (_payload(found.lighter), found.lighter.direction)))
    words = f"{place}: {found.heavier.name} is {found.faster_by:.0%} faster than {found.lighter.name}"
    limited = [row.name for row in (found.lighter, found.heavier) if row.is_tester_limited]
    if limited:
        return f"{words}; {' and '.join(limited)} tester-limited, which says nothing of the router."
    if found.cost_ratio is None:
        return f"{words}; CPU per packet is not told."
    cost = f"a packet cost the router {abs(found.cost_ratio - 1):.0%} {'less' if found.cost_ratio < 1 else 'more'} CPU"
    return f"{words}; {cost}" + ("." if found.cost_ratio < 1 else ": it is not the CPU that explains it.")


def _left_over(found: Comparison) -> Iterator[str]:
    for letter, rows in (("A", found.only_in_a), ("B", found.only_in_b)):
        if rows:
            yield f"{letter}: {', '.join(_labels(rows))}"


def _labels(rows: Sequence[SideRow]) -> list[str]:
    """The rows in few words: a tunnel once, with its payloads and directions behind it."""
    by_name: dict[str, list[str]] = {}
    for row in rows:
        place = " ".join(filter(None, (_payload(row), row.direction, row.test)))
        by_name.setdefault(row.name, []).append(place)
    return [f"{name} ({', '.join(dict.fromkeys(filter(None, places)))})".replace(" ()", "")
            for name, places in by_name.items()]  # fmt: skip


def _label(row: SideRow) -> str:
    return " ".join(filter(None, (row.name, _payload(row), row.direction, row.test)))


def _side_data(side: Side) -> dict[str, object]:
    return {
        "name": side.name,
        "title": side.title,
        "facts": side.facts,
        "comparability": side.comparability,
        "remarks": side.remarks,
    }


def _line_data(line: Line) -> dict[str, object]:
    row = line.pair.a
    return {
        "tunnel": row.name,
        "tunnel_in_b": line.pair.b.name,
        "payload_bytes": row.payload_bytes,
        "direction": row.direction,
        "test": row.test,
        "figure": line.figure,
        "a": line.a,
        "b": line.b,
        "ratio": line.ratio,
        "p": line.p,
        "verdict": line.verdict,
        "is_different": line.verdict.is_difference,
        "is_worse": line.verdict.is_worse,
        "is_tester_limited_on_both_sides": line.says_nothing_of_the_router,
        "remarks": line.remarks,
    }
