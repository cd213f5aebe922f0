"""`index.json`: what a site holds, for programs. docs/site.md describes it; its schema is made from these classes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Href = Annotated[str, Field(pattern=r"^[a-z]+/[a-z0-9.-]+$")]
"""Relative to `index.json`."""


class Entry(BaseModel):
    """What all entries are like."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Result(Entry):
    """One row: medians of a run, or a figure as it was published. Null is not measured, or not stated."""

    tunnel: str
    kind: str
    """Such as `openvpn`; `none` is plain forwarding."""
    cipher: str | None
    digest: str | None
    test: str
    """`tcp`, or of UDP `search`, `rate`, ..."""
    payload_bytes: int | None
    direction: Literal["in", "out"] | None
    throughput_bps: float | None
    packets_per_s: float | None
    """Data packets of TCP; of UDP what came through, of a search its NDR."""
    cpu_s_per_million_packets: float | None
    share_of_baseline: float | None
    """Of the throughput without a tunnel, 0 to 1."""
    is_tester_limited: bool | None
    """Whether the testers were the limit, not the device."""


class Run(Entry):
    """A run."""

    run_id: str
    page: Href
    data: Href
    """The file that the run came in."""
    device: str
    """Its name, as in `devices`."""
    title: str
    started_at: str
    testbed: str
    trials: int
    tunnelbench_version: str
    comparability: str
    doubts: int
    """Figures that the audit does not believe."""
    results: tuple[Result, ...]


class ReferenceEntry(Entry):
    """A published result; its rows are on its page."""

    name: str
    page: Href
    title: str
    source: str
    date: str
    comparability: str
    rows: int


class Device(Entry):
    """A device, with what is known of it; null is not given."""

    name: str
    page: Href
    cpu: str | None
    cpus: int | None
    memory_mib: int | None
    price: str | None
    watts: str | None
    runs: tuple[str, ...]
    """Ids."""
    references: tuple[str, ...]
    """Names."""


class Index(Entry):
    """All of a site."""

    format: Literal["tunnelbench-site"]
    format_number: Literal[1]
    written_by: str
    devices: tuple[Device, ...]
    runs: tuple[Run, ...]
    references: tuple[ReferenceEntry, ...]
