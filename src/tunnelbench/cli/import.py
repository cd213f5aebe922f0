"""`tunnelbench import`: store a run of another machine, or keep a result of another program as a published result."""
# ruff: noqa: N999 - a verb's module has its name, and is never imported by a statement

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tunnelbench.cli.common_options import emit, open_store, store_option
from tunnelbench.cli.report import write_whole
from tunnelbench.cli.run_files import RUN_FORMAT, file_content
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import BASELINE_KIND
from tunnelbench.model.text import counted, printable
from tunnelbench.reference import class_names, parse_reference, reference_names
from tunnelbench.reference.imported import made_folder, named
from tunnelbench.report.exchange import Imported, read
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
from tunnelbench.report.exchange.foreign.result import LARGEST_PAYLOAD_BYTES
from tunnelbench.report.exchange.foreign.spreadsheet import LARGEST_MAPPING_CHARACTERS, read_mapping
from tunnelbench.report.exchange.json_object import LARGEST_BYTES

SHOWN = 10
FACTS = ("device", "cpu", "tunnel", "cipher", "auth", "direction")
"""Options that are columns of a published result; the payload is one, too."""


@click.command()
@click.argument("file")
@click.option(
    "--input",
    "input_name",
    type=click.Choice((RUN_FORMAT, *FORMATS, MAPPED_TABLE)),
    help="Format of FILE.  [default: guessed]",
)
@click.option("--mapping", metavar="FILE", help="TOML file with the meaning of a table's columns.")
@click.option("--device", metavar="NAME", help="Device that was measured, if FILE does not state it.")
@click.option("--cpu", metavar="NAME", help="CPU of the device.")
@click.option("--tunnel", metavar="KIND", help="Kind of tunnel, such as wireguard; none: without a tunnel.")
@click.option("--cipher", metavar="NAME", help="Cipher of the tunnel, such as AES-128-GCM; none: no encryption.")
@click.option("--auth", metavar="NAME", help="Digest of the tunnel, such as SHA256.")
@click.option("--direction", type=click.Choice(["in", "out"]), help="in: to the client.")
@click.option("--payload", type=click.IntRange(1, LARGEST_PAYLOAD_BYTES), metavar="BYTES", help="Payload of a packet.")
@click.option("--class", "comparability", type=click.Choice(class_names()), help="How it was measured.")
@click.option("--date", metavar="TEXT", help="Date of the measurement, if FILE does not state it.")
@click.option("--source", metavar="TEXT", help="Whose measurement it is, and where it was published.")
@click.option("--name", metavar="NAME", help="Name of the published result.  [default: from FILE]")
@store_option
def command(  # noqa: PLR0917 - click hands them over by name
    file: str,
    input_name: str | None,
    mapping: str | None,
    payload: int | None,
    comparability: str | None,
    date: str | None,
    source: str | None,
    name: str | None,
    store_location: str | None,
    **facts: str | None,
) -> None:
    """Take over FILE, the result of another person or program, and mark it as imported; `-` is standard input.

    FILE is a run from `tunnelbench export`, or was written by Flent, iperf3 --json, openssl speed or wg-bench, or is a
    table with --mapping. A run is stored after its shape, checksum and figures are checked. Anything else becomes a
    published result, which `devices`, `compare`, `site` and `list references` use. The options state what FILE does
    not.
    """
    try:
        content = unpacked_content(file)
        format_name = input_name or (MAPPED_TABLE if mapping else guessed(content))
        if format_name == RUN_FORMAT:
            found = read(content)
        else:
            given = {key: value for key in FACTS if (value := facts[key])}
            given |= {"payload_bytes": str(payload)} if payload else {}
            stated = Stated(given, comparability or "", date or "", source or "")
            result = read_foreign(content, format_name, read_mapping_file(mapping))
            texts = described(result, stated, "standard input" if file == "-" else printable(Path(file).name))
    except WrongInput as error:
        raise WrongInput(f"{printable(file)}: {error.message}", error.hint) from None
    if format_name == RUN_FORMAT:
        keep_run(file, found, store_location)
    else:
        keep_reference(named(name or Path(file).name.partition(".")[0]), *texts)


def unpacked_content(file: str) -> bytes:
    """Return the content of a file, decompressed. Raises WrongInput if it cannot be read."""
    content = file_content(file, LARGEST_BYTES, "name a file of a run, or of a program that docs/exchange.md lists")
    return content if content.lstrip()[:1] == b"{" else unpacked(content)


def guessed(content: bytes) -> str:
    """Return the name of a content's format. Raises WrongInput if it is unknown."""
    if b'"tunnelbench-run"' in content[:1000]:
        return RUN_FORMAT
    if found := recognised(content):
        return found
    if content.lstrip()[:1] == b"{":
        return RUN_FORMAT  # the reader of runs states the error
    formats = ", ".join(each.title for each in FORMATS.values())
    raise WrongInput(
        f"it has an unknown format; known are an exported run, {formats}", "for any table, add --mapping FILE"
    )


def read_mapping_file(file: str | None) -> Mapped | None:
    """Return the content of a mapping file; None if none is named."""
    if file is None:
        return None
    try:
        content = file_content(file, LARGEST_MAPPING_CHARACTERS, "name a TOML file; docs/exchange.md has an example")
        return read_mapping(content.decode("utf-8", "replace"))
    except WrongInput as error:
        raise WrongInput(f"the mapping {printable(file)}: {error.message}", error.hint) from None


def keep_reference(name: str, description: str, table: str) -> None:
    """Keep a published result, and report it. Raises WrongInput if there is one of that name already."""
    reference = parse_reference(name, description, table)
    if name in reference_names():
        hint = f"choose a name with --name, or delete {name}.csv and {name}.toml in {made_folder()}"
        raise WrongInput(f"there is already a published result {name}", hint)
    folder = made_folder()
    write_whole(folder / f"{name}.toml", description)
    write_whole(folder / f"{name}.csv", table)
    say(f"{counted(len(reference.rows), 'row')}: {printable(reference.title)}; {printable(reference.date)}")
    say(f"method: {printable(reference.method)}")
    say(f"class: {printable(reference.comparability.label)}")
    if any(row["tunnel"] != BASELINE_KIND and not row.get("cipher") for row in reference.rows if row.get("tunnel")):
        say("no cipher is stated in some rows: devices lists those only with --allow-plaintext")
    say(f"see it with: tunnelbench show {name}")
    emit(f"{name}\n")


def keep_run(file: str, found: Imported, store_location: str | None) -> None:
    """Store a run of another machine, and report the findings of its checks."""
    run = found.run
    with open_store(store_location, create=True) as store:
        try:
            store.add_run(run, found.records, found.speeds)
        except ValueError:
            raise WrongInput(
                f"{printable(file)}: this run is already stored as {run.run_id}", f"tunnelbench report {run.run_id}"
            ) from None
    counting = sum(record.counts for record in found.records)
    say(
        f"checksum and shape are correct: {counted(len(found.records), 'trial')}, {counting} of them with valid figures"
    )
    if found.stripped:
        said = ", ".join(f"{printable(kind)} {count}" for kind, count in found.stripped.items())
        say(f"left out by the export: {said}")
    say(f"the author is unknown; written by TunnelBench {printable(found.written_by) or 'of unknown version'}")
    for each in found.doubtful[:SHOWN]:
        say(f"doubtful: {printable(each)}")
    if len(found.doubtful) > SHOWN:
        say(f"and {len(found.doubtful) - SHOWN} more doubtful figures")
    if not found.doubtful:
        say("the audit found no error in the figures")
    same_store = ["--store", store_location] if store_location else []
    say(f"see it with: {shlex.join(['tunnelbench', 'report', run.run_id, *same_store])}")
    emit(f"{run.run_id}\n")
