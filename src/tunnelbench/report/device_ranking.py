"""Ranks devices by the throughput of their tunnels, from published results and from runs on routers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from tunnelbench.model.reference import Reference
from tunnelbench.report.site.device_names import clock_of, device_key, known_cpu, known_facts
from tunnelbench.report.site.gather import (
    NOT_KNOWN,
    DeviceFacts,
    GatheredRun,
    Published,
    ResultMarks,
    is_lower_bound,
    published,
)
from tunnelbench.report.site.index import Result
from tunnelbench.report.site.overview import FULL_PAYLOAD_BYTES, Best, is_comparable_row, mbps_text, order, rate_of

OWN_METHOD = "TunnelBench: TCP through the router between two testers"
OWN_CLASS = "through-device"
_NO_DEVICE = "no device"
"""Stands for the device of a row that names none."""

_PRICE = re.compile(r"(?<![\d.,])(\d{1,9}(?:\.\d{1,9})?) ?(?:EUR|€|euros?\b)")
_WATTS = re.compile(r"(?<![\d.,])(\d{1,9}(?:\.\d{1,9})?) ?W\b")
_OF_SEVERAL = re.compile(r"\bhighest of \d+\b")
"""Remark on a figure that stands for several trials in a table of single ones."""


@dataclass(frozen=True)
class RankedRow:
    """The throughput of a device through a kind of tunnel in one direction, with its origin."""

    device: str
    tunnel: str
    """Kind of tunnel."""
    variant: str
    cipher: str | None
    digest: str | None
    is_encrypted: bool | None
    """None: not stated."""
    direction: str | None
    payload_bytes: int | None
    throughput_mbps: float
    text: str
    """Throughput with the digits that were published, `≥` before a lower bound."""
    is_lower_bound: bool
    is_line_speed: bool
    trials: int | None
    """Number of trials; None: not stated."""
    lacks_digest: bool
    comparability: str
    is_comparable: bool
    """False if the figure is not one of traffic through the device."""
    method: str
    date: str
    source: str
    where: str
    """Name of the published result, or id of the run."""
    cpu: str | None
    clock_mhz: float | None
    price: str | None
    watts: str | None
    comment: str = ""
    """Remark of the publication on this figure, such as `overclocked to 1.2 GHz`."""
    reaches_target: bool | None = None
    """None: there is no target, or a lower bound is below it."""

    @property
    def price_eur(self) -> float | None:
        """Price [EUR]; None: not known, or in another currency."""
        return largest(_PRICE, self.price)

    @property
    def power_w(self) -> float | None:
        """Power [W]: of a range, its end."""
        return largest(_WATTS, self.watts)

    @property
    def mbps_per_eur(self) -> float | None:
        return self.throughput_mbps / self.price_eur if self.price_eur else None

    @property
    def mbps_per_watt(self) -> float | None:
        return self.throughput_mbps / self.power_w if self.power_w else None

    @property
    def marks(self) -> tuple[str, ...]:
        """Reasons for which the figure means less than it seems to."""
        found = {
            "on the device itself": not self.is_comparable,
            "lower bound": self.is_lower_bound,
            "line speed": self.is_line_speed,
            "single measurement": is_single(self.trials, self.comment),
            "no digest": self.lacks_digest,
            "encryption unknown": self.is_encrypted is None,
            "not encrypted": self.is_encrypted is False,
        }
        return tuple(mark for mark, applies in found.items() if applies)

    @property
    def remarks(self) -> str:
        """The marks, and the remark of the publication."""
        own = "" if self.comment in self.marks else self.comment
        return "; ".join(each for each in (", ".join(self.marks), own) if each)

    def for_programs(self) -> dict[str, object]:
        """Return the row with the figures that follow from it, and with the known facts of the device."""
        return {
            **asdict(self),
            "price_eur": self.price_eur,
            "power_w": self.power_w,
            "mbps_per_eur": self.mbps_per_eur,
            "mbps_per_watt": self.mbps_per_watt,
            "marks": self.marks,
            "facts": {name: asdict(fact) for name, fact in known_facts(self.device, self.cpu).items()},
        }


@dataclass(frozen=True)
class Ranking:
    """Devices by throughput, highest first."""

    rows: tuple[RankedRow, ...]
    without_price: int
    """Number of rows left out because a price is asked for and theirs is not known."""
    without_watts: int


@dataclass(frozen=True)
class RankingLimits:
    """The conditions of a ranking."""

    tunnel: str | None = None
    target_mbps: float | None = None
    max_price_eur: float | None = None
    max_watts: float | None = None
    allows_plaintext: bool = False


def is_single(trials: int | None, comment: str) -> bool:
    """Return True if a figure is one trial; a remark may say that it is the highest of several."""
    return trials == 1 and not _OF_SEVERAL.search(comment)


def largest(pattern: re.Pattern[str], text: str | None) -> float | None:
    """Return the largest number that a pattern finds in a text; None if it finds none."""
    return max((float(number) for number in pattern.findall(text or "")), default=None)


def rank(
    runs: Sequence[GatheredRun],
    references: Sequence[Reference],
    given: Mapping[str, DeviceFacts],
    wanted: RankingLimits,
) -> Ranking:
    """Return the best row of each device for each kind of tunnel and direction; with conditions, those that meet them.

    Of several variants, `overview.order` chooses. With a target, a row below it is left out, unless it is a lower
    bound. A variant of which encryption is unknown counts as one without it.
    """
    best: dict[tuple[str, str, str | None], tuple[RankedRow, Best]] = {}
    for row, rate in [*_of_references(references), *_of_runs(runs)]:
        if (wanted.tunnel not in {None, row.tunnel}) or not (row.is_encrypted or wanted.allows_plaintext):
            continue
        key = (device_key(row.device), row.tunnel, row.direction)
        if key not in best or order(rate) > order(best[key][1]):
            best[key] = row, rate
    found = [_with_facts(row, given) for row, _ in best.values()]
    if wanted.target_mbps is not None:
        judged = [(row, _reaches(row, wanted.target_mbps)) for row in found]
        found = [replace(row, reaches_target=reaches) for row, reaches in judged if reaches is not False]
    priced = [row for row in found if wanted.max_price_eur is None or row.price_eur is not None]
    powered = [row for row in priced if wanted.max_watts is None or row.power_w is not None]
    fitting = [
        row
        for row in powered
        if (wanted.max_price_eur is None or (row.price_eur or 0) <= wanted.max_price_eur)
        and (wanted.max_watts is None or (row.power_w or 0) <= wanted.max_watts)
    ]
    fitting.sort(key=lambda row: (-row.throughput_mbps, row.device, row.tunnel, row.direction or ""))
    return Ranking(tuple(fitting), len(found) - len(priced), len(priced) - len(powered))


@dataclass(frozen=True)
class Unlisted:
    """Published figures of a tunnel that no ranking lists, because a fact is missing."""

    without_device: int
    """Number of figures of a device that is not named; those without a cipher among them."""
    without_cipher: int
    """Number of figures that do not state a cipher, unless such figures are allowed; those without a device among
    them."""
    highest_mbps: float | None
    """Highest of the figures without a device [Mbit/s]."""
    highest_where: str
    """Tunnel and published result of that figure."""


def unlisted(references: Sequence[Reference], wanted: RankingLimits) -> Unlisted:
    """Return the published figures of a tunnel that reach the target, and that the ranking cannot list."""
    without: list[tuple[float, str]] = []
    unknown = 0
    for reference in references:
        rows = [{**row, "device": row.get("device") or _NO_DEVICE} for row in reference.rows]
        for row, _ in _of_references([replace(reference, rows=tuple(rows))]):
            if wanted.tunnel not in {None, row.tunnel} or row.throughput_mbps < (wanted.target_mbps or 0):
                continue
            unknown += row.is_encrypted is None and not wanted.allows_plaintext
            if row.device == _NO_DEVICE and (row.is_encrypted is not False or wanted.allows_plaintext):
                without.append((row.throughput_mbps, f"{row.variant}, {row.where}, {row.comparability}"))
    highest = max(without, default=None)
    return Unlisted(len(without), unknown, highest and highest[0], highest[1] if highest else "")


def all_rows(runs: Sequence[GatheredRun], references: Sequence[Reference]) -> list[RankedRow]:
    """Return all figures of all devices."""
    return [row for row, _ in [*_of_references(references), *_of_runs(runs)]]


def _reaches(row: RankedRow, target_mbps: float) -> bool | None:
    if row.throughput_mbps >= target_mbps:
        return True
    return None if row.is_lower_bound else False


def contradictions(references: Sequence[Reference]) -> list[str]:
    """Return a sentence for each device of which two publications state different clocks of the CPU."""
    clocks: dict[str, set[float]] = {}
    for row, _ in _of_references(references):
        if row.clock_mhz is not None:
            clocks.setdefault(device_key(row.device), set()).add(row.clock_mhz)
    for reference in references:
        if reference.clock_mhz is not None:
            for name in {device_key(row["device"]) for row in reference.rows}:
                clocks.setdefault(name, set()).add(reference.clock_mhz)
    return [f"{name}: clocks of {sorted(each)} MHz" for name, each in sorted(clocks.items()) if len(each) > 1]


def _of_references(references: Sequence[Reference]) -> Iterator[tuple[RankedRow, Best]]:
    for reference in references:
        for row in published(reference):
            marks = ResultMarks(reference.trials_per_row, row.is_line_speed)
            found = rate_of(
                row.result,
                row.reference,
                row.mbps_text,
                is_line_speed=row.is_line_speed,
                is_comparable=is_comparable_row(row),
                least_bytes=FULL_PAYLOAD_BYTES,
            )
            if found is not None:
                yield _row_of_publication(row, reference, found, marks), found


def _row_of_publication(row: Published, reference: Reference, found: Best, marks: ResultMarks) -> RankedRow:
    origin = Origin(row.comparability.name, reference.method, reference.date, reference.source, reference.name)
    facts = DeviceFacts(row.price, row.watts)
    made = _row(row.device, row.result, found, marks, origin=origin, facts=facts, cpu=row.cpu)
    return replace(made, comment=row.comment)


def _of_runs(runs: Sequence[GatheredRun]) -> Iterator[tuple[RankedRow, Best]]:
    for run in runs:
        entry, known = run.entry, run.known
        origin = Origin(OWN_CLASS, OWN_METHOD, entry.started_at[:10], "own or imported run", entry.run_id)
        for result, marks in zip(entry.results, run.marks, strict=True):
            found = rate_of(
                result,
                entry.title,
                mbps_text(result),
                is_line_speed=marks.is_line_speed,
                is_comparable=True,
                least_bytes=FULL_PAYLOAD_BYTES,
            )
            if found is not None and entry.device != NOT_KNOWN:
                facts = DeviceFacts(known.price, known.watts)
                yield _row(entry.device, result, found, marks, origin=origin, facts=facts, cpu=known.cpu), found


@dataclass(frozen=True)
class Origin:
    """The measurement behind a row."""

    comparability: str
    method: str
    date: str
    source: str
    where: str


def _row(
    device: str,
    result: Result,
    found: Best,
    marks: ResultMarks,
    *,
    origin: Origin,
    facts: DeviceFacts,
    cpu: str | None,
) -> RankedRow:
    cpu = cpu or known_cpu(device)
    return RankedRow(
        device=device,
        tunnel=result.kind,
        variant=result.tunnel,
        cipher=result.cipher,
        digest=result.digest,
        is_encrypted=result.is_encrypted,
        direction=result.direction,
        payload_bytes=result.payload_bytes,
        throughput_mbps=result.throughput_bps / 1e6 if result.throughput_bps else 0.0,
        text=found.text,
        is_lower_bound=is_lower_bound(result, is_line_speed=marks.is_line_speed),
        is_line_speed=marks.is_line_speed,
        trials=marks.repeats,
        lacks_digest=found.lacks_digest,
        comparability=origin.comparability,
        is_comparable=found.is_comparable,
        method=origin.method,
        date=origin.date,
        source=origin.source,
        where=origin.where,
        cpu=cpu,
        clock_mhz=clock_of(device, cpu),
        price=facts.price,
        watts=facts.watts,
    )


def _with_facts(row: RankedRow, given: Mapping[str, DeviceFacts]) -> RankedRow:
    own = next((facts for name, facts in given.items() if device_key(name) == device_key(row.device)), DeviceFacts())
    return replace(row, price=own.price or row.price, watts=own.watts or row.watts)
