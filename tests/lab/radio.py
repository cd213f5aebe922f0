"""A wireless client card that is moved and asked: simulated radios inside a guest, for this kernel may have none.

Not a part of `make test`, for an emulated guest takes a minute and more: `make test-radio`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tunnelbench.guest import machine
from tunnelbench.guest.kernel import debian_kernel
from tunnelbench.guest.machine import Guest, choose_accelerator
from tunnelbench.host.cache import cache_folder

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).with_name("radio_guest.py")


@pytest.mark.timeout(500)
def test_both_ends_of_a_wireless_lan_are_told_without_names_and_the_card_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = tmp_path / f"radio-init-{tmp_path.name}.sh"
    init.write_text(machine.INIT.read_text().replace("-m tunnelbench.guest.worker", str(PROGRAM)))
    monkeypatch.setattr(machine, "INIT", init)
    kernel = debian_kernel()
    try:
        with Guest(kernel, choose_accelerator(kernel, "radio0", tmp_path), "radio0", tmp_path) as guest:
            told = guest.hello
    finally:
        (cache_folder() / init.name).unlink(missing_ok=True)
    assert "bug" not in told, told["bug"]
    assert told["pinged"]
    assert set(told["looks"]) == {"client", "router"}
    assert told["looks"]["client"]["device"] == "wlan1"
    assert told["looks"]["router"]["device"] == "wlan0"  # a port of the bridge that is its LAN device
    for end in told["looks"].values():
        radio = end["radio"]
        assert (end["band"], radio["channel"], radio["frequency_mhz"], radio["width_mhz"]) == ("2.4 GHz", 6, 2437, 20)
        assert radio["tx_mbps"] >= 1
        assert radio["rx_mbps"] >= 1
        assert -100 < radio["signal_dbm"] < 0
        assert "bitrate" in end["text"]
        assert "private" not in end["text"]
        assert "02:00:00" not in end["text"]
    assert told["of_a_cable"] == []
    assert told["is_back"]
