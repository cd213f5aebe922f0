"""Conversion of text from files and programs for people and for the store."""

from __future__ import annotations

import re
from collections.abc import Sequence

PEM = re.compile(r"-----BEGIN [^-\n]+-----.*?(?:-----END [^-\n]+-----|\Z)", re.DOTALL)
KEY_WORD = re.compile(
    r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])|(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])"
)
"""Keys of 32 bytes in base64 (WireGuard, nebula), and of 16 bytes or more in hexadecimal digits."""

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
"""Placeholder for a space at which a text must not be broken into lines."""
PROGRAM_TITLES = {"openssl": "OpenSSL", "mbedtls": "mbed TLS"}
"""Names of programs and libraries that differ from the key of their version."""
LONGEST_REASON = 300
"""Longest reason of an error [characters]; a longer one, which may come from another program, is cut."""


def without_keys(text: str) -> str:
    """Replace everything that looks like a key, public or private, by `[key]`."""
    return KEY_WORD.sub("[key]", PEM.sub("[key]", text))


def printable(text: str) -> str:
    """Return the text on one line with control characters escaped, so that a foreign text cannot control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


CONTROL = re.compile(r"\x1b(?!\[[0-9;]{0,20}m)|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""Control characters, C1 included, but for line ends, tabs and the escape sequences of colours (ECMA-48, SGR)."""


def harmless(text: str) -> str:
    """Return a text for the terminal with control characters escaped, except line ends, tabs and colours."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def first_line(text: str) -> str:
    """Return the first line of the message of another program, printable and not too long."""
    return printable(text.strip().partition("\n")[0])[:LONGEST_REASON]


def counted(count: int, what: str) -> str:
    """Return a count with its noun, which is given in the singular: `1 row`, `2 rows`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def joined(names: Sequence[str], word: str = "and") -> str:
    """Join names as in a sentence: `a, b and c`."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def are(count: int) -> str:
    """Return the verb that follows a count: `is` or `are`."""
    return "is" if count == 1 else "are"
