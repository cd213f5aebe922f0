"""Warnings of an answer: what limits the use of its figures, each with the command that helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.answer import commands
from tunnelbench.analysis.answer.commands import Change, SuggestedCommand
from tunnelbench.analysis.answer.doubts import Doubts, in_words
from tunnelbench.analysis.answer.figures import ShownFigures
from tunnelbench.analysis.answer.scope import unmeasured_in_kernel
from tunnelbench.analysis.answer.words import named
from tunnelbench.analysis.background_load import background_load_effect
from tunnelbench.analysis.summary import TrialClass, trial_class
from tunnelbench.model.result import RunRecord, TrialRecord, Verdict, has_foreign_load
from tunnelbench.model.text import counted, joined

MOST_WARNINGS = 4
NEXT, THEN = "Next", "Then"
"""Purposes of the commands to run next."""

MANY_VOID_SHARE = 0.1
"""Share of the trials above which void ones are the most important fault of a run."""

PROVING_ROUNDS = 8
"""Number of rounds that a run needs to prove a difference between two of its tunnels (docs/comparing.md)."""


@dataclass(frozen=True)
class AnswerWarning:
    """One limit of the figures."""

    text: str
    command: str
    """Command line that helps."""


@dataclass(frozen=True)
class _Finding:
    """A warning, and the command or the change of the run that helps."""

    text: str
    help: SuggestedCommand | Change


def answer_warnings(
    run: RunRecord, records: Sequence[TrialRecord], shown: ShownFigures, doubts: Doubts, *, is_shared: bool
) -> tuple[tuple[AnswerWarning, ...], tuple[SuggestedCommand, ...]]:
    """Return the most important warnings, the most important first, and the commands to run next.

    Each warning has its own command. In the commands to run next, one command for a further run replaces those of all
    warnings that this run would resolve. A run on a router is advised only if `is_shared`: the router of this run is
    not a machine of its own.
    """
    void = [record for record in records if trial_class(record) is TrialClass.VOID]
    dropped = [*_dropped(run, records, void)]
    has_many_void = len(void) > MANY_VOID_SHARE * len(records)
    found = [
        *_incomplete(run, records),
        *(dropped if has_many_void else ()),
        *_lower_bounds(run, shown, is_shared=is_shared),
        *_without_figures(run, records),
        *(() if has_many_void else dropped),
        *_doubtful(run, doubts),
        *_few_rounds(run, records),
    ][:MOST_WARNINGS]
    changes = [each.help for each in found if isinstance(each.help, Change)]
    changes = next(([each] for each in changes if each.is_alone), changes)
    first = next((each.help for each in found if isinstance(each.help, Change) or each.help.aim), None)
    again = commands.run_again(run, changes, NEXT if isinstance(first, Change) else THEN) if changes else None
    helpful = [
        commands.run_again(run, [each.help], "") if isinstance(each.help, Change) else each.help for each in found
    ]
    warnings = [AnswerWarning(each.text, own.command) for each, own in zip(found, helpful, strict=True)]
    following = [own for own in (first if isinstance(first, SuggestedCommand) else None, again) if own and own.aim]
    return tuple(warnings), tuple(following)


def _incomplete(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[_Finding]:
    if len(records) < run.trials_planned:
        text = f"The run recorded {len(records)} of {counted(run.trials_planned, 'trial')}."
        yield _Finding(text, commands.resume(run) if commands.is_resumable(run) else commands.every_figure(run))


def _lower_bounds(run: RunRecord, shown: ShownFigures, *, is_shared: bool) -> Iterator[_Finding]:
    limited = shown.where(lambda figure: figure.is_tester_limited)
    if limited.every:
        cpus = run.host_facts.get("cpus")
        where = f" on {counted(cpus, 'CPU')}" if isinstance(cpus, int) else ""
        is_known = commands.has_plan(run) or commands.is_repeatable(run)
        router = (commands.router_of(run) if is_shared and is_known else None) or commands.every_figure(run)
        are = "is a lower bound" if len(limited.every) == 1 else "are lower bounds"
        yield _Finding(f"{limited.count_of(shown)} {are}{where}: client and server were the limit.", router)


def _without_figures(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[_Finding]:
    """Name the tunnels of which no trial was timed, without one that the answer's scope names."""
    not_in_kernel = unmeasured_in_kernel(records)
    in_kernel = {record.spec.tunnel.name for record in records if record.spec.tunnel.kind in not_in_kernel[1:]}
    classes: dict[str, set[TrialClass]] = {}
    for record in records:
        classes.setdefault(record.spec.tunnel.name, set()).add(trial_class(record))
    never = {TrialClass.REFUSED, TrialClass.UNAVAILABLE, TrialClass.GIVEN_UP}
    missing = {
        name: min(own & never)
        for name, own in classes.items()
        if own <= never | {TrialClass.VOID} and own & never and name not in in_kernel
    }
    if missing:
        words = joined(named([f"{name} ({each})" for name, each in missing.items()]))
        is_installable = TrialClass.UNAVAILABLE in missing.values() and "guest_board" not in run.host_facts
        help_with = commands.doctor(run) if is_installable else commands.every_figure(run)
        yield _Finding(f"Without figures: {words}.", help_with)


def _dropped(run: RunRecord, records: Sequence[TrialRecord], void: Sequence[TrialRecord]) -> Iterator[_Finding]:
    if not void:
        return
    disturbed = background_load_effect(records).trials_left_out
    does = "does" if len(void) == 1 else "do"
    dropped = f"{len(void)} of {counted(len(records), 'trial')} {does} not count"
    if disturbed == len(void):
        help_with = commands.doctor(run)
        source = "" if help_with == commands.every_figure(run) else " Find its source:"
        yield _Finding(f"{dropped}: background load.{source}", help_with)
    else:
        numbers = Counter(_why_void(record) for record in void)
        reasons = joined(named([f"{reason} ({number})" for reason, number in numbers.most_common()]))
        is_late = numbers[in_words("router-clock")] > MANY_VOID_SHARE * len(records)
        yield _Finding(f"{dropped}: {reasons}.", (is_late and _slower_router(run)) or commands.every_figure(run))


def _slower_router(run: RunRecord) -> Change | None:
    """Return the change to a slower router; None if the run had no router of fixed speed, or cannot be repeated."""
    speed_mips = run.host_facts.get("guest_speed_mips")
    if not isinstance(speed_mips, int | float) or not commands.is_repeatable(run):
        return None
    return commands.slower_router(speed_mips)


def _why_void(record: TrialRecord) -> str:
    """Return the first check that makes a trial void, in words; background load comes first."""
    names = [check.name for check in record.checks if check.verdict is Verdict.VOID]
    if has_foreign_load(record.checks):
        return in_words("foreign-load")
    return in_words(names[0]) if names else "the measurement failed"


def _doubtful(run: RunRecord, doubts: Doubts) -> Iterator[_Finding]:
    """Warn of doubtful figures, unless the verdict already does."""
    if doubts.sentence and not doubts.is_nearly_everywhere:
        yield _Finding(doubts.sentence, commands.every_figure(run))


def _few_rounds(run: RunRecord, records: Sequence[TrialRecord]) -> Iterator[_Finding]:
    compared = [record for record in records if record.tcp or (record.udp and record.udp.searches)]
    rounds = max((record.spec.round for record in compared), default=0)
    tunnels = {record.spec.tunnel.name for record in compared if record.spec.tunnel.has_tunnel}
    if 0 < rounds < PROVING_ROUNDS and len(tunnels) > 1:
        text = f"{counted(rounds, 'round')} cannot prove a small difference."
        more = Change(("--set", f"rounds={PROVING_ROUNDS}"), "show small differences")
        can_repeat = commands.is_repeatable(run) or commands.is_shipped(run)
        yield _Finding(text, more if can_repeat else commands.every_figure(run))
