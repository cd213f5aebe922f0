"""The speed of ciphers and digests without a tunnel against the size of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.number_format import significant
from tunnelbench.model.cipher_speed import BLOCK_BYTES, CipherSpeed
from tunnelbench.model.text import counted
from tunnelbench.report.charts.chart import Chart, PageSection
from tunnelbench.report.charts.lines import Axis, ChartLine, line_spec
from tunnelbench.report.document import Document
from tunnelbench.report.sections import DOUBTFUL_MARK
from tunnelbench.report.text import one_line


def cipher_charts(document: Document) -> Iterator[Chart]:
    """Yield a chart for each machine and number of threads, with and without the instructions for ciphers."""
    measured = [speed for speed in document.speeds if speed.bytes_per_s]
    machines = list(dict.fromkeys(speed.machine for speed in measured))
    for machine in machines:
        own = [speed for speed in measured if speed.machine == machine]
        for threads in dict.fromkeys(speed.threads for speed in own):
            alike = [speed for speed in own if speed.threads == threads]
            title = f"Speed of ciphers and digests, {counted(threads, 'thread')}"
            where = f", {machine}" if len(machines) > 1 else ""
            yield _chart(alike, one_line(title + where), f"ciphers-{machines.index(machine) + 1}-{threads}")


def _chart(speeds: Sequence[CipherSpeed], title: str, name: str) -> Chart:
    algorithms = list(dict.fromkeys(speed.algorithm for speed in speeds))
    ways = list(dict.fromkeys(speed.acceleration for speed in speeds))
    lines = [
        ChartLine(
            _named(speed),
            # A logarithmic axis cannot show a speed of 0.
            [(str(block), rate / 1e6) for block in BLOCK_BYTES if (rate := speed.bytes_per_s.get(block))],
            family=algorithms.index(speed.algorithm),
            member=ways.index(speed.acceleration),
        )
        for speed in speeds
    ]
    rates = [(value, line.name, block) for line in lines for block, value in line.points]
    fastest, slowest = max(rates), min(rates)
    said = "; ".join(
        f"{word}: {named} at {block} bytes, {significant(value, 3, thousands=True)} MB/s"
        for word, (value, named, block) in (("Fastest", fastest), ("slowest", slowest))
    )
    return Chart(
        name=name,
        place=PageSection.CIPHERS,
        title=title,
        sentence=f"{said}.",
        spec=line_spec(lines, Axis("block [bytes]", "ordinal"), Axis("MB/s", scale="log")),
        header=("Algorithm", *(f"{block} bytes [MB/s]" for block in BLOCK_BYTES)),
        rows=tuple(
            (
                line.name,
                *(
                    significant(rate, 3, thousands=True) if (rate := dict(line.points).get(str(block))) else ""
                    for block in BLOCK_BYTES
                ),
            )
            for line in lines
        ),
    )


def _named(speed: CipherSpeed) -> str:
    return one_line(f"{speed.algorithm}, {speed.acceleration}{DOUBTFUL_MARK * speed.is_doubtful}")
