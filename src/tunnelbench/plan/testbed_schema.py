"""The keys of testbed files, their types and ranges."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

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
from tunnelbench.plan.tables import Table, Title, key_paths, one_line
from tunnelbench.plan.wording import value_text
from tunnelbench.qemu.boards import BOARDS

LEAST_CPU_SHARE_PERCENT = 10
"""A control group's quota is 1 ms at least, and we give it each 10 ms (kernel/sched/core.c, min_cfs_quota_period)."""


RateMbps = Annotated[float, Field(ge=0.1, le=100_000)]


def _kernel(value: str) -> str:
    if value in (HOST_KERNEL, DEBIAN_KERNEL) or value.startswith("/"):
        return one_line(value)
    raise ValueError(
        f'must be "{HOST_KERNEL}", "{DEBIAN_KERNEL}" or the path of a kernel\'s image from / on,'
        f" not {value_text(value)}"
    )


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
FilePath = Annotated[str, Field(max_length=4096), AfterValidator(one_line)]


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
    price: Annotated[str, Field(max_length=40), AfterValidator(one_line)] = ""
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
    far_board: str | None = None
    cpu_share_percent: Annotated[float, Field(ge=LEAST_CPU_SHARE_PERCENT, le=100)] | Literal["auto"] | None = None
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
            if (self.board, self.far_board, self.cpu_share_percent) != (None, None, None):
                raise ValueError(
                    'board, far_board and cpu_share_percent are for kind = "qemu": this kind has no virtual router'
                )
        elif self.board not in BOARDS:
            raise ValueError(f'a testbed of kind "qemu" needs a board: one of {", ".join(BOARDS)}')
        elif self.far_board is not None and self.far_board not in BOARDS:
            raise ValueError(f"far_board must be one of {', '.join(BOARDS)}, not {value_text(self.far_board)}")
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
            far_board=self.far_board or "",
            cpu_share_percent=None if self.cpu_share_percent == "auto" else self.cpu_share_percent,
            finds_cpu_share=self.cpu_share_percent == "auto",
            router=self.router.spec() if self.router else None,
            client=(self.client or TesterTable()).spec(moves=False),
            server=(self.server or TesterTable()).spec(moves=True),
        )


TESTBED_KEYS: tuple[tuple[str, ...], ...] = tuple(key_paths(TestbedFile))
