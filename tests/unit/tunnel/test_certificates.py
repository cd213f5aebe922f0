"""The certificate authority that is made for a tunnel, by the real openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tunnelbench.host.host import LocalHost
from tunnelbench.tunnel.certificates import Authority, new_authority

NAMES = ("router", "server")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return new_authority(LocalHost("local", folder, (0,)), NAMES)


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> Path:
    """Write the files of an end."""
    (tmp_path / "ca.crt").write_text(authority.certificate)
    for name, issued in authority.issued.items():
        (tmp_path / f"{name}.crt").write_text(issued.certificate)
        (tmp_path / f"{name}.key").write_text(issued.key)
    return tmp_path


def openssl(*arguments: str | Path) -> str:
    completed = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    return completed.stdout + completed.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("purpose", ["sslserver", "sslclient"])
def test_each_certificate_chains_to_the_authority_for_either_side(name: str, purpose: str, files: Path) -> None:
    answer = openssl("verify", "-x509_strict", "-purpose", purpose, "-CAfile", files / "ca.crt", files / f"{name}.crt")
    assert answer == f"{files / name}.crt: OK\n"


def test_a_certificate_does_not_chain_to_another_authority(files: Path, folder: Path) -> None:
    other = new_authority(LocalHost("local", folder, (0,)), ["router"])
    (files / "other.crt").write_text(other.certificate)
    assert "OK" not in openssl("verify", "-CAfile", files / "other.crt", files / "router.crt")


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_belongs_to_its_key_and_issues_no_others(name: str, files: Path) -> None:
    text = openssl("x509", "-in", files / f"{name}.crt", "-noout", "-text")
    assert f"Subject: CN = {name}" in text
    assert "CA:FALSE" in text
    assert "ASN1 OID: prime256v1" in text
    of_certificate = openssl("x509", "-in", files / f"{name}.crt", "-noout", "-pubkey")
    assert of_certificate == openssl("pkey", "-in", files / f"{name}.key", "-pubout")


def test_the_ends_have_keys_of_their_own(authority: Authority) -> None:
    assert len({issued.key for issued in authority.issued.values()}) == len(NAMES)


def test_nothing_remains_in_the_folder(authority: Authority, folder: Path) -> None:
    assert authority.issued
    assert list(folder.rglob("*")) == []


def test_nothing_remains_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunnelbench.tunnel.certificates.CURVE", ("-newkey", "no-such-algorithm"))
    with pytest.raises(Exception, match="openssl req"):
        new_authority(LocalHost("local", tmp_path, (0,)), NAMES)
    assert list(tmp_path.rglob("*")) == []
