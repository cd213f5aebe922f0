"""What a user is told of a wrong file, word by word.

Each `wrong/NAME.toml` has its messages beside it in `NAME.txt`; `pytest --force-regen` writes them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel
from pytest_regressions.file_regression import FileRegressionFixture

from tunnelbench.plan import check_file

WRONG = Path(__file__).parent / "wrong"

Schemas = Mapping[str, type[BaseModel]]


@pytest.mark.parametrize("name", sorted(path.stem for path in WRONG.glob("*.toml")))
def test_every_fault_of_a_file_is_told_at_once(
    name: str,
    schemas: Schemas,
    known_kinds: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    file_regression: FileRegressionFixture,
) -> None:
    monkeypatch.chdir(WRONG)
    errors = check_file(f"{name}.toml", schemas, known_kinds)
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
        (b'kind = "netns"\nrouter_cpu = ' + b"9" * 5000, "2:14: router_cpu: the number is too large"),
    ],
)
def test_a_file_that_is_no_text_or_beyond_all_measure_is_one_error(
    content: bytes, error: str, tmp_path: Path, schemas: Schemas
) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(content)
    assert [str(found) for found in check_file(str(path), schemas)] == [f"{path}:{error}"]


def test_the_largest_file_that_is_allowed_is_read(tmp_path: Path, schemas: Schemas) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes((b'kind = "netns"\n' + b"#\n" * (1 << 19))[: 1 << 20])
    assert check_file(str(path), schemas) == []


def test_a_path_that_cannot_be_read_is_one_error(tmp_path: Path, schemas: Schemas) -> None:
    (tmp_path / "file").touch()
    found = [str(*check_file(str(tmp_path / name), schemas)) for name in (".", "absent.toml", "file/below", "x" * 300)]
    assert found == [
        f"{tmp_path}:1:1: file: is a directory, not a file",
        f"{tmp_path}/absent.toml:1:1: file: there is no such file",
        f"{tmp_path}/file/below:1:1: file: cannot be read: not a directory",
        f"{tmp_path}/{'x' * 300}:1:1: file: cannot be read: file name too long",
    ]


def test_windows_line_ends_and_byte_order_mark_are_taken(tmp_path: Path, schemas: Schemas) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b'\xef\xbb\xbfkind = "netns"\r\n\r\ntitel = "x"\r\n')
    assert [str(error) for error in check_file(str(path), schemas)] == [
        f"{path}:3:1: titel: unknown key; did you mean title?"
    ]


def test_right_files_have_no_errors(tmp_path: Path, schemas: Schemas) -> None:
    (tmp_path / "plan.toml").write_text('[[tunnel]]\nkind = "vxlan"\n')
    (tmp_path / "testbed.toml").write_text('kind = "netns"\n')
    assert check_file(str(tmp_path / "plan.toml"), schemas) == []
    assert check_file(str(tmp_path / "testbed.toml"), schemas) == []
