"""Reading of the section `[soak]` of a plan into trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel

from tunnelbench.model.plan import Direction, SoakTraffic, Test
from tunnelbench.plan import FileErrors, LoadedPlan, read_plan
from tunnelbench.tunnel import option_schemas

Load = Callable[..., LoadedPlan]
SEARCH = "[udp]\npayload_bytes = [18, 1400]\ndirection = 'out'\n"
SOAK = '[[tunnel]]\nkind = "vxlan"\n[soak]\n'


@pytest.fixture
def load(tmp_path: Path, schemas: Mapping[str, type[BaseModel]]) -> Load:
    def load(text: str, *overrides: str) -> LoadedPlan:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return read_plan(str(path), schemas, overrides)

    return load


def test_soaks_come_last_and_once_for_any_number_of_rounds(load: Load) -> None:
    plan = load(f"rounds = 3\n{SEARCH}{SOAK}").plan
    assert plan.soak == SoakTraffic()
    soaks = [spec for spec in plan.trials() if spec.test is Test.SOAK]
    assert [(spec.sequence, spec.tunnel.name, spec.what) for spec in soaks] == [(13, "vxlan", "1400 up soak 90%")]
    assert plan.trials()[-1] == soaks[0]


def test_a_soak_at_a_given_rate_needs_no_search_and_offers_no_tcp(load: Load) -> None:
    plan = load(f"rounds = 1\n{SOAK}rate = 5000\nduration = 20").plan
    assert (plan.tcp, plan.udp, plan.calibrations()) == (None, None, ())
    assert [spec.load for spec in plan.trials()] == ["5000"]
    assert 20 < plan.expected_duration_s() < 30


def test_the_baseline_soaks_where_it_is_asked_for_or_alone(load: Load) -> None:
    both = load(f"{SOAK}rate = 5000\nbaseline = true").plan
    assert [spec.tunnel.kind for spec in both.trials()] == ["none", "vxlan"]
    alone = load('[[tunnel]]\nkind = "none"\n[soak]\nrate = 5000').plan
    assert [spec.tunnel.kind for spec in alone.trials()] == ["none"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ('"90s"', 90), ('"10m"', 600), ('"12h"', 43_200), ('"7d"', 604_800), ("1.5", 1.5)]
)
def test_a_duration_has_its_unit_or_is_in_seconds(load: Load, text: str, seconds: float) -> None:
    plan = load(f"{SOAK}rate = 5000\nduration = {text}").plan
    assert plan.soak is not None
    assert plan.soak.duration_s == seconds
    assert plan.expected_duration_s() == pytest.approx(seconds, abs=10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{SOAK}duration = "1w"\nrate = 5', 'must be 1 to 2678400 seconds, or as "90s", "10m", "12h", "7d", not "1w"'),
        (f"{SOAK}duration = 0\nrate = 5", "must be 1 to 2678400 seconds"),
        (
            f'{SOAK}rate = "120%"',
            'must be a share of the NDR up to "100%", or packets per second from 1 on, not "120%"',
        ),
        (f"{SOAK}rate = 0", "must be a share of the NDR"),
        (SOAK, 'soak.rate "90%" is a share of the NDR: add [udp] with the test "search"'),
        (f"{SEARCH}test = 'rate'\n{SOAK}", 'add [udp] with the test "search"'),
        (f"{SEARCH}{SOAK}payload_bytes = 512", "[udp] searches none of payload 512"),
        (f"{SEARCH}{SOAK}direction = 'in'", '[udp] searches none of direction "in"'),
    ],
)
def test_a_soak_without_its_search_or_range_is_refused(load: Load, text: str, message: str) -> None:
    with pytest.raises(FileErrors) as caught:
        load(text)
    assert message in str(caught.value)


def test_the_plan_that_ships_soaks_ten_minutes() -> None:
    plan = read_plan("soak", option_schemas(), ["soak.duration=7d"]).plan
    assert plan.soak is not None
    assert (plan.soak.duration_s, plan.soak.direction) == (604_800, (Direction.OUT,))
