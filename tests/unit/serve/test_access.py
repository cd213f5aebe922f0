"""Requests that are refused, sign-in, and the rules behind them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.testclient import TestClient
from tests.own_loop import in_own_loop
from tests.unit.serve.conftest import HOST, ORIGIN, PASSWORD, Serve

from tunnelbench.serve import guard
from tunnelbench.serve.access import COOKIE, MOST_SESSIONS, SESSION_S, Access, is_own_origin
from tunnelbench.serve.guard import LARGEST_FORM_BYTES, LONGEST_TARGET, own_path

FORM = {"origin": ORIGIN}


def signed_in(client: TestClient) -> TestClient:
    answer = client.post("/sign-in", data={"password": PASSWORD, "next": "/compare"}, headers=FORM)
    assert (answer.status_code, answer.headers["location"]) == (303, "/compare")
    return client


@pytest.fixture
def client(serve: Serve) -> TestClient:
    return serve(Access(password=PASSWORD))


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost@evil.example", "", "[::1", "a b"]
)
def test_a_name_that_another_site_may_have_made_is_refused(serve: Serve, host: str) -> None:
    answer = serve().get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "20250314-092653-aaaaaa" not in answer.text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9000", "127.0.0.1:8710", "[::1]:8710", "192.0.2.7", "rack.lan"]
)
def test_localhost_addresses_and_own_names_are_accepted(serve: Serve, host: str) -> None:
    assert serve(Access(names={"rack.lan"})).get("/", headers={"host": host}).status_code == 200


def test_every_page_needs_a_sign_in_where_there_is_a_password(client: TestClient) -> None:
    for path in ("/", "/runs/last", "/runs/last/report", "/runs/last/data.json", "/compare", "/references", "/racks"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/sign-in"), path
    for path in ("/events/runs", "/events/runs/20250314-092653-aaaaaa"):
        assert client.get(path).status_code == 401
    assert client.get("/sign-in").status_code == 200


def test_after_a_sign_in_the_pages_are_shown_and_after_a_sign_out_they_are_not(client: TestClient) -> None:
    page = signed_in(client).get("/")
    assert page.status_code == 200
    token = page.text.partition('name="token" value="')[2].partition('"')[0]
    assert client.post("/sign-out", data={"token": "0" * 64}, headers=FORM).status_code == 403
    assert client.get("/").status_code == 200
    assert client.post("/sign-out", data={"token": token}, headers=FORM).status_code == 303
    assert client.get("/").status_code == 303


def test_the_cookie_is_hidden_from_scripts_and_other_sites(client: TestClient) -> None:
    answer = client.post("/sign-in", data={"password": PASSWORD}, headers=FORM)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    https = client.post("/sign-in", data={"password": PASSWORD}, headers={"origin": f"https://{HOST}"})
    assert "secure" in https.headers["set-cookie"].lower()


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD[:-1], f"{PASSWORD} ", PASSWORD.upper(), "\udcff", "\0"])
def test_a_wrong_password_is_refused_and_reported(serve: Serve, password: str) -> None:
    said: list[str] = []
    client = serve(Access(password=PASSWORD), said=said)
    answer = client.post("/sign-in", data={"password": password.encode(errors="replace")}, headers=FORM)
    assert answer.status_code == 403
    assert COOKIE not in answer.headers.get("set-cookie", "")
    assert said == ["tunnelbench: wrong password from 127.0.0.1"]
    assert client.get("/").status_code == 303


@pytest.mark.parametrize("cookie", ["", "x", "0" * 43])
def test_a_made_up_session_is_nobody(client: TestClient, cookie: str) -> None:
    assert client.get("/", headers={"cookie": f"{COOKIE}={cookie}"}).status_code == 303


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", f"http://{HOST}.evil.example", "http://localhost",
                                    f"ftp://{HOST}", "http://["])  # fmt: skip
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/jobs/1/cancel"])
def test_a_form_of_another_site_is_refused(client: TestClient, path: str, origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    answer = signed_in(client).post(path, data={"password": PASSWORD}, headers=headers)
    assert (answer.status_code, "Another site" in answer.text) == (403, True)
    assert "set-cookie" not in answer.headers


def test_a_form_without_its_token_is_refused(client: TestClient) -> None:
    signed_in(client)
    for data in ({}, {"token": ""}, {"token": "é"}, {"token": "0" * 64}):
        for path in ("/jobs/1/cancel", "/sign-out"):
            assert client.post(path, data={"a": "b", **data}, headers=FORM).status_code == 403


@pytest.mark.parametrize(("size", "status"), [(LARGEST_FORM_BYTES - 9, 403), (LARGEST_FORM_BYTES, 413), (10**7, 413)])
def test_a_form_that_is_too_large_is_refused(client: TestClient, size: int, status: int) -> None:
    assert client.post("/sign-in", data={"password": "x" * size}, headers=FORM).status_code == status


def test_a_body_that_is_no_form_is_refused(client: TestClient) -> None:
    assert client.post("/sign-in", json={"password": PASSWORD}, headers=FORM).status_code == 415
    kind = {**FORM, "content-type": "application/x-www-form-urlencoded"}
    assert client.post("/sign-in", content=b"password=\xff\xfe", headers=kind).status_code in {400, 403}
    many = "&".join(f"a{number}=1" for number in range(100)).encode()
    assert client.post("/sign-in", content=many, headers=kind).status_code == 400


def test_a_form_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "FORM_TIME_S", 0.01)

    async def never() -> Any:
        await asyncio.Event().wait()

    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, never)
    with pytest.raises(HTTPException) as caught:
        in_own_loop(guard.form_of(request))
    assert caught.value.status_code == 408


def test_an_address_that_is_too_long_is_refused(serve: Serve) -> None:
    assert serve().get(f"/compare?a={'x' * LONGEST_TARGET}").status_code == 414


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "POST"])
@pytest.mark.parametrize("path", ["/", "/runs/last", "/compare"])
def test_pages_can_only_be_read(serve: Serve, method: str, path: str) -> None:
    client = serve()
    assert client.request(method, path).status_code == 403
    assert client.request(method, path, headers=FORM).status_code == 405


def test_the_proxy_names_the_user_and_nobody_else_can(serve: Serve) -> None:
    access = Access(user_header="X-Remote-User", proxies=["192.0.2.1"])
    proxy = serve(access, peer="192.0.2.1")
    named = proxy.get("/", headers={"x-remote-user": "anna"})
    assert (named.status_code, "<span>anna</span>" in named.text) == (200, True)
    assert proxy.get("/").status_code == 403
    for odd in ("", " ", "x" * 101):
        assert proxy.get("/", headers={"x-remote-user": odd}).status_code == 403
    assert proxy.get("/", headers=[("x-remote-user", "anna"), ("x-remote-user", "root")]).status_code == 403
    other = serve(access, peer="192.0.2.2")
    assert other.get("/", headers={"x-remote-user": "anna"}).status_code == 403
    assert proxy.get("/sign-in", headers={"x-remote-user": "anna"}).status_code == 404


def test_the_header_of_a_proxy_means_nothing_where_none_is_named(serve: Serve, client: TestClient) -> None:
    assert client.get("/", headers={"x-remote-user": "anna"}).status_code == 303
    assert "anna" not in serve().get("/", headers={"x-remote-user": "anna"}).text


@pytest.mark.parametrize("path", ["/", "/no-such-page", "/runs/last", "/assets/live.js", "/sign-in"])
def test_each_answer_has_the_protecting_headers(client: TestClient, serve: Serve, path: str) -> None:
    for each in (client, serve(), signed_in(serve(Access(password=PASSWORD)))):
        headers = each.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] in {"no-store", "no-cache"}
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("target", "found"),
    [("/compare?a=1", "/compare?a=1"), ("//evil.example", "/"), ("/\\evil.example", "/"), ("http://evil.example", "/"),
     ("", "/"), ("/a\r\nSet-Cookie: x", "/")],
)  # fmt: skip
def test_a_sign_in_leads_to_a_page_of_this_server_only(target: str, found: str) -> None:
    assert own_path(target) == found


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


def test_a_session_ends_by_itself_and_there_are_not_too_many(clock: list[float]) -> None:
    access = Access(password=PASSWORD, clock_s=lambda: clock[0])
    first, *_, last = [access.sign_in(PASSWORD) for _ in range(MOST_SESSIONS + 1)]
    assert access.user(first, []) is None
    assert access.user(last, []) is not None
    clock[0] = SESSION_S - 1
    assert access.user(last, []) is not None
    clock[0] = SESSION_S
    assert access.user(last, []) is None


def test_each_session_has_a_token_of_its_own() -> None:
    access, other = Access(password=PASSWORD), Access(password=PASSWORD)
    users = [each.user(each.sign_in(PASSWORD), []) for each in (access, access, other)]
    assert len({user.token for user in users if user}) == 3


def test_the_origin_includes_the_port() -> None:
    assert is_own_origin("https://rack.lan", "rack.lan")
    assert not is_own_origin("http://rack.lan:81", "rack.lan:80")
    assert not is_own_origin("", "")
