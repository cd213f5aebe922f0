"""Reads campaign files: plans, testbeds and repetitions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, PlainValidator, field_validator

from tunnelbench.model.campaign import CampaignSpec
from tunnelbench.model.text import printable
from tunnelbench.plan.check import check_table
from tunnelbench.plan.errors import Faults, FileErrors
from tunnelbench.plan.files import read_path
from tunnelbench.plan.parse import parse
from tunnelbench.plan.schema import long_duration
from tunnelbench.plan.schema_base import TomlTable, key_paths, one_line

MOST_PLANS, MOST_TESTBEDS, MOST_REPETITIONS = 100, 1000, 1000
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""Names of campaigns and of testbeds in the queue."""

PlanReference = Annotated[str, Field(min_length=1, max_length=4096)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class CampaignFile(TomlTable):
    """A campaign file; the fields are those of CampaignSpec."""

    name: Name | None = None
    plans: Annotated[list[PlanReference], Field(min_length=1, max_length=MOST_PLANS)]
    testbeds: Annotated[list[Name], Field(min_length=1, max_length=MOST_TESTBEDS)]
    repetitions: Annotated[int, Field(ge=1, le=MOST_REPETITIONS)] = CampaignSpec.repetitions
    priority: Annotated[int, Field(ge=-1000, le=1000)] = CampaignSpec.priority
    deadline: Annotated[float, PlainValidator(long_duration)] | None = None

    @field_validator("plans", "testbeds")
    @classmethod
    def _are_unique(cls, values: list[str]) -> list[str]:
        for place, value in enumerate(values):
            one_line(value)
            if value in values[:place]:
                raise ValueError(f"names {printable(value)} twice; repetitions is the key for several runs")
        return values


CAMPAIGN_KEYS = key_paths(CampaignFile)


def read_campaign(path: str) -> CampaignSpec:
    """Read a campaign file; paths of its plans are relative to its folder. Raises FileErrors with all errors of it."""
    source = read_path(path)
    parsed = parse(source.text, source.file)
    faults = Faults(source.file, parsed.located)
    file = check_table(CampaignFile, parsed.data, CAMPAIGN_KEYS, faults)
    name = (file.name if file else None) or Path(path).name.removesuffix(".toml")
    if not re.match(NAME_PATTERN, name):
        faults.add((), 'has no name that a campaign can have; add one, such as name = "spring"')
    if file is None or faults.errors:
        raise FileErrors(faults.errors)
    return CampaignSpec(
        name,
        tuple(_plan(plan, Path(path).parent) for plan in file.plans),
        tuple(file.testbeds),
        file.repetitions,
        file.priority,
        file.deadline,
    )


def _plan(reference: str, folder: Path) -> str:
    """Return the name of a shipped plan, or the path of a file that the campaign file names from its own folder."""
    return str(folder / reference) if "/" in reference or reference.endswith(".toml") else reference
