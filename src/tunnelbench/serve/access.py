"""The rules by which a request is accepted: host, sign-in, origin and token. They do no I/O."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

SESSION_S = 12 * 3600.0
"""Time after which a user must sign in again [s]."""
MOST_SESSIONS = 1000
"""Largest number of sessions; a new one then takes the place of the oldest."""
SHORTEST_PASSWORD = 12
"""Smallest number of characters of a password."""
LONGEST_USER_NAME = 100
COOKIE = "tunnelbench-session"
HOST_HEADER = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9.-]{1,253}))(?::[0-9]{1,5})?")
"""Values of `Host`: an IPv6 address in brackets, or a name or an IPv4 address, each with a port or without."""


@dataclass(frozen=True)
class User:
    """A signed-in user."""

    name: str
    token: str
    """Token that each form of this user must carry (CSRF)."""


@dataclass
class Access:
    """The users of a server: none, those who know the password, or those whom a reverse proxy has signed in."""

    password: str | None = None
    user_header: str | None = None
    """Header in which the reverse proxy names the user."""
    proxies: Collection[str] = ()
    """Addresses of the reverse proxy: requests from others are refused."""
    names: Collection[str] = ()
    """Names, besides localhost and addresses, under which browsers reach the server."""
    clock_s: Callable[[], float] = time.monotonic
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _sessions: dict[str, float] = field(default_factory=dict)
    """End of each session [s of the clock], by the SHA-256 of its secret."""

    @property
    def needs_sign_in(self) -> bool:
        """True if no page is shown to a user who is not signed in."""
        return self.password is not None or self.user_header is not None

    def is_own_host(self, host: str) -> bool:
        """Return True if a value of `Host` is an address, localhost, or a name of this server.

        Another name may have been made to lead here by the author of a web page (DNS rebinding).
        """
        found = HOST_HEADER.fullmatch(host)
        name = (found[1] or found[2]).lower() if found else ""
        return name == "localhost" or name in self.names or is_address(name)

    def is_trusted_peer(self, address: str) -> bool:
        """Return False for a peer that may not name users, because it is not the reverse proxy."""
        return self.user_header is None or address in self.proxies

    def user(self, cookie: str | None, headers: Collection[str]) -> User | None:
        """Return the user of a request; None if nobody is signed in.

        `cookie` is the value of the cookie COOKIE, and `headers` has all values of the proxy's header.
        """
        if self.user_header is not None:
            name = next(iter(headers), "").strip()
            if len(headers) != 1 or not name or len(name) > LONGEST_USER_NAME or not name.isprintable():
                return None
            return User(name, self._token(f"user {name}"))
        if cookie is None or self._sessions.get(digest(cookie), 0.0) <= self.clock_s():
            return None
        return User("signed in", self._token(f"session {cookie}"))

    def sign_in(self, password: str) -> str | None:
        """Return the secret of a new session, for the cookie; None if the password is wrong."""
        if self.password is None or not hmac.compare_digest(digest(password), digest(self.password)):
            return None
        now_s = self.clock_s()
        kept = [item for item in self._sessions.items() if item[1] > now_s]
        self._sessions = dict(kept[-MOST_SESSIONS + 1 :])
        secret = secrets.token_urlsafe(32)
        self._sessions[digest(secret)] = now_s + SESSION_S
        return secret

    def sign_out(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(digest(cookie), None)

    def _token(self, identity: str) -> str:
        return hmac.new(self._key, identity.encode(), sha256).hexdigest()


def is_own_origin(origin: str | None, host: str) -> bool:
    """Return True if a form was sent by a page of this server: `Origin` and `Host` name the same place."""
    try:
        parts = urlsplit(origin or "")
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.netloc.lower() == host.lower() != ""


def is_own_token(user: User, token: str) -> bool:
    """Return True if a form carries the token of its user. The time of the comparison does not depend on it."""
    return hmac.compare_digest(user.token.encode(), token.encode())


def is_address(text: str) -> bool:
    """Return True if a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return sha256(text.encode(errors="replace")).hexdigest()
