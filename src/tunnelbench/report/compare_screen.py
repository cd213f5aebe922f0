"""The first screen of a comparison: one table, and what differs between the sides once."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten, wrap

from rich.text import Text

from tunnelbench.analysis.compare.calibration import calibrate
from tunnelbench.analysis.compare.comparison import (
    PAIRS_FROM,
    TESTED_FROM,
    Comparison,
    ComparisonRow,
    ComparisonVerdict,
)
from tunnelbench.analysis.compare.differences import differences
from tunnelbench.analysis.compare.labels import row_labels
from tunnelbench.analysis.number_format import significant
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.model.plan import IMIX_PAYLOAD_BYTES
from tunnelbench.model.text import counted
from tunnelbench.report.calibration_section import calibration_text
from tunnelbench.report.compare import (
    comparison_title,
    difference_text,
    limited_text,
    regressions_text,
    speeds_text,
    verdict_counts,
    within_texts,
)
from tunnelbench.report.console import printed
from tunnelbench.report.document import Style
from tunnelbench.report.first_screen import LINE_STYLES, WARNING_STYLE
from tunnelbench.report.formats.terminal import FIRST_SCREEN_WIDTH
from tunnelbench.report.no_match import no_match_text
from tunnelbench.report.screen_tables import ScreenColumn, ScreenRow, ScreenTable
from tunnelbench.report.text import one_line

LONGEST_LABEL_FACT = 40
"""Length at which the screen cuts a fact of a published row [characters]."""
MOST_LISTED_ROWS = 20
"""Largest number of figures on the screen; ties are left out first."""


VERDICT_MEANINGS = {
    ComparisonVerdict.TIE: "tie: the spreads overlap, or the test finds no difference.",
    ComparisonVerdict.HIGHER: "higher, lower: the spreads are apart, but there are too few trials for a test.",
    ComparisonVerdict.LOWER: "higher, lower: the spreads are apart, but there are too few trials for a test.",
    ComparisonVerdict.UNDECIDED: "undecided: the lower figure is a lower bound.",
    ComparisonVerdict.FASTER: "faster, slower, cheaper, dearer: the test excludes chance.",
}
VERDICT_MEANINGS |= dict.fromkeys(
    (ComparisonVerdict.SLOWER, ComparisonVerdict.CHEAPER, ComparisonVerdict.DEARER),
    VERDICT_MEANINGS[ComparisonVerdict.FASTER],
)
PAIRED_VERDICT_MEANINGS = VERDICT_MEANINGS | {
    ComparisonVerdict.TIE: "tie: the rounds disagree, or the test finds no difference of 3 % or more.",
    ComparisonVerdict.HIGHER: "higher, lower: all rounds agree, but there are too few rounds for a test.",
    ComparisonVerdict.LOWER: "higher, lower: all rounds agree, but there are too few rounds for a test.",
}
"""Meanings for two tunnels of one run, which are compared round by round."""
PAIRED = "A, B: medians. B against A: median of the quotients of all rounds."
LIMITED = "≥: the testers were the limit."


def comparison_screen(
    found: Comparison, style: Style, *, fail_share: float | None = None, within_share: float | None = None
) -> str:
    """Return the first screen as text.

    `fail_share` is the smallest difference that counts as a regression, `within_share` the largest one that two equal
    results may have.
    """
    width = style.width or FIRST_SCREEN_WIDTH
    return printed(_lines(found, width, fail_share, within_share), width, has_colour=style.colour)


def _lines(found: Comparison, width: int, fail_share: float | None, within_share: float | None) -> list[Text]:
    lines = [Text(comparison_title(found), style="bold")]
    for letter, side in (("A", found.a), ("B", found.b)):
        lines += _paragraph(f"{letter}: {side.title}", width)
    lines += [Text(), *_paragraph(_verdict(found), width, "bold")]
    for text in speeds_text(found):
        lines += _paragraph(text, width, "bold")
    if fail_share is not None:
        lines += _paragraph(regressions_text(found, fail_share), width, "bold")
    within = [] if within_share is None else [*within_texts(found, within_share)]
    lines += [line for text in within[:1] for line in _paragraph(text, width, "bold")]
    last = [line for text in within[1:] for line in (Text(), *_paragraph(text, width, "bold"))]
    if found.rows:
        table, left_out = _table(found, within_share)
        lines.append(Text())
        lines += [Text(line, style=LINE_STYLES.get(style, "")) for line, style in table.lines(width)]
        lines += _paragraph(f"{left_out} more with --full. {table.legend}" if left_out else table.legend, width)
    if (calibration := calibrate(found)) is not None:
        lines += _paragraph(calibration_text(calibration), width)
    for text in _warnings(found):
        lines += [Text.assemble(("! " if not n else "  ", WARNING_STYLE), line) for n, line in
                  enumerate(wrap(one_line(text), width - 2))]  # fmt: skip
    if unlike := differences(found.a, found.b):
        text = "; ".join(map(difference_text, unlike))
        room = MOST_COMPARISON_LINES - len(lines) - len(last) - LINES_AROUND_DIFFERENCES
        most = min(max(room, LEAST_DIFFERENCE_LINES), MOST_DIFFERENCE_LINES)
        folded = wrap(one_line(f"The sides differ in {text}."), width, max_lines=most, placeholder=" …")
        lines += [Text(), *map(Text, folded)]
    return [*lines, *last, Text(), Text("Tests, intervals and remarks of each figure: add --full")]


MOST_COMPARISON_LINES = 40
"""Lines of the screen at 100 columns, for figures of few tunnels."""
MOST_DIFFERENCE_LINES = 6
LEAST_DIFFERENCE_LINES = 2
LINES_AROUND_DIFFERENCES = 3
"""Empty lines before and after the differences, and the last line."""


def _verdict(found: Comparison) -> str:
    if found.rows:
        return f"{counted(len(found.rows), 'figure')}: {verdict_counts(found)}."
    return no_match_text(found)


def _paragraph(text: str, width: int, style: str = "") -> list[Text]:
    return [Text(line, style=style) for line in wrap(one_line(text), width, break_on_hyphens=False)]


def _warnings(found: Comparison) -> Iterator[str]:
    """Yield at most four limits of the comparison."""
    texts = [*limited_text(found)]
    texts += [f"{letter}: {remark}." for letter, side in (("A", found.a), ("B", found.b)) for remark in side.remarks]
    if (found.a.comparability is None) != (found.b.comparability is None):
        texts.append("A published table has no spread: no test is possible. Device, programs and method differ.")
    elif found.rows and not found.tested:
        least = f"{PAIRS_FROM} rounds" if found.is_paired else f"{TESTED_FROM} trials on each side"
        texts.append(f"Nothing is tested: a test needs {least}. Measure with --set rounds={PAIRS_FROM}.")
    alone = len(found.only_in_a) + len(found.only_in_b)
    if alone and found.rows:
        texts.append(f"{counted(alone, 'row')} on one side only.")
    yield from texts[:4]


def _table(found: Comparison, within_share: float | None) -> tuple[ScreenTable, int]:
    """Return the table, and the number of figures that it leaves out.

    With a `within_share`, it has the figures that are judged by it, and those that differ by more first.
    """
    kept = list(found.rows)
    if within_share is not None:
        apart = found.apart(within_share)
        kept = [*apart, *(line for line in found.judged(within_share) if line not in apart)] or kept
        kept = kept[:MOST_LISTED_ROWS]
    elif len(kept) > MOST_LISTED_ROWS:
        kept = [line for line in kept if line.verdict is not ComparisonVerdict.TIE] or kept
        kept = [line for line in kept if line.verdict is not ComparisonVerdict.MISSING] or kept
        kept = kept[:MOST_LISTED_ROWS]
    columns = tuple(ScreenColumn((heading,), "") for heading in ("A", "B", "B against A", "verdict"))
    labels = row_labels(found)
    names = [_name(line, labels.get(id(line.pair), ())) for line in kept]
    rows = tuple(
        ScreenRow(name, _cells(line), one_line(_tunnels(line))) for name, line in zip(names, kept, strict=True)
    )
    words = PAIRED_VERDICT_MEANINGS if found.is_paired else VERDICT_MEANINGS
    meanings = list(dict.fromkeys(words[line.verdict] for line in kept if line.verdict in words))
    is_limited = any(line.figure.is_rate and line.pair.a.is_tester_limited for line in kept)
    is_limited |= any(line.figure.is_rate and line.pair.b.is_tester_limited for line in kept)
    legend = " ".join([PAIRED if found.is_paired else "Medians.", *meanings, *([LIMITED] if is_limited else [])])
    return ScreenTable("", columns, rows, legend), len(found.rows) - len(kept)


def _tunnels(line: ComparisonRow) -> str:
    a, b = line.pair.a.name, line.pair.b.name
    return a if a == b else f"{a} (A), {b} (B)"


def _name(line: ComparisonRow, label: tuple[str, ...]) -> str:
    """Return the text of a figure; `label` distinguishes the published rows of one measured row."""
    row = line.pair.a
    size = {None: "", IMIX_PAYLOAD_BYTES: "mix"}.get(row.payload_bytes, f"{row.payload_bytes} bytes")
    place = " ".join(filter(None, (size, row.direction_label, row.test)))
    text = f"{place}, {line.figure}" if place else str(line.figure)
    facts = ", ".join(shorten(one_line(fact).partition(";")[0], LONGEST_LABEL_FACT, placeholder=" …") for fact in label)
    return one_line(f"{text} ({facts})" if facts else text)


def _cells(line: ComparisonRow) -> tuple[str, ...]:
    is_rate = line.figure.is_rate
    return (
        _value(line.a, is_bound=is_rate and line.pair.a.is_tester_limited),
        _value(line.b, is_bound=is_rate and line.pair.b.is_tester_limited),
        "-" if line.ratio is None else f"{(line.ratio.value - 1) * 100:+.1f} %",
        str(line.verdict),
    )


def _value(found: Estimate | None, *, is_bound: bool) -> str:
    return "-" if found is None else "≥ " * is_bound + significant(found.median, 4, thousands=True)
