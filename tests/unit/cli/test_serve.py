"""`tunnelbench serve`: options that would leave the pages open are refused, and the server starts and ends."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")

from click.testing import CliRunner, Result
from tests.unit.builders import make_run

from tunnelbench import cli
from tunnelbench.cli.serve import PASSWORD_VARIABLE, parsed_place, read_password
from tunnelbench.model.errors import WrongInput
from tunnelbench.store.store import Store

CODE = "import sys; sys.argv[0] = 'tunnelbench'; from tunnelbench.start import main; main()"
PASSWORD = "correct horse battery"


def verb(*words: str) -> Result:
    return CliRunner().invoke(cli.main, ["serve", *words])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "results.sqlite") as store:
        store.begin_run(make_run(run_id="a"))
    return tmp_path / "results.sqlite"


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    path.chmod(0o600)
    return path


@contextmanager
def opened(address: str) -> Iterator[http.client.HTTPResponse]:
    """Give the answer of a server on this machine, not read yet."""
    host, _, path = address.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request("GET", f"/{path}")
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


@contextmanager
def served(*words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the server on a free port; give the process and the address of its pages."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "serve", "--listen", "0", *words],
        stderr=subprocess.PIPE, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert process.stderr
    try:
        line = process.stderr.readline()
        found = re.search(r"http://[\d.]+:\d+/", line)
        assert found, line + process.stderr.read()
        yield process, found[0]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize("place", ["0.0.0.0:8710", "[::]:8710", "192.0.2.1:1"])
def test_an_open_address_needs_a_password_or_a_proxy(place: str, path: Path) -> None:
    result = verb("--listen", place, "--store", str(path))
    assert result.exit_code == 2
    assert "would show the results to everybody" in result.stderr
    assert "ssh -L" in result.stderr


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("8710", ("127.0.0.1", 8710)),
        ("localhost:1", ("127.0.0.1", 1)),
        ("[::1]:2", ("::1", 2)),
        ("10.0.0.1:0", ("10.0.0.1", 0)),
    ],
)
def test_a_place_is_an_address_and_a_port(place: str, found: tuple[str, int]) -> None:
    assert parsed_place(place) == found


@pytest.mark.parametrize("place", ["x", "1.2.3.4", "1.2.3.4:", "host:80", ":80", "1.2.3.4:70000", "127.0.0.1:-1", "²"])
def test_an_odd_place_is_refused(place: str) -> None:
    with pytest.raises(WrongInput, match="no address with a port"):
        parsed_place(place)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--user-header", "X-User", "--password-file", "PASSWORD"], "contradict each other"),
        (["--user-header", "X User"], "no name of a header"),
        (["--proxy", "192.0.2.1"], "goes with --user-header"),
        (["--user-header", "X-User", "--proxy", "proxy.lan"], "is no address"),
        (["--name", "a b"], "is no name of a machine"),
        (["--password-file", "/no/such/file"], "cannot be read: No such file"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], message: str, path: Path, password_file: Path
) -> None:
    given = [str(password_file) if word == "PASSWORD" else word for word in words]
    result = verb(*given, "--store", str(path))
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_a_password_comes_from_a_private_file_or_the_environment(
    password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_password(str(password_file)) == PASSWORD
    password_file.chmod(0o644)
    with pytest.raises(WrongInput, match="every user can read"):
        read_password(str(password_file))
    assert read_password(None) is None
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    assert read_password(None) == PASSWORD
    assert PASSWORD_VARIABLE not in os.environ


def test_a_short_password_is_refused(tmp_path: Path, path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("secret")
    short.chmod(0o600)
    result = verb("--password-file", str(short), "--store", str(path))
    assert (result.exit_code, "less than 12 characters" in result.stderr, "secret" in result.stderr) == (2, True, False)


@pytest.mark.parametrize("url", ["postgresql://u:hush@localhost/x", "postgresql://u@localhost/x?password=hush"])
def test_a_url_with_a_password_is_refused_and_not_repeated(url: str) -> None:
    result = verb("--listen", "0", "--store", url)
    assert (result.exit_code, "hush" in result.output) == (2, False)


def test_a_port_that_is_in_use_is_a_sentence(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = verb("--listen", str(port), "--store", str(path))
    assert (result.exit_code, f"port {port} of 127.0.0.1 cannot be used" in result.stderr) == (3, True)


def test_a_store_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no database " * 20)
    result = verb("--listen", "0", "--store", str(tmp_path / "notes"))
    assert (result.exit_code, "not a store of TunnelBench" in result.stderr) == (2, True)


def test_without_the_extra_only_this_verb_needs_it(path: Path) -> None:
    code = (
        "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None\nfrom tunnelbench.cli import main\n"
        "main(sys.argv[1:], prog_name='tunnelbench')"
    )
    words = [sys.executable, "-c", code]
    listed = subprocess.run([*words, "list", "runs", "--store", str(path)], capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stderr
    refused = subprocess.run([*words, "serve"], capture_output=True, text=True, check=False)
    assert refused.returncode == 3
    assert "serve needs the Python packages starlette and uvicorn, which are missing" in refused.stderr
    assert re.search(r"^hint: .* install .*starlette uvicorn$", refused.stderr, re.MULTILINE)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_server_shows_the_runs_and_ends_with_the_signal(path: Path, number: int, code: int) -> None:
    with served("--store", str(path)) as (process, address):
        with opened(address) as answer:
            assert "What this machine can do" in answer.read().decode()
        with opened(f"{address}events/runs") as stream:  # a page that is open
            assert stream.readline().startswith(b"data: ")
            process.send_signal(number)
            assert process.wait(timeout=20) == code
        assert process.stderr
        assert "Traceback" not in process.stderr.read()


def test_a_password_from_the_environment_closes_the_pages(path: Path) -> None:
    with served("--store", str(path), **{PASSWORD_VARIABLE: PASSWORD}) as (process, address):
        with opened(address) as answer:
            assert (answer.status, answer.headers["location"]) == (303, "/sign-in?next=/")
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert PASSWORD.encode() not in command
