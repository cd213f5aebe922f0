"""Run inside a guest: two simulated radios (mac80211_hwsim), an access point and a client whose card is moved.

    python debian_kernel_guest.py MODULES_ROOT

It writes its results in one message to standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tunnelbench.host.host import LocalHost
from tunnelbench.host.namespace import NamespaceHost
from tunnelbench.host.radio import antennas
from tunnelbench.testbed.discovery import CableEnd
from tunnelbench.testbed.nic import move
from tunnelbench.testbed.undo_journal import UndoJournal

ACCESS_POINT = """
interface=wlan0
driver=nl80211
bridge=br-lan
ssid=a-private-name
hw_mode=g
channel=6
ieee80211n=1
wmm_enabled=1
"""

CLIENT = """
network={
    ssid="a-private-name"
    key_mgmt=NONE
    scan_freq=2437
}
"""

LIMIT_S = 60.0
FOLDER = Path("/run/tbt-radio")


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def radios() -> dict[str, Any]:
    """Set up a wireless LAN and return the readings of both ends."""
    FOLDER.mkdir()
    (FOLDER / "client").mkdir()
    run("modprobe", "-d", sys.argv[1], "-a", "mac80211_hwsim", "bridge")  # the default is two radios
    client, router = (NamespaceHost(name, FOLDER / name, (0,), name) for name in ("client", "router"))
    for host in (client, router):
        run("ip", "netns", "add", host.namespace)
    run("iw", "phy", "phy0", "set", "netns", "name", "router")
    router.ip("link", "add", "br-lan", "type", "bridge")
    router.ip("link", "set", "br-lan", "up")
    journal = UndoJournal(FOLDER)
    move(CableEnd("wlan1", "192.168.77.2/24", is_there=False), client, journal)
    for host, program, text in ((router, "hostapd", ACCESS_POINT), (client, "wpa_supplicant", CLIENT)):
        (FOLDER / program).write_text(text)
        options = ["-i", "wlan1", "-D", "nl80211", "-c"] if program == "wpa_supplicant" else []
        run("ip", "netns", "exec", host.namespace, program, "-B", *options, str(FOLDER / program))
    router.ip("addr", "add", "192.168.77.1/24", "dev", "br-lan")
    deadline = time.monotonic() + LIMIT_S
    while "Connected" not in client.run(["iw", "dev", "wlan1", "link"]).stdout and time.monotonic() < deadline:
        time.sleep(0.2)
    pinged = client.run(["ping", "-c", "3", "-i", "0.2", "-W", "5", "192.168.77.1"], check=False).returncode == 0
    looks = {}
    for role, antenna in antennas(client, "wlan1", router, "br-lan").items():
        radio, text = antenna.look()
        looks[role] = {"device": antenna.device, "radio": asdict(radio), "band": radio.band, "text": text}
    of_a_cable = antennas(client, "lo", router, "br-lan")
    for program in ("hostapd", "wpa_supplicant"):
        run("pkill", "-x", program)
    journal.undo_all()
    is_back = "wlan1" in LocalHost("here", FOLDER, ()).run(["ls", "/sys/class/net"]).stdout.split()
    return {"pinged": pinged, "looks": looks, "of_a_cable": list(of_a_cable), "is_back": is_back}


if __name__ == "__main__":
    try:
        facts = radios()
    except Exception:  # noqa: BLE001 # nobody reads what is printed here
        facts = {"bug": traceback.format_exc()}
    print(json.dumps({"what": "hello", **facts}), flush=True)
