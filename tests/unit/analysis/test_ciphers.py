"""What follows from the speeds of ciphers, in sentences."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.builders import make_records, make_speeds

from tunnelbench.analysis.ciphers import remarks
from tunnelbench.analysis.summary import summarise
from tunnelbench.model.cipher_speed import MASKED, PLAIN, CipherSpeed
from tunnelbench.model.result import Check, Verdict
from tunnelbench.reference import read_reference
from tunnelbench.report.annexes import cipher_annex


def published(acceleration: str) -> CipherSpeed:
    """The Geode of 2010, with its security block and without, as published."""
    rows = [row for row in read_reference("cipher-speed").rows if "ALIX" in row["device"]]
    (row,) = [row for row in rows if (row["acceleration"] == "none") == (acceleration == PLAIN)]
    blocks = (16, 64, 256, 1024, 8192)
    figures = {block: float(row[f"kbytes_per_s_{block}"]) * 1e3 for block in blocks}
    return CipherSpeed("alix", ("router",), "aes-128-cbc", acceleration, 1, figures)


def test_what_the_machine_tells_and_what_the_instructions_give() -> None:
    said = remarks(make_speeds(), ())
    assert said == (
        "bf-cbc, as it comes, threads: 1: unsupported",
        "this machine (router, client, server), OpenSSL 3.0.19: its CPU tells aes pclmulqdq",
        "aes-128-gcm on this machine: 5.00 times as fast with the AES instructions as without, at 1420 bytes",
    )


def test_instructions_that_change_nothing_were_not_used() -> None:
    plain, masked, _ = make_speeds()
    said = remarks((plain, replace(masked, bytes_per_s=plain.bytes_per_s)), ())
    assert said[-1].endswith("at 1420 bytes, so they were not used")


def test_a_cpu_without_instructions_is_said_to_have_none() -> None:
    plain = replace(make_speeds()[0], flags=())
    said = remarks((plain,), ())
    assert said[0].endswith("its CPU tells no instructions for ciphers")
    assert said[1] == "this machine: nothing to mask, AES is done without instructions of its own"
    assert not any(MASKED in each for each in said)


def test_offload_that_loses_at_small_blocks_is_told_with_its_blocks() -> None:
    said = remarks((published(PLAIN), published("engine cryptodev")), ())
    assert (
        "aes-128-cbc, engine cryptodev, threads: 1: slower than without at 16, 64 bytes; 11.8% of the speed at 16 bytes"
        in said
    )


def test_the_cipher_stands_beside_the_packets_of_the_tunnels_that_use_it() -> None:
    said = [each for each in remarks(make_speeds(), summarise(make_records())) if "alone would take" in each]
    assert len(said) == 2, "the largest payload, each way"
    assert said[0].startswith("openvpn AES-128-GCM, 1448 in: aes-128-gcm alone would take 1.77 us for a full packet;")


def test_waiting_and_doubtful_speeds_are_told() -> None:
    check = Check("foreign-load", Verdict.DOUBTFUL, "other processes took 7.0% of a CPU (x 0.42 s)", 12)
    first, second, _ = make_speeds()
    said = remarks((replace(first, waited_for_quiet_s=12.0), replace(second, checks=(check,))), ())
    assert said[0] == "12 s went by in waiting for other load to end"
    assert said[1] == f"aes-128-gcm, AES instructions masked, threads: 1: doubtful: {check.reason} (rule 12)"
    (annex,) = cipher_annex((first, replace(second, checks=(check,))), ())
    assert [row[1] for row in annex.rows] == [PLAIN, f"{MASKED} (doubtful)"]
