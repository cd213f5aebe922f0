"""Checks the names in a contributed run that pages and pull requests show: they are plain words, and not misleading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import RunRecord
from tunnelbench.report.site.gather import device_name
from tunnelbench.report.text import hides_characters

LONGEST_WORDS, LONGEST_NOTE, MOST_NOTES = 300, 1000, 50
"""Longest name and longest note [characters], and largest number of notes."""
_HTML_OR_LINK = re.compile(r"<[a-zA-Z/!?]|\]\s*\(")
"""Beginning of an element of HTML, or the middle of a link in Markdown."""
_KINDS = ("boringtun", "fastd", "ipsec", "nebula", "openconnect", "openvpn", "tinc", "wireguard")
"""Kinds of tunnels whose names stand for a protocol, and so should not be in the name of another kind."""


def of_names(run: RunRecord, tunnels: Sequence[TunnelSpec], notes: Sequence[str]) -> Iterator[str]:
    """Yield each text on the pages of the site that no program and no careful author writes."""
    shown = [("title of the plan", run.plan_title), ("name of the plan", run.plan_name),
             ("name of the testbed", run.testbed_name), ("version", run.tunnelbench_version),
             ("name of the device", device_name(run))]  # fmt: skip
    shown += [("name of the device", board) for key in ("router_board", "guest_board")
              if isinstance(board := run.host_facts.get(key), str)]  # fmt: skip
    shown += [("name of a tunnel", name) for name in dict.fromkeys(tunnel.name for tunnel in tunnels)]
    facts = [("fact of the machine", text) for text in run.host_facts.values() if isinstance(text, str)]
    for what, text in dict.fromkeys([*shown, *facts]):
        if len(text) > LONGEST_WORDS:
            yield f"a {what} has {len(text)} characters: at most {LONGEST_WORDS} are accepted"
    for what, text in dict.fromkeys(shown):
        if hides_characters(text):
            yield f"the {what} {text[:LONGEST_WORDS]!r} has control characters"
        elif _HTML_OR_LINK.search(text):
            yield f"the {what} {text[:LONGEST_WORDS]!r} has HTML or a link"
    if len(notes) > MOST_NOTES or any(len(note) > LONGEST_NOTE for note in notes):
        yield f"its notes are too long: at most {MOST_NOTES} notes of {LONGEST_NOTE} characters are accepted"
    for tunnel in {tunnel.name: tunnel for tunnel in tunnels}.values():
        for kind in _KINDS:
            if kind in tunnel.name.lower() and kind not in tunnel.kind:
                yield f"a tunnel of kind {tunnel.kind} is named {tunnel.name}, after another kind"
