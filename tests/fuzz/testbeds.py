"""Target `testbeds`: a testbed file is checked, read and shown; its stored text gives the same testbed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.plans import file_with, folder
from tests.fuzz.target import Target, same

from tunnelbench.cli.common_options import link_text
from tunnelbench.cli.details.testbed import board, hosts
from tunnelbench.cli.layout import drawn, facts
from tunnelbench.plan import FileErrors, check_file, read_testbed, stored_testbed
from tunnelbench.plan.testbed_schema import TESTBED_KEYS
from tunnelbench.testbed import KINDS, open_testbed, refused_in_plans

ROOT = Path(__file__).parents[2]
TESTBED_FOLDERS = ("src/tunnelbench/data/testbeds", "examples/testbeds", "tests/unit/plan/wrong")


def take(data: bytes) -> None:
    path = file_with(data)
    errors = check_file(path, {}, KINDS)
    for error in errors:
        if not str(error).isprintable() or not error.message:
            raise AssertionError(f"the error {error!r} is not one line of text")
    try:
        loaded = read_testbed(path, KINDS)
    except FileErrors as error:
        if not error.errors:
            raise AssertionError("a testbed is refused without an error") from None
        return
    if errors:
        raise AssertionError(f"a testbed with errors is read: {errors[0]}")
    same(loaded.testbed, stored_testbed("file.toml", loaded.text, KINDS).testbed)
    changed = read_testbed(path, KINDS, ["title='fuzz'"])
    same(changed.testbed, stored_testbed("file.toml", changed.text, KINDS).testbed)
    spec = loaded.testbed
    refused_in_plans(spec)
    drawn(facts([*board(spec), *hosts(spec), ("Link", link_text(spec.link))]))
    if not spec.place:  # a run acquires the place first, which gives the router's address
        open_testbed(spec, "20250101-000000-fuzz", folder())  # makes nothing before it is entered


def seeds() -> Iterator[bytes]:
    for name in TESTBED_FOLDERS:
        for path in sorted((ROOT / name).glob("*.toml")):
            yield path.read_bytes()
    yield b'kind = "netns"\ntopology = "gateway"\nrouter_cpu = 0\nquiet_wait_s = 3\n[link]\nrate_mbps = 100\n'


def words() -> tuple[str, ...]:
    keys = {str(part) for path in TESTBED_KEYS for part in path}
    return (*sorted(keys), *sorted(KINDS), "[router]\n", "[client]\n", "[server]\n", "[link]\n", "inf", "nan",
            "1e400", "9" * 5000, "root@192.168.1.1", "-oProxyCommand=x", "192.168.1.1/33",
            "fe80::1%eth0", "\\u0000")  # fmt: skip


TARGET = Target("testbeds", take, seeds, words())
