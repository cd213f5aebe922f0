"""docs/page.png, the picture in README.md, shows the present page of the sample run. `make docs` takes it anew."""

from __future__ import annotations

import struct
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import DESKTOP, Visitor, of_tcp

from tunnelbench.report.document import Document, compose
from tunnelbench.report.exchange import read
from tunnelbench.report.formats.html import page

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = DOCS / "page.png"
COMMENT = b"SHA-256 of the text\0"
END_OF_HEADER = 33
"""Place in a PNG file behind its signature and its first chunk [bytes] (PNG specification, 11.2.1)."""
LARGEST_MEAN = 3.0
"""Largest mean difference of brightness between two pictures of one page [of 255]. Browsers of two versions, or with
other fonts, draw text differently."""

DIFFERENCE = """async (pictures) => {
    const [first, second] = await Promise.all(pictures.map(async (picture) => {
        const image = new Image();
        image.src = `data:image/png;base64,${picture}`;
        await image.decode();
        const canvas = new OffscreenCanvas(image.width / 10, image.height / 10);
        const context = canvas.getContext("2d");
        context.imageSmoothingQuality = "high";
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        return [image.width, image.height, context.getImageData(0, 0, canvas.width, canvas.height).data];
    }));
    if (first[0] !== second[0] || first[1] !== second[1]) return 255;
    let sum = 0;
    first[2].forEach((value, index) => { sum += Math.abs(value - second[2][index]); });
    return sum / (first[2].length * 3 / 4);
}"""
"""Mean difference of the colours of two pictures, in areas of 10 by 10 pixels, so that edges of letters count less."""


def difference(browser: Browser, *pictures: bytes) -> float:
    """Return how much two pictures differ: 0 for equal ones, 255 for black and white or for different sizes."""
    blank = browser.new_page()
    found: float = blank.evaluate(DIFFERENCE, [b64encode(picture).decode() for picture in pictures])
    blank.close()
    return found


def picture(visit: Visitor, path: Path, document: Document) -> bytes:
    """Return the first screen of a page as a PNG file, with the hash of the visible text of the page in a comment."""
    path.write_text(page(document), encoding="utf-8")
    shown = visit(path, DESKTOP).page
    png = shown.screenshot(animations="disabled")
    words = " ".join(shown.locator("main").inner_text().split())
    comment = b"tEXt" + COMMENT + sha256(words.encode()).hexdigest().encode()
    chunk = struct.pack(">I", len(comment) - 4) + comment + struct.pack(">I", crc32(comment))
    return png[:END_OF_HEADER] + chunk + png[END_OF_HEADER:]


def text_hash(png: bytes) -> bytes:
    return png.partition(COMMENT)[2][:64]


def sample() -> Document:
    found = read((DOCS / "sample-run.json").read_bytes())
    return compose(found.run, found.records, None, found.speeds)


def test_the_picture_of_the_readme_is_the_first_screen_of_the_sample(
    visit: Visitor, chromium: Browser, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shown = picture(visit, tmp_path / "run.html", sample())
    if request.config.getoption("force_regen"):
        PICTURE.write_bytes(shown)
    before = PICTURE.read_bytes()
    assert text_hash(before) == text_hash(shown), "the page has other words: run `make docs`"
    assert difference(chromium, before, shown) < LARGEST_MEAN, "the page looks different: run `make docs`"


def test_a_picture_of_another_run_is_found(visit: Visitor, chromium: Browser, tmp_path: Path) -> None:
    other = picture(visit, tmp_path / "run.html", of_tcp())
    assert difference(chromium, other, other) == 0
    assert difference(chromium, PICTURE.read_bytes(), other) > LARGEST_MEAN
    assert len(text_hash(other)) == 64
    assert text_hash(PICTURE.read_bytes()) != text_hash(other)
