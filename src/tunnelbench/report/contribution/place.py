"""Names of contributed files: `results/DEVICE/RUN.json`."""

from __future__ import annotations

import re

from tunnelbench.model.errors import WrongInput
from tunnelbench.model.result import RunRecord
from tunnelbench.model.text import printable
from tunnelbench.report.site.gather import device_name

RESULTS = "results"
"""Name of the folder of contributed runs."""
READ_ME = "README.md"
"""The only file that stands in that folder itself."""

LONGEST_FOLDER_NAME = 80
_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-z]{1,20}")
"""Id of a run: date, time and a word."""


def file_of(run: RunRecord, run_id: str) -> str:
    """Return the path of a run's file below `results`; `run_id` is its id where it was measured.

    Raises WrongInput if that is no id of a run.
    """
    if not _RUN_ID.fullmatch(run_id):
        message = f"its id {printable(run_id)[:60]!r} is not a date, a time and a word"
        raise WrongInput(message, "contribute the run under the id that `tunnelbench run` gave it")
    return f"{device_folder(device_name(run))}/{run_id}.json"


def device_folder(device: str) -> str:
    """Return the name of a device's folder: its name in small letters, with a hyphen for all but letters and digits."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower())[:LONGEST_FOLDER_NAME].strip("-") or "device"
