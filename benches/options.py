"""Types of the options of the benches."""

from __future__ import annotations

import argparse
import math


def at_least_one(text: str) -> int:
    """Return a number from 1. Raises ArgumentTypeError, which argparse prints as a sentence."""
    if not text.isdecimal() or not text.isascii() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def seconds(text: str) -> float:
    """Return a time above 0 [s]. Raises ArgumentTypeError, which argparse prints as a sentence."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return found
