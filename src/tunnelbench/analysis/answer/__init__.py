"""Answer of a run: which tunnel the router should run, what it carries, and what that costs.

The first screen, the page, the site and the JSON all print this answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tunnelbench.analysis.advice import TARGET_RULE, Advice
from tunnelbench.analysis.answer import commands
from tunnelbench.analysis.answer.advice import short_advice
from tunnelbench.analysis.answer.commands import SuggestedCommand
from tunnelbench.analysis.answer.comparison import (
    DirectionComparison,
    carries_more_udp,
    claim,
    compare,
    cpu_factors,
    cpu_trials,
    is_cheaper,
    udp_trials,
)
from tunnelbench.analysis.answer.doubts import doubts
from tunnelbench.analysis.answer.figures import shown_figures
from tunnelbench.analysis.answer.scope import machine_scope, not_measured
from tunnelbench.analysis.answer.tunnels import TunnelAnswer, shown_rows, tunnel_answers
from tunnelbench.analysis.answer.udp import UdpAnswer, udp_answers
from tunnelbench.analysis.answer.warnings import AnswerWarning, answer_warnings
from tunnelbench.analysis.answer.words import by_direction, carried, cpu_taken, cpu_times, mbps, thousands
from tunnelbench.analysis.ciphers import FULL_PACKET_BLOCK_BYTES
from tunnelbench.analysis.clients import ClientsRow, clients_rows
from tunnelbench.analysis.connections import ConnectionRow
from tunnelbench.analysis.cost_model import IMIX_FRAMES, CostModel, NoModel, models_of_many_sizes
from tunnelbench.analysis.encryption import is_encrypted, lacks_digest, states_encryption
from tunnelbench.analysis.limits import Limit
from tunnelbench.analysis.number_format import count_text, percent_in_words, significant
from tunnelbench.analysis.packet_instructions import packet_instructions
from tunnelbench.analysis.soak import SoakSummary, in_words
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Row, RowKey
from tunnelbench.analysis.udp import SMALL_PAYLOAD_BYTES, UdpRow, rows_of
from tunnelbench.model.cipher_speed import PLAIN, CipherSpeed
from tunnelbench.model.plan import CALIBRATION_KIND, FLAT_OUT, HANDSHAKE_MEMORY_MIB, Test
from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.text import joined
from tunnelbench.model.toml_text import known_table

NO_TRIAL = "No trial of this run counts."
NO_VERDICT = "The tests of this run rank no tunnels; the full report has their figures."
NO_ENCRYPTED = "No encrypted tunnel has figures that count, so none is recommended."
LIMITS_IN_WORDS = {
    Limit.LINE: "the line",
    Limit.ROUTER_CPU: "the router's CPU",
    Limit.ONE_CORE: "one of the router's CPUs",
    Limit.TESTER: "the testers",
    Limit.WINDOW: "TCP's window",
    Limit.APPLICATION: "the sending program",
    Limit.QUEUE: "a queue of the router",
    Limit.LOSS: "lost packets",
    Limit.UNKNOWN: "not known",
}


@dataclass(frozen=True)
class Answer:
    """The result of a run."""

    verdict: tuple[str, ...]
    """Sentences, the result first."""
    recommended: str | None
    """Name of the recommended tunnel; None: no tunnel can be recommended."""
    comparisons: tuple[DirectionComparison, ...]
    """Comparison by direction of the first tunnel with the others that could be recommended.

    TCP is compared by the CPU time at one throughput, UDP by the packet rate. Empty: there is no other tunnel.
    """
    is_nearly_all_doubtful: bool
    """True if nearly all tunnels have doubtful figures, so that the verdict says so."""
    scope: str
    """Sentences on the machines that the figures apply to, and on what the run did not measure; may be empty."""
    tunnels: tuple[TunnelAnswer, ...]
    """Figures of TCP by tunnel, the best one first, the baseline last."""
    udp: tuple[UdpAnswer, ...]
    """Figures of UDP by tunnel, the best one first, the baseline last."""
    warnings: tuple[AnswerWarning, ...]
    """At most four warnings, the most important first."""
    advice: tuple[str, ...]
    """At most five sentences, the largest effect first."""
    next_commands: tuple[SuggestedCommand, ...]
    """Commands that help next, the most useful first."""


@dataclass(frozen=True)
class AnswerInput:
    """The results of a run that its answer is made from."""

    run: RunRecord
    records: Sequence[TrialRecord]
    rows: Sequence[Row]
    models: Sequence[CostModel | NoModel] = ()
    limits: Mapping[RowKey, tuple[Limit, ...]] = field(default_factory=dict)
    """Limits of the throughput of each of the rows."""
    udp_rows: Sequence[UdpRow] = ()
    soaks: Sequence[SoakSummary] = ()
    connection_rows: Sequence[ConnectionRow] = ()
    speeds: Sequence[CipherSpeed] = ()
    advice: Sequence[Advice] = ()
    """Advice about the target, and all other advice."""
    target_mbps: float | None = None
    """Throughput that the router should carry [Mbit/s]; None: not given."""


def answer(found: AnswerInput, *, is_shared: bool, allow_plaintext: bool = False) -> Answer:
    """Return the answer. Set `is_shared` if the router is not a machine of its own.

    A tunnel that does not encrypt is recommended only with `allow_plaintext`.
    """
    tunnels = tunnel_answers(found.rows, allow_plaintext=allow_plaintext)
    of_rates = [row for row in found.udp_rows if not row.test.is_of_gaps]
    udp = udp_answers(of_rates, found.soaks, allow_plaintext=allow_plaintext)
    eligible = [each for each in tunnels if _is_eligible(each, allow_plaintext) and each.mean_cpu_share is not None]
    eligible_udp = [each for each in udp if _is_eligible(each, allow_plaintext) and each.mean_pps is not None]
    eligible, eligible_udp = _on_one_line(eligible), _on_one_line(eligible_udp)
    targets = [each for each in found.advice if each.rule == TARGET_RULE]
    compared = compare(eligible[0], eligible[1:], is_cheaper, cpu_trials) if eligible else ()
    compared_udp = compare(eligible_udp[0], eligible_udp[1:], carries_more_udp, udp_trials) if eligible_udp else ()
    shown = shown_figures(found.rows, udp)
    doubt = doubts(shown)
    verdict = [
        *(
            _target(targets, found.target_mbps, allow_plaintext)
            if targets
            else _cheapest(eligible, tunnels, compared, allow_plaintext, found)
        ),
        *_mixed_packets(models_of_many_sizes(found.models), eligible),
        *_fastest(eligible_udp, udp, compared_udp, allow_plaintext),
        *_fewest_instructions(found.records),
        *_shared_out(clients_rows(found.rows, found.records)),
        *_shortest_gap(rows_of(Test.REKEY, found.udp_rows)),
        *_most_handshakes(rows_of(Test.HANDSHAKE, found.udp_rows), found.run),
        *_connections(found.connection_rows),
        *_soaked(found.soaks),
        *_fastest_cipher(() if tunnels or udp else found.speeds),
    ]
    if doubt.is_nearly_everywhere:
        verdict.insert(1, doubt.sentence)
    cheapest, fastest = ([each.name for each in group] for group in (eligible, eligible_udp))
    names = [each.tunnel for each in targets[-1:]] or cheapest or fastest
    verdict[1:1] = _unauthenticated(names[:1], found.records)
    warnings, helpful = answer_warnings(found.run, found.records, shown, doubt, is_shared=is_shared)
    has_figures = bool(shown.every or found.connection_rows or found.soaks or found.speeds)
    machine = [*machine_scope(found.run, tunnels, shown)] if is_shared and has_figures else []
    return Answer(
        verdict=tuple(dict.fromkeys(verdict)) or (_without_verdict(found.records),),
        recommended=names[0] or None if names else None,
        comparisons=compared or compared_udp,
        is_nearly_all_doubtful=doubt.is_nearly_everywhere,
        scope=" ".join([*machine, *not_measured(found.run, found.records, tunnels, udp, has_soaks=bool(found.soaks))]),
        tunnels=tunnels,
        udp=udp,
        warnings=warnings,
        advice=short_advice(tunnels, allow_plaintext=allow_plaintext),
        next_commands=(*helpful, commands.every_figure(found.run), commands.charts(found.run)),
    )


def _without_verdict(records: Sequence[TrialRecord]) -> str:
    is_counted = any(record.counts and record.spec.tunnel.kind != CALIBRATION_KIND for record in records)
    return NO_VERDICT if is_counted else NO_TRIAL


def _unauthenticated(names: Sequence[str | None], records: Sequence[TrialRecord]) -> Iterator[str]:
    """Warn of a tunnel that encrypts and does not authenticate its packets."""
    tunnels = {record.spec.tunnel.name: record.spec.tunnel for record in records}
    for tunnel in (tunnels[name] for name in names if name in tunnels):
        if states_encryption(tunnel.options) and lacks_digest(tunnel.options):
            yield f"{tunnel.name} has no digest: an attacker can change its packets unnoticed."


def _is_eligible(tunnel: TunnelAnswer | UdpAnswer, allow_plaintext: bool) -> bool:
    return tunnel.tunnel.has_tunnel and (tunnel.is_encrypted is True or allow_plaintext)


AnyAnswer = TypeVar("AnyAnswer", TunnelAnswer, UdpAnswer)


def _on_one_line(ranked: Sequence[AnyAnswer]) -> list[AnyAnswer]:
    """Return the tunnels on the line of the first one: a tunnel on another line is not another tunnel."""
    return [each for each in ranked if each.tunnel.conditions.line == ranked[0].tunnel.conditions.line]


def _place(ranked: Sequence[AnyAnswer]) -> str:
    """Return the beginning of a sentence on tunnels of one line; empty if the cable is as the testbed has it."""
    line = ranked[0].tunnel.conditions.line
    return f"On the line {line}: " if line else ""


def _target(advice: Sequence[Advice], target_mbps: float | None, allow_plaintext: bool) -> Iterator[str]:
    """Return the advice on the most headroom; without it, state that no tunnel was shown to carry the target."""
    if advice[-1].tunnel:
        yield advice[-1].text
        return
    yield f"No {_kind(allow_plaintext)} was shown to carry {target_mbps:g} Mbit/s in both directions."


def _cheapest(
    eligible: Sequence[TunnelAnswer],
    tunnels: Sequence[TunnelAnswer],
    compared: Sequence[DirectionComparison],
    allow_plaintext: bool,
    found: AnswerInput,
) -> Iterator[str]:
    """Name the tunnel that takes the least CPU time for a throughput, with its figures, and the next one."""
    if not any(tunnel.has_figures for tunnel in tunnels):
        return
    if not eligible:
        yield NO_ENCRYPTED
        return
    best, *others = eligible
    names, kind = [each.name for each in eligible], _kind(allow_plaintext)
    yield _place(eligible) + claim(names, "takes the least CPU", "takes less", compared, kind=kind, figures="figures")
    yield f"At {best.reference_mbps:g} Mbit/s, {best.name} takes {cpu_taken(best)}."
    if rates := carried(best):
        yield f"{best.name} carries {rates}{_limit(best, found)}."
    if others and (factors := cpu_factors(best, others[0])):
        yield f"{others[0].name} comes next: it takes {cpu_times(factors)}."


def _mixed_packets(models: Sequence[CostModel], eligible: Sequence[TunnelAnswer]) -> Iterator[str]:
    """State how many packets of mixed sizes one CPU forwards through the best tunnel."""
    for model in models:
        if eligible and model.tunnel.name == eligible[0].name:
            found = [(way.label, model.predict(IMIX_FRAMES, way)) for way in model.directions]
            rates = [
                (significant(each.packets_per_s, 3, thousands=True), way)
                for way, each in found
                if each.packet_s.value > 0
            ]
            if rates:
                text = by_direction(rates, " packets/s")
                yield f"Computed for IMIX: one CPU forwards {text} with {model.tunnel.name}."


def _limit(best: TunnelAnswer, found: AnswerInput) -> str:
    """Return a clause on what limits a tunnel's throughput; empty for the testers, which a warning names."""
    shown, _ = shown_rows([row for row in found.rows if row.tunnel.name == best.name])
    limits = [(row.direction.label, found.limits.get(row.key, ())) for row in shown]
    texts = [(joined([LIMITS_IN_WORDS[each] for each in own]), way) for way, own in limits if own]
    if not texts or all(own == (Limit.TESTER,) for _, own in limits):
        return ""
    if len({text for text, _ in texts}) == 1:
        is_known = texts[0][0] != LIMITS_IN_WORDS[Limit.UNKNOWN]
        return f"; limit: {texts[0][0]}{'' if is_known else ', so it may carry more'}"
    return f"; limit: {', '.join(f'{text} {way}' for text, way in texts)}"


def _kind(allow_plaintext: bool) -> str:
    return "tunnel" if allow_plaintext else "encrypted tunnel"


def _fastest(
    eligible: Sequence[UdpAnswer],
    udp: Sequence[UdpAnswer],
    compared: Sequence[DirectionComparison],
    allow_plaintext: bool,
) -> Iterator[str]:
    """Name the tunnel that carries the most small UDP packets, with its rates."""
    if not any(answer.mean_pps for answer in udp):
        return
    if not eligible:
        yield NO_ENCRYPTED
        return
    best, names, kind = eligible[0], [each.name for each in eligible], _kind(allow_plaintext)
    size = f"UDP packets of {best.payload_bytes} bytes" if best.payload_bytes else "UDP packets of mixed sizes"
    yield _place(eligible) + claim(
        names, f"carries the most {size}", "carries more", compared, kind=kind, figures="figures of UDP"
    )
    rates: dict[str, list[tuple[str, str]]] = {}
    for way, found in best.directions.items():
        if found.rate_pps and not found.pdr_refutation:
            own = rates.setdefault("with at most 0.5 % loss" if found.pdr_pps else "at full load", [])
            own.append((_udp_rate(found.rate_pps, best.payload_bytes, is_lower_bound=found.is_lower_bound), way))
    for loss, own in rates.items():
        yield f"{loss[0].upper()}{loss[1:]}, {best.name} carries {by_direction(own, '')} ({size})."
    for way, found in best.directions.items():
        if found.rate_pps and (longer := found.pdr_refutation):
            bound = _udp_rate(longer.bound_of(found.rate_pps), best.payload_bytes)
            yield (
                f"{best.name} carries less than {bound} {way}: a short search found "
                f"{thousands(found.rate_pps, is_lower_bound=False)} thousand packets/s, and a longer trial at "
                f"{significant(longer.offered_pps / 1e3, 3)} thousand packets/s lost "
                f"{percent_in_words(longer.loss_ratio)}."
            )


def _udp_rate(pps: Estimate, payload_bytes: int, *, is_lower_bound: bool = False) -> str:
    """Return a packet rate, and its payload in Mbit/s unless the packets are small or of mixed sizes."""
    rate = f"{thousands(pps, is_lower_bound=is_lower_bound)} thousand packets/s"
    if payload_bytes <= SMALL_PAYLOAD_BYTES:
        return rate
    return f"{rate}, or {mbps(pps.times(payload_bytes * 8), is_lower_bound=False)} Mbit/s,"


def _fewest_instructions(records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield a sentence on the encrypted tunnel with the fewest instructions for the largest packet."""
    candidates = []
    found = packet_instructions(records)
    for each in found:
        own = [record for record in records if record.spec.tunnel.name == each.tunnel.name]
        if each.over_baseline and is_encrypted(each.tunnel, own):
            payload = max(each.over_baseline)
            candidates.append((each.over_baseline[payload].median, payload, each.tunnel.name))
    if candidates:
        times, payload, name = min(candidates)
        yield (
            f"{name} takes the fewest instructions of the encrypted tunnels for a packet of {payload} bytes: "
            f"{significant(times, 3)} times as many as without a tunnel."
        )
    elif found:
        yield "No encrypted tunnel has a number of instructions for a packet."


def _shared_out(rows: Sequence[ClientsRow]) -> Iterator[str]:
    """Yield a sentence on the shares of the clients for each server with the most clients, and its less equal
    direction."""
    most = max((len(each.shares) for each in rows), default=0)
    found: dict[str, ClientsRow] = {}
    for each in sorted(rows, key=lambda each: each.jain_index.median):
        if len(each.shares) == most > 1 and each.row.is_encrypted:
            found.setdefault(each.row.tunnel.name, each)
    for name, each in list(found.items())[:2]:
        low, high = (f"{share * 100:.3g}" for share in (each.least_share, each.greatest_share))
        shares = f"{low} %" if low == high else f"{low} to {high} %"
        yield (
            f"Through {name}, each client gets {shares} of the throughput; Jain's index is "
            f"{significant(each.jain_index.median, 3)} ({each.row.direction.label})."
        )


def _shortest_gap(rows: Sequence[UdpRow]) -> Iterator[str]:
    """Yield sentences on the shortest and the longest interruption of the encrypted tunnels by a change of keys."""
    longest: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row.is_encrypted and row.figures and row.figures.longest_gap_s:
            gap_s = row.figures.longest_gap_s.median
            lost = row.figures.path_lost_packets.median if row.figures.path_lost_packets else 0
            before_s, before_lost = longest.get(row.tunnel.name, (0.0, 0))
            longest[row.tunnel.name] = max(gap_s, before_s), max(lost, before_lost)
    if not longest:
        return
    of_baseline = [row.figures for row in rows if row.tunnel.is_baseline and row.figures]
    of_others = {row.tunnel.name for row in rows if row.tunnel.others_rekey}
    ordered = sorted(longest, key=lambda name: longest[name])
    for name in dict.fromkeys((ordered[0], ordered[-1])):
        gap_s, lost = longest[name]
        loss = "and no packet is lost" if not lost else f"and {count_text(lost)} packets are lost"
        event = f"While {name} changes its keys, no packet arrives"
        if name in of_others:
            event = f"{name}: while other clients change their keys, no packet of a client that keeps its own arrives"
        yield f"{event} for up to {significant(gap_s * 1e3, 3)} ms, {loss}."
    plain = [each.longest_gap_s.median for each in of_baseline if each.longest_gap_s]
    if plain:
        yield f"Without a tunnel, the longest gap between two packets is {significant(max(plain) * 1e3, 3)} ms."


def _most_handshakes(rows: Sequence[UdpRow], run: RunRecord) -> Iterator[str]:
    """Yield a sentence on the most new tunnels per second of each kind of tunnel."""
    most: dict[str, tuple[float, UdpRow]] = {}
    for row in rows:
        if row.figures and row.figures.handshakes_per_s:
            rate = row.figures.handshakes_per_s.median
            most[row.tunnel.kind] = max(most.get(row.tunnel.kind, (0.0, row)), (rate, row), key=lambda each: each[0])
    for rate, row in most.values():
        bound = "at least " * bool(row.figures and row.figures.is_tester_limited)
        yield f"The server of {row.tunnel.name} sets up {bound}{significant(rate, 3)} tunnels per second."
        if row.figures and row.figures.tunnel_memory_bytes and row.figures.server_memory_bytes:
            each_bytes, own_bytes = row.figures.tunnel_memory_bytes.median, row.figures.server_memory_bytes.median
            limit_mib = _memory_limit_mib(run)
            held = max(0.0, limit_mib * 2**20 - own_bytes) / each_bytes
            yield (
                f"Its programs take {significant(own_bytes / 2**20, 3)} MiB, and {significant(each_bytes / 1024, 3)} "
                f"KiB more for each open tunnel: {limit_mib} MiB hold about {significant(held, 2, thousands=True)}."
            )


def _memory_limit_mib(run: RunRecord) -> int:
    """Return the memory for which a plan of handshakes asks how many tunnels it holds [MiB]."""
    found = known_table(run.plan_text, "handshake").get("memory_mib")
    return found if isinstance(found, int) and found > 0 else HANDSHAKE_MEMORY_MIB


def _connections(rows: Sequence[ConnectionRow]) -> Iterator[str]:
    """Yield sentences on the encrypted tunnel with the most new connections per second, and on each tunnel that carried
    fewer connections at the same time than were tried."""
    new = [
        (row.figures.established_per_s.median, row)
        for row in rows
        if row.figures and row.figures.established_per_s and row.load == FLAT_OUT and not row.is_calibration
    ]
    if encrypted := [each for each in new if each[1].is_encrypted]:
        rate, row = max(encrypted, key=lambda each: each[0])
        bound = "at least " * bool(row.figures and row.figures.is_tester_limited)
        yield f"Through {row.tunnel.name}, the client opens {bound}{rate:,.0f} new TCP connections per second."
    for rate, row in new:
        if row.tunnel.is_baseline:
            bound = "at least " * bool(row.figures and row.figures.is_tester_limited)
            yield f"Without a tunnel, it opens {bound}{rate:,.0f} per second."
    for row in rows:
        if row.is_incomplete and row.figures and not row.is_calibration:
            bound, cause = "at most", ""
            if not row.figures.shows_limit:
                bound, cause = "at least", ", perhaps too fast for the path: set a lower connections.opening_rate"
            most = f"{bound} {row.figures.open_max.median:,.0f} TCP connections"
            yield f"{row.tunnel.name} carries {most} at the same time; {row.load} were tried{cause}."


def _soaked(soaks: Sequence[SoakSummary]) -> Iterator[str]:
    for soak in soaks[:2]:
        yield f"The soak of {soak.spec.tunnel.name} lasted {in_words(soak)}."


def _fastest_cipher(speeds: Sequence[CipherSpeed]) -> Iterator[str]:
    """Name the fastest algorithm for full packets on one thread."""
    block = FULL_PACKET_BLOCK_BYTES
    found = [
        (speed.bytes_per_s[block], speed.algorithm)
        for speed in speeds
        if speed.threads == 1 and speed.acceleration == PLAIN and block in speed.bytes_per_s
    ]
    if found:
        most, name = max(found)
        yield f"{name} is the fastest algorithm: {significant(most / 1e6, 3)} MB/s with blocks of {block} bytes."
