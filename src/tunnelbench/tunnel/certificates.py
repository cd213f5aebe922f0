"""A certificate authority for one tunnel. Its key is deleted as soon as the certificates exist."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunnelbench.host.host import LocalHost

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
VALID_DAYS = "8"
"""Validity of certificates, longer than the longest run, a week."""


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, both PEM."""

    certificate: str
    key: str


@dataclass(frozen=True)
class Authority:
    """A CA's certificate (PEM) and the certificates that it has issued, by name. Its key no longer exists."""

    certificate: str
    issued: Mapping[str, Issued]


def new_authority(local: LocalHost, names: Sequence[str]) -> Authority:
    """Make a CA that issues one certificate (EC P-256, for server and client use) to each name.

    `openssl` works in a folder of mode 0700 that is deleted before this returns.
    """
    with tempfile.TemporaryDirectory(dir=local.folder) as folder_name:
        folder = Path(folder_name)
        # fmt: off
        local.run(["openssl", "req", "-x509", *CURVE, "-noenc", "-days", VALID_DAYS,
                   "-subj", "/CN=tunnelbench", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                   "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt")])
        issued = {}
        for name in names:
            key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
            local.run(["openssl", "req", "-x509", *CURVE, "-noenc", "-days", VALID_DAYS,
                       "-subj", f"/CN={name}", "-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"),
                       "-addext", "basicConstraints=critical,CA:FALSE",
                       "-addext", "keyUsage=critical,digitalSignature,keyAgreement",
                       "-addext", "extendedKeyUsage=serverAuth,clientAuth",
                       "-keyout", str(key), "-out", str(certificate)])
            issued[name] = Issued(certificate.read_text(), key.read_text())
        # fmt: on
        return Authority((folder / "ca.crt").read_text(), issued)
