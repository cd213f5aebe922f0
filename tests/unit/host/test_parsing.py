"""Text of unexpected form is an error with a sentence, and figures have bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tunnelbench.host.command import CommandFailed
from tunnelbench.host.parsing import UNREADABLE, UnexpectedOutput, count, json_of, number, parsing, whole


@parsing("the table of `tool`")
def parse(text: str) -> int:
    return int(text.split()[1])


@pytest.mark.parametrize("text", ["", "a", "a b", "a " + "9" * 5000, "a \x1b[2J\n"])
def test_text_of_another_form_is_one_printable_sentence_with_its_source(text: str) -> None:
    with pytest.raises(UnexpectedOutput) as caught:
        parse(text)
    assert caught.value.message.startswith("the table of `tool` is not in the expected form (")
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 200
    assert caught.value.hint


def test_the_error_makes_a_trial_void_as_a_failed_command_does() -> None:
    assert issubclass(UnexpectedOutput, CommandFailed)


def test_an_error_of_another_kind_stays_as_it_is() -> None:
    with pytest.raises(CommandFailed, match="another"), parsing("x"):
        raise CommandFailed(["tool"], "ended", "another")
    with pytest.raises(OSError, match="disk"), parsing("x"):
        raise OSError("disk")


@pytest.mark.parametrize("value", ["-1", -1, True, None, 1.5, "1.5", 2**64, "", [], "9" * 5000])
def test_a_count_is_a_whole_number_of_at_most_64_bits(value: object) -> None:
    with pytest.raises(UNREADABLE):
        count(value)
    assert count("7") == count(7) == 7
    assert whole("-7") == -7


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", float("nan"), 2**64, True, None, "", "x"])
def test_a_number_is_finite(value: object) -> None:
    with pytest.raises(UNREADABLE):
        number(value)
    assert number("1.5") == number(1.5) == 1.5


@pytest.mark.parametrize(
    ("text", "kind"),
    [("", dict), ("[]", dict), ("{}", list), ("[NaN]", list), ("[1e999]", list), ("[1" + "0" * 400 + "]", list),
     ('["\\ud800"]', list), ("[" * 100_000, list), ('{"a": [1', dict)],
)  # fmt: skip
def test_json_has_the_type_that_is_expected_and_finite_numbers(text: str, kind: type[Any]) -> None:
    with pytest.raises(UNREADABLE):
        json_of(text, kind)
    assert json_of('[{"a": 1.5}]', list) == [{"a": 1.5}]
