"""Cipher and digest of a tunnel, as its options or the columns of a published table state them."""

from __future__ import annotations

from collections.abc import Mapping

NO_ALGORITHM = "none"
"""Spelling of "no cipher" and "no digest" in plans and tables."""

CIPHER_OPTION = "cipher"
DIGEST_OPTIONS = ("digest", "auth")
"""Names that adapters give to the digest: tinc says `digest`, OpenVPN says `auth`."""
ALGORITHM_OPTIONS = frozenset({CIPHER_OPTION, *DIGEST_OPTIONS})
"""Options in which variants of one tunnel may differ."""

_AEAD_ENDS = ("-gcm", "-poly1305")


def is_aead(cipher: str) -> bool:
    """Return True if a cipher also authenticates, so that a tunnel ignores its digest option."""
    return cipher.lower().endswith(_AEAD_ENDS)


def options_key(options: Mapping[str, object]) -> str:
    """Return a text that is equal for equal options only, as the key of a dict."""
    return repr(sorted(options.items()))


def without_cipher(options: Mapping[str, object]) -> dict[str, object] | None:
    """Return the options of the same tunnel without encryption; None if the tunnel has no cipher.

    The counterpart of an AEAD cipher has neither cipher nor digest. If the counterpart had a digest only, the
    comparison would remove the encryption and add a digest.
    """
    cipher = used_algorithms(options).get("cipher")
    if cipher is None:
        return None
    removed = {CIPHER_OPTION} | (options.keys() & set(DIGEST_OPTIONS) if is_aead(cipher) else set())
    return {**options, **dict.fromkeys(removed, NO_ALGORITHM)}


def algorithms_of(options: Mapping[str, object]) -> dict[str, str]:
    """Return the cipher and the digest that the options state, by `cipher` and `digest`, in their own spelling.

    Algorithms that are not stated are left out, and so is the digest option of an AEAD cipher.
    """
    cipher = str(options.get(CIPHER_OPTION) or "")
    digest = "" if is_aead(cipher) else next((str(options[name]) for name in DIGEST_OPTIONS if options.get(name)), "")
    return {name: value for name, value in (("cipher", cipher), ("digest", digest)) if value}


def used_algorithms(options: Mapping[str, object]) -> dict[str, str]:
    """Return what `algorithms_of` returns, without the algorithms that are `none`."""
    return {name: value for name, value in algorithms_of(options).items() if value.lower() != NO_ALGORITHM}
