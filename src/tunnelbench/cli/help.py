"""`tunnelbench help`: explain a verb, as `--help` does."""

from __future__ import annotations

import click

from tunnelbench import cli
from tunnelbench.cli.common_options import emit
from tunnelbench.model.errors import WrongInput
from tunnelbench.plan.messages import quoted


@click.command()
@click.argument("verb", required=False)
@click.pass_context
def command(context: click.Context, verb: str | None) -> None:
    """Explain VERB; without VERB, list all verbs."""
    group = context.find_root().command
    if verb is None:
        emit(f"{group.get_help(context.find_root())}\n")
        return
    placeholder = cli.main.commands.get(verb)
    if not isinstance(placeholder, cli.Verb):
        raise WrongInput(f"there is no verb {quoted(verb)}", f"verbs: {', '.join(sorted(cli.main.commands))}")
    found = placeholder.load()
    with click.Context(found, parent=context.find_root(), info_name=verb) as own:
        emit(f"{found.get_help(own)}\n")
