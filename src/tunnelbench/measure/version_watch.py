"""Detects that programs change their versions during a run: figures of two versions are not repeats of each other."""

from __future__ import annotations

from collections.abc import Mapping

from tunnelbench import __version__
from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import GENERATORS, Check, TrialRecord, Verdict

ACCEPT = "--accept-versions"
"""Option of `tunnelbench run` that lets a run continue with other versions."""


class VersionWatch:
    """Compares versions with earlier ones of the run.

    A tunnel's programs are compared with the tunnel's first trial. The generators of the traffic are compared with the
    first trial of any tunnel, because all rows depend on them.
    """

    def __init__(self, begun_with: str) -> None:
        self._own = {"TunnelBench": (begun_with, __version__)} if begun_with != __version__ else {}
        self._first: dict[str, Mapping[str, str]] = {}
        """Versions in the first trial of each tunnel, by the tunnel's name."""
        self._generators: dict[str, str] = {}
        """Versions of the generators in their first trials."""

    def note(self, record: TrialRecord) -> None:
        """Take the versions from a record, if it is the first one of its tunnel, or of a generator."""
        if record.proof and record.proof.versions:
            self._first.setdefault(record.spec.tunnel.name, record.proof.versions)
            self.note_generators(record.proof.versions)

    def note_generators(self, versions: Mapping[str, str]) -> None:
        """Note the versions of the traffic generators for which no version is known yet."""
        self._generators = {name: found for name, found in versions.items() if _is_generator(name)} | self._generators

    def check(self, tunnel: str, versions: Mapping[str, str]) -> tuple[Check, ...]:
        """Return a check that is not ok if a version has changed; nothing if none has."""
        found = self._changes(tunnel, versions)
        return (Check("versions", Verdict.DOUBTFUL, f"in earlier trials {found}", rule=21),) if found else ()

    def require_same(self, tunnel: str, versions: Mapping[str, str]) -> None:
        """Raise WrongInput if the versions of a tunnel's programs are not those of its earlier trials."""
        if found := self._changes(tunnel, versions):
            raise WrongInput(
                f"{tunnel}: programs have changed since the run began: in earlier trials {found}",
                f"install the earlier versions, start a new run, or add {ACCEPT}: the new trials are then doubtful",
            )

    def _changes(self, tunnel: str, versions: Mapping[str, str]) -> str:
        pairs = self._own | {name: (self._before(tunnel, name), now) for name, now in versions.items()}
        return ", ".join(
            f"{name} was {old}, and is {now} now" for name, (old, now) in pairs.items() if old not in ("", now)
        )

    def _before(self, tunnel: str, name: str) -> str:
        """Return the earlier version of a program of a tunnel; empty if there are no earlier trials."""
        if _is_generator(name):
            return self._generators.get(name, "")
        first = self._first.get(tunnel, {})
        return first.get(name, "missing") if first else ""


def _is_generator(name: str) -> bool:
    """Return True for a name such as `client.iperf3`."""
    return name.partition(".")[2] in GENERATORS
