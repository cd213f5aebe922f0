"""Stand-ins for what adapters say of their options."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field, model_validator


class Transport(StrEnum):
    UDP = "udp"
    TCP = "tcp"


class NoOptions(BaseModel):
    pass


class OpenvpnOptions(BaseModel):
    mode: Literal["tls", "static-key"] = "tls"
    transport: Transport = Transport.UDP
    cipher: Literal["AES-128-GCM", "AES-256-GCM", "AES-128-CBC", "BF-CBC", "none"] = "AES-256-GCM"
    auth: str = Field("SHA256", pattern="^[A-Za-z0-9-]+$")
    mssfix: int | None = Field(None, ge=0, le=1500)
    tun_mtu: int | Literal["auto"] = 1500
    compress: bool = False

    @model_validator(mode="after")
    def static_keys_have_no_aead(self) -> OpenvpnOptions:
        if self.mode == "static-key" and self.cipher.endswith("GCM"):
            raise ValueError('mode "static-key" takes no GCM cipher')
        return self


class TincOptions(BaseModel):
    cipher: str = "aes-256-cbc"
    digest: str = "sha256"
    mode: Literal["router", "switch"] = "router"
    legacy: bool = False


class FastdOptions(BaseModel):
    method: str


@pytest.fixture(scope="session")
def schemas() -> Mapping[str, type[BaseModel]]:
    return {
        "none": NoOptions,
        "vxlan": NoOptions,
        "wireguard": NoOptions,
        "wireguard-go": NoOptions,
        "openvpn": OpenvpnOptions,
        "tinc": TincOptions,
        "fastd": FastdOptions,
    }


@pytest.fixture(scope="session")
def known_kinds() -> Mapping[str, str]:
    return dict.fromkeys(("gre", "ipip", "l2tpv2-ppp"), "there is no adapter for it yet")
