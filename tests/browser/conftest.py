"""A real browser, which may not open a connection to anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests.unit.builders import make_records, make_run, make_speeds
from tests.unit.udp_builders import make_udp_records

from tunnelbench.model.counters import CpuInterval
from tunnelbench.model.result import Interval, TrialRecord
from tunnelbench.report.document import Document, compose
from tunnelbench.report.formats.html import page

PHONE, DESKTOP = (390, 844), (1280, 900)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's own; Playwright downloads none."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is missing")
    with sync_playwright() as playwright:
        # Root, as the tests often are, has no sandbox to run it in.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page that is open, with what it asked for and complained of."""

    page: Page
    context: BrowserContext
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@dataclass
class Visitor:
    """Opens files as a person would: by a double click."""

    browser: Browser
    visits: list[Visit] = field(default_factory=list)

    def __call__(
        self, path: Path, size: tuple[int, int] = DESKTOP, *, scheme: str = "light", javascript: bool = True
    ) -> Visit:
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=javascript,
            offline=True,
        )
        visit = Visit(context.new_page(), context)
        self.visits.append(visit)
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("console", lambda message: visit.complaints.append(f"{message.type}: {message.text}"))
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.goto(path.as_uri())
        if javascript:
            visit.page.wait_for_selector("html[data-drawn]", state="attached", timeout=60_000)
        return visit


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visitor]:
    """Whatever is done to it, a page asks for nothing but files beside it and complains of nothing."""
    visitor = Visitor(chromium)
    yield visitor
    for each in visitor.visits:
        each.context.close()
        assert each.complaints == []
        assert [address for address in each.requests if not address.startswith("file:")] == []


def with_series(record: TrialRecord) -> TrialRecord:
    """Return the record with the series of a trial of ten seconds on a line of 500 Mbit/s."""
    if record.tcp is None:
        return record
    parts = [0.08, 0.09, *[0.1] * 6, 0.11, 0.12]
    intervals = tuple(
        Interval(float(second), second + 1.0, int(record.tcp.bytes_received * part), 1)
        for second, part in enumerate(parts)
    )
    cpu = tuple(CpuInterval(float(second), second + 1.0, 0.8) for second in range(9))
    window = replace(record.tcp.window, intervals=(CpuInterval(-0.3, 0.0, 0.003), *cpu))
    return replace(record, measurement=replace(record.tcp, physical_limit_bps=5e8, intervals=intervals, window=window))


def of_tcp() -> Document:
    tunnels = {"none", "vxlan", "openvpn AES-128-GCM", "tinc BF-CBC, SHA-1"}
    records = [with_series(record) for record in make_records(rounds=2) if record.spec.tunnel.name in tunnels]
    return compose(make_run(), records, 100, make_speeds())


@pytest.fixture(scope="session")
def tcp_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tcp") / "run.html"
    path.write_text(page(of_tcp()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def udp_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("udp") / "run.html"
    records = [record for record in make_udp_records() if record.spec.payload_bytes]
    path.write_text(page(compose(make_run(), records, None, make_speeds())), encoding="utf-8")
    return path
