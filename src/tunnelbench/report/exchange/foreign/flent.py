"""Data files of Flent (`.flent`, `.flent.gz`), a JSON object of series over time.

Flent's `resultset.py` writes and reads them; the files of versions 2 to 4 have the same fields here. Series whose unit
is Mbits/s and whose name has the word `upload` or `download` are throughputs. For several streams of one direction,
Flent adds series with their sum and other summaries. With `--socket-stats` it adds series such as
`TCP upload::tcp_cwnd`, some of which have no unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tunnelbench.report.exchange.foreign.result import ForeignResult, cell_text, object_or_empty, rate_text
from tunnelbench.report.exchange.json_object import json_object

_HINT = "name a file that Flent wrote, such as rrul-2025-03-14T092653.flent.gz"

_SUMMARIES = ("sum", "avg", "fairness", "totals")
"""Last words of names of series that Flent computes from other series."""
_MBPS_BY_UNIT = {"mbits/s": 1.0, "bits/s": 1e-6}
"""Factor to Mbit/s by unit; files before version 4 have bits/s for UDP of iperf."""
_STREAM = re.compile(r"(?P<protocol>TCP|UDP) (?P<direction>upload|download)\b", re.IGNORECASE)
_SENSE_OF_WORD = {"download": "in", "upload": "out"}


def recognises(text: str) -> bool:
    """Return True if a text looks like a file of Flent."""
    return text.lstrip().startswith("{") and all(f'"{key}"' in text for key in ("x_values", "results", "metadata"))


def read(text: str) -> ForeignResult:
    """Return the throughputs of a file. Raises WrongInput if a figure is impossible."""
    whole = json_object(text.encode(), _HINT, may_repeat_keys=True)
    metadata = object_or_empty(whole.get("metadata"))
    test = cell_text(metadata.get("NAME"))
    streams = list(_streams(object_or_empty(whole.get("results")), object_or_empty(metadata.get("SERIES_META"))))
    is_both = len({direction for _, direction, _, _ in streams}) > 1
    rows = []
    for protocol, direction in dict.fromkeys(stream[:2] for stream in streams):
        own = [(kind, mbps) for *place, kind, mbps in streams if place == [protocol, direction]]
        parts = [mbps for kind, mbps in own if kind not in _SUMMARIES]
        together = [mbps for kind, mbps in own if kind == "sum"] or [sum(parts)]
        if parts or "sum" in dict(own):
            traffic = f"flent {test} {protocol.lower()}, streams: {max(len(parts), 1)}"
            rows.append(
                {
                    "traffic": traffic,
                    "direction": _SENSE_OF_WORD[direction],
                    "throughput_mbps": rate_text(together[0], f"the throughput of {protocol} {direction}"),
                    "comment": "upload and download at the same time" if is_both else "",
                }
            )
    version = cell_text(metadata.get("FLENT_VERSION"))
    length = metadata.get("LENGTH")
    lasting = f" of {length:g} s" if isinstance(length, int | float) else ""
    title = cell_text(metadata.get("TITLE"))
    return ForeignResult(
        program=f"Flent {version}".strip(),
        title=f"Flent test {test}{f': {title}' if title else ''}",
        date=cell_text(metadata.get("TIME"))[:10],
        method=f"Flent test {test}{lasting}; a figure is the mean of its series, of several streams their sum.",
        rows=tuple(rows),
        notes=tuple(filter(None, [cell_text(metadata.get("NOTE"))])),
        trials_per_row=1,
    )


def _streams(results: Mapping[str, Any], series_meta: Mapping[str, Any]) -> Iterator[tuple[str, str, str, float]]:
    """Yield protocol, direction, last word of the name, and mean [Mbit/s] of each series of a throughput."""
    for name, values in results.items():
        found = _STREAM.match(name)
        facts = object_or_empty(series_meta.get(name))
        factor = _MBPS_BY_UNIT.get(str(facts.get("UNITS", "Mbits/s")).lower())
        mean = facts.get("MEAN_VALUE")
        if not isinstance(mean, int | float) or isinstance(mean, bool):
            mean = _mean(values)
        last = name.split()[-1].rpartition("::")[2].lower() if name.split() else ""
        is_of_socket = "::" in name and not last.isdigit() and last not in _SUMMARIES  # such as ...::tcp_rtt
        if found and factor is not None and mean is not None and not is_of_socket:
            yield found["protocol"].upper(), found["direction"].lower(), last, mean * factor


def _mean(values: Any) -> float | None:
    known = [each for each in values if type(each) in {int, float}] if isinstance(values, list) else []
    return sum(known) / len(known) if known else None
