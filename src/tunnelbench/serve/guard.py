"""Refuses requests that no page of this server makes, and adds the headers that protect each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunnelbench.serve.access import COOKIE, Access, User, is_own_origin

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the pages, which have no script of their own. Reports bring a policy."""
PROTECTION = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # With `no-referrer`, browsers would send `Origin: null` with each form (fetch.spec.whatwg.org, 3.1).
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of each answer that does not set them itself."""

LONGEST_TARGET = 2000
"""Largest number of bytes of path and query."""
LARGEST_FORM_BYTES = 8192
MOST_FIELDS = 10
FORM_TIME_S = 10.0
"""Longest time in which a form must arrive [s]."""
READING = ("GET", "HEAD")
SIGN_IN = "/sign-in"
OPEN_TO_ALL = (SIGN_IN, "/assets/live.css", "/assets/live.js", "/assets/site.js")
"""Paths that need no sign-in."""
SCOPE_USER = "tunnelbench.user"
"""Key of the user in the scope of a request."""

Refuse = Callable[[Request, int, str, str], Response]
"""A function that returns the answer to a request: its status, the sentence and the hint."""


class Guard:
    """The outermost layer of the server."""

    def __init__(self, app: ASGIApp, access: Access, refuse: Refuse) -> None:
        self._app = app
        self._access = access
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTION.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope, receive)
        scope[SCOPE_USER] = user_of(request, self._access)
        refusal = self._refusal(request, scope[SCOPE_USER])
        await (refusal or self._app)(scope, receive, protected)

    def _refusal(self, request: Request, user: User | None) -> Response | None:
        """Return the answer to a request that is refused; None if it is accepted."""
        host, path = request.headers.get("host", ""), request.url.path
        if not self._access.is_own_host(host):
            return self._refuse(
                request,
                421,
                "The address names another machine.",
                "Start serve with --name and the name in the address.",
            )
        if len(request.scope.get("raw_path", b"")) + len(request.scope["query_string"]) > LONGEST_TARGET:
            return self._refuse(request, 414, "The address is too long.", "")
        if not self._access.is_trusted_peer(request.client.host if request.client else ""):
            return self._refuse(
                request, 403, "This is not the reverse proxy.", "Name its address with --proxy, or open its pages."
            )
        if request.method not in READING and not is_own_origin(request.headers.get("origin"), host):
            return self._refuse(request, 403, "Another site has sent this form.", "Send it from the page itself.")
        if user or not self._access.needs_sign_in or path in OPEN_TO_ALL:
            return None
        if self._access.user_header is not None:
            return self._refuse(request, 403, "The reverse proxy has named no user.", "Sign in there.")
        if request.method in READING and not path.startswith("/events/"):
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"{SIGN_IN}?next={quote(path + query)}", 303)
        return self._refuse(request, 401, "You are not signed in.", "Sign in, and try again.")


def user_of(request: Request, access: Access) -> User | None:
    """Return the user of a request; None if nobody is signed in."""
    name = access.user_header
    named = Headers(scope=request.scope).getlist(name) if name else []
    return access.user(request.cookies.get(COOKIE), named)


def own_path(target: str) -> str:
    """Return a path of this server after a sign-in; `/` in place of an address elsewhere."""
    is_own = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_own else "/"


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises HTTPException for anything else, and for a form that is too large."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "This is no form.")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_TIME_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_FORM_BYTES:
                    raise HTTPException(413, "The form is too large.")
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except TimeoutError:
        raise HTTPException(408, "The form did not arrive in time.") from None
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
    return {name: values[0] for name, values in fields.items()}
