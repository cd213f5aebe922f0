"""The texts of plan and testbed in a run of an unknown person are read, or refused at once with a ValueError."""

from __future__ import annotations

import pytest

from tunnelbench.model.toml_text import MOST_DOTS_IN_LINE, toml_values

HOSTILE = {
    "no TOML": "= 1",
    "deep lists": "a = " + "[" * 20_000,
    "deep tables": "a = " + "{b = " * 20_000,
    "closed deep lists": "a = " + "[" * 100 + "]" * 100,
    "a deep dotted key": ".".join("a" * 60) + " = 1",
    "a dotted key that takes minutes": ".".join(["a"] * 200_000) + " = 1",
    "a dotted key in an inline table": "x = {" + ".".join(["a"] * 200_000) + " = 1}",
    "a number with many digits": "a = " + "9" * 9000,
    "a hexadecimal number that has no decimal text": "a = 0x" + "f" * 9000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.timeout(60)
def test_a_hostile_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        toml_values(text)


def test_what_plans_and_testbeds_hold_is_read() -> None:
    dots = "." * (MOST_DOTS_IN_LINE + 1)
    text = f"# {dots}\nkind = 'ssh'\n[link]\ndelay_ms = 1.5\n[[tunnel]]\nsizes = [-1, {2**63 - 1}]\n"
    assert toml_values(text) == {
        "kind": "ssh",
        "link": {"delay_ms": 1.5},
        "tunnel": [{"sizes": [-1, 2**63 - 1]}],
    }
