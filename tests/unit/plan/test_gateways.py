"""A plan that needs a gateway is refused where the server itself ends the tunnel."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.plan.texts import errors_of

from tunnelbench.model.testbed import GATEWAY_PAIR, ROAD_WARRIOR, ROUTER_SERVER, TestbedSpec
from tunnelbench.plan.errors import FileErrors
from tunnelbench.plan.load import read_plan
from tunnelbench.testbed import refused_in_plans
from tunnelbench.tunnel import option_schemas

TUNNEL = '[[tunnel]]\nkind = "vxlan"\n'

NO_GATEWAY = "the tunnels need a gateway in front of the server; the shipped testbed "


@pytest.mark.parametrize(
    ("testbed", "reason"),
    [
        (TestbedSpec("lab", "netns", topology=GATEWAY_PAIR), ""),
        (TestbedSpec("lab", "qemu", topology=GATEWAY_PAIR, board="malta", far_board="x86-64"), ""),
        (TestbedSpec("lab", "netns", topology=ROUTER_SERVER), f"{NO_GATEWAY}netns-gateways has one"),
        (TestbedSpec("lab", "netns", topology=ROAD_WARRIOR), f"{NO_GATEWAY}netns-gateways has one"),
        (TestbedSpec("lab", "qemu", board="malta"), f"{NO_GATEWAY}malta has one"),
        (TestbedSpec("lab", "simulated"), "a simulated testbed has a model of a tunnel that ends on the server"),
    ],
)
def test_a_plan_that_needs_a_gateway_is_refused_without_one(testbed: TestbedSpec, reason: str, tmp_path: Path) -> None:
    found = errors_of(tmp_path, f"needs_gateway = true\n{TUNNEL}", testbed)
    assert len(found) == bool(reason)
    assert all(each.startswith("1: needs_gateway: cannot run on testbed lab") and reason in each for each in found)
    assert errors_of(tmp_path, f"needs_gateway = false\n{TUNNEL}", testbed) == []


def test_the_shipped_plan_of_gateways_needs_one() -> None:
    refused = refused_in_plans(TestbedSpec("lab", "netns"))
    with pytest.raises(FileErrors, match="the tunnels need a gateway"):
        read_plan("gateways", option_schemas(), refused=refused)
