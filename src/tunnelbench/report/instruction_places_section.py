"""Report section on the kernel functions and programs in which a router of fixed speed executes its instructions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tunnelbench.analysis.instruction_places import InstructionPlaces
from tunnelbench.analysis.number_format import percent
from tunnelbench.model.text import counted
from tunnelbench.report.sections import Section
from tunnelbench.report.text import one_line

MOST_SHOWN_PLACES = 12
"""Number of places of each tunnel that the list has; the page's chart has all."""

PLACES_TITLE = "Where the instructions go: "
"""Beginning of the titles of these sections."""

PLACES_NOTE = (
    "Share of the router's instructions at each place: a function of the kernel or of one of its modules, or a file of "
    "the tunnel's program. Median over the trials. Places that are not in the list have the rest."
)


def instruction_places_section(every: Sequence[InstructionPlaces]) -> list[Section]:
    """Return one section for each tunnel, payload and direction."""
    return [
        Section(
            title=one_line(PLACES_TITLE + title_of(each)),
            items=tuple(
                one_line(f"{percent(share)} {place}") for place, share in islice(each.shares.items(), MOST_SHOWN_PLACES)
            ),
            notes=(f"{counted(each.trials, 'trial')}, {each.data_packets_per_s:.0f} data packets/s. {PLACES_NOTE}",),
        )
        for each in every
    ]


def title_of(each: InstructionPlaces) -> str:
    """Return the tunnel, and the kind of its traffic, in words."""
    return f"{each.tunnel.name}, {each.traffic}"
