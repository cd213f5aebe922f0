"""Removes names of persons, machines and places in a network from the texts of a run."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tunnelbench.model.result import RunRecord, TrialRecord
from tunnelbench.model.text import KEY_WORD, PEM
from tunnelbench.model.toml_text import known_values

ADDRESS, HOST, USER, HOME, MAC, SERIAL, KEY, RAW = (
    "address",
    "host name",
    "user name",
    "home folder",
    "MAC address",
    "serial number",
    "key",
    "output of a program",
)
"""Kinds of names that are removed; in a text `[kind]` replaces the name."""

PLAIN_NAMES = frozenset(
    {"localhost", "openwrt", "lede", "debian", "router", "client", "server", "root", "none", "linux", "test", "user"}
)
"""Names of hosts and users that identify nobody; other texts need these words."""

LEAST_NAME_LETTERS = 3
"""Smallest number of letters of a name that is removed; shorter names are parts of too many words."""

_HOST_KEYS = frozenset(
    {"host", "hostname", "hosts", "address", "addresses", "ssh", "gateway", "jump", "place", "coordinator"}
)
_USER_KEYS = frozenset({"user", "username", "login"})
_SECRET_KEYS = frozenset({"password", "passphrase", "key", "secret", "psk", "token"})

_NO_DOMAINS = "py|sh|so|rs|md|pl|cc|ps|mk|am|sc|st"
"""Endings of files that are also domains of countries."""

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_SERIAL = re.compile(
    r"(?P<before>\b(?:serial(?:[ _-]?(?:number|no))?|s/n)\b\.?[\"']?\s*+(?:[:=#]\s*+)?[\"']?)"
    r"(?P<found>(?=[\w-]{0,64}?\d)[\w-]{4,})",
    re.IGNORECASE,
)
_MAC = re.compile(
    r"(?<![0-9a-f:-])[0-9a-f]{2}(?P<joint>[:-])(?:[0-9a-f]{2}(?P=joint)){4}[0-9a-f]{2}(?![0-9a-f:-])", re.IGNORECASE
)
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?(?!\.?\d)")
_IPV6 = re.compile(r"(?<![0-9A-Za-z:.])[0-9A-Fa-f:.]{2,}+(?:/\d{1,3})?(?:%\w+)?(?![0-9A-Za-z:])")
_MAIL = re.compile(r"(?<![\w.+-])(?!null@l2tp(?![\w.-]))[\w.+-]+@[\w-]+(?:\.[\w-]+)*")
"""Address of mail, or a user at a host. fastd has a method null@l2tp."""
_HOME = re.compile(r"(?:/home|/Users|/export/home)/[^/\s\"':,;]+|(?<![\w/.])/root(?![\w-])|(?<!\S)~\w+(?=/)")
_DOMAIN = re.compile(
    r"(?<![\w.@/-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
    rf"(?:(?!(?:{_NO_DOMAINS})\b)[a-z]{{2}}|com|org|net|edu|gov|info|example|test|invalid|local|lan|home|internal|intranet"
    r"|localdomain|arpa|corp|dev|app|cloud|network|systems)(?![\w-]|\.\w)",
    re.IGNORECASE,
)


class Stripper:
    """Removes names from texts and counts them."""

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = (), secrets: Iterable[str] = ()) -> None:
        self.found: dict[str, Counter[str]] = {}
        """Removed texts by kind, and how often each occurred."""
        self._known = [
            (kind, _words(names)) for kind, names in ((KEY, secrets), (HOST, hosts), (USER, users)) if any(names)
        ]

    def text(self, text: str) -> str:
        """Return a text with `[address]` and similar words in place of names."""
        text = PEM.sub(self._note(KEY), text)
        text = KEY_WORD.sub(self._note(KEY), text)
        text = _UUID.sub(self._note(SERIAL), text)
        text = _SERIAL.sub(self._serial, text)
        text = _MAC.sub(self._note(MAC), text)
        text = _MAIL.sub(self._note(USER), text)
        for pattern in (_IPV4, _IPV6):
            text = pattern.sub(self._address, text)
        text = _HOME.sub(self._note(HOME), text)
        text = _DOMAIN.sub(self._note(HOST), text)
        for kind, words in self._known:
            text = words.sub(self._note(kind), text)
        return text

    def value(self, value: Any) -> Any:
        """Remove names from every text in objects and arrays."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            stripped: dict[str, Any] = {}
            for key, item in value.items():
                name = self.text(str(key))
                while name in stripped:
                    name += "'"  # two different names have become the same
                stripped[name] = self.value(item)
            return stripped
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def note(self, kind: str, text: str) -> None:
        """Count a text that was removed."""
        self.found.setdefault(kind, Counter())[text] += 1

    def _note(self, kind: str) -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            self.note(kind, match[0])
            return f"[{kind}]"

        return replace

    def _serial(self, match: re.Match[str]) -> str:
        self.note(SERIAL, match["found"])
        return f"{match['before']}[{SERIAL}]"

    def _address(self, match: re.Match[str]) -> str:
        found = match[0].rstrip(".")
        for text in (found, found.removesuffix(":")):
            with suppress(ValueError):  # such as a time of day
                ipaddress.ip_interface(text.partition("%")[0])
                if text != "::":
                    self.note(ADDRESS, text)
                    return f"[{ADDRESS}]{match[0][len(text) :]}"
        return match[0]


def _words(names: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])", re.IGNORECASE)


def stripper_for(run: RunRecord, trials: Sequence[TrialRecord]) -> Stripper:
    """Return a stripper with the names in a run: those in its testbed file, and the machines that iperf3 ran on."""
    names: dict[str, set[str]] = {"host": set(), "user": set(), "secret": set()}
    _named("", known_values(run.testbed_text), names)  # one that cannot be read is handled as any text
    for trial in trials:
        for printed in trial.raw.values():
            _of_iperf3(printed, names["host"])
    for known in names.values():
        known -= {name for name in known if len(name) < LEAST_NAME_LETTERS or name.lower() in PLAIN_NAMES}
    return Stripper(names["host"], names["user"], names["secret"])


def _named(key: str, value: Any, names: Mapping[str, set[str]]) -> None:
    if isinstance(value, Mapping):
        for name, item in value.items():
            _named(name, item, names)
    elif isinstance(value, list):
        for item in value:
            _named(key, item, names)
    elif isinstance(value, str):
        for keys, kind in ((_HOST_KEYS, "host"), (_USER_KEYS, "user"), (_SECRET_KEYS, "secret")):
            if key.lower() in keys:
                user, at, host = value.rpartition("@")
                names[kind].add(host if kind == "host" else value)
                if at and kind == "host":
                    names["user"].add(user)


def _of_iperf3(printed: Any, hosts: set[str]) -> None:
    """Add the machine's name: the second word of `system_info`, which is the output of `uname -a`."""
    if isinstance(printed, str) and '"system_info"' in printed:
        try:
            printed = json.loads(printed)
        except (ValueError, RecursionError):
            return
    start = printed.get("start") if isinstance(printed, Mapping) else None
    words = str(start.get("system_info", "")).split() if isinstance(start, Mapping) else []
    if len(words) > 1:
        hosts.add(words[1])
