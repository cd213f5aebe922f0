"""Formats a comparison of two results: its rows, other differences, and the limits of the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tunnelbench.analysis.compare.calibration import Calibration, calibrate
from tunnelbench.analysis.compare.comparison import (
    ALPHA,
    PAIRS_FROM,
    SMALLEST,
    TESTED_FROM,
    Comparison,
    ComparisonRow,
    ComparisonVerdict,
)
from tunnelbench.analysis.compare.differences import (
    Difference,
    bench_ratios,
    differences,
    fixed_speed_differences,
    largest_clock_loss,
)
from tunnelbench.analysis.compare.labels import row_labels
from tunnelbench.analysis.compare.order import EXPECTATION, Inversion, order
from tunnelbench.analysis.compare.sides import ComparedFigure, Side, SideRow
from tunnelbench.analysis.number_format import significant, with_range
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.model.plan import payload_text
from tunnelbench.model.reference import Comparable
from tunnelbench.model.text import counted
from tunnelbench.report.calibration_section import calibration_section
from tunnelbench.report.charts.ratios import ratio_charts
from tunnelbench.report.facts import SIMULATED_IN_CAPITALS
from tunnelbench.report.no_match import no_match_text
from tunnelbench.report.sections import Section
from tunnelbench.report.sheet import VERDICT, Sheet

COMPARED_HEADER = ("tunnel", "payload", "direction", "figure", "A", "B", "B / A", "p", "verdict", "remarks")
COMPARED_NUMBERS = (1, 4, 5, 6, 7)

SPREADS = (
    "A and B are medians with their spread. B / A is the quotient of the medians, followed by the interval of the test"
    f" ({1 - ALPHA:.0%}), or by the smallest and the largest quotient if there are too few trials."
)
RELATIVE = (
    f"{ComparedFigure.SHARE}, {ComparedFigure.COST_SHARE}: each trial over that of its own round without a tunnel. "
    "Changes of the machine's speed cancel out. A trial without a tunnel that the testers limited gives no "
    f"{ComparedFigure.SHARE}."
)
WORK = (
    f"{ComparedFigure.WORK}: the difference between the lowest and the highest rate of each round, which leaves out"
    " clock ticks, keep-alives and pings. Trials in which packets were lost are left out."
)
TESTED = (
    "faster, slower, cheaper, dearer: the spreads are apart, p of the exact Mann-Whitney test is at most"
    f" {ALPHA:g}, there are {TESTED_FROM} trials or more on each side, and the medians differ by {SMALLEST:.0%} or"
    f" more, and by more than the testers alone changed. Chance gives at most {ALPHA:.0%} of equal rows such a verdict."
)
PAIRS = (
    "Two tunnels of one run: each round gives one B / A. The table has its median and the interval of the test"
    f" ({1 - ALPHA:.0%}), or the smallest and the largest B / A if there are too few rounds. Changes of the machine's"
    " speed from round to round cancel out."
)
TESTED_PAIRS = (
    f"faster, slower, cheaper, dearer: p of the exact signed-rank test is at most {ALPHA:g}, over {PAIRS_FROM} rounds"
    f" or more, and B / A is {SMALLEST:.0%} or more from 1."
)
TOO_FEW = f"higher, lower: the spreads are apart, but fewer than {TESTED_FROM} trials cannot exclude chance."
TOO_FEW_PAIRS = f"higher, lower: all rounds agree, but fewer than {PAIRS_FROM} rounds cannot exclude chance."
TIE = "tie: all other rows."


def _legend(found: Comparison) -> tuple[str, ...]:
    work = (WORK,) if any(line.figure is ComparedFigure.WORK for line in found.rows) else ()
    if found.is_paired:
        return (PAIRS, *work, TESTED_PAIRS, TOO_FEW_PAIRS, TIE)
    relative = (RELATIVE,) if any(line.figure.is_relative for line in found.rows) else ()
    return (SPREADS, *relative, *work, TESTED, TOO_FEW, TIE)


def sheet(
    found: Comparison,
    weights: Mapping[str, int],
    *,
    fail_share: float | None = None,
    within_share: float | None = None,
) -> Sheet:
    """Return the sheet of a comparison.

    `weights` has the place of kinds of tunnels in the expected order. `fail_share` is the smallest difference that
    counts as a regression, `within_share` the largest one that two equal results may have.
    """
    unlike = differences(found.a, found.b)
    labels = row_labels(found)
    remarked = [(line, remarks_of(line, labels)) for line in found.rows]
    calibration = calibrate(found)
    return Sheet(
        title=comparison_title(found),
        facts=tuple(_facts(found)),
        cautions=tuple(_cautions(found)),
        header=COMPARED_HEADER,
        rows=tuple(_cells(line, remarks) for line, remarks in remarked),
        numbers=COMPARED_NUMBERS,
        sections=tuple(
            section
            for section in (
                Section(VERDICT, tuple(_verdict(found, fail_share, within_share))),
                Section("Order", tuple(_order(found, weights))),
                *calibration_section(calibration),
                Section("What differs", tuple(map(difference_text, unlike))),
                Section("Only on one side", tuple(_left_over(found))),
                Section("How to read it", _legend(found) if found.rows else ()),
            )
            if section.items
        ),
        charts=tuple(ratio_charts(found.rows)),
        data={
            **({"is_simulated": True} if found.a.is_simulated else {}),
            "a": _side_data(found.a),
            "b": _side_data(found.b),
            "rows": [_line_data(line, remarks) for line, remarks in remarked],
            "differences": unlike,
            "only_in_a": [_label(row) for row in found.only_in_a],
            "only_in_b": [_label(row) for row in found.only_in_b],
            "alpha": ALPHA,
            "smallest_difference": SMALLEST,
            "testers_alone": bench_ratios(found.a, found.b),
            "testers_alone_udp": bench_ratios(found.a, found.b, "udp"),
            "calibration": None if calibration is None else _calibration_data(calibration),
            "is_paired": found.is_paired,
            "bench_moved": found.bench_moved,
            "bench_moved_udp": found.bench_moved_udp,
            "regressions": None
            if fail_share is None
            else [_label(line.pair.b) + f" {line.figure}" for line in found.regressions(fail_share)],
            "apart": None
            if within_share is None
            else [_label(line.pair.b) + f" {line.figure}" for line in found.apart(within_share)],
        },
    )


def comparison_title(found: Comparison) -> str:
    """Return the first line of a comparison, which says if its figures are simulated."""
    return f"{f'{SIMULATED_IN_CAPITALS}: ' * found.a.is_simulated}Comparison of B with A"


def _facts(found: Comparison) -> Iterator[tuple[str, str]]:
    for letter, side in (("A", found.a), ("B", found.b)):
        yield letter, side.title
        if side.comparability is not None and side.comparability.comparable is Comparable.YES:
            yield f"{letter} is", side.comparability.label
    if said := {**bench_ratios(found.a, found.b), **bench_ratios(found.a, found.b, "udp")}:
        ratios = ", ".join(f"{place} {ratio:.3f}" for place, ratio in said.items())
        yield "Testers alone, B / A", f"{ratios}; single trials, without a router"


def speeds_text(found: Comparison) -> Iterator[str]:
    """Yield a sentence on what can be compared if the two routers have different fixed speeds."""
    if found.unlike_speeds_mips:
        a, b = found.unlike_speeds_mips
        yield (
            f"The router of A has {a} MIPS and that of B {b}. Only instructions per packet can be compared: all other "
            "figures differ because of the speed."
        )


def _cautions(found: Comparison) -> Iterator[str]:
    yield from speeds_text(found)
    for letter, side in (("A", found.a), ("B", found.b)):
        for remark in side.remarks:
            yield f"{letter}: {remark}."
        if side.comparability is not None and side.comparability.comparable is not Comparable.YES:
            yield f"{letter} was not measured by a run of TunnelBench. {side.comparability.label}."
    if (found.a.comparability is None) != (found.b.comparability is None):
        yield (
            "A published table has one figure for each row and no spread, so that no test is possible. Device, "
            "programs and bench all differ, so that a ratio does not show which of them caused it."
        )
    elif found.traffic_without_calibration and found.a.comparability is None:
        traffic = found.traffic_without_calibration
        of = f" of {traffic[0].upper()}" if len(traffic) == 1 else ""
        yield f"A or B has no valid calibration{of}: it is unknown whether the testers changed between A and B."
    if not found.rows:
        yield f"No row of A matches a row of B. {no_match_text(found)}"
    elif not found.tested and found.is_paired:
        yield f"Nothing is tested: a test needs {PAIRS_FROM} rounds in which a trial of each tunnel counts."
    elif not found.tested:
        yield f"Nothing is tested: a test needs {TESTED_FROM} trials that count on each side."


def remarks_of(line: ComparisonRow, labels: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the remarks of a row, with those facts of its published row's label that they lack."""
    said = "; ".join(line.remarks)
    lacking = [fact for fact in labels.get(id(line.pair), ()) if fact not in said]
    return (*line.remarks, f"published: {', '.join(lacking)}") if lacking else line.remarks


def _cells(line: ComparisonRow, remarks: Sequence[str]) -> tuple[str, ...]:
    row = line.pair.a
    return (
        row.name,
        _payload(row),
        row.direction_label,
        f"{line.figure} ({row.test})" if row.test else line.figure,
        _estimate(line.a),
        _estimate(line.b),
        _ratio(line),
        "" if line.p is None else significant(line.p, 2),
        line.verdict,
        "; ".join(remarks),
    )


def _payload(row: SideRow) -> str:
    return "" if row.payload_bytes is None else payload_text(row.payload_bytes, is_udp=row.traffic == "udp")


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return ""
    return with_range(*(significant(each, like=found.median) for each in (found.median, found.low, found.high)))


def _ratio(line: ComparisonRow) -> str:
    if line.ratio is None:
        return ""
    ratio = line.ratio
    return with_range(*(significant(each, 3, like=ratio.value) for each in (ratio.value, ratio.low, ratio.high)))


def verdict_counts(found: Comparison) -> str:
    """Return the number of rows with each verdict in words."""
    words = Counter(line.verdict for line in found.rows)
    return ", ".join(f"{words[word]} {word}" for word in ComparisonVerdict if words[word])


def difference_text(found: Difference) -> str:
    """Return a difference between the two sides in words."""
    return f"{found.what}: {found.a} against {found.b}"


def _verdict(found: Comparison, fail_share: float | None, within_share: float | None) -> Iterator[str]:
    verdicts = verdict_counts(found)
    if found.rows:
        tested, different = len(found.tested), len(found.different)
        share = f" ({different / tested:.0%} of the tested)" if tested else ""
        yield f"{len(found.rows)} figures: {verdicts}; {tested} tested, {different} different{share}."
    yield from limited_text(found)
    if fail_share is not None:
        yield regressions_text(found, fail_share)
    if within_share is not None:
        yield from within_texts(found, within_share)


def limited_text(found: Comparison) -> Iterator[str]:
    """Yield a sentence with the number of rates that the testers limit on both sides, if there are any."""
    if limited := sum(line.is_tester_limited for line in found.rows):
        verb, what = ("is", "it does") if limited == 1 else ("are", "they do")
        rates = counted(limited, "rate")
        yield f"{rates} {verb} tester-limited on both sides: {what} not show the speed of the router."


def regressions_text(found: Comparison, fail_share: float) -> str:
    """Return a sentence that names the tested figures that are worse by more than this share."""
    worse = found.regressions(fail_share)
    named = "; ".join(f"{_label(line.pair.b)}: {line.figure} {line.worse_by():.1%} worse" for line in worse)
    return f"Worse by more than {significant(fail_share * 100, 3)} %, and tested: {named or 'none'}."


def within_texts(found: Comparison, within_share: float) -> Iterator[str]:
    """Yield a sentence that names the figures that differ by more than this share, and one on possible reasons."""
    if not (judged := found.judged(within_share)):
        return
    limit = f"within {within_share * 100:g} % of A's"
    count = counted(len(judged), "figure")
    apart = found.apart(within_share)
    missing = ", ".join(_labels(found.only_in_a))
    if not apart and not missing:
        yield f"B is {limit}: {count}."
        return
    named = [f"{_label(line.pair.b)}: {line.figure} {_apart_by(line)}" for line in apart]
    named += [f"only in A: {missing}"] * bool(missing)
    yield f"B is not {limit}: {len(apart)} of {count}. {'; '.join(named)}".strip() + "." * bool(named)
    yield _possible_reasons(found)


def _apart_by(line: ComparisonRow) -> str:
    if line.ratio is None:
        return f"has no figure on one side ({'; '.join(line.remarks)})" if line.remarks else "has no figure on one side"
    change = line.ratio.value - 1
    return f"{abs(change) * 100:.1f} % {'higher' if change > 0 else 'lower'}"


def _possible_reasons(found: Comparison) -> str:
    """Return what differs between the sides and can change their figures."""
    losses = {letter: largest_clock_loss(side) for letter, side in (("A", found.a), ("B", found.b))}
    have_fixed_speed = None not in losses.values()
    unlike = (fixed_speed_differences if have_fixed_speed else differences)(found.a, found.b)
    texts = [f"{each.what}: {each.a} against {each.b}" for each in unlike]
    texts = texts or ["programs, kernels and settings are the same"]
    texts += [
        f"the router's clock lost up to {max(0.0, loss) * 100:.1f} % of a trial in {letter}"
        for letter, loss in losses.items()
        if loss is not None
    ]
    return f"What can be the reason: {'; '.join(texts)}."


def _order(found: Comparison, weights: Mapping[str, int]) -> Iterator[str]:
    """Yield for a published table whether both sides are in the expected order, and the likely reason if not."""
    if (found.a.comparability is None) == (found.b.comparability is None):
        return
    orders = [(letter, order(side, weights)) for letter, side in (("A", found.a), ("B", found.b))]
    if not any(each.pairs for _, each in orders):
        return
    yield f"Expected: {EXPECTATION}."
    for letter, each in orders:
        kept = each.pairs - len(each.inversions)
        yield f"{letter}: {kept} of {each.pairs} pairs of one payload and direction are in that order."
        for inversion in each.inversions:
            yield f"{letter}: {_inverted(inversion)}"


def _inverted(found: Inversion) -> str:
    place = " ".join(filter(None, (_payload(found.lighter), found.lighter.direction_label)))
    words = f"{place}: {found.heavier.name} is {found.faster_by:.0%} faster than {found.lighter.name}"
    limited = [row.name for row in (found.lighter, found.heavier) if row.is_tester_limited]
    if limited:
        return f"{words}; {' and '.join(limited)} tester-limited, which does not show the speed of the router."
    if found.cost_ratio is None:
        return f"{words}; CPU per packet is unknown."
    cost = f"a packet cost the router {abs(found.cost_ratio - 1):.0%} {'less' if found.cost_ratio < 1 else 'more'} CPU"
    return f"{words}; {cost}" + ("." if found.cost_ratio < 1 else ": the CPU does not explain it.")


def _left_over(found: Comparison) -> Iterator[str]:
    for letter, rows in (("A", found.only_in_a), ("B", found.only_in_b)):
        if rows:
            yield f"{letter}: {', '.join(_labels(rows))}"


def _labels(rows: Sequence[SideRow]) -> list[str]:
    """Name the rows in one short text: each tunnel once, followed by its payloads and directions."""
    by_name: dict[str, list[str]] = {}
    for row in rows:
        place = " ".join(filter(None, (_payload(row), row.direction_label, row.test)))
        by_name.setdefault(row.name, []).append(place)
    return [f"{name} ({', '.join(dict.fromkeys(filter(None, places)))})".replace(" ()", "")
            for name, places in by_name.items()]  # fmt: skip


def _label(row: SideRow) -> str:
    return " ".join(filter(None, (row.name, _payload(row), row.direction_label, row.test)))


def _side_data(side: Side) -> dict[str, object]:
    return {name: getattr(side, name) for name in ("name", "title", "facts", "comparability", "remarks")}


def _calibration_data(found: Calibration) -> dict[str, object]:
    own = {name: getattr(found, name) for name in ("clock_mhz", "clock_source", "cycles_per_instruction")}
    rows = [{**vars(row), "error_share": row.error_share} for row in found.rows]
    return {**own, "median_absolute_error_share": found.median_absolute_error_share, "rows": rows}


def _line_data(line: ComparisonRow, remarks: Sequence[str]) -> dict[str, object]:
    row = line.pair.a
    return {
        "tunnel": row.name,
        "tunnel_in_b": line.pair.b.name,
        "payload_bytes": row.payload_bytes,
        "direction": row.direction,
        "test": row.test,
        **{name: getattr(line, name) for name in ("figure", "a", "b", "ratio", "p", "verdict")},
        "is_different": line.verdict.is_difference,
        "is_worse": line.verdict.is_worse,
        "is_tester_limited_on_both_sides": line.is_tester_limited,
        "remarks": remarks,
    }
