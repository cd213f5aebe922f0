"""The messages for wrong files, word by word.

Each `wrong/NAME.toml` has its messages next to it in `NAME.txt`; `pytest --force-regen` writes them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel
from pytest_regressions.file_regression import FileRegressionFixture

from tunnelbench.plan import check_file
from tunnelbench.testbed import KINDS

WRONG = Path(__file__).parent / "wrong"

Schemas = Mapping[str, type[BaseModel]]


@pytest.mark.parametrize("name", sorted(path.stem for path in WRONG.glob("*.toml")))
def test_all_errors_of_a_file_are_reported_together(
    name: str,
    schemas: Schemas,
    known_kinds: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    file_regression: FileRegressionFixture,
) -> None:
    monkeypatch.chdir(WRONG)
    errors = check_file(f"{name}.toml", schemas, KINDS, known_kinds)
    text = "".join(f"{error}\n" for error in errors)
    file_regression.check(text, fullpath=WRONG / f"{name}.txt")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "1:1: file: is empty"),
        (b" \n\t\n", "1:1: file: is empty"),
        (b"\xef\xbb\xbf", "1:1: file: is empty"),
        (b'kind = "netns"\ntitle = "\xc3\xa9 \xff"', "2:12: file: is not UTF-8 text (byte 0xff)"),
        ('kind = "netns"'.encode("utf-16"), "1:1: file: is not UTF-8 text (byte 0xff)"),
        (b'kind = "netns"\ntitle = "\xc3\xa9\0"', "2:11: file: holds a NUL byte"),
        (b"#" * (1 << 20) + b"\n", "1:1: file: is larger than 1 MiB, which no plan or testbed needs"),
        (b"a = " + b"[" * 5000, "1:1: TOML: lists or tables are nested too deeply"),
        (b"\na = [" + b"1, " * 4000, "2:10001: TOML: the line is longer than 10000 characters"),
        (b"\n" + b".".join([b"a"] * 102) + b" = 1", "2:1: TOML: the line has more than 100 dots"),
        (b'kind = "netns"\nrouter_cpu = ' + b"9" * 5000, "2:14: TOML: the number is too large"),
    ],
)
def test_a_file_that_is_not_text_or_too_large_is_one_error(
    content: bytes, error: str, tmp_path: Path, schemas: Schemas
) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(content)
    assert [str(found) for found in check_file(str(path), schemas, KINDS)] == [f"{path}:{error}"]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("kind = netns", '1:8: TOML: netns is not a value; a string is written "netns"'),
        ("rounds = 3 times\nx = yes", "1:12: TOML: expected newline or end of document after a statement"),
        ("[tcp]\nduration_s =\nstreams = 1", "2:13: TOML: a value is missing or not complete"),
        ("streams =", "1:1: TOML: a value is missing or not complete"),
        ('title = "unclosed\nrounds = 1', "1:18: TOML: a string is not closed at the end of its line"),
        ('rounds = 3\ntitle = """a title\nthat never ends\n', "2:1: TOML: unterminated string"),
        ("[tcp]\npayload_bytes = [1448, 76\nstreams = 1", "3:1: TOML: unclosed array"),
        ("rounds = 0\n\n[tcp\nstreams = 0", "3:5: TOML: expected ']' at the end of a table declaration"),
        ("compress = True", "1:12: TOML: true is written in small letters"),
        ("rounds = 1\nrounds = 2\n", "2:11: TOML: the key or table is there already"),
        ("[tcp]\nx = 1\n[tcp]\n", "3:5: TOML: the key or table is there already"),
        (
            '[tunnel]\nkind = "vxlan"\n[tunnel]\n',
            "3:8: TOML: the key or table is there already; each tunnel starts with [[tunnel]]",
        ),
    ],
)
def test_the_first_syntax_error_is_reported_at_its_place(
    lines: str, error: str, tmp_path: Path, schemas: Schemas
) -> None:
    path = tmp_path / "file.toml"
    path.write_text(lines)
    assert [str(found) for found in check_file(str(path), schemas, KINDS)] == [f"{path}:{error}"]


def test_the_largest_file_that_is_allowed_is_read(tmp_path: Path, schemas: Schemas) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes((b'kind = "netns"\n' + b"#\n" * (1 << 19))[: 1 << 20])
    assert check_file(str(path), schemas, KINDS) == []


def test_a_path_that_cannot_be_read_is_one_error(tmp_path: Path, schemas: Schemas) -> None:
    (tmp_path / "file").touch()
    found = [
        str(*check_file(str(tmp_path / name), schemas, KINDS)) for name in (".", "absent.toml", "file/below", "x" * 300)
    ]
    assert found == [
        f"{tmp_path}:1:1: file: is a directory, not a file",
        f"{tmp_path}/absent.toml:1:1: file: there is no such file",
        f"{tmp_path}/file/below:1:1: file: cannot be read: not a directory",
        f"{tmp_path}/{'x' * 300}:1:1: file: cannot be read: file name too long",
    ]


def test_windows_line_ends_and_byte_order_mark_are_taken(tmp_path: Path, schemas: Schemas) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b'\xef\xbb\xbfkind = "netns"\r\n\r\ntitel = "x"\r\n')
    assert [str(error) for error in check_file(str(path), schemas, KINDS)] == [
        f"{path}:3:1: titel: unknown key; did you mean title?"
    ]


def test_right_files_have_no_errors(tmp_path: Path, schemas: Schemas) -> None:
    (tmp_path / "plan.toml").write_text('[[tunnel]]\nkind = "vxlan"\n')
    (tmp_path / "testbed.toml").write_text('kind = "netns"\n')
    assert check_file(str(tmp_path / "plan.toml"), schemas, KINDS) == []
    assert check_file(str(tmp_path / "testbed.toml"), schemas, KINDS) == []
