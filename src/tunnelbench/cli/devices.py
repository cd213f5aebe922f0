"""`tunnelbench devices`: rank devices by their published throughput, and by that of stored runs on routers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import click
from rich.console import RenderableType
from rich.text import Text

from tunnelbench.analysis.number_format import significant
from tunnelbench.cli.common_options import (
    emit,
    emit_json,
    emit_long,
    is_store_missing,
    json_option,
    open_store,
    read_store_option,
)
from tunnelbench.cli.layout import cell, columns, drawn, title
from tunnelbench.cli.param_types import FiniteRange
from tunnelbench.cli.predicted_devices import informative, prediction_entry, prediction_parts
from tunnelbench.cli.report import chosen_format
from tunnelbench.cli.site import read_devices
from tunnelbench.cli.stderr_messages import say
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.plan import direction_label
from tunnelbench.model.text import counted, printable
from tunnelbench.reference import read_reference, reference_names
from tunnelbench.report.device_prediction import predicted_devices
from tunnelbench.report.device_ranking import RankedRow, Ranking, RankingLimits, Unlisted, all_rows, rank, unlisted
from tunnelbench.report.document import compose
from tunnelbench.report.exchange import Imported
from tunnelbench.report.site.device_names import device_key
from tunnelbench.report.site.gather import GatheredRun, gathered
from tunnelbench.store.location import default_path

SCREEN_LINES = 40
"""Largest number of lines without --full."""
LARGEST_LIMIT = 1e6

positive = FiniteRange(min=0, min_open=True, max=LARGEST_LIMIT)


@click.command()
@click.option("--tunnel", metavar="KIND", help="Only this kind of tunnel, such as openvpn.")
@click.option("--target-mbps", type=positive, metavar="N", help="Only devices that carry N Mbit/s.")
@click.option("--max-price", type=positive, metavar="EUR", help="Only devices of a known price up to this one.")
@click.option("--max-watts", type=positive, metavar="W", help="Only devices of a known power up to this one.")
@click.option("--allow-plaintext", is_flag=True, help="List tunnels that do not encrypt, too.")
@click.option("--predict", is_flag=True, help="With --tunnel: predict devices that have no figure of that kind.")
@click.option(
    "--measure", is_flag=True, help="With --tunnel: name the measurement that would narrow a prediction most."
)
@click.option("--devices", metavar="FILE", help="TOML file with price and watts of devices, by name.")
@click.option("--format", "format_name", type=click.Choice(["terminal", "json"]), help="Default: terminal.")
@click.option("--full", is_flag=True, help="Leave out no row.")
@json_option
@read_store_option
def command(
    *,
    tunnel: str | None,
    target_mbps: float | None,
    max_price: float | None,
    max_watts: float | None,
    allow_plaintext: bool,
    predict: bool,
    measure: bool,
    devices: str | None,
    format_name: str | None,
    full: bool,
    as_json: bool,
    store_location: str | None,
) -> None:
    """Rank devices by throughput: published results, and stored runs on routers whose board is known.

    Each device has a row for each kind of tunnel and direction, with the figure of its best encrypted variant with
    large packets of TCP. Predictions are a table of their own.
    """
    if (predict or measure) and tunnel is None:
        raise WrongInput("--predict and --measure need the kind of tunnel", "add --tunnel, such as --tunnel wireguard")
    if predict and (max_price is not None or max_watts is not None):
        raise WrongInput("--max-price and --max-watts do not apply to predictions", "leave them out with --predict")
    form = chosen_format(format_name, as_json=as_json)
    given = {} if devices is None else read_devices(devices)
    runs = [] if is_store_missing(store_location or default_path()) else runs_on_routers(store_location)
    references = [read_reference(name) for name in reference_names()]

    def ranked(wanted: RankingLimits) -> Ranking:
        return rank(runs, references, given, wanted)

    known = sorted({row.tunnel for row in ranked(RankingLimits(allows_plaintext=True)).rows})
    if tunnel is not None and tunnel not in known:
        message = f"no device has a figure of the tunnel {printable(tunnel)}"
        raise WrongInput(message, f"kinds with figures: {', '.join(known)}")
    found = ranked(RankingLimits(tunnel, target_mbps, max_price, max_watts, allow_plaintext))
    say_unknown(given, [row.device for row in ranked(RankingLimits(allows_plaintext=True)).rows], devices)
    missing = unlisted(references, RankingLimits(tunnel, target_mbps, allows_plaintext=allow_plaintext))
    if predict or measure:
        predicted = predicted_devices(all_rows(runs, references), tunnel or "")
        if form == "json":
            emit_json(prediction_entry([row.for_programs() for row in found.rows], predicted))
        else:
            lines = [
                *(prediction_parts(predicted, target_mbps) if predict else ()),
                *informative(predicted, tunnel or ""),
            ]
            (emit_long if full else emit)(drawn(*lines))
    elif form == "json":
        emit_json([row.for_programs() for row in found.rows])
    elif found.rows:
        remarks = [*left_out(found), *unlisted_sentences(missing)]
        (emit_long if full else emit)(drawn(*parts(found.rows, remarks)) if full else fitted(found.rows, remarks))
    else:
        anyhow = ranked(RankingLimits(tunnel, allows_plaintext=allow_plaintext)).rows
        lines = [*nothing_found(found, anyhow), *unlisted_sentences(missing)]
        emit("".join(f"{line}\n" for line in lines))


def say_unknown(given: Mapping[str, object], known: Sequence[str], file: str | None) -> None:
    """Say on standard error which devices of a file have no figure; their facts change nothing."""
    keys = {device_key(name) for name in known}
    for name in given:
        if device_key(name) not in keys:
            say(f"{printable(file or '')} names the device {printable(name)}, which has no figure")


def runs_on_routers(store_location: str | None) -> list[GatheredRun]:
    """Return the runs of the store whose router was a machine of its own."""
    found = []
    with open_store(store_location) as store:
        for run in store.runs():
            if "router_kernel" in run.host_facts and not run.is_simulated:
                document = compose(run, store.trials(run.run_id, with_raw=False))
                found.append(gathered(Imported(document, run.run_id, run.tunnelbench_version, {}, ())))
    return found


def left_out(found: Ranking) -> Sequence[str]:
    """Return sentences about rows that a limit leaves out because the fact is not known."""
    counts = {"price": found.without_price, "power": found.without_watts}
    return [f"Left out: {counted(count, 'row')} of unknown {fact}." for fact, count in counts.items() if count]


def nothing_found(found: Ranking, anyhow: Sequence[RankedRow]) -> Sequence[str]:
    """Return sentences in place of an empty table."""
    first = ["No device meets all conditions."]
    if anyhow:
        best = anyhow[0]
        first.append(f"Without limits, the fastest is {best.device}: {best.text} Mbit/s through {best.variant}.")
    return [*map(printable, first), *left_out(found)]


def unlisted_sentences(found: Unlisted) -> Iterator[str]:
    """Yield sentences about published figures that no ranking lists, because their table does not state a fact."""
    if found.highest_mbps is not None:
        yield printable(
            f"Not listed: {counted(found.without_device, 'published figure')} without the name of a device, at most "
            f"{found.highest_mbps:.10g} Mbit/s ({found.highest_where})."
        )
    if found.without_cipher:
        yield (
            f"Not listed: {counted(found.without_cipher, 'published figure')} without the name of a cipher "
            "(add --allow-plaintext)."
        )


def fitted(rows: Sequence[RankedRow], remarks: Sequence[str]) -> str:
    """Return the table with as many rows as fit on the first screen."""
    count = min(len(rows), SCREEN_LINES)
    while True:
        more = [f"{counted(len(rows) - count, 'more row')}: add --full."] if count < len(rows) else []
        text = drawn(*parts(rows[:count], [*more, *remarks]))
        too_many = text.count("\n") - SCREEN_LINES
        if too_many <= 0 or count == 1:
            return text
        count = max(1, count - max(1, too_many // 3))


COLUMNS: Sequence[tuple[str, bool, Callable[[RankedRow], str]]] = (
    ("Mbit/s", True, lambda row: row.text),
    ("device", False, lambda row: row.device),
    ("tunnel, cipher", False, lambda row: row.variant),
    ("direction", False, lambda row: direction_label(row.direction or "") or "not stated"),
    ("EUR", True, lambda row: fact_text(row.price_eur)),
    ("W", True, lambda row: fact_text(row.power_w)),
    ("Mbit/s per EUR", True, lambda row: figure_text(row.mbps_per_eur)),
    ("Mbit/s per W", True, lambda row: figure_text(row.mbps_per_watt)),
    ("marks, remarks", False, lambda row: row.remarks),
    ("source", False, lambda row: row.where),
)
"""Title of each column, whether it holds numbers, and its text. A column in which nothing is known is left out."""


def fact_text(value: float | None) -> str:
    """Return a price or a power as it was published."""
    return "" if value is None else f"{value:g}"


def figure_text(value: float | None) -> str:
    return "" if value is None else significant(value)


def parts(rows: Sequence[RankedRow], remarks: Sequence[str]) -> Sequence[RenderableType]:
    """Return the table, and a line about each source in it."""
    shown = [each for each in COLUMNS if any(each[2](row) for row in rows)]
    numbers = [place for place, (_, is_number, _) in enumerate(shown) if is_number]
    body = [[text(row) for _, _, text in shown] for row in rows]
    sources = dict.fromkeys((row.where, row.source, row.date, row.comparability, row.method) for row in rows)
    return [
        title("Devices by throughput of TCP with large packets"),
        columns(body, [name for name, _, _ in shown], numbers=numbers),
        Text(),
        *(cell(remark) for remark in remarks),
        *(cell(f"{where}: {source}; {date}; {kind}; {method}") for where, source, date, kind, method in sources),
    ]
