"""README.md: its sample is printed by the program, its commands exist, and its tables name what ships.

`make docs` writes the parts between `<!-- ... -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tunnelbench import cli
from tunnelbench.plan import shipped_testbeds
from tunnelbench.report.exchange import read
from tunnelbench.report.render import render
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import adapters

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SAMPLE_PAGE = ROOT / "docs" / "sample.md"
SAMPLE = ROOT / "docs" / "sample-run.json"
"""A run of the plan `quick` as `tunnelbench export` wrote it."""
VIRTUAL_SAMPLE = ROOT / "docs" / "malta-run.json"
"""The same on the virtual router `malta`."""
COLUMNS = 100
SECTIONS = [
    "Two commands", "Your own router", "Reading results", "Tunnels and systems", "Compare, audit, share",
    "A plan of your own", "Questions", "Documentation",
]  # fmt: skip
MOST_LINES = 200


def hold(path: Path, name: str, text: str, request: pytest.FixtureRequest) -> None:
    """Compare the text between the marks of a block with what it must be; `--force-regen` writes it."""
    whole = path.read_text()
    found = re.search(rf"<!-- {name}.*? -->\n(.*?)<!-- end -->", whole, re.DOTALL)
    assert found is not None
    if request.config.getoption("force_regen"):
        path.write_text(whole[: found.start(1)] + text + whole[found.end(1) :])
    else:
        assert found[1] == text


def indented(lines: Iterable[str]) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


def printed(sample: Path, *, is_full: bool = False) -> list[str]:
    """Return the lines that `tunnelbench report` printed for a sample where it was measured."""
    found = read(sample.read_bytes())
    notes = tuple(note for note in found.run.notes if not note.startswith("Imported: "))
    run = replace(found.run, run_id=found.original_id, status="done", notes=notes)
    return render(run, found.records, "terminal", COLUMNS, speeds=found.speeds, full=is_full).splitlines()


def commands() -> list[str]:
    """Return the commands of the README without their comments, those of lists and those within sentences."""
    text = README.read_text()
    found = [*re.findall(r"^    (tunnelbench .*)$", text, re.MULTILINE), *re.findall(r"`(tunnelbench [^`]+)`", text)]
    return [re.split(r" {2,}#", command)[0].strip() for command in found]


def test_the_readme_is_short_and_has_its_sections_in_order() -> None:
    text = README.read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert len(text.splitlines()) < MOST_LINES


@pytest.mark.parametrize("command", commands())
def test_each_command_of_the_readme_exists_with_its_options(command: str) -> None:
    _, verb, *words = shlex.split(command)
    # With its parent: Click keeps the first help option that it makes of a verb, here without -h.
    parent = click.Context(cli.main, **cli.main.context_settings)
    context = cli.main.commands[verb].make_context(verb, words, parent=parent)
    assert isinstance(context, click.Context)


def test_the_readme_names_each_testbed_and_each_document() -> None:
    text = README.read_text()
    assert [name for name in shipped_testbeds() if f"`{name}`" not in text] == []
    assert [name for name in KINDS if f"`{name}`" not in text and name != "qemu"] == []
    documents = [str(path.relative_to(ROOT)) for path in (*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"))]
    table = text[text.index("## Documentation") :]
    assert [name for name in documents if f"]({name})" not in table and name != README.name] == []


def test_the_table_of_tunnels_names_those_of_the_release(request: pytest.FixtureRequest) -> None:
    # Only a tunnel that was added since the release may be missing, for adding one touches no page.
    described = (ROOT / "docs" / "tunnels.md").read_text()
    kinds = [kind for kind in sorted(adapters()) if f"\n| `{kind}` |" in described]
    hold(README, "tunnels", tunnel_table(kinds), request)


def tunnel_table(kinds: list[str]) -> str:
    """Return the table of kinds by the place where their data are processed, and by encryption."""

    def names(*, is_program: bool, never_encrypts: bool) -> str:
        found = [
            f"`{kind}`"
            for kind in kinds
            if kind != "none" and runs_in_user_space(kind) == is_program and never_hides_payload(kind) == never_encrypts
        ]
        return ", ".join(found) or "-"

    head = "| data are carried by | kinds with a cipher | kinds that never encrypt |\n|---|---|---|\n"
    return head + "".join(
        f"| {words} | {names(is_program=is_program, never_encrypts=False)} | "
        f"{names(is_program=is_program, never_encrypts=True)} |\n"
        for words, is_program in {"the kernel": False, "a program in user space": True}.items()
    )


def never_hides_payload(kind: str) -> bool:
    """Return True if a kind's adapter says so for all options: it has a constant in place of a property."""
    fact: object = adapters()[kind].hides_payload
    return fact is False


def runs_in_user_space(kind: str) -> bool:
    return "userspace" in adapters()[kind].plans


def test_the_samples_are_what_the_program_prints(request: pytest.FixtureRequest) -> None:
    screen = printed(SAMPLE)
    is_legend = [line.startswith("  down: ") for line in screen]
    legend = screen[is_legend.index(True) :]
    shown = [*screen[: screen.index("  NOT ENCRYPTED")], *legend[: legend.index("")]]
    hold(README, "sample", indented(shown), request)
    hold(SAMPLE_PAGE, "screen", indented(screen), request)
    hold(SAMPLE_PAGE, "full", indented(printed(SAMPLE, is_full=True)), request)


def test_the_figures_of_the_virtual_router_are_what_the_program_prints(request: pytest.FixtureRequest) -> None:
    screen = printed(VIRTUAL_SAMPLE)
    table = screen[screen.index("  ENCRYPTED") - 3 : screen.index("  NOT ENCRYPTED")]
    hold(README, "reproduced", indented([screen[0], "", *table]), request)
