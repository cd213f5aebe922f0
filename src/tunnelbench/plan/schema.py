"""The keys of plan files, their types and ranges. Tunnels are checked by the schemas of their adapters."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    model_validator,
)

from tunnelbench.model.plan import (
    FLAT_OUT,
    IMIX_PAYLOAD_BYTES,
    LARGEST_UDP_PAYLOAD_BYTES,
    RFC_2544_FRAME_BYTES,
    SMALLEST_TCP_PAYLOAD_BYTES,
    SMALLEST_UDP_PAYLOAD_BYTES,
    UDP_FRAME_OVERHEAD_BYTES,
    Direction,
    Plan,
    SoakTraffic,
    TcpTraffic,
    Test,
    UdpTraffic,
)
from tunnelbench.plan.tables import Table, Title, key_paths
from tunnelbench.plan.wording import value_text

LARGEST_TCP_PAYLOAD_BYTES = 8948
"""What an MTU of 9000 leaves after 20 bytes of IPv4, 20 of TCP and 12 of time stamps."""


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _no_repeats(values: list[Any]) -> list[Any]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{value_text(value)} is given twice")
    return values


def _payload(payload_bytes: int) -> int:
    if payload_bytes < SMALLEST_TCP_PAYLOAD_BYTES:
        raise ValueError(
            f"must be at least {SMALLEST_TCP_PAYLOAD_BYTES}, not {value_text(payload_bytes)}:"
            " Linux takes no MSS under 88, of which time stamps take 12"
        )
    return payload_bytes


def _algorithm(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"must be the kernel's name of an algorithm, such as cubic or bbr, not {value_text(name)}")
    return name


Payload = Annotated[int, Field(le=LARGEST_TCP_PAYLOAD_BYTES), AfterValidator(_payload)]


class TcpTable(Table):
    """`[tcp]`; the fields are those of TcpTraffic."""

    payload_bytes: Annotated[
        list[Payload], Field(min_length=1), BeforeValidator(_as_list), AfterValidator(_no_repeats)
    ] = list(TcpTraffic.payload_bytes)
    direction: Annotated[
        list[Literal["in", "out"]], Field(min_length=1), BeforeValidator(_as_list), AfterValidator(_no_repeats)
    ] = [direction.value for direction in TcpTraffic.direction]
    duration_s: Annotated[int, Field(ge=1, le=86_400)] = TcpTraffic.duration_s
    interval_s: Annotated[float, Field(ge=0.1, le=60)] = TcpTraffic.interval_s
    streams: Annotated[int, Field(ge=1, le=128)] = TcpTraffic.streams
    congestion_control: Annotated[str, AfterValidator(_algorithm)] = TcpTraffic.congestion_control

    def traffic(self) -> TcpTraffic:
        """The same in the words of the model."""
        return TcpTraffic(
            payload_bytes=tuple(self.payload_bytes),
            direction=tuple(Direction(direction) for direction in self.direction),
            duration_s=self.duration_s,
            interval_s=self.interval_s,
            streams=self.streams,
            congestion_control=self.congestion_control,
        )


UDP_TESTS = (Test.SEARCH, Test.LATENCY, Test.LOSS_CURVE, Test.BURST, Test.RATE, Test.ECHO)
"""In the order in which they run."""


def _udp_payload(value: Any) -> int:
    """Bytes, or the mix by its name."""
    if value == "imix":
        return IMIX_PAYLOAD_BYTES
    smallest, largest = SMALLEST_UDP_PAYLOAD_BYTES, LARGEST_UDP_PAYLOAD_BYTES
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise ValueError(f'must be {smallest} to {largest} or "imix", not {value_text(value)}')
    return value


def _frame(value: Any) -> int:
    """A frame size as the payload in it."""
    smallest = SMALLEST_UDP_PAYLOAD_BYTES + UDP_FRAME_OVERHEAD_BYTES
    largest = LARGEST_UDP_PAYLOAD_BYTES + UDP_FRAME_OVERHEAD_BYTES
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise ValueError(f'must be {smallest} to {largest} or "rfc2544", not {value_text(value)}')
    return value - UDP_FRAME_OVERHEAD_BYTES


def _frames(value: Any) -> Any:
    return list(RFC_2544_FRAME_BYTES) if value == "rfc2544" else _as_list(value)


def _offered_load(value: Any) -> str:
    """Packets per second as text, or the word for as many as there can be."""
    if value == FLAT_OUT:
        return FLAT_OUT
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 100_000_000:
        raise ValueError(f'must be packets per second from 1 on or "{FLAT_OUT}", not {value_text(value)}')
    return f"{value:g}" if value < 1e6 else f"{value:.0f}"


class UdpTable(Table):
    """`[udp]`; the fields are those of UdpTraffic, but for `frame_bytes`, which stands for payloads."""

    payload_bytes: Annotated[
        list[Annotated[int, PlainValidator(_udp_payload)]],
        Field(min_length=1),
        BeforeValidator(_as_list),
        AfterValidator(_no_repeats),
    ] = list(UdpTraffic.payload_bytes)
    frame_bytes: (
        Annotated[
            list[Annotated[int, PlainValidator(_frame)]],
            Field(min_length=1),
            BeforeValidator(_frames),
            AfterValidator(_no_repeats),
        ]
        | None
    ) = None
    direction: Annotated[
        list[Literal["in", "out"]], Field(min_length=1), BeforeValidator(_as_list), AfterValidator(_no_repeats)
    ] = [direction.value for direction in UdpTraffic.direction]
    test: Annotated[
        list[Literal["search", "latency", "loss-curve", "burst", "rate", "echo"]],
        Field(min_length=1),
        BeforeValidator(_as_list),
        AfterValidator(_no_repeats),
    ] = ["search"]
    rate: Annotated[
        list[Annotated[str, PlainValidator(_offered_load)]],
        Field(min_length=1),
        BeforeValidator(_as_list),
        AfterValidator(_no_repeats),
    ] = list(UdpTraffic.rate)
    duration_s: Annotated[float, Field(ge=1, le=86_400)] = UdpTraffic.duration_s
    interval_s: Annotated[float, Field(ge=0.1, le=60)] = UdpTraffic.interval_s
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
        if 0 < self.confirm_s < 1:
            raise ValueError(f"confirm_s must be 0 or at least 1, not {self.confirm_s:g}")
        return self

    def traffic(self) -> UdpTraffic:
        """The same in the words of the model."""
        return UdpTraffic(
            payload_bytes=tuple(self.payload_bytes if self.frame_bytes is None else self.frame_bytes),
            direction=tuple(Direction(direction) for direction in self.direction),
            tests=tuple(test for test in UDP_TESTS if test.value in self.test),
            rate=tuple(self.rate),
            duration_s=self.duration_s,
            interval_s=self.interval_s,
            repeats=self.repeats,
            trial_s=self.trial_s,
            confirm_s=self.confirm_s,
            search_limit_s=self.search_limit_s,
        )


SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Of the units that a long duration may have."""

LONGEST_SOAK_S = 31 * 86_400


def _long_duration(value: Any) -> float:
    """Seconds, or a number and its unit such as `12h`."""
    seconds: Any = value
    if isinstance(value, str) and (match := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([smhd])", value)):
        seconds = float(match[1]) * SECONDS[match[2]]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 1 <= seconds <= LONGEST_SOAK_S:
        raise ValueError(
            f'must be 1 to {LONGEST_SOAK_S} seconds, or as "90s", "10m", "12h", "7d", not {value_text(value)}'
        )
    return float(seconds)


def _soak_rate(value: Any) -> str:
    """Packets per second as text, or a share of the NDR."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,3}(\.\d{1,3})?%", value) and 0 < float(value[:-1]) <= 100:
        return f"{float(value[:-1]):g}%"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 100_000_000:
        raise ValueError(
            f'must be a share of the NDR up to "100%", or packets per second from 1 on, not {value_text(value)}'
        )
    return _offered_load(value)


class SoakTable(Table):
    """`[soak]`; the fields are those of SoakTraffic."""

    payload_bytes: Annotated[
        list[Annotated[int, PlainValidator(_udp_payload)]],
        Field(min_length=1),
        BeforeValidator(_as_list),
        AfterValidator(_no_repeats),
    ] = list(SoakTraffic.payload_bytes)
    direction: Annotated[
        list[Literal["in", "out"]], Field(min_length=1), BeforeValidator(_as_list), AfterValidator(_no_repeats)
    ] = [direction.value for direction in SoakTraffic.direction]
    duration: Annotated[float, PlainValidator(_long_duration)] = SoakTraffic.duration_s
    rate: Annotated[str, PlainValidator(_soak_rate)] = SoakTraffic.rate
    echo: bool = SoakTraffic.is_echo
    baseline: bool = SoakTraffic.with_baseline

    def traffic(self) -> SoakTraffic:
        """The same in the words of the model."""
        return SoakTraffic(
            payload_bytes=tuple(self.payload_bytes),
            direction=tuple(Direction(direction) for direction in self.direction),
            duration_s=self.duration,
            rate=self.rate,
            is_echo=self.echo,
            with_baseline=self.baseline,
        )


class CipherSpeedTable(Table):
    """`[cipher_speed]`: measure the tunnels' ciphers and digests by themselves, before the trials."""

    seconds: Annotated[int, Field(ge=1, le=60)] = 1


class PlanFile(Table):
    """A plan without its `[[tunnel]]` blocks."""

    title: Title = ""
    rounds: Annotated[int, Field(ge=1, le=1000)] = Plan.rounds
    tcp: TcpTable | None = None
    udp: UdpTable | None = None
    soak: SoakTable | None = None
    cipher_speed: CipherSpeedTable | None = None

    @model_validator(mode="after")
    def _has_what_the_soak_needs(self) -> Self:
        """A share of the NDR is of what a search of the same run finds."""
        soak = self.soak.traffic() if self.soak else None
        if soak is None or soak.share is None:
            return self
        udp = self.udp.traffic() if self.udp else None
        if udp is None or Test.SEARCH not in udp.tests:
            raise ValueError(f'soak.rate "{soak.rate}" is a share of the NDR: add [udp] with the test "search"')
        sizes = [size or "imix" for size in soak.payload_bytes if size not in udp.payload_bytes]
        ways = [way.value for way in soak.direction if way not in udp.direction]
        if sizes or ways:
            what = f"payload {value_text(sizes[0])}" if sizes else f"direction {value_text(ways[0])}"
            raise ValueError(f'soak.rate "{soak.rate}" is a share of the NDR, and [udp] searches none of {what}')
        return self

    def traffic(self) -> tuple[TcpTraffic | None, UdpTraffic | None]:
        """What is offered; a plan that says nothing of it means TCP."""
        udp = self.udp.traffic() if self.udp else None
        tcp = self.tcp or (None if udp or self.soak else TcpTable())
        return tcp.traffic() if tcp else None, udp


PLAN_KEYS: tuple[tuple[str, ...], ...] = (*key_paths(PlanFile), ("tunnel",))
