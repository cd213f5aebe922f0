"""The methodology as HTML, from docs/methodology.md, which ships with the package."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from markdown_it import MarkdownIt


@cache
def methodology_html(*, below: int = 0) -> str:
    """Return the methodology; headings get the anchors that its links name, and links to other documents are removed.

    `below`: number of levels by which its headings are lowered, for a part of a page.
    """
    text = files("tunnelbench").joinpath("data", "methodology.md").read_text(encoding="utf-8")
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table"])
    tokens = parser.parse(text)
    for place, token in enumerate(tokens):
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{int(token.tag[1:]) + below}"
        if token.type == "heading_open":
            token.attrSet("id", anchor(tokens[place + 1].content))
        if token.type == "inline" and token.children:
            is_dropped = False
            kept = []
            for child in token.children:
                if child.type == "link_open":
                    is_dropped = not str(child.attrGet("href") or "").startswith("#")
                if child.type in {"link_open", "link_close"} and is_dropped:
                    continue
                kept.append(child)
            token.children = kept
    html = str(parser.renderer.render(tokens, parser.options, {}))
    opened = '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>'
    return html.replace("<table>", opened).replace("</table>", "</table></div>")


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
