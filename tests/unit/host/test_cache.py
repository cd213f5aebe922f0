"""The cache of root: nothing is used in which another user could have put something."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tunnelbench.guest.kernel import cached_kernel
from tunnelbench.host.cache import cache_folder, made_cache_folder, only_one_fetches
from tunnelbench.model.errors import CannotHere

NOBODY = 65534

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="the rules are for root")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like /tmp, in which every user can make files."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    path = tmp_path / "like-tmp"
    path.mkdir()
    path.chmod(0o1777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return path


@only_root
def test_a_cache_that_another_user_has_made_is_not_used(base: Path) -> None:
    (base / "tunnelbench" / "bytecode").mkdir(parents=True)
    os.chown(base / "tunnelbench", NOBODY, NOBODY)
    for use in (cache_folder, made_cache_folder, cached_kernel):
        with pytest.raises(CannotHere) as caught:
            use()
        assert f"the cache {base}/tunnelbench is not used, because this is root and" in caught.value.message
        assert "XDG_CACHE_HOME" in caught.value.hint


@only_root
def test_a_cache_that_another_user_makes_at_the_last_moment_is_not_used(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def late(path: Path, *arguments: object, **options: object) -> None:
        make(path, *arguments, **options)  # type: ignore[arg-type]
        os.chown(path, NOBODY, NOBODY)

    monkeypatch.setattr(Path, "mkdir", late)
    with pytest.raises(CannotHere, match="this is root"), only_one_fetches(base / "tunnelbench" / "kernels"):
        pass


def test_a_cache_of_this_user_is_made_where_others_can_make_files_too(base: Path) -> None:
    assert made_cache_folder() == base / "tunnelbench"
    assert made_cache_folder().is_dir()
