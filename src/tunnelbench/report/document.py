"""What every report for people says, in its order: what it was taken on, the table, the doubts."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tunnelbench.analysis.advice import Advice, advise, clock_mhz
from tunnelbench.analysis.answer import Answer, answer
from tunnelbench.analysis.cost_model import CostModel, NoModel, cost_models
from tunnelbench.analysis.doubts import Doubt, doubts
from tunnelbench.analysis.limits import Finding, what_limits
from tunnelbench.analysis.numbers import significant
from tunnelbench.analysis.own_parts import NoParts, OwnParts, own_parts
from tunnelbench.analysis.quiet import quiet
from tunnelbench.analysis.soak import SoakSummary
from tunnelbench.analysis.soak_columns import SoakColumn, soak_columns
from tunnelbench.analysis.statistics import median
from tunnelbench.analysis.summary import Row, TrialClass, count_classes, summarise
from tunnelbench.analysis.udp import UdpRow, summarise_udp
from tunnelbench.model.cipher_speed import CipherSpeed
from tunnelbench.model.plan import Test
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.soak import Soak, SoakChunk
from tunnelbench.model.testbed import TOPOLOGIES
from tunnelbench.report.annexes import Annex, advice_annex, cipher_annex, cost_annex, limits_annex
from tunnelbench.report.parts_annex import parts_annexes
from tunnelbench.report.soak_annex import soak_annex
from tunnelbench.report.text import one_line
from tunnelbench.report.udp_table import udp_legend

TAKEN_ON = {
    "netns": "one machine, three namespaces: shares of the baseline hold, absolute figures do not",
    "qemu": "a virtual router between two namespaces of one machine: shares of its own baseline, no device's figures",
    "ssh": "a router of its own between two testers",
}
"""What a kind of testbed means for its figures (rule 21)."""

OWN_ROUTER = ("ssh",)
"""Kinds whose router is a machine of its own."""

ABSOLUTE_FIGURES_OF_A_GUEST = (
    "Its absolute figures are those of a CPU that QEMU makes, and its CPUs share the machine with all that runs there."
)

LEAST_ROUNDS = 3
"""Repeats below which a reader is warned (rule 18)."""

NOT_RECORDED = "not recorded"

SECTION_TITLES = {
    TrialClass.REFUSED: "Refused: failed the proof and was not timed",
    TrialClass.UNAVAILABLE: "Unavailable: cannot be done here",
    TrialClass.GIVEN_UP: "Given up: failed too often to be tried again",
    TrialClass.VOID: "Void: not in the figures",
    TrialClass.DOUBTFUL: "Doubtful: in the figures, and marked",
    TrialClass.NOTE: "Notes",
}


@dataclass(frozen=True)
class Style:
    """How a report is to look where its format leaves a choice."""

    width: int | None = None
    """Columns of the terminal; None: the format's own."""
    colour: bool = False


@dataclass(frozen=True)
class Section:
    """Doubts of one class."""

    title: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class SoakReport:
    """A long run: what it says, and its series, which is read anew each time."""

    soak: Soak
    summary: SoakSummary
    chunks: Callable[[], Iterable[tuple[int, SoakChunk]]]
    """Pieces of the series with the numbers of their parts."""

    def columns(self, most: int) -> list[SoakColumn]:
        """The series in at most so many columns; what nobody measured is left out."""
        return soak_columns(self.soak, self.chunks, most)


@dataclass(frozen=True)
class Document:
    """A run and what follows from it, ready to be drawn. Its text is without line breaks and markup."""

    run: RunRecord
    records: tuple[TrialRecord, ...]
    """In the order in which they ran."""
    rows: tuple[Row, ...]
    """Of TCP."""
    udp_rows: tuple[UdpRow, ...]
    limits: tuple[tuple[Finding, ...], ...]
    """What limits each row."""
    models: tuple[CostModel | NoModel, ...]
    """What a packet costs in each tunnel."""
    parts: tuple[OwnParts | NoParts, ...]
    """Forwarding, tunnel, cipher and digest apart, where variants of a tunnel tell."""
    advice: tuple[Advice, ...]
    soaks: tuple[SoakReport, ...]
    """Also those that are not finished, which have no record."""
    speeds: tuple[CipherSpeed, ...]
    """Of ciphers and digests by themselves, in the order in which they were measured."""
    doubts: tuple[Doubt, ...]
    answer: Answer
    """What a reader came for, in two sentences."""
    title: str
    facts: tuple[tuple[str, str], ...]
    """What it was taken on: label and value."""
    cautions: tuple[str, ...]
    """What a reader must know before the table."""
    annexes: tuple[Annex, ...]
    """What stands below the table."""
    tally: str
    """How many trials there are of each class."""
    sections: tuple[Section, ...]

    @property
    def has_tcp_table(self) -> bool:
        """Of a run without any row its head is shown."""
        return bool(self.rows) or not (self.udp_rows or self.soaks)


def compose(
    run: RunRecord,
    records: Sequence[TrialRecord],
    target_mbps: float | None = None,
    speeds: Sequence[CipherSpeed] = (),
    soaks: Sequence[SoakReport] = (),
) -> Document:
    """All that the formats draw from.

    `target_mbps`: the throughput that the advice is asked for; `speeds`: of ciphers by themselves.
    """
    ordered = tuple(sorted(records, key=lambda record: record.spec.sequence))
    rows = summarise(ordered)
    udp_rows = summarise_udp(ordered, rows)
    found = doubts(ordered, rows)
    limits = tuple(what_limits(row, _trials_of(row, ordered)) for row in rows)
    models = cost_models(ordered)
    parts = own_parts(ordered, speeds)
    advice = advise(rows, limits, target_mbps=target_mbps, cpu_mhz=clock_mhz(run.host_facts), is_shared=_is_shared(run))
    answered = answer(rows, limits, udp_rows, advice, is_shared=_is_shared(run))
    counted = ", ".join(f"{number} {each}" for each, number in count_classes(ordered).items())
    return Document(
        run=run,
        records=ordered,
        rows=rows,
        udp_rows=udp_rows,
        limits=limits,
        models=models,
        parts=parts,
        advice=advice,
        doubts=found,
        answer=Answer(one_line(answered.tunnel), one_line(answered.limit)),
        title=one_line(f"TunnelBench: {run.plan_title or run.plan_name}"),
        facts=tuple((label, one_line(value)) for label, value in _facts(run, ordered)),
        cautions=tuple(one_line(caution) for caution in _cautions(run, ordered, rows, udp_rows)),
        annexes=(
            *advice_annex(advice),
            *limits_annex(rows, limits),
            *cost_annex(models),
            *parts_annexes(parts),
            *cipher_annex(speeds, rows),
            *soak_annex([soak.summary for soak in soaks]),
        ),
        soaks=tuple(soaks),
        speeds=tuple(speeds),
        tally=f"{len(ordered)} trials: {counted}.",
        sections=_sections(found),
    )


def legends(document: Document, mark: str) -> tuple[str, ...]:
    """How to read the tables that a document has."""
    of_tcp = legend(mark) if document.has_tcp_table else ()
    return (*of_tcp, *((udp_legend(),) if document.udp_rows else ()))


def _trials_of(row: Row, records: Sequence[TrialRecord]) -> list[TrialRecord]:
    place = (row.tunnel.name, row.payload_bytes, row.direction)
    return [
        record
        for record in records
        if (record.spec.tunnel.name, record.spec.payload_bytes, record.spec.direction) == place
    ]


def _is_shared(run: RunRecord) -> bool:
    """Whether router and testers were one machine, or a hypervisor lent it."""
    kind = _testbed_kind(run.testbed_text)
    if kind in OWN_ROUTER:
        return False
    is_virtual = run.host_facts.get("virtual") == "yes" or "guest" in run.host_facts
    return kind in TAKEN_ON or is_virtual


def legend(mark: str) -> tuple[str, ...]:
    """How to read the table; `mark`: how the best is marked, such as `bold`."""
    statistics = (
        "Figures are the median of the trials that count, with minimum and maximum; from five trials on with the 95 % "
        f"bootstrap interval of the median. The best of each payload and direction is {mark}, the baseline left out; "
        "several where the spread does not tell them apart. Throughput and packets/s are not ranked where a row of "
        "the group is tester-limited."
    )
    columns = (
        "Payload: TCP payload asked for in a full segment, in bytes. Direction: in is server to client, out is client "
        "to server. Throughput: TCP payload received. CPU of the router: busy is wall time less idle; "
        "usr/sys/softirq/steal come from clock ticks and are indicative; daemon is the tunnel's processes. CPU s per "
        "Mpackets counts data and ACKs, per Gbit counts payload. Ping: the router's worst answer to the client. "
        "Extrapolated: what one CPU of the router would carry, data and ACKs, if a packet went on costing the same."
    )
    return statistics, columns


def taken_on(run: RunRecord) -> str:
    """What the testbed means for the figures, in words."""
    kind = _testbed_kind(run.testbed_text)
    return TAKEN_ON.get(kind, f"kind {kind or NOT_RECORDED}; shares of the baseline hold better than absolute figures")


def _facts(run: RunRecord, records: Sequence[TrialRecord]) -> list[tuple[str, str]]:
    facts = {key: str(value) for key, value in run.host_facts.items() if value is not None and value != ""}
    inside = f"{facts['guest']}; " if "guest" in facts else ""
    topology = _testbed_key(run.testbed_text, "topology")
    return [
        ("Taken on", f"testbed {run.testbed_name}: {inside}{taken_on(run)}"),
        *([("Topology", f"{topology}: {TOPOLOGIES[topology]}")] if topology in TOPOLOGIES else []),
        *([("Router", _router(facts))] if "router_kernel" in facts else []),
        *([("Wireless", told)] if (told := _radios(facts)) else []),
        ("CPU", _cpu(facts)),
        ("System", _system(facts)),
        ("Plan", f"{run.plan_name}: {_size(records)}"),
        ("Run", f"{run.run_id}, {_time(run)}; {run.status}, {len(records)} of {run.trials_planned} trials"),
        ("TunnelBench", run.tunnelbench_version),
    ]


def _router(facts: Mapping[str, str]) -> str:
    """A router of its own: what it is, as far as it tells."""
    cores = facts.get("router_cpus", "?")
    model = facts.get("router_cpu_model", facts.get("router_architecture", "CPU not told"))
    parts = [
        facts.get("router_board", "board not told"),
        *([facts["router_soc"]] if "router_soc" in facts else []),
        f"{model}, {cores} CPU{'s' * (cores != '1')}"
        + (f" of {facts['router_cpu_mhz']} MHz" if "router_cpu_mhz" in facts else ""),
        f"instructions {facts['router_crypto_instructions']}" if "router_crypto_instructions" in facts else "",
        f"{facts['router_memory_mib']} MiB" if "router_memory_mib" in facts else "",
        f"{facts.get('router_system', 'system not told')}, kernel {facts['router_kernel']}",
        f"firewall {facts['router_firewall']}" if "router_firewall" in facts else "",
        f"flow offloading {'on' if facts['router_flow_offloading'] == '1' else 'off'}"
        if "router_flow_offloading" in facts
        else "",
        f"{facts['router_watts']} W" if "router_watts" in facts else "",
        facts.get("router_price", ""),
    ]
    return "; ".join(part for part in parts if part)


def _radios(facts: Mapping[str, str]) -> str:
    """The radios of a wireless LAN when the run began; empty where it has none, or nobody could ask."""
    words = {
        "band": "{}",
        "channel": "channel {}",
        "width_mhz": "{} MHz wide",
        "tx_mbps": "sent at {} Mbit/s",
        "rx_mbps": "received at {} Mbit/s",
        "signal_dbm": "signal {} dBm",
    }
    told = {}
    for role in ("client", "router"):
        known = [
            text.format(facts[f"{role}_radio_{name}"])
            for name, text in words.items()
            if f"{role}_radio_{name}" in facts
        ]
        if known:
            told[role] = f"{role}: {', '.join(known)}"
    return "; ".join(told.values())


def _system(facts: Mapping[str, str]) -> str:
    """The machine's system, and the kernel that carried the traffic where that was a guest's."""
    own = f"{facts.get('system', NOT_RECORDED)}, kernel {facts.get('kernel', NOT_RECORDED)}"
    if "guest" not in facts:
        return own
    package = f" ({facts['guest_package']})" if "guest_package" in facts else ""
    cpu = f", CPU {facts['guest_cpu']}" if "guest_cpu" in facts else ""
    return f"{own}; {facts['guest']}: kernel {facts.get('guest_kernel', NOT_RECORDED)}{package}{cpu}"


def _cpu(facts: Mapping[str, str]) -> str:
    parts = [
        facts.get("cpu_model", NOT_RECORDED),
        f"{facts['cpus']} CPUs" if "cpus" in facts else f"CPUs {NOT_RECORDED}",
        f"governor {facts.get('governor', NOT_RECORDED)}",
    ]
    if "crypto_instructions" in facts:
        parts.append(f"instructions {facts['crypto_instructions']}")
    if facts.get("virtual") == "yes":
        parts.append("a virtual machine")
    return ", ".join(parts)


def _testbed_kind(text: str) -> str:
    return _testbed_key(text, "kind")


def _testbed_key(text: str, key: str) -> str:
    try:
        return str(tomllib.loads(text).get(key, ""))
    except tomllib.TOMLDecodeError:
        return ""


def _size(records: Sequence[TrialRecord]) -> str:
    if not records:
        return "no trial recorded"
    rounds = max(record.spec.round for record in records)
    durations = [record.tcp.duration_s for record in records if record.tcp is not None]
    length = f", trials of {significant(median(durations), 3)} s" if durations else ""
    return f"{_rounds(rounds)}{length}"


def _rounds(number: int) -> str:
    return f"{number} round{'s' if number > 1 else ''}"


def _time(run: RunRecord) -> str:
    try:
        start = datetime.fromisoformat(run.started_at).astimezone(UTC)
        end = datetime.fromisoformat(run.ended_at).astimezone(UTC) if run.ended_at else None
    except ValueError:
        return run.started_at
    lasted = f", {(end - start).total_seconds() / 60:.1f} min" if end else ""
    return f"{start:%Y-%m-%d %H:%M} UTC{lasted}"


def _cautions(
    run: RunRecord, records: Sequence[TrialRecord], rows: Sequence[Row], udp_rows: Sequence[UdpRow]
) -> list[str]:
    found = list(run.notes)
    if guest := run.host_facts.get("guest"):
        found.insert(0, f"Taken {guest}: compare the shares of the baseline. {ABSOLUTE_FIGURES_OF_A_GUEST}")
    if len(records) < run.trials_planned:
        found.append(f"The table is not whole: {len(records)} of {run.trials_planned} trials are recorded.")
    if said := quiet(records).in_words():
        found.append(said)
    rounds = max((record.spec.round for record in records), default=0)
    compared = [record for record in records if record.spec.test is not Test.SOAK]
    repeated = all(len(record.udp.searches) >= LEAST_ROUNDS for record in compared if record.udp)
    if compared and 0 < rounds < LEAST_ROUNDS and (rows or not repeated):
        found.append(f"{_rounds(rounds)} cannot show a spread: differences between rows may be chance.")
    routed = [row for row in rows if not row.is_calibration]
    limited = [row for row in routed if row.figures is not None and row.figures.is_tester_limited]
    if limited:
        found.append(
            f"{len(limited)} of {len(routed)} rows are tester-limited: the testers set the throughput there, not the "
            "router. Compare the router's CPU s per Mpackets."
        )
    if baselines := [f"{row.payload_bytes} {row.direction}" for row in limited if row.tunnel.is_baseline]:
        found.append(
            f"The baseline is tester-limited too ({', '.join(baselines)}): a share is of what the testers could offer "
            "there, not of what the router could carry."
        )
    if udp_limited := [row for row in udp_rows if row.figures and row.figures.is_tester_limited and _is_routed(row)]:
        routed_rows = sum(_is_routed(row) for row in udp_rows)
        found.append(
            f"{len(udp_limited)} of {routed_rows} UDP rows are tester-limited: the path may carry more than the "
            "testers could offer or receive."
        )
    return found


def _is_routed(row: UdpRow) -> bool:
    return not row.is_calibration


def _sections(found: Sequence[Doubt]) -> tuple[Section, ...]:
    return tuple(
        Section(title, items)
        for each, title in SECTION_TITLES.items()
        if (items := tuple(_item(doubt) for doubt in found if doubt.trial_class is each))
    )


def _item(doubt: Doubt) -> str:
    check = f" {doubt.check} (rule {doubt.rule}):" if doubt.check else ""
    return one_line(f"{doubt.tunnel}, {doubt.where}:{check} {doubt.reason or 'no reason recorded'}")
