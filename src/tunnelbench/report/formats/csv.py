"""CSV (RFC 4180) with one row for each trial and a column for each figure, for spreadsheets and statistics."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tunnelbench.analysis.summary import trial_class
from tunnelbench.model.plan import BASELINE_KIND, CALIBRATION_KIND, Test, TunnelSpec
from tunnelbench.model.result import Outcome, RunRecord, TrialRecord
from tunnelbench.report.document import Document, Style
from tunnelbench.report.figures import csv_figures
from tunnelbench.report.formats import SheetFormat
from tunnelbench.report.sheet import Sheet
from tunnelbench.report.soak_section import memory_text
from tunnelbench.report.text import one_line

CsvValue = str | int | float | tuple[int, ...] | None

FORMULA_STARTS = ("=", "+", "-", "@")
"""A spreadsheet runs a text that begins with one of these as a formula."""

INNER_FORMULA = re.compile(r"(; ?)(?=[=+@-])")
"""Place in a text where a formula begins if a spreadsheet takes `;` as the separator, as many locales do."""

OF_RUN: Mapping[str, Callable[[RunRecord], CsvValue]] = {
    "run_id": lambda run: run.run_id,
    "plan": lambda run: run.plan_name,
    "testbed": lambda run: f"{'SIMULATED: ' * run.is_simulated}{run.testbed_name}",
    "tunnelbench_version": lambda run: run.tunnelbench_version,
}

OF_TRIAL: Mapping[str, Callable[[TrialRecord], CsvValue]] = {
    "sequence": lambda record: record.spec.sequence,
    "round": lambda record: record.spec.round,
    "tunnel": lambda record: record.spec.tunnel.name,
    "kind": lambda record: record.spec.tunnel.kind,
    "firewall": lambda record: record.spec.tunnel.packet_filter.firewall.value,
    "rules": lambda record: record.spec.tunnel.packet_filter.rules,
    "inside": lambda record: record.spec.tunnel.conditions.inside.value,
    "outside": lambda record: _outside(record.spec.tunnel),
    "line": lambda record: record.spec.tunnel.conditions.line,
    "cpus": lambda record: record.spec.tunnel.conditions.cpus,
    "content": lambda record: record.spec.tunnel.conditions.content.value,
    "window_bytes": lambda record: _of_tcp(record, record.spec.tunnel.conditions.window_bytes),
    "write_bytes": lambda record: _of_tcp(record, record.spec.tunnel.conditions.write_bytes),
    "options": lambda record: json.dumps(dict(record.spec.tunnel.options)),
    "payload_bytes": lambda record: record.spec.payload_bytes,
    "direction": lambda record: record.spec.direction.value,
    "test": lambda record: record.spec.test.value,
    "load": lambda record: record.spec.load,
    "outcome": lambda record: record.outcome.value,
    "class": lambda record: trial_class(record).value,
    "counts": lambda record: record.counts,
    "reason": lambda record: record.reason,
    "checks_not_ok": lambda record: "; ".join(
        f"{check.verdict.value} {check.name} (rule {check.rule}): {check.reason}"
        for check in record.checks
        if check.verdict.severity
    ),
    "started_at": lambda record: record.started_at,
    "ended_at": lambda record: record.ended_at,
    "versions": lambda record: (
        "; ".join(f"{key} {version}" for key, version in record.proof.versions.items()) if record.proof else None
    ),
    "inner_mtu_bytes": lambda record: record.proof.inner_mtu_bytes if record.proof else None,
}


def _of_tcp(record: TrialRecord, size_bytes: int) -> int | None:
    """Return a size of iperf3 [bytes]; None if the trial is not of TCP."""
    return size_bytes if record.spec.test is Test.TCP else None


def _outside(tunnel: TunnelSpec) -> str | None:
    """Return the IP version of the packets that carry a tunnel; None without a tunnel."""
    return None if tunnel.kind in {BASELINE_KIND, CALIBRATION_KIND} else tunnel.conditions.outside.value


class Format(SheetFormat):
    """CSV: a header line, then one line for each trial in the order of the run; a cell without a figure is empty."""

    def render(self, document: Document, style: Style) -> str:
        del style
        figures = list(csv_figures())
        soaks = {report.soak.spec.sequence: report.summary for report in document.soaks}
        rows = []
        for record in (*document.records, *_unfinished(document)):
            soak = soaks.get(record.spec.sequence)
            connections = record.udp if record.udp and record.udp.connections else None
            measured = {
                "tcp": record.tcp,
                "udp": None if connections else record.udp,
                "connections": connections,
                "soak": soak,
            }
            cells = [cell(document.run) for cell in OF_RUN.values()]
            cells += [cell(record) for cell in OF_TRIAL.values()]
            cells += [read(measured[kind]) if measured[kind] else None for kind, _, read in figures]
            rows.append([*cells, "; ".join(map(memory_text, soak.memory)) if soak else None])
        return csv_text([*OF_RUN, *OF_TRIAL, *(column for _, column, _ in figures), "soak_memory"], rows)

    def render_sheet(self, sheet: Sheet, style: Style) -> str:
        """Return the sheet's table as CSV, without facts and sections."""
        del style
        return csv_text(sheet.header, sheet.rows)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return lines as CSV of RFC 4180; no text in a cell can run as a formula of a spreadsheet."""
    output = io.StringIO(newline="")
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow([harmless(cell) for cell in header])
    writer.writerows([_written(cell) for cell in row] for row in rows)
    return output.getvalue()


def _unfinished(document: Document) -> Iterator[TrialRecord]:
    """Yield a void record for each soak that has no record yet."""
    known = {record.spec.sequence for record in document.records}
    for report in document.soaks:
        if report.soak.spec.sequence not in known:
            parts = report.soak.parts
            ended_at = parts[-1].ended_at or ""
            yield TrialRecord(report.soak.spec, Outcome.VOID, "not finished", parts[0].started_at, ended_at)


def _written(cell: CsvValue) -> str | int | float | None:
    if isinstance(cell, tuple):
        return " ".join(map(str, cell))
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return harmless(cell) if isinstance(cell, str) else cell


def harmless(text: str) -> str:
    """Return `text` on one line, changed so that no spreadsheet runs it as a formula."""
    line = INNER_FORMULA.sub(r"\1'", one_line(text))
    return f"'{line}" if line.startswith(FORMULA_STARTS) else line
