"""Collects the content of a run's report, for all formats: facts, cautions, tables, sections and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.advice import Advice, advise, clock_mhz
from tunnelbench.analysis.answer import Answer, AnswerInput, answer
from tunnelbench.analysis.background_load import background_load_effect
from tunnelbench.analysis.connections import ConnectionRow, summarise_connections
from tunnelbench.analysis.cost_components import MeasuredComponents, UnknownComponents, measured_components
from tunnelbench.analysis.cost_model import CostModel, NoModel, cost_models
from tunnelbench.analysis.instruction_places import InstructionPlaces, instruction_places
from tunnelbench.analysis.limits import LimitFinding, find_limits
from tunnelbench.analysis.packet_instructions import PacketInstructions, packet_instructions
from tunnelbench.analysis.soak import SoakSummary
from tunnelbench.analysis.soak_columns import SoakColumn, soak_columns
from tunnelbench.analysis.summary import Row, TrialClass, count_classes, summarise, trials_by_row
from tunnelbench.analysis.tunnel_start import TunnelStart, tunnel_starts
from tunnelbench.analysis.udp import UdpRow, summarise_udp
from tunnelbench.analysis.warnings import TrialWarning, trial_warnings
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Test
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.soak import Soak, SoakChunk
from tunnelbench.model.text import are, counted
from tunnelbench.report.cost_components_section import parts_sections
from tunnelbench.report.facts import SIMULATED_IN_CAPITALS, is_shared, measured_on, run_facts
from tunnelbench.report.figures import AnyRow
from tunnelbench.report.instruction_places_section import instruction_places_section
from tunnelbench.report.instructions_section import instructions_section
from tunnelbench.report.sections import Section, advice_section, cipher_section, cost_section, limits_section
from tunnelbench.report.soak_section import soak_section
from tunnelbench.report.table import ResultTable, legend, result_table, rows_with_trials
from tunnelbench.report.text import one_line
from tunnelbench.report.tunnel_start_section import tunnel_start_section

FIGURES_OF_A_GUEST = (
    "Absolute figures apply to a CPU that QEMU emulates; its CPUs share the machine with all other programs there."
)

LEAST_ROUNDS = 3
"""Number of repeats below which a report has a caution (rule 18)."""

WARNING_TITLES = {
    TrialClass.REFUSED: "Refused: failed the proof and was not timed",
    TrialClass.UNAVAILABLE: "Unavailable: not possible here",
    TrialClass.GIVEN_UP: "Given up: failed too often, not tried again",
    TrialClass.VOID: "Void: not in the figures",
    TrialClass.DOUBTFUL: "Doubtful: in the figures, and marked",
    TrialClass.NOTE: "Notes",
}


@dataclass(frozen=True)
class Style:
    """Options of a report's appearance that a format may use."""

    width: int | None = None
    """Columns of the terminal; None: the format's own."""
    colour: bool = False
    """True if escape sequences for colours are allowed."""
    full: bool = True
    """True for all figures; False for the first screen alone. Only the format `terminal` has a first screen."""


@dataclass(frozen=True)
class SoakReport:
    """A soak in a report: its summary, and its time series, which is read from the store each time."""

    soak: Soak
    summary: SoakSummary
    chunks: Callable[[], Iterable[tuple[int, SoakChunk]]]
    """Function that reads the time series in pieces, each with the number of its part."""

    def columns(self, most: int) -> list[SoakColumn]:
        """Return the series in at most `most` columns, without the time in which nothing was measured."""
        return soak_columns(self.soak, self.chunks, most)


@dataclass(frozen=True)
class Document:
    """The content of a run's report, which every format prints. Its texts have no line breaks and no markup."""

    run: RunRecord
    records: tuple[TrialRecord, ...]
    """Trials in the order in which they ran."""
    rows: tuple[Row, ...]
    """Rows of TCP."""
    udp_rows: tuple[UdpRow, ...]
    connection_rows: tuple[ConnectionRow, ...]
    """Rows of TCP connections."""
    limits: tuple[tuple[LimitFinding, ...], ...]
    """Limits of each row of TCP."""
    models: tuple[CostModel | NoModel, ...]
    """Cost of a packet in each tunnel."""
    parts: tuple[MeasuredComponents | UnknownComponents, ...]
    """Costs of forwarding, tunnel, cipher and digest, where variants of a tunnel show them."""
    instructions: tuple[PacketInstructions, ...]
    instruction_places: tuple[InstructionPlaces, ...]
    """Instructions of a router of fixed speed for one packet in each tunnel, if the plan has two low rates of UDP."""
    starts: tuple[TunnelStart, ...]
    """Times to start each tunnel; empty if the records were read without raw results."""
    advice: tuple[Advice, ...]
    soaks: tuple[SoakReport, ...]
    """All soaks; one that is not finished has no record."""
    speeds: tuple[CipherSpeed, ...]
    """Speeds of ciphers and digests without a tunnel, in the order in which they were measured."""
    doubts: tuple[TrialWarning, ...]
    """Checks that are not ok, and trials without a figure."""
    answer: Answer
    """Verdict, figures of each tunnel, warnings, advice and next commands."""
    title: str
    measured_on: str
    """Date, duration, number of trials and router on one line."""
    facts: tuple[tuple[str, str], ...]
    """Label and value of each fact about the run's testbed, router, machine and plan."""
    cautions: tuple[str, ...]
    """Sentences that a reader must know before the table."""
    sections: tuple[Section, ...]
    """Sections below the tables."""
    tally: str
    """Number of trials of each class."""
    warnings: tuple[Section, ...]
    """The warnings of the trials, one section for each class."""

    def rows_of(self, kind: str) -> Sequence[AnyRow]:
        """Return the rows of one kind of traffic."""
        every: dict[str, Sequence[AnyRow]] = {"tcp": self.rows, "udp": self.udp_rows}
        return every.get(kind, self.connection_rows)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of traffic that have a table; a run without any row has an empty table of TCP."""
        has_tcp = bool(self.rows) or not (self.udp_rows or self.connection_rows or self.soaks)
        others = {"udp": self.udp_rows, "connections": self.connection_rows}
        return ("tcp",) * has_tcp + tuple(kind for kind, rows in others.items() if rows)


def compose(
    run: RunRecord,
    records: Sequence[TrialRecord],
    target_mbps: float | None = None,
    speeds: Sequence[CipherSpeed] = (),
    soaks: Sequence[SoakReport] = (),
    *,
    allow_plaintext: bool = False,
) -> Document:
    """Return the content of the reports of a run.

    `target_mbps`: throughput that the advice is about; `speeds`: of ciphers without a tunnel. Tunnels that do not
    encrypt are recommended only with `allow_plaintext`.
    """
    ordered = tuple(sorted(records, key=lambda record: record.spec.sequence))
    rows = summarise(ordered)
    udp_rows = summarise_udp(ordered, rows)
    connection_rows = summarise_connections(ordered)
    found = trial_warnings(ordered, rows)
    trials = trials_by_row(ordered)
    limits = tuple(find_limits(row, trials[row.key]) for row in rows)
    unpaced = [record for record in ordered if not (record.spec.test is Test.TCP and record.spec.load)]
    models = cost_models(unpaced)
    parts = measured_components(unpaced, speeds)
    instructions = packet_instructions(ordered)
    places = instruction_places(ordered)
    starts = tunnel_starts(ordered)
    shared = is_shared(run)
    simulated = f"{SIMULATED_IN_CAPITALS}: " if run.is_simulated else ""
    at_full_speed = [place for place, row in enumerate(rows) if not row.load]
    advice = advise(
        [rows[place] for place in at_full_speed],
        [limits[place] for place in at_full_speed],
        target_mbps=target_mbps,
        cpu_mhz=clock_mhz(run.host_facts),
        is_shared=shared,
        allow_plaintext=allow_plaintext,
    )
    answered = AnswerInput(
        run=run,
        records=ordered,
        rows=rows,
        models=models,
        limits={row.key: tuple(each.limit for each in own) for row, own in zip(rows, limits, strict=True)},
        udp_rows=udp_rows,
        connection_rows=connection_rows,
        soaks=[soak.summary for soak in soaks],
        speeds=speeds,
        advice=advice,
        target_mbps=target_mbps,
    )
    classes = ", ".join(f"{number} {each}" for each, number in count_classes(ordered).items())
    return Document(
        run=run,
        records=ordered,
        rows=rows,
        udp_rows=udp_rows,
        connection_rows=connection_rows,
        limits=limits,
        models=models,
        parts=parts,
        instructions=instructions,
        instruction_places=places,
        starts=starts,
        advice=advice,
        doubts=found,
        answer=answer(answered, is_shared=shared, allow_plaintext=allow_plaintext),
        title=one_line(f"TunnelBench: {simulated}{run.plan_title or run.plan_name}"),
        measured_on=measured_on(run, len(ordered)),
        facts=tuple((label, one_line(value)) for label, value in run_facts(run, ordered)),
        cautions=tuple(one_line(caution) for caution in _cautions(run, ordered, rows, udp_rows)),
        sections=(
            *advice_section(advice),
            *limits_section(rows, limits),
            *cost_section(models),
            *parts_sections(parts),
            *instructions_section(instructions),
            *instruction_places_section(places),
            *tunnel_start_section(starts),
            *cipher_section(speeds, rows),
            *soak_section([soak.summary for soak in soaks]),
        ),
        soaks=tuple(soaks),
        speeds=tuple(speeds),
        tally=f"{counted(len(ordered), 'trial')}: {classes}.",
        warnings=_warnings(found),
    )


def tables(document: Document, *, thousands: bool = False) -> list[ResultTable]:
    """Return the tables of a run; `thousands`: with commas in large numbers."""
    records = document.records
    return [result_table(kind, document.rows_of(kind), records, thousands=thousands) for kind in document.kinds]


def legends(document: Document, mark: str) -> tuple[str, ...]:
    """Return the texts that explain the tables; `mark` is how the format shows the best figure, such as `bold`."""
    return tuple(
        paragraph
        for kind in document.kinds
        for paragraph in legend(kind, rows_with_trials(document.rows_of(kind), document.records), mark)
    )


def _cautions(
    run: RunRecord, records: Sequence[TrialRecord], rows: Sequence[Row], udp_rows: Sequence[UdpRow]
) -> Iterator[str]:
    if guest := run.host_facts.get("guest"):
        yield f"Taken {guest}: compare the shares of the baseline. {FIGURES_OF_A_GUEST}"
    yield from run.notes
    if len(records) < run.trials_planned:
        yield f"The table is incomplete: the run recorded {len(records)} of {counted(run.trials_planned, 'trial')}."
    if background := background_load_effect(records).in_words():
        yield background
    rounds = max((record.spec.round for record in records), default=0)
    compared = [record for record in records if record.spec.test is not Test.SOAK]
    is_repeated = all(len(record.udp.searches) >= LEAST_ROUNDS for record in compared if record.udp)
    if compared and 0 < rounds < LEAST_ROUNDS and (rows or not is_repeated):
        yield f"{counted(rounds, 'round')} cannot show a spread: differences between rows may be chance."
    limited, routed = _tester_limited(rows)
    if limited:
        yield (
            f"{len(limited)} of {counted(routed, 'row')} {are(len(limited))} tester-limited: the testers, not the "
            "router, set the throughput. Compare the router's CPU s per Mpackets."
        )
    if baselines := [f"{row.payload_bytes} {row.direction.label}" for row in limited if row.tunnel.is_baseline]:
        yield (
            f"The baseline is tester-limited too ({', '.join(baselines)}): a share is of what the testers could offer, "
            "not of what the router can carry."
        )
    udp_limited, udp_routed = _tester_limited(udp_rows)
    if udp_limited:
        yield (
            f"{len(udp_limited)} of {counted(udp_routed, 'UDP row')} {are(len(udp_limited))} tester-limited: the path "
            "may carry more than the testers could offer or receive."
        )


def _tester_limited(rows: Sequence[Row | UdpRow]) -> tuple[list[Row | UdpRow], int]:
    """Return the rows whose speed the testers limited, not the router, and the number of rows without calibrations."""
    routed = [row for row in rows if not row.is_calibration]
    return [row for row in routed if row.figures is not None and row.figures.is_tester_limited], len(routed)


def _warnings(found: Sequence[TrialWarning]) -> tuple[Section, ...]:
    return tuple(
        Section(title, items=items)
        for each, title in WARNING_TITLES.items()
        if (items := tuple(_warning(doubt) for doubt in found if doubt.trial_class is each))
    )


def _warning(doubt: TrialWarning) -> str:
    check = f" {doubt.check} (rule {doubt.rule}):" if doubt.check else ""
    return one_line(f"{doubt.tunnel}, {doubt.where}:{check} {doubt.reason or 'no reason recorded'}")
