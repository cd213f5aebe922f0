"""Reading of the section `[udp]` of a plan into trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from tunnelbench.model.plan import UdpTraffic
from tunnelbench.plan import FileErrors, LoadedPlan, read_plan
from tunnelbench.tunnel import option_schemas

Schemas = Mapping[str, type[BaseModel]]
Load = Callable[..., LoadedPlan]


@pytest.fixture
def load(tmp_path: Path, schemas: Schemas) -> Load:
    def load(text: str, *overrides: str) -> LoadedPlan:
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return read_plan(str(path), schemas, overrides)

    return load


UDP = '[[tunnel]]\nkind = "none"\n[udp]\n'


def test_a_plan_with_udp_alone_has_no_tcp(load: Load) -> None:
    plan = load(UDP).plan
    assert plan.tcp is None
    assert plan.udp == UdpTraffic()
    assert [spec.what for spec in plan.trials()[:4]] == [
        "18 down search",
        "18 up search",
        "1400 down search",
        "1400 up search",
    ]
    assert [spec.what for spec in plan.calibrations()][:2] == ["18 down rate flat-out", "18 up rate flat-out"]


def test_a_plan_may_have_both(load: Load) -> None:
    plan = load(f"{UDP}payload_bytes = 18\n[tcp]\npayload_bytes = 76\n").plan
    assert [spec.what for spec in plan.trials()[:4]] == ["76 down", "76 up", "18 down search", "18 up search"]


def test_tests_that_need_the_pdr_come_after_the_search_in_any_order_of_the_file(load: Load) -> None:
    plan = load(
        f'{UDP}payload_bytes = 18\ndirection = "in"\nrate = [5000, "flat-out"]\ntest = ["rate", "latency", "search"]\n'
    ).plan
    assert [spec.what for spec in plan.trials()[: len(plan.trials()) // 3]] == [
        "18 down search",
        "18 down latency idle",
        "18 down latency 10%",
        "18 down latency 50%",
        "18 down latency 90%",
        "18 down rate 5000",
        "18 down rate flat-out",
    ]


def test_frame_sizes_of_rfc_2544_stand_for_payloads(load: Load) -> None:
    udp = load(f'{UDP}frame_bytes = "rfc2544"\n').plan.udp
    assert udp is not None
    assert udp.payload_bytes == (18, 82, 210, 466, 978, 1234, 1472)
    assert load(f"{UDP}frame_bytes = 64\n").plan.udp == replace(udp, payload_bytes=(18,))


def test_the_mix_is_a_payload_by_its_name(load: Load) -> None:
    plan = load(f'{UDP}payload_bytes = ["imix", 18]\n').plan
    assert plan.trials()[0].what == "imix down search"


TIMED = "must be packets per second from 1 to 50,000, such as 1000"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("payload_bytes = 17", 'udp.payload_bytes: must be 18 to 8972 or "imix", not 17'),
        ('payload_bytes = ["imx"]', 'udp.payload_bytes: must be 18 to 8972 or "imix", not "imx"'),
        ("frame_bytes = 63", 'udp.frame_bytes: must be 64 to 9018 or "rfc2544", not 63'),
        ('rate = "fast"', 'udp.rate: must be packets per second from 1 on or "flat-out", not "fast"'),
        ("rate = 0", 'udp.rate: must be packets per second from 1 on or "flat-out", not 0'),
        ("payload_bytes = 18\nframe_bytes = 64", "udp: payload_bytes and frame_bytes say the same thing"),
        *(
            (f'test = ["rate", "rekey"]\n{rate}', f"udp.rate: {TIMED}, not {value}: each packet is timed")
            for rate, value in (
                ("", '"flat-out"'),
                ("rate = [100, 0.5]", "0.5"),
                ("rate = 0", "0"),
                ("rate = 60000", "60000"),
            )
        ),
        ('test = "latency"', 'udp: the test "latency" takes shares of the PDR: add "search", which finds it'),
        ('test = "serch"', 'udp.test: "serch" is not one of'),
        ("confirm_s = 0.5", "udp: confirm_s must be 0 or at least 1, not 0.5"),
        ("repeat = 3", "udp.repeat: unknown key; did you mean udp.repeats?"),
    ],
)
def test_an_error_of_udp_is_reported_at_its_key(load: Load, text: str, message: str) -> None:
    with pytest.raises(FileErrors) as caught:
        load(f"{UDP}{text}\n")
    assert message in caught.value.message


def test_a_key_of_udp_can_be_set(load: Load) -> None:
    udp = load(UDP, "udp.repeats=1", "udp.payload_bytes=[18, 64]").plan.udp
    assert udp == UdpTraffic(payload_bytes=(18, 64), repeats=1)


def test_the_shipped_plan_of_udp_ends_in_ten_minutes() -> None:
    plan = read_plan("udp", option_schemas()).plan
    assert {tunnel.kind for tunnel in plan.tunnels} == {"none", "vxlan", "wireguard", "wireguard-go", "tinc", "openvpn"}
    assert plan.expected_duration_s() < 10 * 60
