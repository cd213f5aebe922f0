"""`tunnelbench man`: write the manual pages, made from the help of the verbs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from tunnelbench import __version__, cli
from tunnelbench.cli import PROGRAM
from tunnelbench.cli.report import write_files
from tunnelbench.model.errors import ExitCode

EXIT_CODE_MEANINGS = {
    ExitCode.DONE: "Done.",
    ExitCode.CHECK_FAILED: "A check or a comparison failed.",
    ExitCode.WRONG_INPUT: "The input is wrong.",
    ExitCode.CANNOT: "Not possible here, or nothing was measured.",
    ExitCode.TRY_LATER: "The store does not answer, or another process measures the run: try again later.",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C.",
    ExitCode.TERMINATED: "Ended by SIGTERM.",
}

VARIABLES = {
    "NO_COLOR": "No colours, if it is set.",
    "FORCE_COLOR": "Colours also in a pipe, if it is set.",
    "PAGER": "Program that shows long output on a terminal; not for root.",
    "XDG_DATA_HOME": "Folder of the store of results; default: ~/.local/share.",
}


@click.command()
@click.option("-o", "folder", metavar="DIR", required=True, help="Folder to write the pages into, such as man1.")
def command(folder: str) -> None:
    """Write the manual pages tunnelbench.1 and tunnelbench-VERB.1 into a folder."""
    verbs = {name: verb for name, verb in cli.main.commands.items() if isinstance(verb, cli.Verb)}
    root = click.Context(cli.main, info_name=PROGRAM, **cli.main.context_settings)
    pages = [(f"{PROGRAM}.1", page(root, cli.main, PROGRAM, str(cli.main.help), sorted(verbs)))]
    for name, verb in sorted(verbs.items()):
        loaded = verb.load()
        with click.Context(loaded, parent=root, info_name=name) as own:
            pages.append((f"{PROGRAM}-{name}.1", page(own, loaded, f"{PROGRAM}-{name}", str(verb.short_help))))
    write_files(Path(folder), [(name, text.encode()) for name, text in pages])


def page(context: click.Context, verb: click.Command, name: str, title: str, verbs: list[str] | None = None) -> str:
    """Return a manual page as text for roff (man(7))."""
    return "\n".join(_lines(context, verb, name, title, verbs or [])) + "\n"


def _lines(context: click.Context, verb: click.Command, name: str, title: str, verbs: list[str]) -> Iterator[str]:
    yield f'.TH "{name.upper()}" 1 "" "TunnelBench {__version__}"'
    yield from (".SH NAME", f"{escaped(name)} \\- {escaped(title.rstrip('.'))}")
    yield from (
        ".SH SYNOPSIS",
        f".B {escaped(context.command_path)}",
        escaped(" ".join(verb.collect_usage_pieces(context))),
    )
    yield ".SH DESCRIPTION"
    for number, paragraph in enumerate(str(verb.help).split("\n\n")):
        yield from ([".PP"] if number else [])
        yield escaped(" ".join(paragraph.split()))
    if verbs:
        yield ".SH COMMANDS"
        for each in verbs:
            yield from (".TP", f".BR {PROGRAM}\\-{escaped(each)} (1)", escaped(str(cli.main.commands[each].short_help)))
    yield ".SH OPTIONS"
    for option in verb.get_params(context):
        if isinstance(option, click.Option) and (record := option.get_help_record(context)):
            yield from (".TP", f".B {escaped(record[0])}", escaped(record[1]))
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODE_MEANINGS.items():
        yield from (".TP", f".B {code.value}", escaped(meaning))
    yield ".SH ENVIRONMENT"
    for variable, meaning in VARIABLES.items():
        yield from (".TP", f".B {variable}", escaped(meaning))
    if not verbs:
        yield from (".SH SEE ALSO", f".BR {PROGRAM} (1)")


def escaped(text: str) -> str:
    """Return a text in which no character is a command of roff."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
