"""`openssl speed`: its command lines, and figures that are what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.output.samples import sample

from tunnelbench.traffic import openssl_speed

FOLDER = "openssl-3.0.19"


def test_one_block_is_one_command() -> None:
    argv = openssl_speed.command("aes-128-cbc", 1420, 1)
    assert " ".join(argv) == "openssl speed -evp aes-128-cbc -elapsed -mr -bytes 1420 -seconds 1"


def test_threads_engines_masks_and_the_legacy_provider_are_asked_for() -> None:
    argv = openssl_speed.command("bf-cbc", 16, 3, threads=4, engine="devcrypto", mask="OPENSSL_ia32cap=~0x1:~0x0")
    assert " ".join(argv) == (
        "env OPENSSL_ia32cap=~0x1:~0x0 openssl speed -provider legacy -provider default -engine devcrypto -multi 4 "
        "-evp bf-cbc -elapsed -mr -bytes 16 -seconds 3"
    )


def test_the_figure_is_read_for_any_exit_status() -> None:
    rate, reason = openssl_speed.parse(sample(f"{FOLDER}/speed-aes-128-cbc-1420.txt"), "")
    assert reason == ""
    assert rate is not None
    assert 5e8 < rate < 2e9


def test_of_several_processes_the_total_is_taken() -> None:
    text = sample(f"{FOLDER}/speed-aes-128-gcm-1420-multi-2.txt")
    assert openssl_speed.parse(text, "") == (1569185200.0, "")


def test_a_cipher_that_is_refused_has_no_figure_but_a_reason() -> None:
    rate, reason = openssl_speed.parse("", sample(f"{FOLDER}/speed-bf-cbc-refused.txt"))
    assert rate is None
    assert reason == "Couldn't init the context"


def test_the_figure_of_an_engine_that_is_not_there_is_not_taken_for_its() -> None:
    text = sample(f"{FOLDER}/speed-no-such-engine.txt")
    assert "+F:" in text, "the software's figure is printed all the same"
    rate, reason = openssl_speed.parse(text, text)
    assert rate is None
    assert "Invalid engine" in reason


def test_empty_output_is_reported() -> None:
    assert openssl_speed.parse("", "") == (None, "openssl speed printed no figure")


@pytest.mark.parametrize("name", ["afalg", "dynamic"])
def test_an_engine_that_does_not_work_is_not_available(name: str) -> None:
    assert not openssl_speed.is_available(sample(f"{FOLDER}/engine-{name}.txt"))
    assert openssl_speed.is_available("(devcrypto) /dev/crypto engine\n     [ available ]\n")


@pytest.mark.parametrize(
    ("flags", "mask"),
    [
        ({"aes", "pclmulqdq", "avx2"}, "OPENSSL_ia32cap=~0x200000200000000:~0x0"),
        ({"aes", "pmull", "sha1", "sha2", "asimd"}, "OPENSSL_armcap=0x19"),
        ({"avx2"}, ""),
        (set(), ""),
    ],
)
def test_aes_alone_is_masked_where_there_is_any(flags: set[str], mask: str) -> None:
    assert openssl_speed.mask_of_aes(flags) == mask


@given(st.text(), st.text())
def test_any_output_can_be_read(stdout: str, stderr: str) -> None:
    openssl_speed.parse(stdout, stderr)
