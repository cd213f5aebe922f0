"""The keys of testbed files, their types and ranges."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from tunnelbench.model.testbed import (
    DEBIAN_KERNEL,
    GATEWAY_PAIR,
    HOST_KERNEL,
    LOCAL,
    ROAD_WARRIOR,
    ROUTER_SERVER,
    HostAccess,
    KindSettings,
    LabgridPlace,
    Link,
    Port,
    RouterSpec,
    SimulationModel,
    TestbedSpec,
    TesterSpec,
)
from tunnelbench.model.text import joined
from tunnelbench.plan.key_positions import KeyPath
from tunnelbench.plan.messages import not_one_of, quoted, value_text
from tunnelbench.plan.schema_base import Title, TomlTable, key_paths, one_line
from tunnelbench.qemu.boards import BOARDS
from tunnelbench.qemu.fixed_speed import MOST_SHIFT, SPEEDS_MIPS, nearest_speed

RateMbps = Annotated[float, Field(ge=0.1, le=100_000)]


def _kernel(value: str) -> str:
    if value in (HOST_KERNEL, DEBIAN_KERNEL) or value.startswith("/"):
        return one_line(value)
    raise ValueError(
        f'must be "{HOST_KERNEL}", "{DEBIAN_KERNEL}" or the path of a kernel\'s image from / on,'
        f" not {value_text(value)}"
    )


class LinkTable(TomlTable):
    """`[link]`; the fields are those of Link."""

    rate_out_mbps: RateMbps | None = None
    rate_in_mbps: RateMbps | None = None
    delay_ms: Annotated[float, Field(ge=0, le=10_000)] = Link.delay_ms
    mtu_bytes: Annotated[int, Field(ge=576, le=9000)] = Link.mtu_bytes

    def link(self) -> Link:
        return Link(**self.model_dump(), has_mtu="mtu_bytes" in self.model_fields_set)


def _ssh_host(value: str) -> str:
    # It becomes an argument of ssh, which must not read it as an option
    if not re.fullmatch(r"[A-Za-z0-9._@:%][A-Za-z0-9._@:%\[\]-]*", value):
        raise ValueError(f'must be "{LOCAL}" or what ssh takes, such as root@192.168.1.1, not {value_text(value)}')
    return value


def _place(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._:/@-]*", value):
        raise ValueError(f"must be the name of a place of labgrid, such as rack1-router, not {value_text(value)}")
    return value


def _coordinator(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9\[][A-Za-z0-9._:\[\]-]*", value):
        raise ValueError(f"must be HOST or HOST:PORT, such as lab:20408, not {value_text(value)}")
    return value


def _device(value: str) -> str:
    # the rules of dev_valid_name() in net/core/dev.c; programs must not read it as an option
    if not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,14}", value):
        raise ValueError(f"must be the name of a network device, such as eth0, not {value_text(value)}")
    return value


def _speed(value: float) -> float:
    if value not in SPEEDS_MIPS:
        raise ValueError(
            f"must be 1000, or 1000 halved up to {MOST_SHIFT} times, not {value:.10g}; "
            f"the nearest is {nearest_speed(value):.10g}"
        )
    return float(value)


def _board(value: str) -> str:
    if value not in BOARDS:
        raise ValueError(not_one_of(value, list(BOARDS)))
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
DeviceName = Annotated[str, AfterValidator(_device)]
Interface = Annotated[str, AfterValidator(_interface)]
BoardName = Annotated[str, AfterValidator(_board)]
PlaceName = Annotated[str, Field(max_length=100), AfterValidator(_place)]
Coordinator = Annotated[str, Field(max_length=255), AfterValidator(_coordinator)]
FilePath = Annotated[str, Field(max_length=4096), AfterValidator(one_line)]


class AccessTable(TomlTable):
    """Keys that `[router]`, `[gateway]`, `[client]` and `[server]` share; the fields are those of HostAccess."""

    host: SshHostName = LOCAL
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    identity: FilePath = ""
    config: FilePath = ""

    def access(self) -> HostAccess:
        return HostAccess(self.host, self.port, self.identity, self.config)


class GatewayTable(AccessTable):
    """`[gateway]`; the fields are those of RouterSpec."""

    host: SshHostName = ""  # `setting_faults` requires it, unless a place of labgrid gives it
    lan_device: DeviceName | None = None
    lan_address: Interface | None = None
    wan_device: DeviceName | None = None
    wan_address: Interface | None = None

    @field_validator("host")
    @classmethod
    def _is_another_machine(cls, value: str) -> str:
        if value == LOCAL:
            raise ValueError("is another machine: must be what ssh takes, such as root@192.168.1.1")
        return value

    def spec(self) -> RouterSpec:
        return RouterSpec(
            access=self.access(),
            lan=Port(self.lan_device or "", self.lan_address or ""),
            wan=Port(self.wan_device or "", self.wan_address or ""),
        )


class RouterTable(GatewayTable):
    """`[router]`; the fields are those of RouterSpec."""

    price: Annotated[str, Field(max_length=40), AfterValidator(one_line)] = ""
    watts: Annotated[float, Field(ge=0, le=10_000)] | None = None

    def spec(self) -> RouterSpec:
        return replace(super().spec(), price=self.price, watts=self.watts)


class TesterTable(AccessTable):
    """`[client]` and `[server]`; the fields are those of TesterSpec."""

    device: DeviceName | None = None
    address: Interface | None = None
    namespace: bool | None = None

    @model_validator(mode="after")
    def _namespace_is_local(self) -> Self:
        if self.namespace and self.host != LOCAL:
            raise ValueError("a device is moved into a namespace only on this machine: leave namespace out")
        return self

    def spec(self, *, moves: bool) -> TesterSpec:
        """Return the model's dataclass; `moves` is True if a local device moves into a namespace by default."""
        namespace = (moves and self.host == LOCAL) if self.namespace is None else self.namespace
        return TesterSpec(self.access(), Port(self.device or "", self.address or ""), namespace)


class SimulationTable(TomlTable):
    """`[simulation]`; the fields are those of SimulationModel."""

    seed: Annotated[int, Field(ge=0, le=1_000_000)] = SimulationModel.seed
    baseline_mbps: RateMbps = SimulationModel.baseline_mbps
    trial_s: Annotated[float, Field(ge=0, le=3600)] = SimulationModel.trial_s


OTHER_END = {ROUTER_SERVER: "server", ROAD_WARRIOR: "client"}
"""Topologies without a gateway, each with the host on which the tunnel ends besides the router."""

WRONG_KEY = "wrong"
"""Stands for the value of a key that has an error: pydantic leaves such a key out of the values of the other ones."""


class TestbedFile(TomlTable):
    """A testbed file; `setting_faults` checks its kind and the settings of that kind."""

    __test__ = False  # not a test class, although its name starts with Test

    kind: str
    title: Title = TestbedSpec.title
    router_cpu: Annotated[int, Field(ge=0)] | None = TestbedSpec.router_cpu
    kernel: Annotated[str, AfterValidator(_kernel)] = TestbedSpec.kernel
    quiet_wait_s: Annotated[int, Field(ge=0, le=3600)] = TestbedSpec.quiet_wait_s
    topology: Literal["router-server", "road-warrior", "gateway-pair"] | None = None
    """None: that of the file's machines, `router-server` or, with `far_board`, `gateway-pair`."""
    link: LinkTable = LinkTable()
    board: BoardName | None = None
    far_board: BoardName | None = None
    programs: FilePath = TestbedSpec.programs
    far_programs: FilePath = TestbedSpec.far_programs
    speed_mips: Annotated[float, AfterValidator(_speed)] | None = None
    profile: bool = TestbedSpec.profile
    simulation: SimulationTable = SimulationTable()
    router: RouterTable | None = None
    gateway: GatewayTable | None = None
    client: TesterTable | None = None
    server: TesterTable | None = None
    place: PlaceName | None = None
    coordinator: Coordinator = LabgridPlace.coordinator
    place_wait_s: Annotated[int, Field(ge=0, le=86_400)] = LabgridPlace.wait_s
    power_after_s: Annotated[int, Field(ge=5, le=3600)] = LabgridPlace.power_after_s

    @field_validator("coordinator", "place_wait_s", "power_after_s")
    @classmethod
    def _is_of_a_place(cls, value: str | int, info: ValidationInfo) -> str | int:
        if info.data.get("place", WRONG_KEY) is None:
            raise ValueError('is for the key place, such as place = "rack1-router"')
        return value

    @field_validator("far_board")
    @classmethod
    def _ends_the_tunnel(cls, value: str | None, info: ValidationInfo) -> str | None:
        topology = info.data.get("topology") or ""
        if value and (end := OTHER_END.get(topology)):
            raise ValueError(f'cannot be together with topology = "{topology}", whose tunnel ends on the {end}')
        return value

    @field_validator("far_programs")
    @classmethod
    def _are_for_a_machine(cls, value: str, info: ValidationInfo) -> str:
        if value and not info.data.get("far_board", WRONG_KEY):
            raise ValueError('is for the virtual machine of the key far_board, such as far_board = "x86-64"')
        return value

    @field_validator("profile")
    @classmethod
    def _needs_a_fixed_speed(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("speed_mips", WRONG_KEY) is None:
            raise ValueError("needs a router of fixed speed, such as speed_mips = 125")
        return value

    def spec(self, name: str) -> TestbedSpec:
        return TestbedSpec(
            name=name,
            kind=self.kind,
            title=self.title,
            link=self.link.link(),
            router_cpu=self.router_cpu,
            kernel=self.kernel,
            quiet_wait_s=self.quiet_wait_s,
            topology=GATEWAY_PAIR if self.far_board else self.topology or ROUTER_SERVER,
            board=self.board or "",
            far_board=self.far_board or "",
            programs=self.programs,
            far_programs=self.far_programs,
            speed_mips=self.speed_mips,
            profile=self.profile,
            simulation=SimulationModel(**self.simulation.model_dump()),
            router=(self.router or RouterTable()).spec() if self.router or self.place else None,
            gateway=self.gateway.spec() if self.gateway else None,
            client=(self.client or TesterTable()).spec(moves=False),
            server=(self.server or TesterTable()).spec(moves=True),
            place=self._labgrid_place(),
        )

    def _labgrid_place(self) -> LabgridPlace | None:
        if self.place is None:
            return None
        return LabgridPlace(self.place, self.coordinator, self.place_wait_s, self.power_after_s)


TESTBED_KEYS: tuple[tuple[str, ...], ...] = tuple(key_paths(TestbedFile))


ROUTER_KEY = "router"
GATEWAY_KEY = "gateway"
GATEWAY_BOARD_KEY = "far_board"
GIVEN_BY_PLACE = ("host", "port")
"""Keys of [router] that a place of labgrid gives."""
SSH_PORT = 22
"""Port of SSH if a table states none."""


class Kind(Protocol):
    """A kind of testbed, with the settings that its files may have."""

    @property
    def settings(self) -> KindSettings:
        """The settings that it supports."""


Kinds = Mapping[str, Kind]
"""The kinds of testbeds by their names."""


def setting_faults(kind: str, data: Mapping[str, Any], kinds: Kinds) -> Iterator[tuple[KeyPath, str]]:
    """Yield each key of a testbed file that its kind does not support, and each that is missing, with a message."""
    settings = kinds[kind].settings
    for path in TESTBED_KEYS:
        table, key = data, ".".join(path)
        if len(path) > 1:
            table = data.get(path[0], {})
            if not isinstance(table, Mapping) or settings.allowed(path[0]) is None:
                continue  # the table itself is the fault
        if path[-1] not in table:
            continue
        allowed = settings.allowed(key)
        if allowed is None or (allowed and table[path[-1]] not in allowed):
            what = "this key" if allowed is None else value_text(table[path[-1]])
            others = [quoted(name) for name, other in kinds.items() if other.settings.allowed(key) == ()]
            only = f"only {joined(others)} testbeds do"
            yield path, f"{quoted(kind)} testbeds do not support {what}, {only}"
    has_place = "place" in data and settings.allowed("place") is not None
    for key, example in settings.required.items():
        if key not in data and not (key == ROUTER_KEY and has_place):
            yield (key,), f"is missing; {quoted(kind)} testbeds need it, such as {example}"
    if isinstance(router := data.get(ROUTER_KEY), Mapping) and settings.allowed(ROUTER_KEY) is not None:
        yield from _address_faults(router, has_place=has_place)
    yield from _gateway_faults(data, settings)


def _gateway_faults(data: Mapping[str, Any], settings: KindSettings) -> Iterator[tuple[KeyPath, str]]:
    """Yield the faults of a pair of gateways: a real one needs the table, a virtual one the board."""
    is_pair, gateway = data.get("topology") == GATEWAY_PAIR, data.get(GATEWAY_KEY)
    if is_pair and settings.allowed(GATEWAY_BOARD_KEY) is not None and GATEWAY_BOARD_KEY not in data:
        yield (GATEWAY_BOARD_KEY,), f'is missing; topology = "{GATEWAY_PAIR}" needs it, such as far_board = "x86-64"'
    if settings.allowed(GATEWAY_KEY) is None:
        return
    if is_pair and gateway is None:
        yield (GATEWAY_KEY,), f'is missing; topology = "{GATEWAY_PAIR}" needs [gateway] with host = "root@192.168.2.1"'
    if gateway is not None and not is_pair:
        yield (GATEWAY_KEY,), f'needs topology = "{GATEWAY_PAIR}"'
    if is_pair and isinstance(gateway, Mapping) and "host" not in gateway:
        yield (GATEWAY_KEY, "host"), "is missing"
    router = data.get(ROUTER_KEY)
    if is_pair and isinstance(gateway, Mapping) and isinstance(router, Mapping):
        address = _ssh_address(gateway)
        if address is not None and address == _ssh_address(router):
            yield (GATEWAY_KEY, "host"), "is the machine of [router], and the gateway must be another machine"


def _ssh_address(table: Mapping[str, Any]) -> tuple[str, object, object] | None:
    """Return the host without its user, the port, and the file that may state more; None: no host is named."""
    host = table.get("host")
    if not isinstance(host, str):
        return None
    return host.rpartition("@")[2].lower(), table.get("port", SSH_PORT), table.get("config")


def _address_faults(router: Mapping[str, Any], *, has_place: bool) -> Iterator[tuple[KeyPath, str]]:
    """Yield the keys of [router] that are missing, or that a place of labgrid gives as well."""
    if not has_place and "host" not in router:
        yield (ROUTER_KEY, "host"), "is missing"
    for key in GIVEN_BY_PLACE:
        if has_place and key in router:
            yield (ROUTER_KEY, key), "the place gives it, too: leave one of the two out"
