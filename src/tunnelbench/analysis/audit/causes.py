"""Search for the mistake that gives exactly the published figures.

A slip is one mistake, such as Mbit/s taken for MiB/s. It explains a row if it turns the correct figure into the printed
figure, to the last printed digit. If several slips explain a row, the likeliest is the one that explains most rows of
the same document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.audit.headings import Role
from tunnelbench.analysis.audit.links import headers_bytes
from tunnelbench.analysis.audit.rows import AuditedRow
from tunnelbench.analysis.audit.rules import AuditFinding, Rule, cores

MEBI = 2.0**20 / 1e6

LEAST_STEPS = 10
"""A slip may explain only figures of at least this many units of their last decimal place, such as 10 or 1.0. A figure
of one digit fits too many slips."""


@dataclass(frozen=True)
class Slip:
    """A mistake, and the factor that it applies to a correct figure."""

    name: str
    factor: Callable[[AuditedRow], float | None]
    """Factor of the wrong over the correct figure; None: the slip cannot occur in this row."""


@dataclass(frozen=True)
class Cause:
    """Cause of a wrong figure, as far as the table shows it."""

    slip: str | None
    """Name of the slip that explains the figure; None: no single slip does."""
    words: str


def _always(factor: float) -> Callable[[AuditedRow], float]:
    return lambda _row: factor


def _divided_by_headers(beyond_bytes: int) -> Callable[[AuditedRow], float | None]:
    def factor(row: AuditedRow) -> float | None:
        if row.size is None or row.size.role in {Role.PACKET, Role.FRAME}:
            return None
        return row.size.bytes / (row.size.bytes + headers_bytes(row) + beyond_bytes)

    return factor


UNIT_SLIPS = (
    Slip("Mbit/s taken for MiB/s (x 2^20 instead of x 10^6 / 8)", _always(8 * MEBI)),
    Slip("Mbit/s taken for MB/s (not divided by 8)", _always(8)),
    Slip("MB/s taken for Mbit/s (divided by 8 once too often)", _always(1 / 8)),
    Slip("MiB/s taken for Mbit/s (x 10^6 / 8 instead of x 2^20)", _always(1 / (8 * MEBI))),
    Slip("M taken for 2^20 (Mi)", _always(MEBI)),
    Slip("Mi taken for 10^6 (M)", _always(1 / MEBI)),
    Slip("k taken for 1024 (Ki)", _always(1.024)),
    Slip("M taken for k, or a factor of 1000 lost", _always(1e-3)),
    Slip("k taken for M, or a factor of 1000 too many", _always(1e3)),
)
PACKET_SLIPS = (
    *UNIT_SLIPS,
    Slip("both directions counted", _always(2)),
    Slip("one direction of two counted", _always(0.5)),
    Slip("an ACK for every second packet counted with the data", _always(1.5)),
    Slip(
        "divided by the MSS, time stamps included, instead of the payload",
        lambda row: row.size.bytes / (row.size.bytes + 12) if row.size else None,
    ),
    Slip("divided by the IP packet instead of the payload", _divided_by_headers(0)),
    Slip("divided by the Ethernet frame instead of the payload", _divided_by_headers(14)),
    Slip("divided by the Ethernet frame with its FCS instead of the payload", _divided_by_headers(18)),
    Slip("divided by the bytes on the wire instead of the payload", _divided_by_headers(38)),
)


def causes(findings: Sequence[AuditFinding]) -> list[Cause]:
    """Return the likeliest cause of each finding, in the order of the findings."""
    explained = {id(finding): _slips_of(finding) for finding in findings}
    votes: dict[tuple[str, Rule], Counter[str]] = {}
    for finding in findings:
        votes.setdefault((finding.row.source, finding.rule), Counter()).update(explained[id(finding)])
    rows_at_fault = {id(each.row): each for each in findings if each.rule is Rule.PACKET_RATE}
    found = []
    for finding in findings:
        count = votes[finding.row.source, finding.rule]
        slips = explained[id(finding)]
        if slips:
            best = max(slips, key=lambda name: (count[name], -slips.index(name)))
            found.append(Cause(best, best))
        else:
            found.append(Cause(None, _in_words(finding, rows_at_fault.get(id(finding.row)))))
    return found


def _slips_of(finding: AuditFinding) -> list[str]:
    """Return the names of the slips that give the printed figure."""
    match finding.rule:
        case Rule.PACKET_RATE:
            return [slip.name for slip in PACKET_SLIPS if _gives(slip, finding)]
        case Rule.UNITS:
            return [slip.name for slip in UNIT_SLIPS if _gives(slip, finding)]
        case Rule.CPU_SUM if finding.expected == 100 and finding.stated.value <= 100 * (cores(finding.row) or 1):
            return [f"counted in per cent of one core, on a device with {cores(finding.row)} cores"]
        case _:
            return []


def _gives(slip: Slip, finding: AuditFinding) -> bool:
    """Return True if a slip turns some throughput, within the rounding of the printed one, into the printed figure."""
    stated, source = finding.stated, finding.row.throughput
    factor = slip.factor(finding.row)
    if factor is None or source is None or source.value <= 0 or stated.value < LEAST_STEPS * stated.step:
        return False
    low, high = (finding.expected * factor * bound / source.value for bound in source.rounded)
    return low <= stated.cut[1] and high >= stated.cut[0]


def _in_words(finding: AuditFinding, packet_rate: AuditFinding | None) -> str:
    """Return the text for a figure that no slip explains to its last digit."""
    match finding.rule:
        case Rule.PACKET_RATE:
            return _nearest(finding)
        case Rule.LINE_LIMIT if finding.figure == "packets/s" and packet_rate is not None:
            return "follows from the packet rate of the same row"
        case Rule.LINE_LIMIT | Rule.BASELINE if finding.is_bound:
            enough = [slip.name for slip in UNIT_SLIPS if 1 <= (slip.factor(finding.row) or 0) / finding.factor <= 2]
            return f"{_NONE}; it would be possible with: {enough[0]}" if enough else _NONE
        case Rule.CPU_SUM if finding.factor > 1:
            return f"{_NONE}; in per cent of one core it would take {-(-finding.stated.value // 100):.0f} cores"
        case _:
            return _NONE


_NONE = "no single cause explains it"
NAMED_WITHIN = 0.1
"""Largest relative deviation of a slip that is named as the nearest."""


def _nearest(finding: AuditFinding) -> str:
    """Name the slip whose result is nearest to the printed figure, and its deviation."""
    row, stated = finding.row, finding.stated
    off = {
        slip.name: stated.value / (finding.expected * factor) - 1
        for slip in PACKET_SLIPS
        if (factor := slip.factor(row)) and finding.expected
    }
    if not off or stated.value <= 0:
        return _NONE
    name = min(off, key=lambda name: abs(off[name]))
    if abs(off[name]) > NAMED_WITHIN:
        return _NONE
    gives = stated.value / (1 + off[name])
    return (
        f"{_NONE}; nearest: {name}, which gives {gives:.0f}, {abs(off[name]):.1%} {'less' if off[name] > 0 else 'more'}"
    )
