"""Target `plans`: a plan file is checked, read, expanded and shown; its stored text gives the same plan."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path

from tests.fuzz.target import Target, same
from tests.unit.tunnel.fakes import make_ends

from tunnelbench.cli.availability import Availability
from tunnelbench.cli.details.plan import entry, picture
from tunnelbench.cli.layout import drawn
from tunnelbench.model.plan import Plan, TunnelSpec
from tunnelbench.plan import FileErrors, check_file, read_plan, stored_plan
from tunnelbench.testbed import KINDS
from tunnelbench.tunnel import PLANNED, adapter, algorithms, option_schemas

ROOT = Path(__file__).parents[2]
PLAN_FOLDERS = ("src/tunnelbench/data/plans", "examples/plans", "tests/unit/plan/wrong")
MOST_TRIALS = 500
"""Trials of a plan that are expanded: a plan may have 100,000."""
MOST_TUNNELS = 20


@cache
def folder() -> Path:
    """Return a folder for the files of this process."""
    return Path(tempfile.mkdtemp(prefix="tunnelbench-fuzz-"))


def file_with(data: bytes) -> str:
    path = folder() / "file.toml"
    path.write_bytes(data)
    return str(path)


def take(data: bytes) -> None:
    path = file_with(data)
    errors = check_file(path, option_schemas(), KINDS, PLANNED)
    for error in errors:
        if not str(error).isprintable() or not error.message:
            raise AssertionError(f"the error {error!r} is not one line of text")
    try:
        loaded = read_plan(path, option_schemas(), (), PLANNED)
    except FileErrors as error:
        if not error.errors:
            raise AssertionError("a plan is refused without an error") from None
        return
    if errors:
        raise AssertionError(f"a plan with errors is read: {errors[0]}")
    same(loaded.plan, stored_plan("file.toml", loaded.text, option_schemas(), PLANNED).plan)
    changed = read_plan(path, option_schemas(), ["title='fuzz'"], PLANNED)
    same(changed.plan, stored_plan("file.toml", changed.text, option_schemas(), PLANNED).plan)
    expand(loaded.plan)


def expand(plan: Plan) -> None:
    """Make the trials, the pages of `show`, and the arithmetic of each tunnel."""
    trials = list(islice(plan.trials(), MOST_TRIALS))
    if not trials or len({trial.sequence for trial in trials}) != len(trials):
        raise AssertionError("the trials of a plan are not numbered")
    if len(trials) < MOST_TRIALS:
        plan.expected_duration_s()
        here: Mapping[str, Availability] = {tunnel.name: Availability("yes") for tunnel in plan.tunnels}
        drawn(*picture(plan, here))
        entry(plan, here)
    algorithms(plan.tunnels[:MOST_TUNNELS])
    for tunnel in plan.tunnels[:MOST_TUNNELS]:
        if tunnel.kind not in PLANNED:
            calculate(tunnel)


def calculate(spec: TunnelSpec) -> None:
    kind = adapter(spec.kind)
    options = kind.options_type.model_validate(dict(spec.options))
    kind.requirements(options)
    tunnel = kind(options, make_ends(folder()))
    str(tunnel.outer)
    if tunnel.wire_bytes(1000, 1500) < 0 or tunnel.counted_bytes(1000) < 0:
        raise AssertionError(f"{spec} makes packets of a length below 0")


def seeds() -> Iterator[bytes]:
    for name in PLAN_FOLDERS:
        for path in sorted((ROOT / name).glob("*.toml")):
            yield path.read_bytes()
    for kind in sorted(option_schemas()):
        yield f'[[tunnel]]\nkind = "{kind}"\n'.encode()
    yield b"rounds = 2\n[udp]\ntests = ['ndr']\n[soak]\nduration_s = 60\nrate = '50%'\n[[tunnel]]\nkind='none'\n"


def words() -> tuple[str, ...]:
    options = {key for schema in option_schemas().values() for key in schema.model_fields}
    return (*sorted(options), *sorted(option_schemas()), "[[tunnel]]\n", "[tcp]\n", "[udp]\n", "[soak]\n",
            "payload_bytes = ", "direction = ", "duration_s = ", "inf", "nan", "1e400", "9" * 5000, "'{cipher}'",
            "2020-01-01", "\\u0000", "\\ud800", "0x1_0")  # fmt: skip


TARGET = Target("plans", take, seeds, words())
