"""`index.json`: the content of a site for programs. docs/site.md describes it; these classes make its schema."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Href = Annotated[str, Field(pattern=r"^[a-z]+/[a-z0-9.-]+$")]
"""Relative to `index.json`."""


class IndexModel(BaseModel):
    """An entry of the index."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Result(IndexModel):
    """One row: medians of a run, or figures as they were published. Null: not measured, or not stated."""

    tunnel: str
    kind: str
    """Kind of tunnel, such as `openvpn`; `none` is plain forwarding."""
    cipher: str | None
    digest: str | None
    is_encrypted: bool | None
    """True if the tunnel encrypts its packets; null: not known."""
    test: str
    """`tcp`, or of UDP `search`, `rate`, ..."""
    payload_bytes: int | None
    direction: Literal["in", "out"] | None
    throughput_bps: float | None
    packets_per_s: float | None
    """Data packets of TCP; packets of UDP that came through; of a search its NDR."""
    cpu_s_per_million_packets: float | None
    share_of_baseline: float | None
    """Share of the throughput without a tunnel, 0 to 1."""
    is_tester_limited: bool | None
    """True if the testers, not the device, were the limit."""


class Run(IndexModel):
    """A run."""

    run_id: str
    page: Href
    data: Href
    """The file that the run came in."""
    device: str
    """Name of its device, as in `devices`."""
    title: str
    started_at: str
    testbed: str
    trials: int
    tunnelbench_version: str
    comparability: str
    doubts: int
    """Number of figures that break a rule of the audit."""
    results: tuple[Result, ...]


class ReferenceEntry(IndexModel):
    """A published result; its rows are on its page."""

    name: str
    page: Href
    title: str
    source: str
    date: str
    comparability: str
    rows: int


class Fact(IndexModel):
    """A fact that a source of device facts states."""

    text: str
    source: str


class Device(IndexModel):
    """A device and its known facts; null: not given."""

    name: str
    other_names: tuple[str, ...]
    """Further names of the same device among its runs and publications."""
    page: Href
    cpu: str | None
    cpus: int | None
    memory_mib: int | None
    price: str | None
    watts: str | None
    facts: dict[str, Fact]
    """Facts with their sources, such as `architecture`, `clock_mhz` and `ethernet`."""
    runs: tuple[str, ...]
    """Ids of the runs on the device."""
    references: tuple[str, ...]
    """Names of the published results with the device."""


class Index(IndexModel):
    """The whole index of a site."""

    format: Literal["tunnelbench-site"]
    format_number: Literal[1]
    written_by: str
    devices: tuple[Device, ...]
    runs: tuple[Run, ...]
    references: tuple[ReferenceEntry, ...]
