"""The text of the pull request with which a run is contributed."""

from __future__ import annotations

from dataclasses import replace

from tunnelbench.model.text import counted
from tunnelbench.report.document import Style, compose
from tunnelbench.report.exchange import Imported
from tunnelbench.report.formats.markdown import Format, escape
from tunnelbench.report.site.gather import device_name
from tunnelbench.report.text import one_line

LONGEST_BODY = 60_000
"""Longest text [characters]; GitHub takes 65,536."""

CONFIRMATIONS = (
    "I measured this run myself, and no figure in the file was changed.",
    "I have read the file: it names no person, machine or network.",
    "The file may be published under the licence of the project.",
)


def title(found: Imported) -> str:
    """Return the title of the pull request on one line."""
    return one_line(f"Result: {device_name(found.run)}, {found.run.plan_title or found.run.plan_name}")


def body(found: Imported, path: str) -> str:
    """Return the text in Markdown; `path` is the file in the project."""
    document = compose(
        replace(found.run, run_id=found.original_id, status=found.original_status, notes=found.own_notes),
        found.records,
        speeds=found.speeds,
    )
    bare = replace(document, title=title(found), sections=(), warnings=())
    report = Format().render(bare, Style(full=False))
    removed = ", ".join(f"{escape(kind)} {counted(count, 'time')}" for kind, count in found.stripped.items())
    lines = [
        "## The file",
        "",
        f"`{path}` has {counted(len(found.records), 'trial')}, and passes `tunnelbench contribute --check`.",
        f"Removed from it: {removed or 'nothing'}.",
        "",
        *(f"- [ ] {each}" for each in CONFIRMATIONS),
        "",
    ]
    return report[:LONGEST_BODY] + "\n" + "\n".join(lines)
