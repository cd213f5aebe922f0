"""The libraries that pages are drawn and tested with are what npm has, with their licences."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from tests.unit.builders import make_run

from tunnelbench.report.charts.chart import SCHEMA
from tunnelbench.report.document import compose
from tunnelbench.report.formats.html import LIBRARIES, page

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "src" / "tunnelbench" / "data" / "javascript"
FOLDERS = (PAGES, ROOT / "tests" / "browser")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_file_is_as_it_was_fetched(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    noted = {name: checksum for checksum, name in (line.split("  ") for line in lines)}
    found = [*folder.glob("*.js"), *folder.glob("*.LICENSE"), folder / "VERSIONS"]
    assert {path.name: sha256(path.read_bytes()).hexdigest() for path in found} == noted


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_library_has_its_version_and_licence(folder: Path) -> None:
    versions = dict(line.split() for line in (folder / "VERSIONS").read_text().splitlines())
    assert {path.name.removesuffix(".LICENSE") for path in folder.glob("*.LICENSE")} == set(versions)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
    assert len(versions) == len(list(folder.glob("*.js")))


def test_a_page_holds_all_libraries_that_are_there_and_charts_name_their_version() -> None:
    assert {path.name for path in PAGES.glob("*.js")} == set(LIBRARIES)
    versions = dict(line.split() for line in (PAGES / "VERSIONS").read_text().splitlines())
    assert f"/v{versions['vega-lite'].split('.')[0]}.json" in SCHEMA
    text = page(compose(make_run(), ()))
    assert f'const SCHEMA = "{SCHEMA}"' in text
    for name, version in versions.items():
        assert json.dumps(version) in text, name
