"""CPU instructions for ciphers and digests, as the kernel names them."""

from __future__ import annotations

from tunnelbench.host.cpu_features import crypto_flags


def test_the_flags_for_ciphers_are_read_of_x86_and_arm() -> None:
    assert crypto_flags("flags\t\t: fpu aes avx2 vme\n") == ("aes", "avx2")
    assert crypto_flags("Features\t: fp asimd aes pmull\n") == ("aes", "pmull", "asimd")
    assert crypto_flags("cpu model : MIPS 74Kc\n") == ()
