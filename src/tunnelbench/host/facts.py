"""Reads the facts of a machine on which measured figures depend, such as CPU model and kernel (rules 14 and 21)."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from tunnelbench.host.cpu_features import crypto_flags


def machine_facts() -> dict[str, Any]:
    """Return the facts of this machine that are known, by name.

    No host name, address or serial number is among them, because results are shared.
    """
    cpu_text = _text("/proc/cpuinfo")
    facts = {
        "system": _first(r'^PRETTY_NAME="?([^"\n]+)', _text("/etc/os-release")),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": _first(r"^(?:model name|cpu model|Model)\s*:\s*(.+)$", cpu_text),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_mhz": _number(_first(r"^cpu MHz\s*:\s*([\d.]+)", cpu_text)),
        "crypto_instructions": " ".join(crypto_flags(cpu_text)),
        "memory_mib": int(_first(r"^MemTotal:\s+(\d+) kB", _text("/proc/meminfo")) or 0) // 1024,
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip(),
        "turbo_off": _text("/sys/devices/system/cpu/intel_pstate/no_turbo").strip(),
        "virtual": "yes" if re.search(r"^flags\s*:.*\bhypervisor\b", cpu_text, re.MULTILINE) else "no",
        "board": _text("/sys/class/dmi/id/product_name").strip(),
    }
    return {name: value for name, value in facts.items() if value not in ("", None)}


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1].strip() if match else None


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def _text(path: str) -> str:
    """Return the text of a file; empty if the machine has no such file."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
