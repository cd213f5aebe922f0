"""Target `tables`: a published table is audited and drawn; a reference's figures are compared and gathered.

The first line of an input names its reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

from tests.fuzz.plans import file_with
from tests.fuzz.target import Target
from tests.unit.builders import make_run
from tests.unit.report.test_report import excerpt

from tunnelbench.analysis.audit.decode import decode_text
from tunnelbench.analysis.audit.tables import READERS
from tunnelbench.analysis.audit.verdict import audit
from tunnelbench.analysis.compare.comparison import compare
from tunnelbench.analysis.compare.references import side_of_reference
from tunnelbench.analysis.compare.runs import side_of_run
from tunnelbench.analysis.compare.sides import Side
from tunnelbench.cli.site import read_devices
from tunnelbench.reference import parse_reference, shipped_names
from tunnelbench.report.audit import sheet
from tunnelbench.report.compare import sheet as compare_sheet
from tunnelbench.report.formats import sheet_format_names
from tunnelbench.report.render import render_sheet
from tunnelbench.report.site.gather import published
from tunnelbench.tunnel import weights

ROOT = Path(__file__).parents[2]
REFERENCES = ROOT / "src/tunnelbench/data/references"


def take(data: bytes) -> None:
    first, _, content = data.partition(b"\n")
    reader = first.decode(errors="replace")
    if reader == "devices":
        read_devices(file_with(content))
    elif reader == "reference":
        take_reference(content)
    else:
        take_table(content, reader if reader in READERS else None)


def take_table(content: bytes, reader: str | None) -> None:
    text, encoding = decode_text(content)
    found = audit(text, reader)
    if not render_sheet(sheet(found, "a table", encoding, every_row=True), one_format(content)).endswith("\n"):
        raise AssertionError("the last line does not end")


def take_reference(content: bytes) -> None:
    description = (REFERENCES / "wr841n-2014.toml").read_text()
    reference = parse_reference("wr841n-2014", description, content.decode(errors="replace"))
    side = side_of_reference(reference)
    published(reference)
    found = compare(side, own_side())
    render_sheet(compare_sheet(found, weights()), one_format(content))


def one_format(content: bytes) -> str:
    """Return one of the formats, chosen by the input: drawing takes most of the time."""
    names = sheet_format_names()
    return names[crc32(content) % len(names)]


@cache
def own_side() -> Side:
    return side_of_run(make_run(), excerpt())


def seeds() -> Iterator[bytes]:
    for name in shipped_names():
        content = (REFERENCES / f"{name}.csv").read_bytes()
        yield b"csv\n" + content[:4000]
        yield b"reference\n" + content[:4000]
    yield b"textile\n|_. tunnel |_. payload |_. Mbit/s |_. pps |\n|/2. none | 1448 | 94.2 | 8129 |\n| 112 | 40 | 4 |\n"
    yield b"markdown\n| tunnel | payload | Mbit/s | cpu usr |\n|---|--:|---|---|\n| none | 1448 | 94,2 | 12 % |\n"
    yield (
        b"html\n<table><tr><th>tunnel<th colspan=2>payload<th>D&eacute;bit (Mbit/s)</tr>"
        b"<tr><td rowspan=2>gre<td>1448<td>94.2 / 90<td>1</td></tr><tr><td>112<td>3<td>4</table><script>x</script>"
    )
    yield b'devices\n["APU.1D"]\nprice = "120 EUR"\nwatts = "6-12 W"\n'
    yield b"\ntunnel;payload;pps (in/out);Mbit/s;share\nnone;1448;8 129 / 8000;94,2;100 %\n\xe9;112;1e308;-1;99\n"


WORDS = ("tunnel", "payload", "Mbit/s", "MB/s", "pps (in/out)", "cpu usr", "share", "link", "MSS", "1448", "94,2",
         "1e308", "NaN", "inf", "<table>", "<td rowspan=9>", "<th colspan=500>", "</table>", "<!--", "<script>", "|_.",
         "/2.", "\\3.", "|---|---|", "&#8239;", "\u202e", "\u00b2", "\u0663", '"', "throughput_mbps",
         "direction", "payload_bytes", "9" * 5000, "1/0", "100 %")  # fmt: skip

TARGET = Target("tables", take, seeds, WORDS)
