"""Features that this machine's kernel may lack, tested in a guest: simulated radios.

`make test` leaves it out, because an emulated guest takes a minute or more. `make test-debian-kernel` runs it, and
proves all tunnels of test_guest.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tunnelbench.guest import machine
from tunnelbench.guest.kernel import debian_kernel
from tunnelbench.guest.machine import Guest, choose_accelerator
from tunnelbench.host.cache import cache_folder

pytestmark = [pytest.mark.lab, pytest.mark.timeout(500)]

PROGRAM = Path(__file__).with_name("debian_kernel_guest.py")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Results of the program in the guest."""
    folder = tmp_path_factory.mktemp("guest")
    init = folder / "init-of-a-test.sh"
    init.write_text(machine.INIT.read_text().replace("-m tunnelbench.guest.worker", str(PROGRAM)))
    kernel = debian_kernel()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "INIT", init)
        try:
            with Guest(kernel, choose_accelerator(kernel, "test00", folder), "test00", folder) as guest:
                found = guest.hello
        finally:
            (cache_folder() / init.name).unlink(missing_ok=True)
    assert "bug" not in found, found["bug"]
    return found


def test_a_wireless_lan_is_recorded_without_names_and_the_card_comes_back(seen: Mapping[str, Any]) -> None:
    assert seen["pinged"]
    assert set(seen["looks"]) == {"client", "router"}
    assert seen["looks"]["client"]["device"] == "wlan1"
    assert seen["looks"]["router"]["device"] == "wlan0"  # a port of the bridge that is its LAN device
    for end in seen["looks"].values():
        radio = end["radio"]
        assert (end["band"], radio["channel"], radio["frequency_mhz"], radio["width_mhz"]) == ("2.4 GHz", 6, 2437, 20)
        assert radio["tx_mbps"] >= 1
        assert radio["rx_mbps"] >= 1
        assert -100 < radio["signal_dbm"] < 0
        assert "bitrate" in end["text"]
        assert "private" not in end["text"]
        assert "02:00:00" not in end["text"]
    assert seen["of_a_cable"] == []
    assert seen["is_back"]
