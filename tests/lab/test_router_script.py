"""The package on a router that has busybox and nothing else: an empty root, its /tmp a small RAM disk."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
FOLDER = "/tmp/tunnelbench-dut-lab"


class EmptyRouter:
    """A root with busybox, entered in namespaces of its own that end with it, and all its processes with them."""

    def __init__(self, root: Path) -> None:
        for name in ("bin", "dev", "proc", "tmp", "usr/sbin"):
            (root / name).mkdir(parents=True)
        (root / "dev" / "null").touch()
        (root / "bin" / "busybox").write_bytes(Path("/usr/bin/busybox").read_bytes())
        (root / "bin" / "busybox").chmod(0o755)
        subprocess.run([str(ROOT / "openwrt" / "build-ipk"), str(root)], check=True, capture_output=True)
        setup = (
            "mount -t proc proc $0/proc && mount --bind /dev/null $0/dev/null && "
            "mount -t tmpfs -o size=256k none $0/tmp && "
            "exec chroot $0 /bin/busybox ash -c '/bin/busybox --install -s /bin; echo up; exec ash'"
        )
        self.shell = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", setup, str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def install(self) -> None:
        """Unpack the package like opkg: a tar that contains tars."""
        assert self.shell.stdout
        assert self.shell.stdout.readline() == "up\n"
        unpack = "cd /tmp && tar xzf /*.ipk && tar xzf data.tar.gz -C / && rm ./*"
        assert self.run(unpack) == (0, "")

    def run(self, line: str) -> tuple[int, str]:
        """Run a line in the router's shell, and return the exit code and the output."""
        assert self.shell.stdin
        assert self.shell.stdout
        self.shell.stdin.write(f"({line}) </dev/null; echo = $?\n")
        self.shell.stdin.flush()
        output = ""
        while not (read := self.shell.stdout.readline()).startswith("= "):
            assert read, f"the router's shell has ended: {output}"
            output += read
        return int(read.removeprefix("= ")), output

    def dut(self, words: str) -> tuple[int, str]:
        return self.run(f"tunnelbench-dut {words}")

    def lease(self) -> dict[str, Any]:
        code, text = self.dut("lease show")
        assert code == 0
        found: dict[str, Any] = json.loads(text)
        return found

    def close(self) -> None:
        self.shell.communicate(timeout=20)


@pytest.fixture
def router(lab: None, tmp_path: Path) -> Iterator[EmptyRouter]:
    made = EmptyRouter(tmp_path / "root")
    try:
        made.install()
        yield made
    finally:
        made.close()


def test_the_package_runs_where_only_busybox_is(router: EmptyRouter) -> None:
    code, text = router.dut("facts")
    facts = json.loads(text)
    assert code == 0
    assert facts["busybox"]
    assert 0 < facts["tmp_free_kib"] <= 256
    assert "system" not in facts
    assert router.dut(f"lease take {FOLDER} lab 4")[0] == 0
    assert router.run(f"echo 'echo undone >/undone' | tunnelbench-dut undo add {FOLDER}") == (0, "100001\n")
    assert router.dut(f"start {FOLDER} daemon sleep 60")[0] == 0
    assert router.dut(f"start {FOLDER} sampler tunnelbench-dut sample {FOLDER} 1 1")[0] == 0
    assert router.lease()["state"] == "held"
    deadline = time.monotonic() + 30
    while not router.run(f"tail -n 1 {FOLDER}/samples")[1].startswith(("end", "tail:")):
        assert time.monotonic() < deadline, "no sample was taken"
        time.sleep(0.2)
    while router.lease()["state"] != "free":
        assert time.monotonic() < deadline, "the lease did not end"
        time.sleep(0.2)
    assert router.run("cat /undone") == (0, "undone\n")
    assert router.run("ls -A /tmp") == (0, "")
    assert router.run("ps -o args | grep -c '[s]leep 60'") == (1, "0\n")


def test_a_full_tmp_is_reported_and_cleaned_up(router: EmptyRouter) -> None:
    assert router.dut(f"lease take {FOLDER} lab 60")[0] == 0
    assert router.run(f"echo 'echo undone >/undone' | tunnelbench-dut undo add {FOLDER}")[0] == 0
    router.run("yes >/tmp/fill 2>/dev/null")
    code, text = router.run(f"echo 'true' | tunnelbench-dut undo add {FOLDER}")
    assert (code, text) == (6, f"tunnelbench-dut: standard input is empty, or there is no space left in {FOLDER}\n")
    code, text = router.dut(f"lease extend {FOLDER} lab 90")
    assert code == 6
    assert "is there no space left?" in text
    code, text = router.dut(f"sample {FOLDER} 1 1")
    assert code == 6
    assert "is there no space left?" in text
    assert router.lease()["state"] == "held"
    assert router.dut(f"clean {FOLDER}") == (0, "")
    assert router.run("cat /undone") == (0, "undone\n")
    router.run("yes >>/tmp/fill 2>/dev/null")
    code, text = router.dut(f"lease take {FOLDER} lab 60")
    assert code == 6
    assert "is there no space left?" in text
    assert router.run("ls -A /tmp") == (0, "fill\n")
