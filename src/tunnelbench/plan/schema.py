"""The keys of plan files, their types and ranges. Tunnels are checked by the schemas of their adapters."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, Strict, ValidationInfo, model_validator

from tunnelbench.model.conditions import (
    LARGEST_WINDOW_BYTES,
    LARGEST_WRITE_BYTES,
    TCP_OPTIONS,
    WINDOW_OPTION,
    WRITE_OPTION,
    require_window,
)
from tunnelbench.model.frames import UDP_FRAME_OVERHEAD_BYTES
from tunnelbench.model.plan import (
    ENGINE_READING_BYTES,
    FLAT_OUT,
    HANDSHAKE_MEMORY_MIB,
    IMIX_NAME,
    IMIX_PAYLOAD_BYTES,
    LARGEST_RESULT_BYTES,
    LARGEST_UDP_PAYLOAD_BYTES,
    MOST_CLIENTS,
    MOST_FLOWS,
    RFC_2544_FRAME_BYTES,
    SMALLEST_TCP_PAYLOAD_BYTES,
    SMALLEST_UDP_PAYLOAD_BYTES,
    ConnectionTraffic,
    Direction,
    Plan,
    SoakTraffic,
    TcpTraffic,
    Test,
    UdpTraffic,
)
from tunnelbench.plan.messages import value_text
from tunnelbench.plan.schema_base import Title, TomlTable, key_paths

LARGEST_TCP_PAYLOAD_BYTES = 8948
"""TCP payload of a packet of 9000 bytes: 20 are for IPv4, 20 for TCP and 12 for time stamps."""


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _no_repeats(values: list[Any]) -> list[Any]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{value_text(value)} is given twice")
    return values


T = TypeVar("T")
OneOrMore = Annotated[list[T], Field(min_length=1), BeforeValidator(_as_list), AfterValidator(_no_repeats)]
"""A list without repeats; a single value stands for a list of one."""

Directions = OneOrMore[Annotated[Direction, Strict(False)]]


def _payload(payload_bytes: int) -> int:
    if payload_bytes < SMALLEST_TCP_PAYLOAD_BYTES:
        raise ValueError(
            f"must be at least {SMALLEST_TCP_PAYLOAD_BYTES}, not {value_text(payload_bytes)}:"
            " the smallest MSS of Linux is 88, and the TCP timestamp option needs 12 bytes of it"
        )
    return payload_bytes


def _algorithm(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"must be the kernel's name of an algorithm, such as cubic or bbr, not {value_text(name)}")
    return name


def _require_held(duration_s: float, interval_s: float, reading_bytes: int, what: str = "") -> None:
    """Raise ValueError if the readings that a traffic generator prints in one trial are more than
    LARGEST_RESULT_BYTES."""
    most_readings = LARGEST_RESULT_BYTES // reading_bytes
    if duration_s / interval_s <= most_readings:
        return
    needed_s = math.ceil(duration_s / most_readings * 10) / 10
    raise ValueError(
        f"{duration_s:g} s{f' with {what}' * bool(what)}, read every {interval_s:g} s, give"
        f" {duration_s / interval_s * reading_bytes / 1e6:.0f} MB of readings, and"
        f" {LARGEST_RESULT_BYTES / 1e6:.0f} MB can be held: set interval_s to {needed_s:g} or more"
    )


TcpPayload = Annotated[int, Field(le=LARGEST_TCP_PAYLOAD_BYTES), AfterValidator(_payload)]


def _rate_mbps(value: Any) -> str:
    """Return a rate of TCP as text."""
    if value == FLAT_OUT:
        return FLAT_OUT
    if isinstance(value, bool) or not isinstance(value, int | float) or not SLOWEST_MBPS <= value <= FASTEST_MBPS:
        raise ValueError(f'must be {SLOWEST_MBPS} to {FASTEST_MBPS} or "{FLAT_OUT}", not {value_text(value)}')
    return _number_text(value)


SLOWEST_MBPS, FASTEST_MBPS = 0.1, 400_000
"""Smallest and largest rate at which a plan may pace TCP [Mbit/s]."""


WindowBytes = Annotated[int, Field(ge=0, le=LARGEST_WINDOW_BYTES), AfterValidator(require_window)]
WriteBytes = Annotated[int, Field(ge=1, le=LARGEST_WRITE_BYTES)]


class TcpTable(TomlTable):
    """`[tcp]`; the fields are those of TcpTraffic, and those of TCP_OPTIONS, which are options of the tunnels."""

    payload_bytes: OneOrMore[TcpPayload] = list(TcpTraffic.payload_bytes)
    direction: Directions = list(TcpTraffic.direction)
    duration_s: Annotated[int, Field(ge=1, le=86_400)] = TcpTraffic.duration_s
    interval_s: Annotated[float, Field(ge=0.1, le=60)] = TcpTraffic.interval_s
    streams: Annotated[int, Field(ge=1, le=128)] = TcpTraffic.streams
    congestion_control: Annotated[str, AfterValidator(_algorithm)] = TcpTraffic.congestion_control
    rate_mbps: OneOrMore[Annotated[str, PlainValidator(_rate_mbps)]] = list(TcpTraffic.rate_mbps)
    window_bytes: OneOrMore[WindowBytes] | None = None
    write_bytes: OneOrMore[WriteBytes] | None = None

    @model_validator(mode="after")
    def _is_held(self) -> Self:
        _require_held(self.duration_s, self.interval_s, self.traffic().reading_bytes, f"{self.streams} streams")
        return self

    def traffic(self) -> TcpTraffic:
        return TcpTraffic(**{key: value for key, value in self.as_fields().items() if key not in TCP_OPTIONS})

    def options_of_tunnels(self) -> dict[str, list[int]]:
        """Return the values of the options that the table gives to each tunnel of the plan."""
        given = {WINDOW_OPTION: self.window_bytes, WRITE_OPTION: self.write_bytes}
        return {option: values for option, values in given.items() if values is not None}


UDP_TEST_ORDER = (
    Test.SEARCH,
    Test.ECHO_SEARCH,
    Test.LATENCY,
    Test.LOSS_CURVE,
    Test.BURST,
    Test.RATE,
    Test.ECHO,
    Test.REKEY,
    Test.HANDSHAKE,
)
"""Tests in the order in which they run."""


def _udp_payload(value: Any) -> int:
    """Return a payload in bytes; accepts the name of the mix."""
    if value == IMIX_NAME:
        return IMIX_PAYLOAD_BYTES
    smallest, largest = SMALLEST_UDP_PAYLOAD_BYTES, LARGEST_UDP_PAYLOAD_BYTES
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise ValueError(f'must be {smallest} to {largest} or "imix", not {value_text(value)}')
    return value


UdpPayload = Annotated[int, PlainValidator(_udp_payload)]


def _frame(value: Any) -> int:
    """Return the UDP payload [bytes] that an Ethernet frame of a given size carries."""
    smallest = SMALLEST_UDP_PAYLOAD_BYTES + UDP_FRAME_OVERHEAD_BYTES
    largest = LARGEST_UDP_PAYLOAD_BYTES + UDP_FRAME_OVERHEAD_BYTES
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise ValueError(f'must be {smallest} to {largest} or "rfc2544", not {value_text(value)}')
    return value - UDP_FRAME_OVERHEAD_BYTES


def _frames(value: Any) -> Any:
    return list(RFC_2544_FRAME_BYTES) if value == "rfc2544" else _as_list(value)


def _number_text(value: float) -> str:
    return f"{value:g}" if value < 1e6 else f"{value:.0f}"


def _is_pps(value: Any) -> bool:
    """Return True if a value can be a rate [packets/s]."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 100_000_000


def _offered_load(value: Any) -> str:
    """Return packets per second as text, or FLAT_OUT."""
    if value == FLAT_OUT:
        return FLAT_OUT
    if not _is_pps(value):
        raise ValueError(f'must be packets per second from 1 on or "{FLAT_OUT}", not {value_text(value)}')
    return _number_text(value)


TestName = Literal["search", "echo-search", "latency", "loss-curve", "burst", "rate", "echo", "rekey"]

MOST_TIMED_PPS = 50_000
"""Highest rate at which a plan may time each packet [packets/s]."""


def _timed_rate(value: Any) -> str:
    """Return packets per second as text, of a test that times each packet."""
    if not _is_pps(value) or value > MOST_TIMED_PPS:
        raise ValueError(
            f"must be packets per second from 1 to {MOST_TIMED_PPS:,}, such as 1000, not {value_text(value)}: each "
            "packet is timed"
        )
    return _number_text(value)


def _udp_rate(value: Any, info: ValidationInfo) -> str:
    """Return a rate of the tests of `[udp]` as text."""
    return _timed_rate(value) if Test.REKEY in info.data.get("test", ()) else _offered_load(value)


LONGEST_UDP_TRIAL_S = 86_400
"""Longest duration of a trial of UDP that a plan may ask for [s]; soaks are longer."""


class UdpTable(TomlTable):
    """`[udp]`; the fields are those of UdpTraffic, except `frame_bytes`, which replaces payloads."""

    payload_bytes: OneOrMore[UdpPayload] = list(UdpTraffic.payload_bytes)
    frame_bytes: (
        Annotated[
            list[Annotated[int, PlainValidator(_frame)]],
            Field(min_length=1),
            BeforeValidator(_frames),
            AfterValidator(_no_repeats),
        ]
        | None
    ) = None
    direction: Directions = list(UdpTraffic.direction)
    test: OneOrMore[TestName] = ["search"]
    rate: Annotated[OneOrMore[Annotated[str, PlainValidator(_udp_rate)]], Field(validate_default=True)] = list(
        UdpTraffic.rate
    )
    duration_s: Annotated[float, Field(ge=1, le=LONGEST_UDP_TRIAL_S)] = UdpTraffic.duration_s
    interval_s: Annotated[float, Field(ge=0.1, le=60)] = UdpTraffic.interval_s
    flows: Annotated[int, Field(ge=1, le=MOST_FLOWS)] = UdpTraffic.flows
    repeats: Annotated[int, Field(ge=1, le=100)] = UdpTraffic.repeats
    trial_s: Annotated[float, Field(ge=0.2, le=600)] = UdpTraffic.trial_s
    confirm_s: Annotated[float, Field(ge=0, le=86_400)] = UdpTraffic.confirm_s
    search_limit_s: Annotated[float, Field(ge=5, le=86_400)] = UdpTraffic.search_limit_s

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.frame_bytes is not None and "payload_bytes" in self.model_fields_set:
            raise ValueError("payload_bytes and frame_bytes say the same thing: leave one of them out")
        if "latency" in self.test and "search" not in self.test:
            raise ValueError('the test "latency" takes shares of the PDR: add "search", which finds it')
        if self.has_rekeys and self.flows > 1:
            raise ValueError(
                'the test "rekey" finds the longest gap of one flow, which the packets of others would fill: leave '
                "flows out"
            )
        _require_held(max(self.duration_s, self.confirm_s), self.interval_s, ENGINE_READING_BYTES)
        if 0 < self.confirm_s < 1:
            raise ValueError(f"confirm_s must be 0 or at least 1, not {self.confirm_s:g}")
        return self

    @property
    def has_rekeys(self) -> bool:
        """True if one of the tests is `rekey`, which needs a change of keys in each trial."""
        return "rekey" in self.test

    @property
    def is_of_rekeys(self) -> bool:
        """True if the only test is `rekey`, so that servers may have several clients."""
        return self.test == ["rekey"]

    def traffic(self) -> UdpTraffic:
        fields = self.as_fields()
        asked, frames = fields.pop("test"), fields.pop("frame_bytes")
        fields["tests"] = tuple(test for test in UDP_TEST_ORDER if test.value in asked)
        return UdpTraffic(**fields | ({"payload_bytes": frames} if frames else {}))


SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Seconds by the unit of a long duration."""

LONGEST_SOAK_S = 31 * 86_400


def long_duration(value: Any) -> float:
    """Return seconds; accepts a number with its unit, such as `12h`."""
    seconds: Any = value
    if isinstance(value, str) and (match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([smhd])", value)):
        seconds = float(match[1]) * SECONDS[match[2]]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 1 <= seconds <= LONGEST_SOAK_S:
        raise ValueError(
            f'must be 1 to {LONGEST_SOAK_S} seconds, or as "90s", "10m", "12h", "7d", not {value_text(value)}'
        )
    return float(seconds)


def _soak_rate(value: Any) -> str:
    """Return packets per second as text, or a share of the NDR."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,3}(\.\d{1,3})?%", value) and 0 < float(value[:-1]) <= 100:
        return f"{float(value[:-1]):g}%"
    if not _is_pps(value):
        raise ValueError(
            f'must be a share of the NDR up to "100%", or packets per second from 1 on, not {value_text(value)}'
        )
    return _offered_load(value)


class SoakTable(TomlTable):
    """`[soak]`; the fields are those of SoakTraffic."""

    payload_bytes: OneOrMore[UdpPayload] = list(SoakTraffic.payload_bytes)
    direction: Directions = list(SoakTraffic.direction)
    duration: Annotated[float, PlainValidator(long_duration)] = SoakTraffic.duration_s
    rate: Annotated[str, PlainValidator(_soak_rate)] = SoakTraffic.rate
    echo: bool = SoakTraffic.is_echo
    baseline: bool = SoakTraffic.with_baseline

    def traffic(self) -> SoakTraffic:
        return SoakTraffic(
            payload_bytes=tuple(self.payload_bytes),
            direction=tuple(self.direction),
            duration_s=self.duration,
            rate=self.rate,
            is_echo=self.echo,
            with_baseline=self.baseline,
        )


def _connection_rate(value: Any) -> str:
    """Return connections per second as text, or FLAT_OUT."""
    if value == FLAT_OUT:
        return FLAT_OUT
    if not _is_pps(value) or value > MOST_CONNECTIONS_PER_S:
        raise ValueError(
            f'must be 1 to {MOST_CONNECTIONS_PER_S:,} connections per second or "{FLAT_OUT}", not {value_text(value)}'
        )
    return _number_text(value)


MOST_CONNECTIONS_PER_S = 20_000
"""Highest rate at which a plan may open connections [connections/s]."""

MOST_OPEN_CONNECTIONS = 28_000
"""Most connections that a plan may have at the same time: Linux uses each of its 28,232 ephemeral ports for one
connection to a target (net.ipv4.ip_local_port_range)."""

CONNECTION_TESTS = {"connect": Test.CONNECT, "concurrent": Test.CONCURRENT}


class ConnectionsTable(TomlTable):
    """`[connections]`; the fields are those of ConnectionTraffic."""

    test: OneOrMore[Literal["connect", "concurrent"]] = ["connect", "concurrent"]
    rate: OneOrMore[Annotated[str, PlainValidator(_connection_rate)]] = list(ConnectionTraffic.rate)
    duration_s: Annotated[float, Field(ge=1, le=3600)] = ConnectionTraffic.duration_s
    most: Annotated[int, Field(ge=1, le=MOST_OPEN_CONNECTIONS)] = ConnectionTraffic.most
    opening_rate: Annotated[float, Field(ge=1, le=MOST_CONNECTIONS_PER_S)] = ConnectionTraffic.opening_rate

    def traffic(self) -> ConnectionTraffic:
        fields = self.as_fields()
        asked = fields.pop("test")
        return ConnectionTraffic(
            tests=tuple(test for name, test in CONNECTION_TESTS.items() if name in asked), **fields
        )


class ClientsTable(TomlTable):
    """`[clients]`: each tunnel of the plan has so many clients of one server, which is the router."""

    count: OneOrMore[Annotated[int, Field(ge=1, le=MOST_CLIENTS)]]


class HandshakeTable(TomlTable):
    """`[handshake]`: clients of each server set up their tunnels while one client's UDP packets flow."""

    parallel: OneOrMore[Annotated[int, Field(ge=0, le=MOST_CLIENTS)]] = [0, 4]
    rate: OneOrMore[Annotated[str, PlainValidator(_timed_rate)]] = ["100"]
    payload_bytes: OneOrMore[UdpPayload] = [1200]
    direction: Directions = [Direction.OUT]
    duration_s: Annotated[float, Field(ge=1, le=3600)] = UdpTraffic.duration_s
    memory_mib: Annotated[int, Field(ge=1, le=2**20)] = HANDSHAKE_MEMORY_MIB

    def traffic(self) -> UdpTraffic:
        of_packets = {key: each for key, each in self.as_fields().items() if key not in {"parallel", "memory_mib"}}
        return UdpTraffic(tests=(Test.HANDSHAKE,), **of_packets)


class CipherSpeedTable(TomlTable):
    """`[cipher_speed]`: the speed of the tunnels' ciphers and digests, measured before the trials."""

    seconds: Annotated[int, Field(ge=1, le=60)] = 1


class PlanFile(TomlTable):
    """A plan without its `[[tunnel]]` blocks."""

    title: Title = ""
    rounds: Annotated[int, Field(ge=1, le=1000)] = Plan.rounds
    needs_gateway: bool = False
    """True if `check` refuses testbeds whose server ends the tunnel."""
    tcp: TcpTable | None = None
    udp: UdpTable | None = None
    soak: SoakTable | None = None
    clients: ClientsTable | None = None
    handshake: HandshakeTable | None = None
    connections: ConnectionsTable | None = None
    cipher_speed: CipherSpeedTable | None = None

    @model_validator(mode="after")
    def _has_traffic_for_clients(self) -> Self:
        others = [name for name in ("udp", "soak", "connections", "handshake") if getattr(self, name)]
        if self.clients and others:
            of_tunnels = ", or give the option clients to each [[tunnel]] in place of [clients]"
            times_rekeys = others == ["udp"] and self.udp is not None and self.udp.is_of_rekeys
            raise ValueError(f"[clients] shares out TCP: leave [{others[0]}] out{of_tunnels * times_rekeys}")
        beside = [name for name in ("tcp", "udp", "soak", "connections") if getattr(self, name)]
        if self.handshake and beside:
            raise ValueError(f"[handshake] has UDP traffic of its own: leave [{beside[0]}] out")
        return self

    @model_validator(mode="after")
    def _has_what_the_soak_needs(self) -> Self:
        """Raise ValueError if the rate of a soak is a share of the NDR, and no search of the plan finds that NDR."""
        soak = self.soak.traffic() if self.soak else None
        if soak is None or soak.share is None:
            return self
        udp = self.udp.traffic() if self.udp else None
        if udp is None or Test.SEARCH not in udp.tests:
            raise ValueError(f'soak.rate "{soak.rate}" is a share of the NDR: add [udp] with the test "search"')
        sizes = [size or IMIX_NAME for size in soak.payload_bytes if size not in udp.payload_bytes]
        ways = [way.value for way in soak.direction if way not in udp.direction]
        if sizes or ways:
            what = f"payload {value_text(sizes[0])}" if sizes else f"direction {value_text(ways[0])}"
            raise ValueError(f'soak.rate "{soak.rate}" is a share of the NDR, and [udp] searches none of {what}')
        return self

    def traffic(self) -> tuple[TcpTraffic | None, UdpTraffic | None]:
        """Return the TCP and UDP traffic; a plan without any traffic has TCP."""
        udp = next((table.traffic() for table in (self.udp, self.handshake) if table), None)
        tcp = self.tcp or (None if udp or self.soak or self.connections else TcpTable())
        return tcp.traffic() if tcp else None, udp


PLAN_KEYS: tuple[tuple[str, ...], ...] = (*key_paths(PlanFile), ("tunnel",))
