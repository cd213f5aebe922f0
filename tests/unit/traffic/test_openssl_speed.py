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


def said(name: str = "AES-128-GCM", block: int = 64, figure: float = 64e6) -> tuple[str, str]:
    counts = f"+DT:{name}:1:{block}\n+R:1000000:{name}:1.000000\n"
    return f"+H:{block}\n+F:25:{name}:{figure:.2f}\n", counts


def said_by_two(figure: float) -> tuple[str, str]:
    """Return the output of two processes, which have printed their counts into each other."""
    parts = "".join(f"Got: +F:25:AES-128-GCM:64000000.00 from {process}\n" for process in range(2))
    return f"{parts}+F:25:AES-128-GCM:{figure:.2f}\n", "+R:1000+R:1000000:AES-128-GCM:1.000000\n:AES-128-GCM:1.0\n"


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (said(), ""),
        (said_by_two(128e6), ""),
        (said_by_two(192e6), "openssl prints 1.92e+08 bytes/s, but its processes counted 1.28e+08"),
        (said(figure=65e6), ""),
        (said(figure=66e6), "openssl prints 6.6e+07 bytes/s, but its processes counted 6.4e+07"),
        (said(name="NULL"), "openssl measured NULL in place of aes-128-gcm"),
        (said(block=256, figure=256e6), "openssl measured blocks of 256 bytes in place of 64"),
        (("+F:25:AES-128-GCM:1.00\n", ""), ""),
        (("", ""), ""),
    ],
)
def test_a_figure_that_contradicts_its_counts_is_found(output: tuple[str, str], words: str) -> None:
    assert openssl_speed.contradiction(*output, "aes-128-gcm", 64) == words


@given(st.text(), st.text())
def test_any_output_can_be_compared_with_its_counts(stdout: str, stderr: str) -> None:
    openssl_speed.contradiction(stdout, stderr, "sha1", 64)


def test_what_openssl_prints_does_not_contradict_itself() -> None:
    text = sample(f"{FOLDER}/speed-aes-128-cbc-1420.txt")
    assert openssl_speed.contradiction(text, "", "aes-128-cbc", 1420) == ""
    text = sample(f"{FOLDER}/speed-aes-128-gcm-1420-multi-2.txt")
    assert openssl_speed.contradiction(text, "", "aes-128-gcm", 1420) == ""
