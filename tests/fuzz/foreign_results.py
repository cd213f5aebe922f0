"""Target `foreign_results`: a file of another program is imported; what is accepted is compared, ranked and shown.

The first line of an input names its format; of a table, a line of `---` parts the mapping from the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.target import Target, same

from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.cli.details.reference import text as shown
from tunnelbench.reference import parse_reference
from tunnelbench.report.device_ranking import RankingLimits, rank
from tunnelbench.report.exchange.foreign import (
    FORMATS,
    MAPPED_TABLE,
    Mapped,
    Stated,
    described,
    read_foreign,
    recognised,
    unpacked,
)
from tunnelbench.report.exchange.foreign.spreadsheet import read_mapping
from tunnelbench.report.site.pages import other_pages

FILES = Path(__file__).parents[1] / "unit" / "report" / "exchange" / "foreign_files"
LARGEST_SEED_BYTES = 16_000
PARTING = b"\n---\n"
NAME = "imported-x"


def take(data: bytes) -> None:
    first, _, content = data.partition(b"\n")
    wanted = first.decode(errors="replace")
    if wanted == "reference":
        head, _, rows = content.partition(PARTING)
        use(head.decode(errors="replace"), rows.decode(errors="replace"))
        return
    content = unpacked(content)
    mapped: Mapped | None = None
    if wanted == MAPPED_TABLE:
        mapping, parting, table_bytes = content.partition(PARTING)
        if parting:
            mapped, content = read_mapping(mapping.decode(errors="replace")), table_bytes
    name = wanted if wanted in {*FORMATS, MAPPED_TABLE} else recognised(content)
    if name is None:
        return
    result = read_foreign(content, name, mapped)
    facts = {"device": "A box", "tunnel": "wireguard"}
    stated = {key: value for key, value in facts.items() if not any(row.get(key) for row in result.rows)}
    if name == "openssl-speed":
        stated.pop("tunnel")
    description, table = described(result, Stated(stated), "file")
    use(description, table)


def use(description: str, table: str) -> None:
    """Do everything that the verbs do with a published result."""
    reference = parse_reference(NAME, description, table)
    same(parse_reference(NAME, description.encode().decode(), table.encode().decode()), reference)
    side_of_reference(reference)
    rank([], [reference], {}, RankingLimits(allows_plaintext=True))
    if not shown(reference) or not dict(other_pages([], [reference], {})):
        raise AssertionError("nothing is shown")


def seeds() -> Iterator[bytes]:
    for path in sorted(FILES.glob("*.*")):
        content = path.read_bytes()
        yield b"guessed\n" + content
        if path.suffix in {".gz", ".bz2"}:
            text = unpacked(content)
            yield b"guessed\n" + (text if len(text) < LARGEST_SEED_BYTES else content)
    for name in FORMATS:
        yield name.encode() + b"\n{}"
    mapping = (
        b'class = "through-device"\ntrials_per_row = 2\n[columns]\ndevice = "Box"\nthroughput_mbps = "Mbit/s"\n'
        b'payload_bytes = "Size"\ncpu_total_pct = "CPU"\npackets_per_s = "pps"\ndirection = "To"\n'
        b'[every_row]\ntunnel = "tinc"\n[values.direction]\ndown = "in"'
    )
    table = b"Box;Mbit/s;Size;CPU;pps;To\nA;94,2;1448;50 %;8k;down\nB;1,2 Gbit/s;;;;out\n"
    yield b"table\n" + mapping + PARTING + table
    yield b"table\n" + mapping + PARTING + b"| Box | Mbit/s |\n|---|---|\n| A | 94.2 |\n"
    yield (
        b'reference\ntitle = "t"\nsource = "s"\ndate = "d"\nmethod = "m"\ncomparability = "not-known"\n'
        b'columns = ["device", "tunnel", "throughput_mbps"]' + PARTING + b"device,tunnel,throughput_mbps\nA,tinc,94.2\n"
    )


WORDS = ("NaN", "1e308", "1e400", "-1", "null", "true", '"\\ud800"', "TCP upload", "sum", "bits/s", "MEAN_VALUE",
         "+F:22:", "+H:16", "1234.56k", "Gbits/sec", "|", "| - |", "9" * 5000, "\u202e", "\0", "in", "cipher-alone",
         "[columns]", "BZh9", "\x1f\x8b")  # fmt: skip

TARGET = Target("foreign_results", take, seeds, WORDS)
