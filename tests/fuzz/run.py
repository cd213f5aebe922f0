"""Fuzz one target: `python -m tests.fuzz.run TARGET --seconds N`.

Atheris guides the changes by the lines that an input reaches. `--plain` changes inputs at random, without Atheris. Each
input with a new kind of finding is kept in the folder of findings, and the fuzzer continues.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.target import INPUT_LIMIT_S, LONGEST_INPUT_BYTES, Target, find

ROOT = Path(__file__).parents[2]
TARGETS = ("plans", "testbeds", "imports", "foreign_results", "tables", "daemon_output")
REGRESSIONS = Path(__file__).parent / "regressions"
"""Inputs that once were findings, in a folder for each target; a test replays them."""

MEMORY_LIMIT_MB = 2000
"""Largest memory of the fuzzer, its corpus included [MB]."""


def load(name: str) -> Target:
    """Return a target by its name."""
    found: Target = importlib.import_module(f"tests.fuzz.{name}").TARGET
    return found


def inputs(target: Target) -> Iterator[bytes]:
    """Yield the seeds and the regressions of a target."""
    yield from target.seeds()
    for path in sorted((REGRESSIONS / target.name).glob("*")):
        yield path.read_bytes()


class Recorder:
    """Tries inputs, and keeps the first input of each kind of finding."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        self.folder = folder
        self.places: set[str] = set()
        self.count = 0

    def take(self, data: bytes) -> None:
        self.count += 1
        found = find(self.target, data)
        if found is None or found.place in self.places:
            return
        self.places.add(found.place)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / sha256(data).hexdigest()[:12]
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(f"{found.place}\n{found.report}", errors="backslashreplace")
        print(f"finding: {found.place}: {path}", flush=True)


def run_plain(recorder: Recorder, seconds: float, seed: int) -> None:
    """Change the inputs at random for that time [s]; an input that is taken joins those that are changed."""
    choose = random.Random(seed)
    corpus = list(inputs(recorder.target))
    until = time.monotonic() + seconds
    for data in corpus:
        if time.monotonic() < until:
            recorder.take(data)
    while time.monotonic() < until:
        data = mutated(choose.choice(corpus), choose, recorder.target.words)
        if choose.random() < 0.02:
            corpus.append(data)
        recorder.take(data)


def run_guided(recorder: Recorder, seconds: float, seed: int, corpus: Path) -> None:
    """Let Atheris choose the changes; it ends the process."""
    import atheris

    target = recorder.target
    for data in inputs(target):
        (corpus / sha256(data).hexdigest()).write_bytes(data)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        choose = random.Random(seed)
        changed: bytes = (
            mutated(data, choose, target.words) if choose.random() < 0.6 else atheris.Mutate(data, max_size)
        )
        return changed[:max_size]

    options = [
        f"-max_total_time={round(seconds)}",
        f"-max_len={LONGEST_INPUT_BYTES}",
        f"-rss_limit_mb={MEMORY_LIMIT_MB}",
        f"-timeout={round(INPUT_LIMIT_S * 6)}",
        "-report_slow_units=100000",  # by the clock: on a busy machine all inputs are slow
        f"-seed={seed}",
        f"-artifact_prefix={recorder.folder}/",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    recorder.folder.mkdir(parents=True, exist_ok=True)
    atheris.Setup([sys.argv[0], *options, str(corpus)], recorder.take, custom_mutator=change)
    atheris.Fuzz()


def fuzz(options: argparse.Namespace) -> None:
    """Fuzz in this process; with Atheris, it does not return."""
    folder: Path = options.folder / options.target
    seed = options.seed or random.SystemRandom().randrange(1, 2**31)
    if options.plain or importlib.util.find_spec("atheris") is None:
        recorder = Recorder(load(options.target), folder / "findings")
        run_plain(recorder, options.seconds, seed)
        print(f"Done {recorder.count} runs in {options.seconds:.0f} second(s), without Atheris", flush=True)
        return
    import atheris

    with atheris.instrument_imports(include=["tunnelbench"], enable_loader_override=False):
        target = load(options.target)
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    run_guided(Recorder(target, folder / "findings"), options.seconds, seed, corpus)


def main() -> None:
    """Fuzz a target in a process of its own; the exit status is 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one")
    parser.add_argument("--plain", action="store_true", help="change inputs at random, without Atheris")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "fuzz", help="for the corpus and findings")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        fuzz(options)
        return
    findings: Path = options.folder / options.target / "findings"
    shutil.rmtree(findings, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "tests.fuzz.run", *sys.argv[1:], "--in-this-process"], check=False)
    found = sorted(findings.glob("*")) if findings.is_dir() else []
    for path in found:
        if path.suffix == ".txt":
            print(f"\n{path.with_suffix('')}: {path.read_text(errors='replace')}")
        elif not path.with_suffix(".txt").exists():
            print(f"\n{path}: ended the fuzzer")
    sys.exit(1 if found or done.returncode else 0)


if __name__ == "__main__":
    main()
