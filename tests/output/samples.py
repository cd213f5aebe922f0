"""The captured output in this folder, for the tests of parsers."""

from __future__ import annotations

from pathlib import Path

OUTPUT = Path(__file__).parent


def sample(name: str) -> str:
    """A captured text, by its path in this folder."""
    return (OUTPUT / name).read_text()


def samples(pattern: str, *, may_lack: bool = False) -> dict[str, str]:
    """All captured texts that match, by their paths: a parser is tried on every version that there is.

    Set `may_lack` where the tests are loaded to capture the first text.
    """
    found = {str(path.relative_to(OUTPUT)): path.read_text() for path in sorted(OUTPUT.glob(pattern))}
    assert found or may_lack, f"no sample matches {pattern}"
    return found
