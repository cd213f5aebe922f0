"""Parsers of OpenVPN's log and of the output of `openvpn --version`."""

from __future__ import annotations

import re

from tunnelbench.tunnel.versions import UNKNOWN

COMPRESSION_NAMES = {"LZO": "lzo", "LZ4": "lz4", "LZ4v2": "lz4-v2"}
"""Algorithms of compression as the option `compress` names them, by their names in the log."""


def parse_data_channel(log: str) -> tuple[str, str]:
    """Return the cipher and the digest with which OpenVPN 2.4 to 2.6 sends, by its log; `unknown` if it has none.

    The log reports a cipher or digest of none by a warning (2.4, 2.5) or by name (2.6).
    """
    cipher = re.findall(r"Outgoing (?:Data Channel|Static Key Encryption): Cipher '([^']+)' initialized", log)
    auth = re.findall(r"Outgoing (?:Data Channel|Static Key Encryption): Using \d+ bit message hash '([^']+)'", log)
    summary = re.findall(r"Data Channel: (?:using negotiated )?cipher '([^']+)'(?:, auth '([^']+)')?", log)
    no_cipher = ["none"] if "'--cipher none' was specified" in log else []
    no_auth = ["none"] if "'--auth none' was specified" in log else []
    ciphers = cipher or no_cipher or [name for name, _ in summary]
    auths = auth or no_auth or [name for _, name in summary if name]
    return (ciphers or [UNKNOWN])[-1], (auths or [UNKNOWN])[-1]


def has_peer_id(log: str) -> bool:
    """Return True if OpenVPN has agreed with another fixed end to send a peer id with each packet (2.6), by its log."""
    return "DATA_v2=1, peer-id" in log


def parse_compression(log: str) -> str:
    """Return the algorithm of compression that OpenVPN has set up, by its log; `none` if it has none."""
    found = re.findall(r"\b(LZO|LZ4v2|LZ4) compression initializing", log)
    return COMPRESSION_NAMES[found[-1]] if found else "none"


def parse_library(text: str) -> tuple[str, str]:
    """Return the key and the version of the crypto library, by the output of `openvpn --version`.

    The key is `openssl` or `mbedtls` for these two, and the name in small letters for another one. The version is
    `unknown` if the output does not name one.
    """
    found = re.search(r"library versions: ([A-Za-z][A-Za-z -]{0,30}?) v?(\d[\w.-]{0,30})", text)
    return (found[1].lower().replace(" ", ""), found[2]) if found else ("openssl", UNKNOWN)


def parse_engine(log: str) -> str:
    """Return the engine that OpenVPN has set up, by its log; `none` if it has none."""
    found = re.findall(r"Initializing OpenSSL support for engine '([^']+)'", log)
    return found[-1] if found else "none"


def rekey_of_client(line: str) -> int:
    """Return the number of the client, from 1, whose new keys a line of a server's log reports; 0 if it names none.

    The line has the name of the client's certificate, which is `client-N`, before the client's address.
    """
    found = re.search(r"\bclient-(\d{1,9})/", line)
    return int(found[1]) if found else 0


def first_complaint(log: str) -> str:
    """Return a sentence with the line of a log that says why OpenVPN ended; empty if there is none."""
    for line in log.splitlines():
        if any(words in line for words in ("Options error:", "ERROR", "Cannot", "unsupported", "not supported")):
            return f"openvpn gave up: {line.strip()}"
    return ""
