"""Small tables of the first screen: one line for each tunnel, and only the columns that have figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

from tunnelbench.analysis.answer.tunnels import DirectionAnswer, TunnelAnswer, group_place
from tunnelbench.analysis.answer.udp import LongerTrial, UdpAnswer, UdpDirectionAnswer
from tunnelbench.analysis.answer.words import UPPER_BOUND, cpu_percent, large_packets, mbps, thousands
from tunnelbench.analysis.clients import ClientsRow, clients_rows
from tunnelbench.analysis.connections import ConnectionFigures, ConnectionRow
from tunnelbench.analysis.cost_model import IMIX_FRAMES, CostModel, models_of_many_sizes
from tunnelbench.analysis.number_format import count_text, percent_in_words, significant
from tunnelbench.analysis.packet_instructions import PacketInstructions
from tunnelbench.analysis.soak import SoakSummary
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Row
from tunnelbench.analysis.udp import SMALL_PAYLOAD_BYTES, UdpFigures, UdpRow, rows_of
from tunnelbench.model.cipher_speed import BLOCK_BYTES, PLAIN, CipherSpeed
from tunnelbench.model.plan import FLAT_OUT, Direction, Test, payload_text
from tunnelbench.model.text import counted, joined
from tunnelbench.report.document import Document
from tunnelbench.report.text import COLUMN_GAP, INDENT, length, one_line

T = TypeVar("T")

ENCRYPTED, NOT_ENCRYPTED, UNKNOWN_ENCRYPTION = "ENCRYPTED", "NOT ENCRYPTED", "ENCRYPTION UNKNOWN"
NO_FIGURES = "WITHOUT FIGURES"
DOUBT_MARK = "?"
"""Last character of a doubtful figure. In a terminal, the mark stands in the gap after the column."""
MOST_SCREEN_ROWS = 60
"""Largest number of rows of a table in a terminal."""
MOST_CIPHERS = 12
"""Largest number of algorithms on the first screen."""


@dataclass(frozen=True)
class ScreenRow:
    """A line of a table."""

    name: str
    cells: tuple[str, ...]
    group: str = ""
    """Heading above the lines of a group; empty: no heading."""
    note: str = ""
    """Text in place of the cells, if there is no figure."""
    is_best: bool = False


@dataclass(frozen=True)
class ScreenColumn:
    """A column; neighbours with the same heading share it."""

    heading: tuple[str, ...]
    """Lines of the heading."""
    label: str
    """Last line of the heading, such as `down`; may be empty."""


@dataclass(frozen=True)
class ScreenTable:
    """A table of the first screen."""

    title: str
    """Heading of the names; may be empty."""
    columns: tuple[ScreenColumn, ...]
    rows: tuple[ScreenRow, ...]
    legend: str

    def lines(self, width: int) -> Iterator[tuple[str, str]]:
        """Yield the lines of at most MOST_SCREEN_ROWS rows with a style each: `head`, `group`, `best`, or nothing."""
        shown = self.rows[:MOST_SCREEN_ROWS]
        sections = [
            (heading, list(own)) for heading, own in groupby(enumerate(self.columns), key=lambda each: each[1].heading)
        ]
        widths = {
            place: max(len(column.label), *(len(_figure(row.cells[place])) for row in shown if row.cells), 0)
            for place, column in enumerate(self.columns)
        }
        for heading, own in sections:  # the first column of a section takes what its heading needs beyond the cells
            lacking = (
                max(map(len, heading), default=0)
                - sum(widths[place] + len(COLUMN_GAP) for place, _ in own)
                + len(COLUMN_GAP)
            )
            widths[own[0][0]] += max(0, lacking)
        marks = any(row.cells and row.cells[-1].endswith(DOUBT_MARK) for row in shown)  # right of the last column
        figures = sum(widths.values()) + len(COLUMN_GAP) * len(widths) + marks * len(DOUBT_MARK)
        room = max(LEAST_NAME_COLUMNS, width - figures - len(INDENT))
        names = min(
            room, max([len(self.title), *(len(row.name) for row in shown if row.cells or not self.columns)], default=0)
        )
        height = max((len(heading) for heading, _ in sections), default=0)
        for line in range(height):
            title = self.title if line == height - 1 and not any(column.label for column in self.columns) else ""
            parts = []
            for heading, own in sections:
                size = sum(widths[place] for place, _ in own) + len(COLUMN_GAP) * (len(own) - 1)
                padded = ("",) * (height - len(heading)) + heading
                parts.append(padded[line].rjust(size))
            yield COLUMN_GAP.join([f"{INDENT}{title:<{names}}", *parts]), "head"
        if any(column.label for column in self.columns):
            labels = [column.label.rjust(widths[place]) for place, column in enumerate(self.columns)]
            yield COLUMN_GAP.join([f"{INDENT}{self.title:<{names}}", *labels]), "head"
        for group, rows in groupby(shown, key=lambda row: row.group):
            if group:
                yield f"{INDENT}{group}", "group"
            for row in rows:
                yield from _row_lines(row, names, widths, width)
        if left_out := len(self.rows) - len(shown):
            yield f"{INDENT}and {left_out} more: --full", "note"


LEAST_NAME_COLUMNS = 12
"""Smallest width of the names of tunnels [columns]."""


def _row_lines(row: ScreenRow, names: int, widths: dict[int, int], width: int) -> Iterator[tuple[str, str]]:
    style = "best" if row.is_best else ""
    if not row.cells:
        text = f"{INDENT}{row.name:<{names}}{COLUMN_GAP}{row.note}"
        yield text if len(text) <= width else f"{text[: width - 1]}…", "note"
        return
    gap = COLUMN_GAP.removesuffix(" ")
    cells = [
        _figure(cell).rjust(widths[place]) + (DOUBT_MARK if cell.endswith(DOUBT_MARK) else " ")
        for place, cell in enumerate(row.cells)
    ]
    name, figures = row.name, gap.join(cells)
    blanks = len(figures) - len(figures.lstrip())  # a long name may reach into them
    if len(name) > names + blanks:
        yield f"{INDENT}{name}", style
        name = ""
    yield f"{INDENT}{name:<{names}}{COLUMN_GAP}{figures[max(0, len(name) - names) :]}".rstrip(), style


def _figure(cell: str) -> str:
    return cell.removesuffix(DOUBT_MARK)


@dataclass(frozen=True)
class _Cell(Generic[T]):
    """A column, and the function that returns its text for an object."""

    heading: tuple[str, ...]
    label: str
    text: Callable[[T], str]


def _table(
    title: str, cells: Sequence[_Cell[T]], items: Sequence[tuple[ScreenRow, T]], legend: str
) -> ScreenTable | None:
    """Return a table without its empty columns, group after group; without columns, only if each line has a note."""
    texts = [[cell.text(item) for cell in cells] for _, item in items]
    used = [place for place in range(len(cells)) if any(line[place] for line in texts)]
    if not used and not (items and all(row.note for row, _ in items)):
        return None
    groups: dict[str, list[ScreenRow]] = {}
    for (row, _), line in zip(items, texts, strict=True):
        own = tuple(line[place] or "-" for place in used) if any(line) else ()
        shown = ScreenRow(one_line(row.name), own, row.group, one_line(row.note), row.is_best)
        groups.setdefault(row.group, []).append(shown)
    columns = tuple(ScreenColumn(cells[place].heading, cells[place].label) for place in used)
    rows = tuple(row for group in groups.values() for row in group)
    return ScreenTable(title, columns, rows, legend if used else "")


def screen_tables(document: Document) -> list[ScreenTable]:
    """Return the tables of a run's first screen; that of the ciphers only if it is the only one."""
    answer = document.answer
    found = [
        tunnel_table(answer.tunnels, answer.recommended),
        udp_table(answer.udp, answer.recommended),
        clients_table(clients_rows(document.rows, document.records)),
        rekey_table(rows_of(Test.REKEY, document.udp_rows)),
        handshake_table(rows_of(Test.HANDSHAKE, document.udp_rows)),
        connections_table(document.connection_rows),
        instructions_table(document.instructions),
        soak_table([report.summary for report in document.soaks]),
        cost_table(
            models_of_many_sizes(document.models),
            answer.tunnels,
        ),
    ]
    if not any(found):
        found = [cipher_table(document.speeds)]
    return [table for table in found if table]


def _group(is_encrypted: bool | None, reason: str = "") -> str:
    """Return the heading of a tunnel; `reason` says why it has no figure."""
    return NO_FIGURES if reason else {True: ENCRYPTED, False: NOT_ENCRYPTED, None: UNKNOWN_ENCRYPTION}[is_encrypted]


def tunnel_table(tunnels: Sequence[TunnelAnswer], best: str | None) -> ScreenTable | None:
    """Return the table of TCP; tunnels without any figure are the last."""
    if not tunnels:
        return None

    def of(way: str, text: Callable[[DirectionAnswer], str]) -> Callable[[TunnelAnswer], str]:
        return lambda tunnel: text(tunnel.directions[way])

    def rate(found: DirectionAnswer) -> str:
        text = mbps(found.throughput_bps, is_lower_bound=found.is_lower_bound) if found.throughput_bps else ""
        return _marked(text, found.is_doubtful)

    def cpu(found: DirectionAnswer) -> str:
        mark = "" if found.is_cpu_measured else "~" * any_measured
        text = f"{mark}{cpu_percent(found.cpu_share.median)}" if found.cpu_share else ""
        return _marked(text, found.is_doubtful)

    def small(found: DirectionAnswer) -> str:
        text = thousands(found.small_pps, is_lower_bound=found.is_small_lower_bound) if found.small_pps else ""
        return _marked(text, found.is_small_doubtful)

    ways = [way for tunnel in tunnels for way in tunnel.directions.values()]
    any_measured = any(way.is_cpu_measured for way in ways)
    groups = (
        (("Mbit/s,", large_packets(tunnels)), rate),
        (("router CPU", f"at {tunnels[0].reference_mbps:g} Mbit/s"), cpu),
        (("thousand/s,", "small packets"), small),
    )
    cells = [_Cell(heading, way, of(way, text)) for heading, text in groups for way in ("down", "up")]
    rows = [
        (ScreenRow(each.name, (), _group(each.is_encrypted, each.reason), each.reason, each.name == best), each)
        for each in tunnels
    ]
    rows.sort(key=lambda row: row[0].group == NO_FIGURES)
    legend = _tunnel_legend(tunnels, ways, any_measured=any_measured)
    if any(way.is_doubtful or way.is_small_doubtful for way in ways):
        legend += " ?: doubtful."
    return _table("", cells, rows, legend)


def _marked(text: str, is_doubtful: bool) -> str:
    return text + DOUBT_MARK * (bool(text) and is_doubtful)


def _repeats(repeats: Sequence[int]) -> str:
    """Return the words for the numbers of trials behind the figures of each tunnel."""
    least, most = min(repeats, default=0), max(repeats, default=0)
    if most < 2:
        return "Single trials." * bool(repeats)
    return f"Medians of {most if least == most else f'{least} to {most}'} trials."


def _tunnel_legend(tunnels: Sequence[TunnelAnswer], ways: Sequence[DirectionAnswer], *, any_measured: bool) -> str:
    is_bound = any(way.is_lower_bound or way.is_small_lower_bound for way in ways)
    method = f"CPU: % of one CPU for TCP, measured at {tunnels[0].reference_mbps:g} Mbit/s; ~: computed." * any_measured
    parts = [
        "down: server to client." * any(tunnel.down != DirectionAnswer() for tunnel in tunnels),
        _sizes(tunnels),
        _repeats([tunnel.repeats for tunnel in tunnels if tunnel.has_figures]),
        "≥: lower bound, because client and server were the limit." * is_bound,
        method or "CPU: % of one CPU for TCP, computed from that at full load.",
    ]
    return " ".join(filter(None, parts))


def _sizes(tunnels: Sequence[TunnelAnswer]) -> str:
    """Return the payloads that `large packets` and `small packets` in the headings stand for."""
    large, small = tunnels[0].large_payload_bytes, tunnels[0].small_payload_bytes
    if not any(way.small_pps for tunnel in tunnels for way in tunnel.directions.values()):
        small = None
    sent = [*{payload for tunnel in tunnels for payload in tunnel.sent_payload_bytes}] or [large]
    size = f"{min(sent)} to {max(sent)}" if len(sent) > 1 else f"{sent[0]}"
    parts = [f"Large packets: {size} bytes of payload"] if large > SMALL_PAYLOAD_BYTES else []
    parts += [f"small: {small}" if parts else f"Small packets: {small} bytes of payload"] if small else []
    return f"{', '.join(parts)}." if parts else ""


def udp_table(answers: Sequence[UdpAnswer], best: str | None) -> ScreenTable | None:
    """Return the table of UDP; tunnels without any figure are the last."""
    if not answers:
        return None

    def of(way: str, text: Callable[[UdpDirectionAnswer], str]) -> Callable[[UdpAnswer], str]:
        return lambda answer: text(answer.directions[way])

    def rate(pps: Estimate | None, found: UdpDirectionAnswer, refutation: LongerTrial | None = None) -> str:
        if pps is None:
            return ""
        shown = refutation.bound_of(pps) if refutation else pps
        text = thousands(shown, is_lower_bound=found.is_lower_bound and not refutation)
        return _marked(UPPER_BOUND * bool(refutation) + text, found.is_doubtful)

    def ndr(found: UdpDirectionAnswer) -> str:
        return rate(found.ndr_pps, found, found.ndr_refutation)

    def pdr(found: UdpDirectionAnswer) -> str:
        return rate(found.pdr_pps, found, found.pdr_refutation)

    def delay(found: UdpDirectionAnswer) -> str:
        if not found.delay_p99_ns:
            return ""
        other = f" ({found.delay_load})" if found.delay_load != load else ""
        text = significant(found.delay_p99_ns.median / 1e3, 3, thousands=True) + other
        return _marked(text, bool(found.delay_doubts))

    every = [way for answer in answers for way in answer.directions.values()]
    load = next((way.delay_load for way in every if way.delay_load), "")
    at = "idle" if load == "idle" else f"at {load} load"
    groups = (
        (("thousand", "packets/s", "without loss"), ndr),
        (("thousand", "packets/s,", "0.5 % loss"), pdr),
        (("thousand", "packets/s", "at full load"), lambda found: rate(found.carried_pps, found)),
        (("Mbit/s,", f"{answers[0].large_payload_bytes} bytes"), _large_rate),
        (("loss in a", "longer trial"), _longer_loss),
        (("99 % of packets", "within, µs,", at), delay),
    )
    cells = [_Cell(heading, way, of(way, text)) for heading, text in groups for way in ("down", "up")]
    rows = [
        (ScreenRow(each.name, (), _group(each.is_encrypted, each.reason), each.reason, each.name == best), each)
        for each in answers
    ]
    rows.sort(key=lambda row: row[0].group == NO_FIGURES)
    return _table("", cells, rows, _udp_legend(answers, every, load))


def _large_rate(found: UdpDirectionAnswer) -> str:
    text = mbps(found.large_bps, is_lower_bound=found.is_large_lower_bound) if found.large_bps else ""
    return _marked(text, bool(found.large_doubts))


def _longer_loss(found: UdpDirectionAnswer) -> str:
    return percent_in_words(found.longer[0].loss_ratio) if found.longer else ""


def _udp_legend(answers: Sequence[UdpAnswer], every: Sequence[UdpDirectionAnswer], load: str) -> str:
    size = f"{answers[0].payload_bytes} bytes" if answers[0].payload_bytes else "mixed sizes"
    refutations = [each for way in every for each in (way.ndr_refutation, way.pdr_refutation) if each]
    parts = [
        f"UDP with {size} of payload.",
        "down: server to client." * any(answer.down != UdpDirectionAnswer() for answer in answers),
        _repeats([answer.repeats for answer in answers if answer.mean_pps]),
        "≥: lower bound." * any(way.is_lower_bound or way.is_large_lower_bound for way in every),
        "<: less than this, because a longer trial at this rate lost packets." * bool(refutations),
        _loads({way.delay_load for way in every} - {"", load}, load),
        "?: doubtful." * any(doubts for way in every for _, doubts in way.marks()),
    ]
    return " ".join(filter(None, parts))


def _loads(others: Collection[str], load: str) -> str:
    """Return the sentences on the loads at which delays were measured; `others` stand at their figures."""
    if load in ("", "idle"):
        return ""
    own = f" ({min(others)}): at {min(others)} of it." if others else ""
    return f"Delays are one way; load: share of the rate with 0.5 % loss.{own}"


def instructions_table(every: Sequence[PacketInstructions]) -> ScreenTable | None:
    """Return the table of the instructions for one packet, by tunnel and direction."""
    payloads = sorted({payload for each in every for payload in each.by_payload})
    has_ways = len({each.direction for each in every}) > 1

    def packet(payload: int) -> Callable[[PacketInstructions], str]:
        return lambda each: (
            significant(each.by_payload[payload].median, 4, thousands=True) if payload in each.by_payload else ""
        )

    def quotient(payload: int) -> Callable[[PacketInstructions], str]:
        return lambda each: significant(each.over_baseline[payload].median, 3) if payload in each.over_baseline else ""

    cells: list[_Cell[PacketInstructions]] = [
        *(_Cell(("a packet of", f"{payload} bytes"), "", packet(payload)) for payload in payloads),
        _Cell(("each", "byte"), "", lambda each: _each_byte(each.per_byte) if each.per_byte else ""),
        *(
            _Cell(("against no", "tunnel, at", f"{payload} bytes"), "", quotient(payload))
            for payload in dict.fromkeys((*payloads[:1], *payloads[-1:]))
        ),
    ]

    def name(each: PacketInstructions) -> str:
        return f"{each.tunnel.name}, {each.direction.label}" if has_ways else each.tunnel.name

    def note(each: PacketInstructions) -> str:
        if each.by_payload:
            return ""
        return f"no figure: packets were lost or waited in {counted(each.left_out_trials, 'trial')}"

    rows = [(ScreenRow(name(each), (), note=note(each)), each) for each in every]
    legend = "Instructions of the router for one UDP packet, at a low rate, without the router's idle work. Medians."
    if any(each.per_byte and _may_be_zero(each.per_byte) for each in every):
        legend += " <: upper bound; not distinct from 0."
    return _table("INSTRUCTIONS OF", cells, rows, legend)


def _may_be_zero(found: Estimate) -> bool:
    return found.low <= 0


def _each_byte(found: Estimate) -> str:
    """Return the instructions for each byte. No byte saves work: a value below 0 shows how far the rounds differ."""
    if _may_be_zero(found):
        return f"{UPPER_BOUND}{significant(max(found.high, -found.low), 2)}"
    return significant(found.median, 3)


SOAK_LEGEND = (
    "Mbit/s: payload of the packets that were sent. Packets that client or server dropped themselves do not count as "
    "lost. Router CPU: mean busy share of its CPUs. Gaps: times without a measurement."
)


def clients_table(rows: Sequence[ClientsRow]) -> ScreenTable | None:
    """Return the table of the clients of one server: one line for each tunnel, payload and direction."""
    sizes = sorted({each.row.payload_bytes for each in rows})

    def name(row: Row) -> str:
        size = f", {row.payload_bytes} bytes" if len(sizes) > 1 else ""
        return f"{row.tunnel.name}{size}, {row.direction.label}"

    def of(text: Callable[[ClientsRow], str]) -> Callable[[ClientsRow], str]:
        return lambda each: _marked(text(each), bool(each.row.doubts))

    cells: list[_Cell[ClientsRow]] = [
        _Cell(("Mbit/s,", "all clients"), "", of(lambda each: _sum(each.row))),
        _Cell(("share of each client,", "in its order"), "", of(_shares)),
        _Cell(("Jain's", "index"), "", of(lambda each: significant(each.jain_index.median, 3))),
    ]
    found = [(ScreenRow(name(each.row), (), _group(each.row.is_encrypted)), each) for each in rows]
    repeats = _repeats([each.row.trials - each.row.uncounted_trials for each in rows])
    legend = (
        f"TCP of all clients at the same time, {joined([payload_text(size, is_udp=False) for size in sizes])} bytes of "
        f"payload. Jain's index: 1 if all have the same, 1/n if one of n has everything. {repeats}"
    )
    if any(each.row.doubts for each in rows):
        legend += " ?: doubtful."
    return _table("CLIENTS OF ONE SERVER", cells, found, legend)


def _sum(row: Row) -> str:
    figures = row.figures
    return mbps(figures.throughput_bps, is_lower_bound=figures.is_tester_limited) if figures else ""


MOST_SHOWN_SHARES = 6
"""Largest number of clients whose shares a line names; of more, it names the least and the greatest."""


def _shares(each: ClientsRow) -> str:
    shares = [share.median for share in each.shares]
    if len(shares) > MOST_SHOWN_SHARES:
        return f"{min(shares) * 100:.3g} to {max(shares) * 100:.3g} %"
    return f"{' '.join(f'{share * 100:.3g}' for share in shares)} %"


def connections_table(rows: Sequence[ConnectionRow]) -> ScreenTable | None:
    """Return the table of TCP connections: one line for each tunnel and load of new connections."""
    rows = [row for row in rows if row.figures and not row.is_calibration]
    rows.sort(key=lambda row: (group_place(row.is_encrypted, allow_plaintext=False), row.tunnel.is_baseline))

    def of(text: Callable[[ConnectionFigures, ConnectionRow], str]) -> Callable[[ConnectionRow], str]:
        return lambda row: _marked(text(row.figures, row), bool(row.doubts)) if row.figures else ""

    def number(value: Estimate | None, factor: float = 1.0) -> str:
        return "" if value is None else significant(value.median * factor, 3, thousands=True)

    def new(found: ConnectionFigures, row: ConnectionRow) -> str:
        bound = "≥" * (found.is_tester_limited and row.load == FLAT_OUT)
        return bound + number(found.established_per_s) if found.established_per_s else ""

    def count(value: Estimate | None) -> str:
        return "" if value is None else count_text(value.median)

    cells: list[_Cell[ConnectionRow]] = [
        _Cell(("new,", "per s"), "", of(new)),
        _Cell(("most", "open"), "", of(lambda found, _: count(found.open_max))),
        _Cell(("not", "opened"), "", of(lambda found, _: count(found.not_established))),
        _Cell(("router", "tracked"), "", of(lambda found, _: count(found.tracked))),
        _Cell(("99 %", "in, µs"), "", of(lambda found, _: number(found.establishment_p99_ns, 1e-3))),
    ]
    words = {Test.CONNECT: "new, ", Test.CONCURRENT: "kept, "}
    found = [
        (ScreenRow(f"{row.tunnel.name}, {words[row.test]}{row.load}", (), _group(row.is_encrypted)), row)
        for row in rows
    ]
    repeats = _repeats([row.trials - row.uncounted_trials for row in rows])
    legend = f"TCP connections that the client opens. New: closed at once. Kept: all stay open. {repeats}"
    if any(row.doubts for row in rows):
        legend += " ?: doubtful."
    return _table("TCP CONNECTIONS", cells, found, legend)


def rekey_table(rows: Sequence[UdpRow]) -> ScreenTable | None:
    """Return the table of changes of keys: one line for each tunnel and direction, the baseline last."""
    rekeys = ("rekeys", "in a trial"), lambda found: _counted(found.rekeys)
    event = "the tunnel changes its keys"
    if any(row.tunnel.others_rekey for row in rows):
        event += ". Of several clients, the others change theirs, and the gap is that of one that keeps its keys"
    return _gap_table("CHANGE OF KEYS", event, rows, rekeys)


def handshake_table(rows: Sequence[UdpRow]) -> ScreenTable | None:
    """Return the table of new tunnels: one line for each tunnel and direction, the baseline last."""
    rate = ("tunnels", "per s"), lambda found: "≥" * _is_bound(found) + _number(found.handshakes_per_s)
    setup = ("set-up,", "ms"), lambda found: _number(found.handshake_p50_s, 1e3)
    memory = ("KiB", "each"), lambda found: _number(found.tunnel_memory_bytes, 1 / 1024)
    event = "other clients set up their tunnels"
    if not any(row.figures and row.figures.tunnel_memory_bytes for row in rows):
        return _gap_table("NEW TUNNELS", event, rows, rate, setup)
    event += ". KiB each: memory of the server for each open tunnel"
    return _gap_table("NEW TUNNELS", event, rows, rate, setup, memory)


def _is_bound(found: UdpFigures) -> bool:
    return found.is_tester_limited and found.handshakes_per_s is not None


def _counted(value: Estimate | None) -> str:
    return "" if value is None else count_text(value.median)


def _number(value: Estimate | None, factor: float = 1.0) -> str:
    return "" if value is None else significant(value.median * factor, 3, thousands=True)


def _gap_table(
    title: str, event: str, rows: Sequence[UdpRow], *more: tuple[tuple[str, ...], Callable[[UdpFigures], str]]
) -> ScreenTable | None:
    """Return a table of the gaps and losses that an event makes, with `more` columns."""
    rows = sorted(rows, key=lambda row: (group_place(row.is_encrypted, allow_plaintext=False), row.tunnel.is_baseline))

    def of(text: Callable[[UdpFigures], str]) -> Callable[[UdpRow], str]:
        return lambda row: _marked(text(row.figures), bool(row.doubts)) if row.figures else ""

    cells: list[_Cell[UdpRow]] = [
        _Cell(("longest", "gap, ms"), "", of(lambda found: _number(found.longest_gap_s, 1e3))),
        _Cell(("packets", "lost"), "", of(lambda found: _counted(found.path_lost_packets))),
        _Cell(("99 % of packets", "within, µs"), "", of(lambda found: _number(found.delay_p99_ns, 1e-3))),
        *(_Cell(heading, "", of(text)) for heading, text in more),
    ]
    loads = sorted({row.load for row in rows}, key=lambda load: (len(load), load))  # an imported one may be no number
    sizes = sorted({row.payload_bytes for row in rows})

    def name(row: UdpRow) -> str:
        size = f", {payload_text(row.payload_bytes)} bytes" if len(sizes) > 1 else ""
        load = f", {row.load}/s" if len(loads) > 1 else ""
        return f"{row.tunnel.name}{size}{load}, {row.direction.label}"

    found = [(ScreenRow(name(row), (), _group(row.is_encrypted)), row) for row in rows]
    repeats = _repeats([row.trials - row.uncounted_trials for row in rows])
    legend = (
        f"UDP at {joined(loads)} packets/s with {joined([payload_text(size) for size in sizes])} bytes of payload, "
        f"while {event}. Longest gap: between two arrivals. {repeats}"
    )
    if any(row.doubts for row in rows):
        legend += " ?: doubtful."
    return _table(title, cells, found, legend)


def soak_table(soaks: Sequence[SoakSummary]) -> ScreenTable | None:
    """Return the table of soaks."""
    cells: list[_Cell[SoakSummary]] = [
        _Cell(("lasted",), "", lambda soak: length(soak.measured_s)),
        _Cell(("packets/s",), "", lambda soak: f"{soak.offered_pps:,.0f}"),
        _Cell(("Mbit/s",), "", lambda soak: significant(soak.offered_bps / 1e6, 3, thousands=True)),
        _Cell(("loss",), "", lambda soak: percent_in_words(soak.loss_ratio)),
        _Cell(("seconds", "with loss"), "", lambda soak: f"{soak.seconds_with_loss:,}"),
        _Cell(("99 % delay", "µs, worst"), "", _worst_delay),
        _Cell(
            ("router", "CPU"), "", lambda soak: cpu_percent(soak.router_busy_share) if soak.router_busy_share else ""
        ),
        _Cell(("restarts,", "rekeys,", "gaps"), "", lambda soak: f"{soak.restarts}, {soak.rekeys}, {soak.gaps}"),
    ]
    rows = [(ScreenRow(f"{soak.spec.tunnel.name}, {_way(soak)}", ()), soak) for soak in soaks]
    return _table("SOAK", cells, rows, SOAK_LEGEND)


def _worst_delay(soak: SoakSummary) -> str:
    delay_ns = soak.delay_p99_worst_ns
    return significant(delay_ns / 1e3, 3, thousands=True) if delay_ns is not None else ""


def _way(soak: SoakSummary) -> str:
    way = soak.spec.direction.label
    return f"{soak.spec.payload} bytes {'both ways' if soak.is_echo else way}"


def cost_table(models: Sequence[CostModel], tunnels: Sequence[TunnelAnswer] = ()) -> ScreenTable | None:
    """Return the table of the cost of a packet, in the order of `tunnels`."""
    order = {tunnel.name: place for place, tunnel in enumerate(tunnels)}
    models = sorted(models, key=lambda model: order.get(model.tunnel.name, len(order)))

    def of(direction: Direction, text: Callable[[CostModel, Direction], str]) -> Callable[[CostModel], str]:
        return lambda model: text(model, direction) if direction in model.directions else ""

    def fixed(model: CostModel, direction: Direction) -> str:
        return significant(model.fitted.fixed_s(direction).value * 1e6, 3)

    def per_byte(model: CostModel, direction: Direction) -> str:
        found = model.fitted.per_byte_s(direction).times(1e9)
        if found.error is not None and found.error >= found.value:  # the interval includes 0
            return f"{UPPER_BOUND}{significant(found.value + found.error, 2)}"
        return significant(found.value, 3)

    def mix(model: CostModel, direction: Direction) -> str:
        predicted = model.predict(IMIX_FRAMES, direction)
        return f"{predicted.packets_per_s / 1e3:,.0f}" if predicted.packet_s.value > 0 else "unknown"

    groups = (
        (("µs a packet,", "any size"), fixed),
        (("and ns", "a byte"), per_byte),
        (("thousand/s of", "IMIX, one CPU"), mix),
    )
    cells = [_Cell(heading, way.label, of(way, text)) for heading, text in groups for way in Direction]
    rows = [(ScreenRow(model.tunnel.name, ()), model) for model in models]
    sizes = ", ".join(f"{times} of {frame_bytes}" for frame_bytes, times in IMIX_FRAMES)
    legend = (
        "Router CPU time of a packet in this direction, without acknowledgements. <: upper bound; not distinct from 0. "
        f"IMIX is computed from it: of 12 frames {sizes} bytes."
    )
    return _table("COST OF A PACKET", cells, rows, legend)


def cipher_table(speeds: Sequence[CipherSpeed]) -> ScreenTable | None:
    """Return the table of ciphers and digests by themselves, the fastest first."""
    measured = [speed for speed in speeds if speed.bytes_per_s]
    block = max((size for speed in measured for size in speed.bytes_per_s if size < BLOCK_BYTES[-1]), default=0)
    ranked = sorted(measured, key=lambda speed: -speed.bytes_per_s.get(block, 0.0))

    def of(size: int) -> Callable[[CipherSpeed], str]:
        return lambda speed: f"{speed.bytes_per_s[size] / 1e6:,.0f}" if size in speed.bytes_per_s else ""

    cells = [_Cell(("MB/s by block size in bytes",), str(size), of(size)) for size in BLOCK_BYTES]
    machines = {speed.machine for speed in measured}
    rows = [(ScreenRow(_cipher_name(speed, has_machine=len(machines) > 1), ()), speed) for speed in ranked]
    left_out = len(rows) - MOST_CIPHERS
    more = f" {left_out} more with --full." if left_out > 0 else ""
    legend = f"One direction, without packets and tunnel; a packet of full size is one block of 1420 bytes.{more}"
    return _table("CIPHERS ALONE", cells, rows[:MOST_CIPHERS], legend)


def _cipher_name(speed: CipherSpeed, *, has_machine: bool) -> str:
    parts = [speed.algorithm, "" if speed.acceleration == PLAIN else speed.acceleration]
    parts += [f"{speed.threads} threads" if speed.threads > 1 else "", speed.machine if has_machine else ""]
    return ", ".join(filter(None, parts)) + f" {DOUBT_MARK}" * speed.is_doubtful
