"""Checks the names in a contributed run that pages and pull requests show: they are plain words, and not misleading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tunnelbench.model.plan import TunnelSpec
from tunnelbench.model.result import Check, RunRecord
from tunnelbench.reference.devices import device_lines
from tunnelbench.report.contribution.place import device_folder
from tunnelbench.report.site.device_names import device_key
from tunnelbench.report.site.gather import device_name
from tunnelbench.report.text import hides_characters

LONGEST_WORDS, LONGEST_NOTE, MOST_NOTES = 300, 1000, 50
"""Longest name and longest note [characters], and largest number of notes."""
_HTML_OR_LINK = re.compile(r"<[a-zA-Z/!?]|\]\s*\(")
"""Beginning of an element of HTML, or the middle of a link in Markdown."""
_KINDS = ("boringtun", "fastd", "ipsec", "nebula", "openconnect", "openvpn", "tinc", "wireguard")
"""Kinds of tunnels whose names stand for a protocol, and so should not be in the name of another kind."""

_OTHER_CHARACTERS = {
    "tunnel": re.compile(r"[^A-Za-z0-9 .,_/()\[\]+@-]|(?<![A-Za-z0-9])@"),
    "device": re.compile(r"[^A-Za-z0-9 .,_/()+!&'-]"),
}
"""Characters that no name of a tunnel or of a device needs. Letters of other alphabets look like Latin ones.

`export` writes [address] for an address. fastd has a method null@l2tp. A word that begins with @ is a person on GitHub.
"""
_CIPHER = re.compile(r"aes(?:128|192|256)(?:gcm|cbc|ctr|ccm)?|chacha(?:20)?(?:poly(?:1305)?)?|bfcbc|blowfish|cast5|3des"
                     r"|desede|camellia(?:128|192|256)?|salsa20|speck")  # fmt: skip
"""Name of a cipher without its hyphens."""
_CIPHERS_OF_KINDS = {"wireguard": "chacha20poly1305", "boringtun": "chacha20poly1305"}
"""Cipher of the kinds of tunnels that have no choice."""
_CIPHERS_OF_OPTIONS = {"aes": "aes256gcm", "chachapoly": "chacha20poly1305", "bfcbc": "blowfish"}
"""Other name of a cipher than the option of a tunnel has: the first two are nebula's."""
_IN_USE = re.compile(r"in use: (\S{1,100})")


def of_cipher(tunnel: TunnelSpec, checks: Mapping[str, Check]) -> Iterator[str]:
    """Yield each cipher that the name of a tunnel states, and neither its options nor its proof have."""
    known = {_folded(value) for value in tunnel.options.values() if isinstance(value, str)}
    known |= {_folded(found[1]) for check in checks.values() for found in [_IN_USE.search(check.reason)] if found}
    known |= {cipher for kind, cipher in _CIPHERS_OF_KINDS.items() if kind in tunnel.kind}
    known |= {_CIPHERS_OF_OPTIONS[text] for text in known if text in _CIPHERS_OF_OPTIONS}
    for cipher in dict.fromkeys(_CIPHER.findall(_folded(tunnel.name))):
        if not any(text.startswith(cipher) for text in known):
            yield f"its name states the cipher {cipher}, and neither its options nor its proof have it"


def _folded(text: str) -> str:
    return re.sub(r"[-_ ]", "", text.lower())


def _of_characters(run: RunRecord, tunnels: Sequence[TunnelSpec]) -> Iterator[str]:
    """Yield each name of a tunnel or of the device that has other characters than such names need."""
    device = device_name(run)
    named = [("tunnel", tunnel.name) for tunnel in tunnels] + [("device", device)]
    for what, name in dict.fromkeys(named):
        if found := _OTHER_CHARACTERS[what].search(name):
            yield (
                f"the name of the {what} {name[:LONGEST_WORDS]!r} has the character {found[0]!a}: only Latin "
                "letters, digits, spaces and a few marks are accepted"
            )
    folder, key = device_folder(device), device_key(device)
    for known in (name for line in device_lines() for name in (line.name, *line.other_names)):
        if device_folder(known) == folder and device_key(known) != key:
            yield f"the name of the device {device[:LONGEST_WORDS]!r} differs from {known!r} in marks alone"
            return


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
    yield from _of_characters(run, tunnels)
    if len(notes) > MOST_NOTES or any(len(note) > LONGEST_NOTE for note in notes):
        yield f"its notes are too long: at most {MOST_NOTES} notes of {LONGEST_NOTE} characters are accepted"
    for tunnel in {tunnel.name: tunnel for tunnel in tunnels}.values():
        for kind in _KINDS:
            if kind in tunnel.name.lower() and kind not in tunnel.kind:
                yield f"a tunnel of kind {tunnel.kind} is named {tunnel.name}, after another kind"
