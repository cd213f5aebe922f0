"""`tunnelbench completion`: write the completion script of a shell, and supply the names that the shell offers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from tunnelbench.cli import PROGRAM
from tunnelbench.model.errors import UserError

if TYPE_CHECKING:
    from tunnelbench.store.store import Store

VARIABLE = "_TUNNELBENCH_COMPLETE"
"""Environment variable, named by Click, with which the shell's script asks this program for names."""

SHELLS = ("bash", "zsh", "fish")

SAFE_NAME = re.compile(r"\w[\w.+:#-]*")
"""Names that are offered. Click's script for bash inserts a name without quotes, and the shell would run the rest."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Write the script that completes verbs, options, plans, testbeds, runs and tunnels in SHELL.

    `make install` installs the scripts of all three. By hand: eval "$(tunnelbench completion bash)", the same with zsh;
    tunnelbench completion fish | source.
    """
    from tunnelbench.cli.common_options import emit  # noqa: PLC0415 # completing a name must not wait for it

    of_shell = get_completion_class(shell)
    if of_shell is not None:
        found = of_shell(context.find_root().command, {}, PROGRAM, VARIABLE)
        emit(found.source_template % found.source_vars())  # `source` would start bash to ask for its version


def plan_names(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete the name of a shipped plan, or a file."""
    from tunnelbench.plan import shipped_plans  # noqa: PLC0415 # only a completion needs it

    return _or_file(shipped_plans(), start)


def testbed_names(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete the name of a shipped testbed, or a file."""
    from tunnelbench.plan import shipped_testbeds  # noqa: PLC0415 # only a completion needs it

    return _or_file(shipped_testbeds(), start)


def checked_names(_context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete the name of a shipped plan or testbed, or a file."""
    from tunnelbench.plan import shipped_plans, shipped_testbeds  # noqa: PLC0415 # only a completion needs it

    return _or_file([*shipped_plans(), *shipped_testbeds()], start)


def run_names(context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete the id of a stored run, newest first, or `last`."""
    return _items(["last", *_run_ids(context)], start)


def side_names(context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete a side of a comparison: a run, a published result, or RUN#TUNNEL by the tunnel's name or kind."""
    from tunnelbench.reference import reference_names  # noqa: PLC0415 # only a completion needs it

    wanted, hash_sign, _ = start.partition("#")
    if hash_sign:
        return _items([f"{wanted}#{name}" for name in _tunnels_of(context, wanted)], start)
    return _items(["last", *_run_ids(context), *reference_names()], start)


def any_names(context: click.Context, _parameter: click.Parameter, start: str) -> list[CompletionItem]:
    """Complete whatever `show` knows: tunnels, plans, testbeds, published results and runs."""
    from tunnelbench.plan import shipped_plans, shipped_testbeds  # noqa: PLC0415 # only a completion needs it
    from tunnelbench.reference import reference_names  # noqa: PLC0415 # the same
    from tunnelbench.tunnel import adapters  # noqa: PLC0415 # the same

    shipped = [*adapters(), *shipped_plans(), *shipped_testbeds(), *reference_names()]
    return _items([*shipped, "last", *_run_ids(context)], start)


MOST_OFFERED = 1000
"""Largest number of runs that completion offers."""


def _items(names: Iterable[str], start: str) -> list[CompletionItem]:
    offered = (name for name in dict.fromkeys(names) if SAFE_NAME.fullmatch(name))
    return [CompletionItem(name) for name in offered if name.startswith(start)]


def _or_file(names: Iterable[str], start: str) -> list[CompletionItem]:
    return _items(names, start) or [CompletionItem(start, type="file")]


def _run_ids(context: click.Context) -> list[str]:
    """Return the ids of the newest runs, newest first."""
    return _stored_names(context, lambda store: [run.run_id for run in store.runs(newest=MOST_OFFERED)])


def _tunnels_of(context: click.Context, run: str) -> list[str]:
    """Return the names and the kinds of the tunnels of a run."""

    def names(store: Store) -> list[str]:
        records = store.trials(store.run(run).run_id, with_raw=False)
        tunnels = [record.spec.tunnel for record in records if record.spec.round]
        return [name for tunnel in tunnels for name in (tunnel.name, tunnel.kind)]

    return _stored_names(context, names)


def _stored_names(context: click.Context, names: Callable[[Store], list[str]]) -> list[str]:
    """Return names from the store of the command line; none if it cannot be read. Nothing is changed or printed."""
    from tunnelbench.store.location import default_path  # noqa: PLC0415 # only a completion needs it
    from tunnelbench.store.store import Store  # noqa: PLC0415 # only a completion needs it

    try:
        with Store.open(context.params.get("store_location") or default_path(), create=False, upgrades=False) as store:
            return names(store)
    except UserError:
        return []
