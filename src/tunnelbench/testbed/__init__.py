"""Where client, router and server come from; one file a kind of testbed."""

from __future__ import annotations

from pathlib import Path

from tunnelbench.model.testbed import TestbedSpec
from tunnelbench.testbed.base import Testbed
from tunnelbench.testbed.netns import NetnsTestbed
from tunnelbench.testbed.qemu import QemuTestbed
from tunnelbench.testbed.ssh import SshTestbed

KINDS: dict[str, type[Testbed]] = {kind.kind: kind for kind in (NetnsTestbed, QemuTestbed, SshTestbed)}


def open_testbed(spec: TestbedSpec, run_id: str, folder: Path) -> Testbed:
    """The testbed of a specification, not yet set up; `with` sets it up and takes it down."""
    return KINDS[spec.kind](spec, run_id, folder)
