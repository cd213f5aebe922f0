"""Report section on the time to start each tunnel."""

from __future__ import annotations

from collections.abc import Sequence

from tunnelbench.analysis.number_format import estimate_text
from tunnelbench.analysis.tunnel_start import TunnelStart
from tunnelbench.report.sections import Section
from tunnelbench.report.text import one_line

START_NOTE = (
    "Median and range over the blocks of trials, from the start of the set-up to the first answered packet. It "
    "includes the configuration of both ends, the start of their programs, the handshake, the installation of "
    "counters, and the time of TunnelBench's commands, which is longer over SSH. Exported runs do not have it."
)


def tunnel_start_section(starts: Sequence[TunnelStart]) -> list[Section]:
    """Return the section; an empty list if no duration of a step is known."""
    rows = tuple(
        (one_line(each.tunnel.name), estimate_text(each.start_s, 3), str(each.start_s.count)) for each in starts
    )
    return [
        Section("Start of a tunnel", header=("Tunnel", "Start [s]", "Blocks"), rows=rows, notes=(START_NOTE,))
    ] * bool(rows)
