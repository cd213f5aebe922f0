"""Run the packet engine and other generators one way, and count what each delivers and its CPU time."""

from __future__ import annotations

import json
import secrets
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import RECEIVER_CPU, SENDER_CPU, TARGET, Finished, Lab, Running, engine_path, wait_for_tcp, wait_for_udp

PORT = 5301
PAYLOAD_BYTES = 18


@dataclass(frozen=True)
class Delivery:
    """The result of one trial."""

    packets: int
    """Packets that were delivered; for other generators, the kernel's count of datagrams."""
    duration_s: float
    cpu_s: float
    """CPU time of both ends [s]."""
    sent_packets: int | None = None
    dropped_packets: int | None = None
    """Packets that the receiver's socket dropped."""

    @property
    def pps(self) -> float:
        return self.packets / self.duration_s

    @property
    def cpu_s_per_million(self) -> float:
        return self.cpu_s / self.packets * 1e6


def session() -> str:
    """Return a new session token for the engine."""
    return secrets.token_hex(7)


def listen(lab: Lab, verb: str, *options: str) -> Running:
    """Start the engine at the receiving end and wait until it listens."""
    bind = ("--bind", f"{TARGET}:{PORT}")
    listening = lab.start(lab.receiver, RECEIVER_CPU, engine_path(), verb, *bind, *options)
    listening.line()
    return listening


def send(lab: Lab, duration_s: float, *options: str) -> Finished:
    """Run the engine at the sending end until it has ended."""
    to = ("--target", f"{TARGET}:{PORT}", "--duration-s", str(duration_s))
    return lab.start(lab.sender, SENDER_CPU, engine_path(), "send", *to, *options).finish(close_input=False)


def last_line(finished: Finished) -> dict[str, Any]:
    """Return the engine's summary."""
    summary: dict[str, Any] = json.loads(finished.output.splitlines()[-1])
    return summary


def ours(lab: Lab, duration_s: float, load: tuple[str, ...] = ("--flat-out",)) -> Delivery:
    """Send with the engine: as fast as possible, or with another load."""
    token = ("--session", session())
    receiver = listen(lab, "receive", *token, "--one-source")
    sending = send(lab, duration_s, *token, *load)
    time.sleep(0.2)
    receiving = receiver.finish()
    sent, received = last_line(sending), last_line(receiving)
    return Delivery(
        received["received_packets"],
        (sent["last_send_ns"] - sent["first_send_ns"]) / 1e9,
        sending.cpu_s + receiving.cpu_s,
        sent["sent_packets"],
        received["socket_dropped_packets"],
    )


def _between(lab: Lab, duration_s: float, server: tuple[str, ...], client: tuple[str, ...], tcp: bool) -> Delivery:
    """Run a server and a client, and return the datagrams that the kernel delivered during that time."""
    receiver = lab.start(lab.receiver, RECEIVER_CPU, *server, quiet=True)
    (wait_for_tcp if tcp else wait_for_udp)(lab.receiver, PORT)
    before = lab.datagrams()
    sent = lab.start(lab.sender, SENDER_CPU, *client).finish()
    packets = lab.datagrams() - before
    received = receiver.finish(signal.SIGKILL)
    return Delivery(packets, duration_s, sent.cpu_s + received.cpu_s)


def iperf3(lab: Lab, duration_s: float) -> Delivery:
    server = ("iperf3", "--server", "--one-off", "--port", str(PORT))
    load = ("--udp", "--length", str(PAYLOAD_BYTES), "--bitrate", "0", "--time", f"{duration_s:.0f}")
    client = ("iperf3", "--client", TARGET, "--port", str(PORT), *load)
    return _between(lab, duration_s, server, client, tcp=True)


def iperf2(lab: Lab, duration_s: float) -> Delivery:
    server = ("iperf", "--server", "--udp", "--port", str(PORT))
    load = ("--udp", "--len", str(PAYLOAD_BYTES), "--bandwidth", "10G", "--time", f"{duration_s:.0f}")
    client = ("iperf", "--client", TARGET, "--port", str(PORT), *load)
    return _between(lab, duration_s, server, client, tcp=False)


def iperf3_gsro(lab: Lab, duration_s: float, program: str) -> Delivery:
    """Run a version of iperf3 that uses GSO and GRO; its server counts the packets."""
    receiver = lab.start(lab.receiver, RECEIVER_CPU, program, "-s", "-1", "-p", str(PORT), "--json")
    wait_for_tcp(lab.receiver, PORT)
    load = ("-u", "-l", str(PAYLOAD_BYTES), "-b", "0", "-t", f"{duration_s:.0f}", "--gsro")
    sent = lab.start(lab.sender, SENDER_CPU, program, "-c", TARGET, "-p", str(PORT), *load).finish()
    received = receiver.finish()
    total = json.loads(received.output)["end"]["sum"]
    packets = total["packets"] - total["lost_packets"]
    return Delivery(packets, duration_s, sent.cpu_s + received.cpu_s, total["packets"])


def gso_pair(lab: Lab, duration_s: float, program: str) -> Delivery:
    """Run the sender and the receiver of gso_pair.c."""
    receiver = lab.start(lab.receiver, RECEIVER_CPU, program, "receive", TARGET, str(PORT))
    wait_for_udp(lab.receiver, PORT)
    load = (TARGET, str(PORT), str(PAYLOAD_BYTES), str(duration_s))
    sent = lab.start(lab.sender, SENDER_CPU, program, "send", *load).finish()
    time.sleep(0.2)
    received = receiver.finish()
    return Delivery(int(received.output), duration_s, sent.cpu_s + received.cpu_s, int(sent.output))


def nuttcp(lab: Lab, duration_s: float) -> Delivery:
    server = ("nuttcp", "-S", "--nofork", f"-P{PORT}")
    client = ("nuttcp", f"-P{PORT}", "-u", f"-l{PAYLOAD_BYTES}", "-Ru", f"-T{duration_s:.0f}", TARGET)
    return _between(lab, duration_s, server, client, tcp=True)


def trafgen(lab: Lab, duration_s: float, counter: str) -> Delivery:
    """Run a generator that has no receiver; the receiver of gso_pair.c counts its packets."""
    header = (
        f"{{ eth(da={lab.gateway_mac}), ipv4(saddr={lab.source}, daddr={TARGET}, ttl=64, df), "
        f"udp(sport=5302, dport={PORT}), fill(0x41, {PAYLOAD_BYTES}) }}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "packet"
        config.write_text(header)
        receiver = lab.start(lab.receiver, RECEIVER_CPU, counter, "receive", TARGET, str(PORT))
        wait_for_udp(lab.receiver, PORT)
        before = lab.datagrams()
        command = ("trafgen", "--dev", lab.sender_device, "--conf", str(config), "--cpus", "1", "--no-sock-mem")
        generator = lab.start(lab.sender, SENDER_CPU, *command, quiet=True)
        time.sleep(0.5)
        first, first_s = lab.datagrams(), time.monotonic()
        time.sleep(duration_s)
        last, last_s = lab.datagrams(), time.monotonic()
        cpu_s = generator.finish(signal.SIGINT).cpu_s
        whole = lab.datagrams() - before
        cpu_s += receiver.finish().cpu_s
    packets = last - first
    return Delivery(packets, last_s - first_s, cpu_s * packets / max(whole, 1))
