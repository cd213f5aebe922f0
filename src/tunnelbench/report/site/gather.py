"""Converts rows of runs and of published results to one class, and groups them by device, for the pages of a site."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tunnelbench.analysis.audit.links import says_line_speed, says_lower_bound
from tunnelbench.analysis.encryption import states_encryption
from tunnelbench.analysis.statistics import Estimate
from tunnelbench.analysis.summary import Figures, Row
from tunnelbench.analysis.udp import UdpFigures, UdpRow
from tunnelbench.model.plan import BASELINE_KIND
from tunnelbench.model.reference import Comparability, Reference
from tunnelbench.model.result import RunRecord
from tunnelbench.report.document import Document
from tunnelbench.report.exchange import Imported
from tunnelbench.report.facts import taken_on
from tunnelbench.report.site.device_names import device_key
from tunnelbench.report.site.index import Result, Run
from tunnelbench.report.text import one_line

NOT_KNOWN = "device not known"

LONGEST_DEVICE_NAME = 100
LONGEST_COMMENT = 300
_DECIMALS = re.compile(r"^[0-9]{1,12}\.([0-9]{1,9})$")
TESTERS_ALONE = "direct"
"""Name of the tunnel in a published row without a router."""


@dataclass(frozen=True)
class Known:
    """Facts about the device under test of a run."""

    cpu: str | None
    cpus: int | None
    memory_mib: int | None
    price: str | None = None
    watts: str | None = None
    is_guest: bool = False
    """True if the absolute figures apply to no device."""
    is_router: bool = False
    """True if the device under test was a router of its own."""


@dataclass(frozen=True)
class DeviceFacts:
    """Facts of a device from the maker of the site, or of a ranking; None: not given."""

    price: str | None = None
    watts: str | None = None


@dataclass(frozen=True)
class ResultMarks:
    """Facts about the trials of a result that limit its meaning."""

    repeats: int | None
    """Number of trials; None: not stated."""
    is_line_speed: bool
    """True if the link was the limit."""


@dataclass(frozen=True)
class GatheredRun:
    """A run for the pages that list it."""

    entry: Run
    known: Known
    marks: tuple[ResultMarks, ...] = ()
    """Marks of each result of the entry, in the same order."""


@dataclass(frozen=True)
class Published:
    """A row of a published result, and its device."""

    device: str
    cpu: str | None
    price: str | None
    watts: str | None
    reference: str
    comparability: Comparability
    result: Result
    mbps_text: str = ""
    """Throughput [Mbit/s] with the digits that were published; empty: not published."""
    comment: str = ""

    @property
    def is_line_speed(self) -> bool:
        """True if the publication says that the link was the limit."""
        return says_line_speed(self.comment)


def gathered(found: Imported) -> GatheredRun:
    """Return the entry of a run from a file."""
    document, run = found.document, found.run
    name = run.run_id
    results = tuple(_results(document))
    entry = Run(
        run_id=name,
        page=f"runs/{name}.html",
        data=f"runs/{name}.json",
        device=device_name(run),
        title=one_line(run.plan_title or run.plan_name),
        started_at=run.started_at,
        testbed=one_line(run.testbed_name),
        trials=len(found.records),
        tunnelbench_version=one_line(run.tunnelbench_version),
        comparability=one_line(taken_on(run)),
        doubts=len(found.doubtful),
        results=tuple(result for result, _ in results),
    )
    return GatheredRun(entry, _known(run.host_facts), tuple(marks for _, marks in results))


def device_name(run: RunRecord) -> str:
    """Return the name of the device under test: a router of its own, the guest, or this machine.

    The name is the board, or the CPU if the board is unknown. The machine that ran a guest is not the device.
    """
    facts = run.host_facts
    if "router_kernel" in facts:
        return _text(facts.get("router_board")) or _text(facts.get("router_cpu_model")) or NOT_KNOWN
    if guest := _text(facts.get("guest")):
        return f"{_text(facts.get('guest_board')) or _text(facts.get('guest_cpu')) or NOT_KNOWN} ({guest})"
    name = _text(facts.get("board")) or _text(facts.get("cpu_model")) or NOT_KNOWN
    return f"{name} (virtual)" if facts.get("virtual") == "yes" else name


def _known(facts: Mapping[str, Any]) -> Known:
    if "router_kernel" in facts:
        cpu = _text(facts.get("router_soc")) or _text(facts.get("router_cpu_model"))
        memory_mib = _whole(facts.get("router_memory_mib"))
        given = _text(facts.get("router_price")), _text(facts.get("router_watts"))
        return Known(cpu, _whole(facts.get("router_cpus")), memory_mib, *given, is_router=True)
    if "guest" in facts:
        return Known(_text(facts.get("guest_cpu")), None, None, is_guest=True)
    return Known(_text(facts.get("cpu_model")), _whole(facts.get("cpus")), _whole(facts.get("memory_mib")))


def slug(name: str) -> str:
    """Return a file name for a device; a hash distinguishes similar names."""
    letters = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    return f"{letters or 'device'}-{sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def _results(document: Document) -> Iterator[tuple[Result, ResultMarks]]:
    rows: list[Row | UdpRow] = [*(row for row in document.rows if not row.load), *document.udp_rows]
    for row in rows:
        figures = row.figures
        if figures is None or row.is_calibration:
            continue
        pps: Estimate | None
        bps: float | None
        if isinstance(row, UdpRow) and isinstance(figures, UdpFigures):
            pps, test = figures.ndr_pps or figures.forwarding_rate_pps, one_line(f"{row.test} {row.load}")
            bps = row.payload_bps(pps.median) if pps else None
            marks = ResultMarks(pps.count if pps else None, is_line_speed=False)
        elif isinstance(figures, Figures):
            pps, bps, test = figures.data_pps, figures.throughput_bps.median, "tcp"
            marks = ResultMarks(figures.throughput_bps.count, figures.is_line_speed)
        cost, share = figures.cpu_s_per_million_packets, figures.share_of_baseline
        result = Result(
            tunnel=one_line(row.tunnel.name),
            kind=one_line(row.tunnel.kind),
            cipher=_text(row.tunnel.options.get("cipher")),
            digest=_text(row.tunnel.options.get("auth") or row.tunnel.options.get("digest")),
            is_encrypted=row.is_encrypted,
            test=test,
            payload_bytes=row.payload_bytes,
            direction=row.direction.value,
            throughput_bps=bps,
            packets_per_s=pps.median if pps else None,
            cpu_s_per_million_packets=cost.median if cost else None,
            share_of_baseline=share.median if share else None,
            is_tester_limited=figures.is_tester_limited,
        )
        yield result, marks


def published(reference: Reference) -> list[Published]:
    """Return the rows of a published result that have a device, a tunnel, and a throughput or a packet rate."""
    found = []
    for row in reference.rows:
        rate, packets = _figure(row.get("throughput_mbps")), _figure(row.get("packets_per_s"))
        kind, device = _text(row.get("tunnel")), _text(row.get("device"))
        if kind is None or device is None or kind == TESTERS_ALONE or (rate is None and packets is None):
            continue
        cipher, digest = _text(row.get("cipher")), _text(row.get("auth"))
        payload = _figure(row.get("payload_bytes"))
        direction, comment = row.get("direction"), one_line(row.get("comment") or "")[:LONGEST_COMMENT]
        result = Result(
            tunnel=" ".join(word for word in (kind, cipher, digest) if word),
            kind=kind,
            cipher=cipher,
            digest=digest,
            is_encrypted=_is_encrypted(kind, cipher),
            test="udp" if "udp" in (row.get("traffic") or "").lower() else "tcp",
            payload_bytes=None if payload is None else round(payload),
            direction="in" if direction == "in" else "out" if direction == "out" else None,
            throughput_bps=None if rate is None else rate * 1e6,
            packets_per_s=packets,
            cpu_s_per_million_packets=None,
            share_of_baseline=None,
            is_tester_limited=True if says_lower_bound(comment) else None,
        )
        found.append(
            Published(
                device=device,
                cpu=_text(row.get("cpu")),
                price=_text(row.get("price")),
                watts=_text(row.get("watts")),
                reference=reference.name,
                comparability=reference.comparability,
                result=result,
                mbps_text="" if rate is None else _with_digits(rate, row["throughput_mbps"]),
                comment=comment,
            )
        )
    return found


def _is_encrypted(kind: str, cipher: str | None) -> bool | None:
    """Return whether a published tunnel encrypts; None if the publication names no cipher."""
    return False if kind == BASELINE_KIND else states_encryption({"cipher": cipher or ""})


def _text(value: Any) -> str | None:
    text = one_line(str(value))[:LONGEST_DEVICE_NAME] if isinstance(value, str | int | float) else ""
    return text or None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_lower_bound(result: Result, *, is_line_speed: bool) -> bool:
    """Return True if the testers or the link were the limit of a throughput."""
    return bool(result.is_tester_limited) or is_line_speed


def _with_digits(value: float, text: str) -> str:
    """Return a figure with as many decimals as its text has."""
    found = _DECIMALS.search(text)
    return f"{value:.{len(found[1])}f}" if found else f"{value:.10g}"


def _figure(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


@dataclass(frozen=True)
class DeviceGroup:
    """A device with all its runs and published rows."""

    name: str
    other_names: tuple[str, ...]
    """Further names of the same device among its runs and rows."""
    runs: Sequence[GatheredRun]
    """Runs, which state the name of the group as that of their device."""
    rows: Sequence[Published]


def by_device(runs: Sequence[GatheredRun], rows: Sequence[Published]) -> list[DeviceGroup]:
    """Return runs and published rows by their device, sorted by its name.

    All names of one device make one group, under the name that was published first.
    """
    names: dict[str, list[str]] = {}
    own_runs: dict[str, list[GatheredRun]] = {}
    own_rows: dict[str, list[Published]] = {}
    for row in rows:
        key = device_key(row.device)
        names.setdefault(key, []).append(row.device)
        own_rows.setdefault(key, []).append(row)
    for run in runs:
        key = device_key(run.entry.device)
        known = names.setdefault(key, [])
        known.append(run.entry.device)
        named = run.entry.model_copy(update={"device": known[0].rstrip("* ")})
        own_runs.setdefault(key, []).append(replace(run, entry=named))
    found = []
    for key, every in names.items():
        name, *others = dict.fromkeys(each.rstrip("* ") for each in every)  # the star is a mark of a publication
        found.append(DeviceGroup(name, tuple(others), own_runs.get(key, []), own_rows.get(key, [])))
    return sorted(found, key=lambda each: (each.name.lower(), each.name))
