"""Geneve (RFC 8926) of the kernel, between two fixed ends."""

from __future__ import annotations

from pydantic import Field

from tunnelbench.tunnel.kernel import Overlay, OverlayOptions


class Options(OverlayOptions):
    port: int = Field(default=6081, ge=1, le=65535, description="UDP port at both ends")


class Geneve(Overlay[Options]):
    """Plan entry: `kind = "geneve"`. Ethernet in UDP, no cipher, wholly in the kernel."""

    kind = "geneve"
    title = "Geneve of the kernel: Ethernet in UDP, no cipher"
    options_type = Options
    tested_with = "Linux 6.1 (Debian 12)"
    plans = {"all": {"name": "Geneve"}}
    added_bytes = {"": "50"}
    device = "geneve0"
    link_type = "geneve"
    header_bytes = 8
    """Length without options, of which the kernel's device adds none by itself (RFC 8926, section 3.4) [bytes]."""
