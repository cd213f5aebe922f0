"""Advice of an answer: at most five sentences, first about small packets, then about CPU time by size of the effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tunnelbench.analysis.algorithms import options_key, without_cipher
from tunnelbench.analysis.answer.comparison import carries_more_small, cpu_factors, is_cheaper, shows_less
from tunnelbench.analysis.answer.tunnels import TunnelAnswer
from tunnelbench.analysis.answer.words import cpu_times, thousands

MOST_SENTENCES = 5
LEAST_SAVING = 0.05
"""Smallest saving that is worth a sentence."""


@dataclass(frozen=True)
class _Saving:
    """CPU time that one choice takes less than another, at the same throughput."""

    share: float
    """Saved share of the CPU time, 0 to 1; of two directions the larger one."""
    words: str
    """The costs of the other choice by direction, such as `1.2 times as much CPU down and 1.1 times as much up`."""


def short_advice(tunnels: Sequence[TunnelAnswer], *, allow_plaintext: bool = False) -> tuple[str, ...]:
    """Return sentences on the tunnels in their order of rank. Plaintext is advised only if it is allowed."""
    ranked = [tunnel for tunnel in tunnels if tunnel.mean_cpu_share is not None and tunnel.tunnel.has_tunnel]
    eligible = [tunnel for tunnel in ranked if tunnel.is_encrypted or allow_plaintext]
    found = [*_dearest(eligible), *_variants(eligible), *_kernel(eligible), *_cipher(ranked), *_directions(eligible)]
    unique = {text: share for share, text in sorted(found) if share >= LEAST_SAVING}
    on_cpu = sorted(unique, key=lambda text: -unique[text])
    return (*_small_packets(eligible), *on_cpu)[:MOST_SENTENCES]


def _small_packets(tunnels: Sequence[TunnelAnswer]) -> Iterator[str]:
    """Name the tunnel that carries more small packets than the cheapest one, if the spreads show it."""
    if not tunnels:
        return
    best, *others = tunnels
    for way, own in best.directions.items():
        more = [other for other in others if carries_more_small(other, best, way)]
        rates = [(found.small_pps.median, other) for other in more if (found := other.directions[way]).small_pps]
        if not rates or own.small_pps is None:
            continue
        _, most = max(rates, key=lambda each: each[0])
        found = most.directions[way]
        is_most = all(carries_more_small(most, other, way) for other in tunnels if other is not most)
        if found.small_pps:
            much = "the most" if is_most else "more"
            rate = thousands(found.small_pps, is_lower_bound=found.is_small_lower_bound)
            other = thousands(own.small_pps, is_lower_bound=False)
            yield f"{most.name} carries {much} small packets {way}: {rate}, {best.name} {other} thousand packets/s."


def _saving(cheap: TunnelAnswer, dear: TunnelAnswer) -> _Saving | None:
    """Return by how much `cheap` takes less CPU time than `dear`; None if no direction shows that."""
    if any(is_cheaper(dear, cheap, way) for way in cheap.directions):
        return None
    factors = cpu_factors(cheap, dear)
    return _Saving(1 - 1 / max(factor for _, factor in factors), cpu_times(factors)) if factors else None


def _dearest(tunnels: Sequence[TunnelAnswer]) -> Iterator[tuple[float, str]]:
    """Compare the cheapest with the most expensive tunnel."""
    if len(tunnels) > 1 and (saving := _saving(tunnels[0], tunnels[-1])):
        yield saving.share, f"{tunnels[-1].name} takes {saving.words} as {tunnels[0].name}."


def _variants(tunnels: Sequence[TunnelAnswer]) -> Iterator[tuple[float, str]]:
    """Compare the cheapest with the most expensive variant of each kind of tunnel."""
    for kind in dict.fromkeys(tunnel.tunnel.kind for tunnel in tunnels):
        own = [tunnel for tunnel in tunnels if tunnel.tunnel.kind == kind]
        if len(own) > 1 and (saving := _saving(own[0], own[-1])):
            yield saving.share, f"{own[-1].name} takes {saving.words} as {own[0].name}."


def _kernel(tunnels: Sequence[TunnelAnswer]) -> Iterator[tuple[float, str]]:
    """Compare the cheapest tunnel in the kernel with the cheapest one in user space, unless `_dearest` does."""
    kernel = next((tunnel for tunnel in tunnels if tunnel.is_in_kernel), None)
    program = next((tunnel for tunnel in tunnels if tunnel.is_in_kernel is False), None)
    if kernel and program and (kernel, program) != (tunnels[0], tunnels[-1]) and (saving := _saving(kernel, program)):
        yield saving.share, f"{program.name} in user space takes {saving.words} as {kernel.name} in the kernel."


def _cipher(tunnels: Sequence[TunnelAnswer]) -> Iterator[tuple[float, str]]:
    """State the cost of encryption, where a tunnel was also measured without it."""
    found = []
    first: dict[tuple[str, str], TunnelAnswer] = {}
    for each in tunnels:
        first.setdefault((each.tunnel.kind, options_key(each.tunnel.options)), each)
    for sealed in tunnels:
        without = without_cipher(sealed.tunnel.options)
        if not sealed.is_encrypted or without is None:
            continue
        plain = first.get((sealed.tunnel.kind, options_key(without)))
        if plain and (saving := _saving(plain, sealed)):
            text = f"{sealed.name} takes {saving.words} as {plain.name}, which does not encrypt."
            found.append((saving.share, text))
    yield from sorted(found)[-1:]


def _directions(tunnels: Sequence[TunnelAnswer]) -> Iterator[tuple[float, str]]:
    """Compare the directions of the cheapest tunnel."""
    for tunnel in tunnels[:1]:
        down, up = tunnel.down.cpu_share, tunnel.up.cpu_share
        for cheap, dear, names in ((up, down, ("down", "up")), (down, up, ("up", "down"))):
            if cheap and dear and cheap.median and shows_less(cheap, dear):
                factor = dear.median / cheap.median
                yield 1 - 1 / factor, f"{tunnel.name} takes {cpu_times([(names[0], factor)])} as {names[1]}."
