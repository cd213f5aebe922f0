"""Checks whether a run may stand in the folder `results/`. docs/contributing-results.md describes each check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from tunnelbench.analysis.background_load import background_load_effect
from tunnelbench.analysis.summary import Row, RowKey, row_key
from tunnelbench.analysis.udp import UdpRow
from tunnelbench.measure.checks import checks_of_stored
from tunnelbench.measure.udp_checks import checks_of_stored_udp
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import CALIBRATION_KIND, Direction, Test, TunnelSpec
from tunnelbench.model.result import IMPORTED, SIMULATED, Check, TrialRecord, Verdict
from tunnelbench.model.text import LONGEST_REASON, are, counted, printable
from tunnelbench.model.toml_text import known_table
from tunnelbench.report.contribution.device import of_device
from tunnelbench.report.contribution.names import of_cipher, of_names
from tunnelbench.report.contribution.planned import PlannedTrials, of_baseline, of_plan, of_start
from tunnelbench.report.contribution.published import Highest, above_published
from tunnelbench.report.contribution.redundancy import common_factor, contradictions
from tunnelbench.report.document import LEAST_ROUNDS
from tunnelbench.report.exchange import Imported, export

LARGEST_FILE_BYTES = 16_000_000
"""Largest contributed file [bytes]; a trial takes 8 kB."""
LARGEST_FOREIGN_SHARE = 0.1
"""Largest share of the trials that background load may have ended."""
PROOF_CHECKS = ("reach", "outer-protocol", "payload-pattern", "outer-length")
"""Checks that the proof of each tunnel has."""

ALGORITHM_CHECKS = {"cipher": ("cipher",), "digest": ("digest", "auth"), "method": ("method",)}
"""Checks of a proof that name an algorithm, with the options of tunnels that ask for it."""
ASKED_FOR = re.compile(r"asked for (\S+), in use: ")
"""Beginning of the reason of such a check (`tunnel.base.equals`)."""

OfOptions = Callable[[TunnelSpec], bool]
"""Answers a question about a tunnel by its options. Raises WrongInput if there is no such kind or option."""


def objections(
    found: Imported, encrypts: OfOptions, compresses: OfOptions, highest: Highest, planned_trials: PlannedTrials
) -> list[str]:
    """Return the reasons why a run cannot be contributed, each as a sentence without a full stop; empty if it can.

    `encrypts` and `compresses` return True for a tunnel with a cipher, and for one with compression.
    """
    reasons = [
        *_of_run(found),
        *of_plan(found.run, found.records, planned_trials),
        *of_baseline(found.records),
        *of_start(found.run, found.original_id),
        *of_device(found.run, found.records),
        *of_names(found.run, [record.spec.tunnel for record in found.records], found.own_notes),
        *_of_link(found),
        *_of_rounds(found),
        *_of_tunnels(found.records, encrypts),
        *(f"trial {record.spec.sequence}: {why}" for record in found.records for why in _of_trial(record, compresses)),
        *_of_repeats(found.records),
        *_of_factors(found.records),
        *found.doubtful,
        *above_published(found, highest),
    ]
    return [printable(reason)[:LONGEST_REASON] for reason in reasons]


def names_left(found: Imported) -> list[str]:
    """Return a sentence for each kind of name that `export` would remove from a run."""
    left = export(replace(found.run, run_id=found.original_id), found.records, found.speeds).stripped
    return [
        f"it is not stripped: it has {counted(sum(number for _, number in names), 'text')} of the kind {kind}"
        for kind, names in left.items()
    ]


def figures_digests(record: TrialRecord) -> tuple[str, ...]:
    """Return digests of the figures of a trial, of which two measurements never share one.

    Of TCP, the window and the series have digests of their own: a copy with one other figure is a copy.
    """
    parts: list[object] = [record.measurement]
    if record.tcp is not None:
        parts = [part for part in (record.tcp.window, record.tcp.intervals) if part]
    return tuple(sha256(repr(part).encode(errors="replace")).hexdigest() for part in parts)


def _of_run(found: Imported) -> Iterator[str]:
    status, run = found.original_status, found.run
    if run.is_simulated or any(check.name == SIMULATED for record in found.records for check in record.checks):
        yield "it is simulated: a model drew its figures, and nothing was measured"
    if status == IMPORTED:
        yield "it was imported: only the person who measured a run can contribute it"
    elif status != "done":
        yield f"it is not complete: its status is {status}"
    if len(found.records) < run.trials_planned:
        yield f"it is not complete: it has {len(found.records)} of {counted(run.trials_planned, 'trial')}"
    left_out = background_load_effect(found.records).trials_left_out
    if left_out > len(found.records) * LARGEST_FOREIGN_SHARE:
        yield (
            f"background load ended {left_out} of {counted(len(found.records), 'trial')}: end other programs, and "
            "measure again"
        )


def _of_link(found: Imported) -> Iterator[str]:
    """Yield each direction in which the limit of a trial is above the rate of the link in the testbed file."""
    link = known_table(found.run.testbed_text, "link")
    for direction in Direction:
        rate_mbps = link.get(f"rate_{direction.value}_mbps")
        limits = [
            record.tcp.physical_limit_bps or 0.0
            for record in found.records
            if record.counts and record.tcp is not None and record.spec.direction is direction
        ]
        if isinstance(rate_mbps, int | float) and max(limits, default=0.0) > rate_mbps * 1e6:
            yield (
                f"a trial {direction.label} states a limit of {max(limits) / 1e6:.4g} Mbit/s, and the link of the "
                f"testbed carries {rate_mbps:g}"
            )


def _of_rounds(found: Imported) -> Iterator[str]:
    rows: list[Row | UdpRow] = [*found.document.rows, *found.document.udp_rows]
    kept = [row for row in rows if row.figures is not None and not row.is_calibration]
    if not any(row.tunnel.has_tunnel for row in kept):
        yield "it has no figure of a tunnel"
    trials = Counter[RowKey]()
    for record in found.records:
        if record.counts:
            trials[row_key(record.spec)] += len(record.udp.searches) or 1 if record.udp else 1
    few = [row for row in kept if trials[row.key] < LEAST_ROUNDS]
    if few:
        row = min(few, key=lambda row: trials[row.key])
        yield (
            f"{counted(len(few), 'row')} {are(len(few))} the median of fewer than {LEAST_ROUNDS} trials that count, "
            f"such as {row.tunnel.name}, {row.payload_bytes} {row.direction.label} with {trials[row.key]}: measure "
            "again with `--set rounds=5`"
        )


def _of_tunnels(records: Sequence[TrialRecord], encrypts: OfOptions) -> Iterator[str]:
    """Yield what is wrong with tunnels and their proofs."""
    seen: list[tuple[TunnelSpec, object]] = []
    for record in records:
        tunnel, proof = record.spec.tunnel, record.proof
        if not record.counts or tunnel.kind == CALIBRATION_KIND or (tunnel, proof) in seen:
            continue
        if proof is not None and any(
            other == proof and (each.kind, each.options) != (tunnel.kind, tunnel.options) for each, other in seen
        ):
            yield f"{tunnel.name}: trial {record.spec.sequence} has the proof of another tunnel"
        seen.append((tunnel, proof))
        if proof is None:
            yield f"{tunnel.name}: trial {record.spec.sequence} has a figure, and its tunnel has no proof"
            continue
        named = {check.name: check for check in proof.checks}
        if missing := [name for name in PROOF_CHECKS if name not in named]:
            yield f"{tunnel.name}: its proof lacks the check {missing[0]}"
        yield from (f"{tunnel.name}: {why}" for why in (*_of_algorithms(tunnel, named), *of_cipher(tunnel, named)))
        for check in proof.checks:
            if check.verdict is Verdict.VOID:
                yield f"{tunnel.name}: its proof is void: {check.name}: {check.reason}"
        try:
            has_cipher = encrypts(tunnel)
        except WrongInput as error:
            yield f"{tunnel.name}: {error.message}"
            continue
        if proof.is_encrypted is not None and proof.is_encrypted != has_cipher:
            states, has = ("", "no") if proof.is_encrypted else ("not ", "a")
            yield f"{tunnel.name}: its proof states that it is {states}encrypted, and it has {has} cipher"


def _of_algorithms(tunnel: TunnelSpec, checks: Mapping[str, Check]) -> Iterator[str]:
    """Yield each algorithm that the options name otherwise than the proof, which says what was asked for."""
    for name, options in ALGORITHM_CHECKS.items():
        asked = ASKED_FOR.match(checks[name].reason) if name in checks else None
        wanted = next((str(tunnel.options[option]) for option in options if option in tunnel.options), "")
        if asked and not _plain(asked[1]).startswith(_plain(wanted)):
            yield f"its options name the {name} {wanted}, and its proof is one of {asked[1]}"


def _plain(algorithm: str) -> str:
    return algorithm.lower().replace("-", "").replace("_", "")


def _of_trial(record: TrialRecord, compresses: OfOptions) -> Iterator[str]:
    """Yield what contradicts the class of a trial that counts."""
    if not record.counts:
        return
    yield from contradictions(record)
    stated: dict[str, Check] = {check.name: check for check in record.checks}
    try:
        recomputed = _recomputed(record, compresses)
    except WrongInput:
        return  # `_of_tunnels` names what is wrong with the options
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # of measured figures, each can be computed
        yield f"no check can be computed of its figures: {error}"
        return
    for check in recomputed:
        if check.name not in stated:
            yield f"it lacks the check {check.name}"
        elif stated[check.name].verdict.severity < check.verdict.severity:
            yield (
                f"its check {check.name} states {stated[check.name].verdict}, and its figures give {check.verdict}: "
                f"{check.reason}"
            )


def _recomputed(record: TrialRecord, compresses: OfOptions) -> tuple[Check, ...]:
    """Return the checks of a trial that follow from its figures."""
    if record.tcp is not None:
        is_calibration = record.spec.tunnel.kind == CALIBRATION_KIND
        return checks_of_stored(
            record.spec, record.tcp, compresses=not is_calibration and compresses(record.spec.tunnel)
        )
    if record.udp is not None and record.spec.test is not Test.SOAK and not record.spec.test.is_of_connections:
        return checks_of_stored_udp(record.spec, record.udp)
    return ()


def _of_repeats(records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield each pair of trials with the same figures to the last digit, which two measurements never have."""
    first: dict[str, int] = {}
    for record in records:
        if record.counts:
            number = record.spec.sequence
            same = min([first.setdefault(digest, number) for digest in figures_digests(record)])
            if same != number:
                yield f"trials {same} and {number} have the same figures to the last digit: one is a copy"


def _of_factors(records: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield each tunnel whose packet counts are all multiples of one number, because somebody multiplied them."""
    by_tunnel: dict[str, list[TrialRecord]] = {}
    for record in records:
        if record.counts:
            by_tunnel.setdefault(record.spec.tunnel.name, []).append(record)
    for name, own in by_tunnel.items():
        if (factor := common_factor(own)) > 1:
            yield f"{name}: all packet counts of its trials are multiples of {factor}: somebody multiplied them"
