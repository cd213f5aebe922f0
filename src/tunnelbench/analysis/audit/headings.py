"""Roles of columns, recognised by their headings in English or French."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tunnelbench.model.errors import WrongInput


class Role(StrEnum):
    """Role of a column: the kind of its content."""

    THROUGHPUT = "throughput"
    PACKETS = "packets per second"
    PAYLOAD = "payload"
    MSS = "MSS"
    PACKET = "packet size"
    FRAME = "frame size"
    DIRECTION = "direction"
    CPU_PART = "part of the CPU"
    CPU_TOTAL = "CPU"
    SHARE = "share of the baseline"
    LINK = "link"
    TUNNEL = "tunnel"
    CIPHER = "cipher"
    DIGEST = "digest"
    DEVICE = "device"
    SOURCE = "source"
    TRAFFIC = "traffic"
    COMMENT = "comment"


SIZES = (Role.MSS, Role.PAYLOAD, Role.PACKET, Role.FRAME)
"""Roles of sizes by precedence. If a table has an MSS and a payload, the MSS was in use and the payload was
requested."""
OF_FIGURES = frozenset({Role.THROUGHPUT, Role.PACKETS, Role.CPU_PART, Role.CPU_TOTAL, Role.SHARE})
"""Roles of the figures that a rule checks."""
OF_NUMBERS = OF_FIGURES | {*SIZES, Role.LINK}


@dataclass(frozen=True)
class HeadingColumn:
    """A recognised column."""

    position: int
    heading: str
    role: Role
    directions: tuple[str, ...] = ()
    """Directions that the heading names: `in`, `out`, or both in order for cells such as `929 / 916`."""
    unit_bps: float | None = None
    """Unit of a throughput [bit/s]; None: the cells state the unit."""
    scale: float = 1.0
    """Factor for packets, 1000 if the heading says kpps. Factor for shares, 100 if the cells are fractions of 1."""


RATE_UNIT = re.compile(
    r"""(?<![a-z])(?P<prefix>[kK](?:ilo)?|[mM](?:[eé]ga)?|[gG](?:iga)?)?(?P<binary>i)?
    (?:(?P<bits>bits?(?=/|\s*(?:ps|per|par)|ps|_)|b(?=/s|/sec|ps|_?s\b))
      |(?P<bytes>(?:bytes?|octets?|Bytes?|Octets?)(?=/|_?p(?:er|ar)_|\s+p(?:er|ar)\s)|B(?=/s|/sec|ps)|[oO](?=/s)))
    (?:/s(?:ec(?:onde?)?)?\b|ps(?![a-z])|_?p(?:er|ar)_?s|\s+p(?:er|ar)\s+s)""",
    re.VERBOSE,
)
"""A rate with its unit, such as kbit/s, Mbps, Mb/s, MB/s, Mo/s, MiB/s, kbytes_per_s."""
_SPELLED_IN_ONE_CASE = re.compile(
    r"(?<![a-zA-Z])(?P<prefix>[kmg]?)bps(?![a-zA-Z])|(?<![a-zA-Z])(?P<capital>[KMG])BPS(?![a-zA-Z])"
)
"""Units all in small or all in capital letters, such as in `throughput_mbps`: b may mean bytes, but mostly means
bits."""
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}
_PACKETS = re.compile(
    r"\b(?P<prefix>[km]?)(?:pps|pkts?[/_ ]?s\w*|(?:packets?|paquets?|trames?|frames?|pkts?)"
    r" ?(?:/|per|par) ?s\w*)\b"
    r"|\b(?:packet|frame) rate\b|\bdebit (?:en )?paquets?\b"
)
_NOT_A_UNIT = r"(?! +(?:[kmg]?i?(?:bits?|bytes?|octets?|b|o)\b|[kmg]?bps|pps|packets|pct|percent|%))"
"""Pattern that excludes `in` before a unit, as in `throughput in Mbit/s`, where it is not a direction."""
_DIRECTIONS = tuple(
    (name, re.compile(rf"\b(?:{words})\b"))
    for name, words in (
        (
            "in",
            rf"in{_NOT_A_UNIT}|rx|download|down|dl|descendant|entrant|entree|reception|received|to client",
        ),
        ("out", "out|tx|upload|up|ul|montant|sortant|sortie|emission|sent|to server"),
    )
)
_ROLE_PATTERNS: tuple[tuple[Role, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        (Role.COMMENT, r"\b(?:comments?|commentaires?|remarks?|remarques?|notes?)\b"),
        (
            Role.SHARE,
            r"^(?:share|part|ratio)(?: pct| ?[\[(]?%.*| of\b.*| d[eu]\b.*)?$|\bbaseline\b|% (?:of|de|du)\b",
        ),
        (Role.LINK, r"\b(?:link|lien|line rate|liaison|physical limit)\b"),
        (
            Role.FRAME,
            (
                r"\bframe (?:size|length|bytes)\b|\b(?:taille|longueur)(?:(?!\b(?:taille|longueur)).)*\btrames?\b"
                r"|^(?:frame|trame)\b"
            ),
        ),
        (Role.MSS, r"\bmss\b"),
        (Role.PAYLOAD, r"\b(?:payload|charge utile|donnees utiles)\b"),
        (
            Role.PACKET,
            r"\b(?:packet|pkt) (?:size|length)\b|^(?:size|taille|longueur|length)\b|^(?:bytes|octets|pa(?:ck|qu)ets?)$",
        ),
        (Role.DIRECTION, r"\b(?:direction|sens|dir)\b"),
        (Role.CIPHER, r"\b(?:cipher|chiffrement|encryption|chiffre|crypto)\b"),
        (Role.DIGEST, r"\b(?:auth|digest|hmac|hash|hachage|authentication|authentification)\b"),
        (Role.TRAFFIC, r"\b(?:traffic|trafic)\b"),
        (Role.SOURCE, r"\b(?:source|document|doc|origine)\b"),
        (Role.TUNNEL, r"\b(?:tunnel|techno|technologie|technology|vpn|protocole?|methode?)\b"),
        (
            Role.DEVICE,
            r"^(?:device|routeur|router|appareil|materiel|hardware|machine|board)(?: (?:name|model|nom|modele))?$",
        ),
        (Role.THROUGHPUT, r"\b(?:throughput|goodput|debit|bandwidth|bande passante|bitrate|data rate|vitesse)\b"),
    )
)
_CPU = re.compile(r"\b(?:cpu|processeur|processor|charge|load)\b")
_CPU_PART = re.compile(
    r"(?=.*\b(?:cpu|charge|load)\b|\S+(?: pct| ?[\[(]?%[\])]?)?$)"
    r".*\b(?:usr|user|utilisateur|sys|system|systeme|kernel|noyau|sirq|softirq|irq|hardirq|iowait|steal|nice)\b"
)
_NOT_THESE = re.compile(r"\b(?:ack|acks|acquittements?|daemon|ping|lost|retransmits|packet loss|perte|versions?)\b")


def recognise(
    headings: Sequence[str], numeric: Container[int], given: Mapping[str, str] | None = None
) -> tuple[HeadingColumn, ...]:
    """Return the columns with a known role.

    `numeric` holds the positions of columns with numbers; without numbers, `cpu` may be the name of a CPU. `given`
    holds headings by key, for columns that the user names. A key is interpreted like a heading, so `throughput_mbps`,
    `pps` and `direction` are valid. Of several columns with one role, direction and unit the first is used. Raises
    WrongInput if a key has no meaning or a heading does not exist.
    """
    named = {}
    for key, heading in (given or {}).items():
        if recognised(0, key) is None:
            raise WrongInput(
                f"unknown column key {key!r}",
                "keys: throughput_mbps, packets_per_s, payload_bytes, direction, cpu_usr_pct, cpu_total_pct, tunnel",
            )
        wanted = [position for position, text in enumerate(headings) if text.strip().casefold() == heading.casefold()]
        if not wanted:
            raise WrongInput(f"there is no column {heading!r}", f"columns: {', '.join(headings)[:300]}")
        named[wanted[0]] = key
    found: list[HeadingColumn] = []
    taken = set()
    order = sorted(range(len(headings)), key=lambda position: position not in named)
    for position in order:
        column = recognised(position, named.get(position, headings[position]))
        if column is None or (column.role in OF_NUMBERS and position not in numeric):
            continue
        place = (column.role, column.directions, column.unit_bps, position if column.role is Role.CPU_PART else -1)
        if place not in taken:
            taken.add(place)
            found.append(replace(column, heading=headings[position]))
    return tuple(sorted(found, key=lambda column: column.position))


def recognised(position: int, heading: str) -> HeadingColumn | None:
    """Return the column that a heading describes; None: the heading is unknown."""
    words = folded(heading)
    directions = _directions(words)
    if _NOT_THESE.search(words):
        return None
    if re.search(r"\b(?:share|baseline)\b", words) is None and (found := _PACKETS.search(words)):
        scale = {"k": 1e3, "m": 1e6}.get(found["prefix"] or "", 1.0)
        return HeadingColumn(position, heading, Role.PACKETS, directions, scale=scale)
    if _CPU_PART.match(words) and "/" not in heading:
        return HeadingColumn(position, heading, Role.CPU_PART, directions)
    if (
        _CPU.search(words)
        and not re.search(r"\bcharge utile\b", words)
        and not re.search(r"\bcpu s\b|mhz|model", words)
    ):
        total = re.search(r"\b(?:charge|load|total|busy|usage|utilisation|pct)\b|%|^cpu$", words)
        return HeadingColumn(position, heading, Role.CPU_TOTAL, directions) if total else None
    unit = rate_unit(heading)
    for role, pattern in _ROLE_PATTERNS:
        if role is Role.THROUGHPUT or (unit is not None and role is not Role.LINK and role is not Role.SHARE):
            continue
        if pattern.search(words):
            return HeadingColumn(position, heading, role, directions if role is Role.SHARE else (), unit)
    if unit is not None or _ROLE_PATTERNS[-1][1].search(words):
        return HeadingColumn(position, heading, Role.THROUGHPUT, directions, unit)
    return None


def is_of_figures(heading: str) -> bool:
    """Return True if a heading names a figure that a rule checks, independently of its cells."""
    column = recognised(0, heading)
    return column is not None and column.role in OF_FIGURES


def rate_unit(text: str) -> float | None:
    """Return the unit of a rate in a text [bit/s]; None: no unit. A single b is a bit and B is a byte (IEEE 1541)."""
    if found := _SPELLED_IN_ONE_CASE.search(text):
        return 1000.0 ** _POWERS[(found["prefix"] or found["capital"] or "").lower()]
    if found := RATE_UNIT.search(text):
        base = 1024.0 if found["binary"] else 1000.0
        return base ** _POWERS[(found["prefix"] or "")[:1].lower()] * (8.0 if found["bytes"] else 1.0)
    return None


def folded(text: str) -> str:
    """Return the text in lower case, without accents, and with spaces instead of underscores."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(character for character in plain if not unicodedata.combining(character))
    return " ".join(re.sub(r"[_\s]+", " ", letters).split())


def _directions(words: str) -> tuple[str, ...]:
    places = sorted((found.start(), name) for name, pattern in _DIRECTIONS if (found := pattern.search(words)))
    return tuple(name for _, name in places)
