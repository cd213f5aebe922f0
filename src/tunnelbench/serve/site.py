"""The pages by their addresses, and the events that tell them what has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, ExceptionHandler

from tunnelbench import __version__
from tunnelbench.cli.run_lock import new_run_id
from tunnelbench.model.errors import UserError, WrongInput, WrongState
from tunnelbench.model.reference import Reference
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.report.formats.html import library, policy
from tunnelbench.report.methodology import methodology_html
from tunnelbench.report.page_templates import TEMPLATES, environment, resource
from tunnelbench.report.text import one_line
from tunnelbench.serve.access import COOKIE, SESSION_S, Access, User, is_own_token
from tunnelbench.serve.guard import SCOPE_USER, Guard, form_of, own_path, user_of
from tunnelbench.serve.queue import queue_view
from tunnelbench.serve.results import LISTED, RUNS_OFFERED, NoResults, Results
from tunnelbench.serve.views import run_line, run_view

if TYPE_CHECKING:
    from jinja2 import Environment

    from tunnelbench.racks.queue import JobQueue

T = TypeVar("T")

STORE_READERS = 4
"""Number of threads that read the store, each over a connection of its own."""
LOOK_INTERVAL_S = 2.0
"""Time between two looks at the store for a page that is open [s]."""
STILL_THERE_S = 20.0
"""Time after which an empty event keeps a connection open [s]."""
MOST_STREAMS = 100
"""Largest number of pages that get events at a time."""
WRONG_PASSWORD_S = 1.0
"""Time for which every sign-in waits after a wrong password [s]."""
MOST_WAITING_SIGN_INS = 10

FRAMING = "; frame-ancestors 'none'; form-action 'none'"
"""Addition to the policy of a report."""
CHANGES = {"cancel": "cancelled", "resubmit": "resubmitted"}
"""Changes of a job that a user can make, each with its word in a message."""


class Site:
    """All pages of one store."""

    def __init__(self, results: Results, queue: JobQueue | None, access: Access, say: Callable[[str], object]) -> None:
        self.results = results
        self.queue = queue
        self.access = access
        self.say = say
        self._threads = ThreadPoolExecutor(STORE_READERS, "reader")
        self._streams = 0
        self._signing_in = asyncio.Lock()
        self._waiting_sign_ins = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    def end(self) -> None:
        """End all streams of events, because the server ends. Called from the handler of a signal."""
        if self._loop:
            self._loop.call_soon_threadsafe(self._ending.set)

    def app(self) -> ASGIApp:
        """Return the application."""
        routes = [
            Route("/", self.runs),
            Route("/runs/{run}", self.run),
            Route("/runs/{run}/report", self.report),
            Route("/runs/{run}/data.json", self.data),
            Route("/compare", self.compare),
            Route("/references", self.references),
            Route("/references/{name}", self.reference),
            Route("/methodology", self.methodology),
            Route("/racks", self.racks),
            Route("/jobs/{job:int}/{verb}", self.change_job, methods=["POST"]),
            Route("/sign-in", self.sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Route("/assets/{name}", asset),
            Route("/events/runs", self.runs_events),
            Route("/events/racks", self.racks_events),
            Route("/events/runs/{run}", self.run_events),
            Route("/events/runs/{run}/report", self.report_events),
        ]
        handlers: dict[Any, ExceptionHandler] = {
            UserError: self._on_user_error,
            HTTPException: self._on_http_error,
            Exception: self._on_bug,
        }
        return Guard(Starlette(routes=routes, exception_handlers=handlers), self.access, self._refusal)

    # Pages

    async def runs(self, request: Request) -> Response:
        before = request.query_params.get("before")
        try:
            part = await self._read(partial(self._runs_part, before))
        except NoResults as error:
            part = _drawn("message-part", message=error.message, hint=error.hint)
        return self._page(request, "runs", part=part, events="" if before else "/events/runs")

    def _runs_part(self, before: str | None = None) -> str:
        runs = self.results.newest(LISTED + 1, before)
        running = [] if before else [run_line(run, progress) for run, progress in self.results.running()]
        lines = [run_line(run, None) for run in runs[:LISTED]]
        older = runs[LISTED - 1].run_id if len(runs) > LISTED else ""
        return _drawn("runs-part", running=running, runs=lines, older=older, is_first=before is None)

    async def run(self, request: Request) -> Response:
        name = request.path_params["run"]
        found = await self._read(partial(self.results.run, name))
        if found.run_id != name:
            return RedirectResponse(f"/runs/{found.run_id}", 302)
        part = await self._read(partial(self._run_part, name))
        title = one_line(found.plan_title or found.plan_name) or name
        return self._page(request, "run", title=title, run_id=name, part=part, events=f"/events/runs/{name}")

    def _run_part(self, run_id: str) -> str:
        return _drawn("run-part", view=run_view(self.results.state(run_id)))

    async def report(self, request: Request) -> Response:
        run = await self._read(partial(self.results.run, request.path_params["run"]))
        text = await self._read(partial(self.results.report, run.run_id))
        return _report(text)

    async def data(self, request: Request) -> Response:
        run = await self._read(partial(self.results.run, request.path_params["run"]))
        text = await self._read(partial(self.results.data, run.run_id))
        return Response(text, media_type="application/json")

    async def compare(self, request: Request) -> Response:
        a, b = (request.query_params.get(name, "") for name in ("a", "b"))
        fault = ""
        if a and b:
            try:
                return _report(await self._read(partial(self.results.comparison, a, b)))
            except WrongInput as error:
                fault = f"{error.message}. {error.hint}" if error.hint else error.message
        try:
            runs = await self._read(partial(self.results.newest, RUNS_OFFERED))
        except NoResults:
            runs = []
        names = await self._read(reference_names)
        return self._page(
            request, "compare", status=404 if fault else 200, fault=fault, references=names, a=a, b=b,
            runs=[run_line(run) for run in runs],
        )  # fmt: skip

    async def references(self, request: Request) -> Response:
        found = await self._read(lambda: [read_reference(name) for name in reference_names()])
        return self._page(request, "references", references=found)

    async def reference(self, request: Request) -> Response:
        found: Reference = await self._read(partial(read_reference, request.path_params["name"]))
        return self._site_page(request, "site-reference", reference=found)

    async def methodology(self, request: Request) -> Response:
        return self._site_page(request, "site-methodology", body=methodology_html())

    # Jobs

    async def racks(self, request: Request) -> Response:
        part = await self._read(partial(self._racks_part, request.scope[SCOPE_USER]))
        return self._page(request, "racks", part=part, events="/events/racks")

    def _racks_part(self, user: User | None) -> str:
        if self.queue is None:
            raise WrongInput("this store has no queue of jobs", "docs/racks.md says how to make one")
        return _drawn("racks-part", view=queue_view(self.queue, self.results), user=user)

    async def change_job(self, request: Request) -> Response:
        """Cancel a job, or submit an ended one again; only for a signed-in user, from a form of this server."""
        user = await self._require_user(request)
        job_id, verb = request.path_params["job"], request.path_params["verb"]
        if self.queue is None or verb not in CHANGES:
            raise HTTPException(404, "There is no such page.")
        waiting = job_id
        if verb == "cancel":
            await self._read(partial(self.queue.cancel, job_id))
        else:
            waiting = await self._read(partial(self.queue.resubmit, job_id, new_run_id))
        as_job = f" as job {waiting}" if waiting != job_id else ""
        self.say(f"tunnelbench: job {job_id} was {CHANGES[verb]}{as_job} ({user.name})")
        return RedirectResponse("/racks", 303)

    async def _require_user(self, request: Request) -> User:
        """Return the user who has sent a form with the right token. Raises HTTPException."""
        user: User | None = request.scope[SCOPE_USER]
        fields = await form_of(request)
        if user is None:
            raise HTTPException(403, "Only signed-in users can do this.")
        if not is_own_token(user, fields.get("token", "")):
            raise HTTPException(403, "The form is too old, or from another page. Open the page again.")
        return user

    # Sign-in

    async def sign_in(self, request: Request) -> Response:
        """Show the form, or start a session. Sign-ins wait for each other, and longer after a wrong password."""
        if self.access.password is None:
            raise HTTPException(404, "This server has no password.")
        if request.method != "POST":
            target = own_path(request.query_params.get("next", "/"))
            return self._page(request, "sign-in", target=target, fault="")
        fields = await form_of(request)
        target = own_path(fields.get("next", "/"))
        if self._waiting_sign_ins >= MOST_WAITING_SIGN_INS:
            raise HTTPException(429, "Too many users sign in at once. Try again in a minute.")
        self._waiting_sign_ins += 1
        try:
            async with self._signing_in:
                secret = self.access.sign_in(fields.get("password", ""))
                if secret is None:
                    await asyncio.sleep(WRONG_PASSWORD_S)
        finally:
            self._waiting_sign_ins -= 1
        if secret is None:
            peer = request.client.host if request.client else "an unknown address"
            self.say(f"tunnelbench: wrong password from {peer}")
            return self._page(request, "sign-in", status=403, target=target, fault="The password is wrong.")
        answer = RedirectResponse(target, 303)
        is_https = request.headers.get("origin", "").startswith("https:")
        answer.set_cookie(COOKIE, secret, max_age=int(SESSION_S), httponly=True, samesite="strict", secure=is_https)
        return answer

    async def sign_out(self, request: Request) -> Response:
        await self._require_user(request)
        self.access.sign_out(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/sign-in", 303)
        answer.delete_cookie(COOKIE)
        return answer

    # Events

    async def runs_events(self, request: Request) -> Response:
        return self._events(request, self._runs_part)

    async def run_events(self, request: Request) -> Response:
        return self._events(request, partial(self._run_part, request.path_params["run"]))

    async def racks_events(self, request: Request) -> Response:
        return self._events(request, partial(self._racks_part, request.scope[SCOPE_USER]))

    async def report_events(self, request: Request) -> Response:
        run = await self._read(partial(self.results.run, request.path_params["run"]))
        return self._events(request, partial(self.results.version, run.run_id))

    def _events(self, request: Request, look: Callable[[], str]) -> Response:
        """Return a stream of events, each with the text of `look` as JSON, when that has changed."""
        if self._streams >= MOST_STREAMS:
            raise HTTPException(503, "Too many pages are open.")
        self._loop = asyncio.get_running_loop()

        async def lines() -> AsyncIterator[str]:
            self._streams += 1
            try:
                before, silent_s = None, 0.0
                while self._may_read(request) and not self._ending.is_set():
                    try:
                        text = await self._read(look)
                    except UserError as error:
                        text = _drawn("message-part", message=error.message, hint=error.hint)
                    if text != before:
                        yield f"data: {json.dumps(text)}\n\n"
                        before, silent_s = text, 0.0
                    elif silent_s >= STILL_THERE_S:
                        yield ": still there\n\n"
                        silent_s = 0.0
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._ending.wait(), LOOK_INTERVAL_S)
                    silent_s += LOOK_INTERVAL_S
            finally:
                self._streams -= 1

        return StreamingResponse(lines(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    def _may_read(self, request: Request) -> bool:
        """Return False after the session of a page has ended."""
        return not self.access.needs_sign_in or user_of(request, self.access) is not None

    # Parts

    async def _read(self, work: Callable[[], T]) -> T:
        """Run what reads the store, or takes long, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _page(self, request: Request, name: str, *, status: int = 200, **values: Any) -> Response:
        return HTMLResponse(_drawn(name, **self._frame(request), **values), status)

    def _site_page(self, request: Request, name: str, **values: Any) -> Response:
        frame = {**self._frame(request), "base": "live-base.html.jinja", "root": "/"}
        return HTMLResponse(_environment().get_template(f"{name}.html.jinja").render(**frame, **values))

    def _frame(self, request: Request) -> dict[str, Any]:
        """Return the values of `live-base.html.jinja`."""
        return {
            "version": __version__,
            "user": request.scope.get(SCOPE_USER),
            "has_password": self.access.password is not None,
            "has_queue": self.queue is not None,
            "path": request.url.path,
        }

    def _refusal(self, request: Request, status: int, message: str, hint: str) -> Response:
        return self._page(request, "message", status=status, title=message, message="", hint=hint)

    async def _on_user_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, UserError)  # noqa: S101 - Starlette chooses the handler by the class
        status = 409 if isinstance(error, WrongState) else 404 if isinstance(error, (WrongInput, NoResults)) else 503
        title = "Not found" if status == 404 else "Not possible now"
        return self._page(request, "message", status=status, title=title, message=error.message, hint=error.hint)

    async def _on_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - the same
        detail = "There is no such page." if error.status_code == 404 else error.detail
        return self._refusal(request, error.status_code, detail, "")

    async def _on_bug(self, request: Request, error: Exception) -> Response:
        return self._refusal(request, 500, "This page has an error.", "The server has printed it: report a bug.")


def _report(text: str) -> Response:
    """Return a report, which has a policy of its own: a report that does not fill in makes no request."""
    return HTMLResponse(text, headers={"content-security-policy": policy(is_shared=True, is_live=True) + FRAMING})


ASSETS: dict[str, tuple[str, Callable[[], str]]] = {
    "live.css": ("text/css", lambda: "".join(resource(TEMPLATES, f"{name}.css") for name in ("page", "site", "live"))),
    "live.js": ("text/javascript", lambda: resource(TEMPLATES, "live.js")),
    "site.js": ("text/javascript", lambda: resource(TEMPLATES, "tables.js") + resource(TEMPLATES, "site.js")),
    "charts.js": ("text/javascript", library),
}
"""Files that pages share: media type, and the function that returns the text."""


@cache
def _asset(name: str) -> tuple[str, str, str]:
    """Return media type, text and tag of a file."""
    kind, text = ASSETS[name][0], ASSETS[name][1]()
    return kind, text, f'"{sha256(text.encode()).hexdigest()[:32]}"'


async def asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise HTTPException(404, "There is no such page.")
    kind, text, tag = _asset(name)
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(text, media_type=kind, headers=headers)


@cache
def _environment() -> Environment:
    return environment({"one_line": one_line})


def _drawn(name: str, **values: Any) -> str:
    return _environment().get_template(f"live-{name}.html.jinja").render(**values)
