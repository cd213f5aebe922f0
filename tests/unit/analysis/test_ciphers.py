"""Statements that follow from the speeds of ciphers."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.builders import make_records, make_speeds

from tunnelbench.analysis.ciphers import cipher_remarks
from tunnelbench.analysis.summary import summarise
from tunnelbench.model.cipher_speed import MASKED, PLAIN, CipherSpeed
from tunnelbench.model.result import Check, Verdict
from tunnelbench.reference import read_reference
from tunnelbench.report.sections import cipher_section


def published(acceleration: str) -> CipherSpeed:
    """The Geode of 2010, with its security block and without, as published."""
    rows = [row for row in read_reference("cipher-speed").rows if "ALIX" in row["device"]]
    (row,) = [row for row in rows if (row["acceleration"] == "none") == (acceleration == PLAIN)]
    blocks = (16, 64, 256, 1024, 8192)
    figures = {block: float(row[f"kbytes_per_s_{block}"]) * 1e3 for block in blocks}
    return CipherSpeed("alix", ("router",), "aes-128-cbc", acceleration, 1, figures)


def test_facts_of_the_machine_and_of_its_instructions() -> None:
    said = cipher_remarks(make_speeds(), ())
    assert said == (
        "bf-cbc, as it comes, threads: 1: unsupported",
        "this machine (router, client, server), OpenSSL 3.0.19: cipher instructions of the CPU: aes pclmulqdq",
        "aes-128-gcm on this machine: 5.00 times as fast with the AES instructions as without, at 1420 bytes",
    )


def test_instructions_that_change_nothing_were_not_used() -> None:
    plain, masked, _ = make_speeds()
    said = cipher_remarks((plain, replace(masked, bytes_per_s=plain.bytes_per_s)), ())
    assert said[-1].endswith("at 1420 bytes, so they were not used")


def test_a_cpu_without_cipher_instructions_is_reported() -> None:
    plain = replace(make_speeds()[0], flags=())
    said = cipher_remarks((plain,), ())
    assert said[0].endswith("cipher instructions of the CPU: none")
    assert said[1] == "this machine: the CPU has no AES instructions, so none were masked"
    assert not any(MASKED in each for each in said)


def test_offload_that_is_slower_is_reported_with_its_blocks() -> None:
    said = cipher_remarks((published(PLAIN), published("engine cryptodev")), ())
    assert (
        "aes-128-cbc, engine cryptodev, threads: 1: slower than without at 16, 64 bytes; 11.8% of the speed at 16 bytes"
        in said
    )


def test_the_time_of_a_cipher_is_compared_with_the_cost_of_a_packet() -> None:
    said = [each for each in cipher_remarks(make_speeds(), summarise(make_records())) if "alone takes" in each]
    assert len(said) == 2, "the largest payload, each way"
    assert said[0].startswith("openvpn AES-128-GCM, 1448 down: aes-128-gcm alone takes 1.77 µs for a full packet;")


def test_the_cost_of_a_packet_whose_data_may_shrink_is_compared_with_no_cipher() -> None:
    rows = summarise(make_records())
    options = {"content": "repeating"}
    shrinking = [replace(row, tunnel=replace(row.tunnel, options={**row.tunnel.options, **options})) for row in rows]
    assert not any("alone takes" in each for each in cipher_remarks(make_speeds(), shrinking))


def test_waits_and_doubtful_speeds_are_reported() -> None:
    check = Check("foreign-load", Verdict.DOUBTFUL, "other processes took 7.0% of a CPU (x 0.42 s)", 12)
    first, second, _ = make_speeds()
    said = cipher_remarks((replace(first, waited_for_quiet_s=12.0), replace(second, checks=(check,))), ())
    assert said[0] == "The run waited 12 s for background load to end"
    assert said[1] == f"aes-128-gcm, AES instructions masked, threads: 1: doubtful: {check.reason} (rule 12)"
    (section,) = cipher_section((first, replace(second, checks=(check,))), ())
    assert [row[1] for row in section.rows] == [PLAIN, f"{MASKED} (doubtful)"]
