"""The keys of plan and testbed files, their types and ranges. Tunnels are checked by the schemas of their adapters."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
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
from tunnelbench.model.testbed import (
    DEBIAN_KERNEL,
    HOST_KERNEL,
    LOCAL,
    Access,
    Link,
    Port,
    RouterSpec,
    TestbedSpec,
    TesterSpec,
)
from tunnelbench.model.text import printable
from tunnelbench.plan.wording import value_text
from tunnelbench.qemu.boards import BOARDS

LARGEST_TCP_PAYLOAD_BYTES = 8948
"""What an MTU of 9000 leaves after 20 bytes of IPv4, 20 of TCP and 12 of time stamps."""

LEAST_CPU_SHARE_PERCENT = 10
"""A control group's quota is 1 ms at least, and we give it each 10 ms (kernel/sched/core.c, min_cfs_quota_period)."""

LONGEST_NAME = 80
LONGEST_TITLE = 200


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _no_repeats(values: list[Any]) -> list[Any]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{value_text(value)} is given twice")
    return values


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f'"{printable(text)}" holds a line break or another control character')
    return text


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


def _kernel(value: str) -> str:
    if value in (HOST_KERNEL, DEBIAN_KERNEL) or value.startswith("/"):
        return _one_line(value)
    raise ValueError(
        f'must be "{HOST_KERNEL}", "{DEBIAN_KERNEL}" or the path of a kernel\'s image from / on,'
        f" not {value_text(value)}"
    )


Title = Annotated[str, Field(max_length=LONGEST_TITLE), AfterValidator(_one_line)]
Payload = Annotated[int, Field(le=LARGEST_TCP_PAYLOAD_BYTES), AfterValidator(_payload)]
RateMbps = Annotated[float, Field(ge=0.1, le=100_000)]


class Table(BaseModel):
    """A table of a file: no key that is not known, no value that must be converted first."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


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


class LinkTable(Table):
    """`[link]`; the fields are those of Link."""

    rate_out_mbps: RateMbps | None = None
    rate_in_mbps: RateMbps | None = None
    delay_ms: Annotated[float, Field(ge=0, le=10_000)] = Link.delay_ms
    mtu_bytes: Annotated[int, Field(ge=576, le=9000)] = Link.mtu_bytes


def _ssh_host(value: str) -> str:
    # It becomes a word of ssh's command line: nothing that could pass for an option.
    if not re.fullmatch(r"[A-Za-z0-9._@:%][A-Za-z0-9._@:%\[\]-]*", value):
        raise ValueError(f'must be "{LOCAL}" or what ssh takes, such as root@192.168.1.1, not {value_text(value)}')
    return value


def _device(value: str) -> str:
    # dev_valid_name() in net/core/dev.c, and nothing that could pass for an option.
    if not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,14}", value):
        raise ValueError(f"must be the name of a network device, such as eth0, not {value_text(value)}")
    return value


def _interface(value: str) -> str:
    try:
        parsed = ipaddress.IPv4Interface(value)
    except ValueError:
        parsed = None
    if parsed is None or "/" not in value:
        raise ValueError(f"must be an IPv4 address with its prefix, such as 192.168.1.1/24, not {value_text(value)}")
    return str(parsed)


SshHostName = Annotated[str, Field(max_length=255), AfterValidator(_ssh_host)]
Device = Annotated[str, AfterValidator(_device)]
Interface = Annotated[str, AfterValidator(_interface)]
FilePath = Annotated[str, Field(max_length=4096), AfterValidator(_one_line)]


class AccessTable(Table):
    """What `[router]`, `[client]` and `[server]` share: the fields of Access."""

    host: SshHostName = LOCAL
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    identity: FilePath = ""
    config: FilePath = ""

    def access(self) -> Access:
        return Access(self.host, self.port, self.identity, self.config)


class RouterTable(AccessTable):
    """`[router]`; the fields are those of RouterSpec."""

    host: SshHostName
    lan_device: Device | None = None
    lan_address: Interface | None = None
    wan_device: Device | None = None
    wan_address: Interface | None = None
    price: Annotated[str, Field(max_length=40), AfterValidator(_one_line)] = ""
    watts: Annotated[float, Field(ge=0, le=10_000)] | None = None

    @model_validator(mode="after")
    def _is_another_machine(self) -> Self:
        if self.host == LOCAL:
            raise ValueError("the router is another machine: host must be what ssh takes, such as root@192.168.1.1")
        return self

    def spec(self) -> RouterSpec:
        """The same in the words of the model."""
        return RouterSpec(
            access=self.access(),
            lan=Port(self.lan_device or "", self.lan_address or ""),
            wan=Port(self.wan_device or "", self.wan_address or ""),
            price=self.price,
            watts=self.watts,
        )


class TesterTable(AccessTable):
    """`[client]` and `[server]`; the fields are those of TesterSpec."""

    device: Device | None = None
    address: Interface | None = None
    namespace: bool | None = None

    @model_validator(mode="after")
    def _namespace_is_local(self) -> Self:
        if self.namespace and self.host != LOCAL:
            raise ValueError("a device is moved into a namespace only on this machine: leave namespace out")
        return self

    def spec(self, *, moves: bool) -> TesterSpec:
        """The same in the words of the model; `moves`: whether a local one's device is moved if nothing is said."""
        namespace = (moves and self.host == LOCAL) if self.namespace is None else self.namespace
        return TesterSpec(self.access(), Port(self.device or "", self.address or ""), namespace)


class TestbedFile(Table):
    """A testbed file; which kinds there are is told from outside."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    kind: str
    title: Title = TestbedSpec.title
    router_cpu: Annotated[int, Field(ge=0)] | None = TestbedSpec.router_cpu
    kernel: Annotated[str, AfterValidator(_kernel)] = TestbedSpec.kernel
    quiet_wait_s: Annotated[int, Field(ge=0, le=3600)] = TestbedSpec.quiet_wait_s
    topology: Literal["router-server", "road-warrior"] = "router-server"
    link: LinkTable = LinkTable()
    board: str | None = None
    cpu_share_percent: Annotated[float, Field(ge=LEAST_CPU_SHARE_PERCENT, le=100)] | None = None
    router: RouterTable | None = None
    client: TesterTable | None = None
    server: TesterTable | None = None

    @model_validator(mode="after")
    def _router_goes_with_its_kind(self) -> Self:
        if self.kind == "ssh" and self.router is None:
            raise ValueError('a testbed of kind "ssh" needs [router] with its host, such as host = "root@192.168.1.1"')
        if self.kind == "ssh" and self.kernel != HOST_KERNEL:
            raise ValueError("a router has a kernel of its own: leave kernel out")
        if self.kind == "ssh" and self.link.delay_ms:
            raise ValueError("the cables are real: leave link.delay_ms out")
        self._require_board()
        if self.kind != "ssh" and (self.router or self.client or self.server):
            raise ValueError('[router], [client] and [server] are for kind = "ssh": this kind makes its own')
        return self

    def _require_board(self) -> None:
        if self.kind != "qemu":
            if self.board is not None or self.cpu_share_percent is not None:
                raise ValueError('board and cpu_share_percent are for kind = "qemu": this kind has no virtual router')
        elif self.board not in BOARDS:
            raise ValueError(f'a testbed of kind "qemu" needs a board: one of {", ".join(BOARDS)}')
        elif self.kernel != HOST_KERNEL:
            raise ValueError("a virtual router has a kernel of its own: leave kernel out")
        elif Link(**self.link.model_dump()) != Link():
            raise ValueError("a virtual router's cables have no rate, no delay and an MTU of 1500: leave link out")

    def spec(self, name: str) -> TestbedSpec:
        """The same in the words of the model."""
        return TestbedSpec(
            name=name,
            kind=self.kind,
            title=self.title,
            link=Link(**self.link.model_dump()),
            router_cpu=self.router_cpu,
            kernel=self.kernel,
            quiet_wait_s=self.quiet_wait_s,
            topology=self.topology,
            board=self.board or "",
            cpu_share_percent=self.cpu_share_percent,
            router=self.router.spec() if self.router else None,
            client=(self.client or TesterTable()).spec(moves=False),
            server=(self.server or TesterTable()).spec(moves=True),
        )


def key_paths(model: type[Table]) -> list[tuple[str, ...]]:
    """Every key of a file, tables included."""
    paths: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        paths.append((name,))
        for annotation in (field.annotation, *get_args(field.annotation)):  # a table, or a table that may be missing
            if isinstance(annotation, type) and issubclass(annotation, Table):
                paths.extend((name, *inner) for inner in key_paths(annotation))
    return paths


PLAN_KEYS: tuple[tuple[str, ...], ...] = (*key_paths(PlanFile), ("tunnel",))
TESTBED_KEYS: tuple[tuple[str, ...], ...] = tuple(key_paths(TestbedFile))
