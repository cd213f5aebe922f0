"""The first screen of a run: verdict, tables, warnings, advice, and where the rest is; about 40 lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import TextWrapper

from rich.text import Text

from tunnelbench.analysis.answer import Answer
from tunnelbench.analysis.answer.warnings import AnswerWarning
from tunnelbench.model.result import IMPORTED
from tunnelbench.model.text import NO_BREAK_SPACE
from tunnelbench.report.document import Document
from tunnelbench.report.screen_tables import ScreenTable, screen_tables
from tunnelbench.report.text import INDENT, one_line

MOST_LINES = 39
"""Lines of a first screen of the usual width, for as many tunnels as the plan `quick` has; `run` adds a line."""
USUAL_WIDTH = 100
"""Columns of a terminal for which MOST_LINES holds."""

UNBROKEN = re.compile(r"\(tunnelbench run \S+ --on \S+\)|--[a-z]+ \S+|\d %")
"""A command, an option with its value, and a number with its percent sign."""
LINE_STYLES = {"group": "bold", "best": "bold"}
WARNING_STYLE = "bold red"
"""Colour that is readable on dark and on light terminals; faint text is not."""


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return the lines of a text. No line ends at a hyphen of a tunnel's name, or inside a match of UNBROKEN."""
    glued = UNBROKEN.sub(lambda found: found[0].replace(" ", NO_BREAK_SPACE), text)
    lines = TextWrapper(width, subsequent_indent=indent, break_on_hyphens=False).wrap(glued)
    return [line.replace(NO_BREAK_SPACE, " ") for line in lines]


def first_screen(document: Document, width: int) -> list[Text]:
    """Return the lines of the first screen."""
    answer = document.answer
    title = f"TunnelBench {one_line(document.run.plan_name)}, {document.measured_on}"
    top = [Text(line, style="bold") for line in _wrapped(title, width, INDENT)]
    if document.run.status == IMPORTED:
        top += _paragraph(document.run.notes[0], width)
    top.append(Text())
    for sentence in answer.verdict:
        top += [Text(line, style="bold") for line in _wrapped(one_line(sentence), width, INDENT)]
    if answer.scope:
        top += _paragraph(answer.scope, width)
    for table in screen_tables(document):
        top += [Text(), *_table(table, width)]
    bottom = list(_commands(answer, width))
    most = MOST_LINES * USUAL_WIDTH // min(width, USUAL_WIDTH)  # more lines where each has less room
    room = most - len(top) - len(bottom) - 1
    warnings = _warnings(answer.warnings, width, room)
    advice = _advice(answer.advice, width, room - len(warnings) - 2 * bool(warnings))
    return [
        *top,
        *([Text(), *advice] if advice else []),
        *([Text(), *warnings] if warnings else []),
        Text(),
        *bottom,
    ]


def _paragraph(text: str, width: int, style: str = "") -> list[Text]:
    return [Text(line, style=style) for line in _wrapped(one_line(text), width)]


def _table(table: ScreenTable, width: int) -> Iterator[Text]:
    for line, style in table.lines(width):
        yield Text(line, style=LINE_STYLES.get(style, ""))
    for text in _wrapped(table.legend, width - 2):
        yield Text(f"  {text}")


def _warnings(warnings: Sequence[AnswerWarning], width: int, room: int) -> list[Text]:
    """Return the lines of as many warnings as fit below a blank line, the most important one in any case."""
    found: list[Text] = []
    for each in warnings:
        lines = list(_warning(each.text, each.command, width))
        if found and 1 + len(found) + len(lines) > room:
            break
        found += lines
    return found


def _warning(text: str, command: str, width: int) -> Iterator[Text]:
    """Yield a warning and its command, which follows the last line if that has room."""
    command = one_line(command)
    lines = [
        Text.assemble(("! ", WARNING_STYLE) if not place else INDENT, line)
        for place, line in enumerate(_wrapped(one_line(text), width - len(INDENT)))
    ]
    yield from lines[:-1]
    if len(lines[-1]) + len(INDENT) + len(command) <= width:
        yield Text.assemble(lines[-1], INDENT, (command, "bold"))
    else:
        yield lines[-1]
        yield _unbroken(INDENT * 2, command)


def _advice(sentences: Sequence[str], width: int, room: int) -> list[Text]:
    """Return as many sentences as fit into the lines that are left."""
    found: list[Text] = []
    for sentence in sentences:
        lines = [
            f"{'  ' if place else '- '}{line}" for place, line in enumerate(_wrapped(one_line(sentence), width - 2))
        ]
        if len(found) + len(lines) > room:
            break
        found += map(Text, lines)
    return found


def _commands(answer: Answer, width: int) -> Iterator[Text]:
    """Yield each command on one line, below its purpose if the line has no room for both."""
    indent = max((len(each.purpose) for each in answer.next_commands), default=0) + len(INDENT)
    for each in answer.next_commands:
        command = one_line(each.command)
        if indent + len(command) <= width:
            yield _unbroken(f"{each.purpose:<{indent}}", command)
        else:
            yield Text(each.purpose)
            yield _unbroken(INDENT * 2, command)
        for line in _wrapped(each.note, width - indent):
            yield Text(f"{' ' * indent}{line}")


def _unbroken(before: str, command: str) -> Text:
    return Text.assemble(before, (command, "bold"), no_wrap=True, overflow="ignore")
