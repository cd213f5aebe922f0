"""Facts of a machine."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from tunnelbench.host import facts
from tunnelbench.host.facts import machine_facts

CPUINFO = """processor\t: 0
model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz
cpu MHz\t\t: 2200.214
flags\t\t: fpu sse2 pclmulqdq aes hypervisor avx2 avx512f vaes
"""
MIPS = """system type\t\t: Qualcomm Atheros QCA9533
cpu model\t\t: MIPS 24Kc V7.4
"""


def facts_with(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> dict[str, object]:
    monkeypatch.setattr(facts, "_text", lambda path: files.get(path, ""))
    return machine_facts()


def test_facts_have_kernel_and_cpus_and_no_name_of_the_machine() -> None:
    found = machine_facts()
    assert found["kernel"] == platform.release()
    assert found["cpus"] >= 1
    assert found["memory_mib"] > 0
    assert "" not in found.values()
    json.dumps(found)
    hostname = Path("/proc/sys/kernel/hostname").read_text().strip()
    assert hostname not in [str(value) for value in found.values()]


def test_crypto_instructions_and_virtualisation_are_read_from_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    found = facts_with(monkeypatch, {"/proc/cpuinfo": CPUINFO})
    assert found["crypto_instructions"] == "aes vaes pclmulqdq avx2 avx512f"
    assert found["virtual"] == "yes"
    assert found["cpu_mhz"] == 2200.214


def test_a_machine_that_reports_little_gives_few_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = facts_with(monkeypatch, {"/proc/cpuinfo": MIPS})
    assert found["cpu_model"] == "MIPS 24Kc V7.4"
    assert "crypto_instructions" not in found
    assert "governor" not in found
