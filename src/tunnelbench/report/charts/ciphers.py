"""The speed of ciphers and digests by themselves against the size of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunnelbench.analysis.numbers import significant
from tunnelbench.model.cipher_speed import BLOCK_BYTES, CipherSpeed
from tunnelbench.report.charts.chart import Chart, Place
from tunnelbench.report.charts.lines import Axis, Line, line_spec
from tunnelbench.report.document import Document
from tunnelbench.report.text import one_line

MARKED = " (doubtful)"


def cipher_charts(document: Document) -> Iterator[Chart]:
    """One for each machine and number of threads, with and without the instructions for ciphers."""
    measured = [speed for speed in document.speeds if speed.bytes_per_s]
    machines = list(dict.fromkeys(speed.machine for speed in measured))
    for machine in machines:
        own = [speed for speed in measured if speed.machine == machine]
        for threads in dict.fromkeys(speed.threads for speed in own):
            alike = [speed for speed in own if speed.threads == threads]
            title = f"Speed of ciphers and digests, {threads} thread{'s' if threads > 1 else ''}"
            where = f", {machine}" if len(machines) > 1 else ""
            yield _chart(alike, one_line(title + where), f"ciphers-{machines.index(machine) + 1}-{threads}")


def _chart(speeds: Sequence[CipherSpeed], title: str, name: str) -> Chart:
    algorithms = list(dict.fromkeys(speed.algorithm for speed in speeds))
    ways = list(dict.fromkeys(speed.acceleration for speed in speeds))
    lines = [
        Line(
            _named(speed),
            [(str(block), speed.bytes_per_s[block] / 1e6) for block in BLOCK_BYTES if _at(speed, block)],
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
        place=Place.CIPHERS,
        title=title,
        sentence=f"{said}.",
        spec=line_spec(lines, Axis("block [bytes]", "ordinal"), Axis("MB/s", scale="log")),
        header=("Algorithm", *(f"{block} bytes [MB/s]" for block in BLOCK_BYTES)),
        rows=tuple(
            (
                line.name,
                *(
                    significant(dict(line.points)[str(block)], 3, thousands=True)
                    if str(block) in dict(line.points)
                    else ""
                    for block in BLOCK_BYTES
                ),
            )
            for line in lines
        ),
    )


def _at(speed: CipherSpeed, block: int) -> float:
    """A logarithm has no zero."""
    return speed.bytes_per_s.get(block, 0.0)


def _named(speed: CipherSpeed) -> str:
    return one_line(f"{speed.algorithm}, {speed.acceleration}{MARKED * speed.is_doubtful}")
