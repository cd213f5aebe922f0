"""Program that does one thing with a place of labgrid, and prints the outcome as JSON; `labgrid.py` starts it.

    python -m tunnelbench.host.labgrid_session acquire COORDINATOR HOLDER PLACE WAIT_S
                                               holder  COORDINATOR HOLDER PLACE
                                               release COORDINATOR HOLDER PLACE
                                               power   COORDINATOR HOLDER PLACE

HOLDER is the name `MACHINE/USER` under which labgrid keeps a place acquired. labgrid keeps a place acquired without a
connection, so that this program ends as soon as it is done. Only this module imports labgrid (tested with 26.0.1).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

import grpc
from labgrid.remote import client
from labgrid.remote.common import Place, Reservation, ReservationState, ResourceEntry
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.util.proxy import proxymanager

DEFAULT_PORT = 20408
ANSWER_LIMIT_S = 10.0
"""Longest time for the coordinator to accept a connection and send its places [s]."""

TURN_POLL_S = 1.0
"""Time between two looks at a reservation [s]; labgrid deletes one that nobody has looked at for a minute."""

MOST_CHARACTERS = 300
"""Largest length of a text of the coordinator that is printed [characters]."""

OTHER_SETTINGS = ("LG_ENV", "LG_PLACE", "PLACE", "LG_STATE", "STATE", "LG_INITIAL_STATE", "LG_TOKEN")
"""Environment variables by which labgrid-client would use another place, or first change the state of a device."""


PLAIN_WORD = re.compile(r"([A-Za-z0-9_.:/\[][A-Za-z0-9_.:/@%+,=~\[\]-]*)?")
"""Values that a resource may have: names, addresses, ports, paths. labgrid's drivers put them into a command that they
split at blanks, or that a remote shell runs."""

POWER_URL = re.compile(r"https?://([A-Za-z0-9_.:/@%+,=~\[\]?&#-]|\{index\}|\{value\})+")
"""URL that a NetworkPowerPort may have as its host, with the fields that labgrid's `rest` and `simplerest` fill."""


class LabgridOutcome(Exception):
    """An outcome that ends the program early; its argument is printed."""


def unsafe_value(resource: ResourceEntry) -> str:
    """Return a sentence about a value of a resource that could add options to a command; empty if it has none.

    No driver uses the password of a NetworkService, so it may have any characters.
    """
    for key, value in {**resource.args, "extra": resource.extra}.items():
        for text in texts_of(value):
            is_url = (resource.cls, key) == ("NetworkPowerPort", "host") and POWER_URL.fullmatch(text)
            is_unused = (resource.cls, key) == ("NetworkService", "password")
            if not (PLAIN_WORD.fullmatch(text) or is_url or is_unused):
                return f"{resource.cls} has the value {text[:60]!r}, and a command could take a part of it as an option"
    return ""


def texts_of(value: object) -> Iterator[str]:
    """Yield the values in a value of a resource as texts."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)
    else:
        yield str(value)


labgrids_target_resources = client.ClientSession.get_target_resources


def checked_target_resources(session: client.ClientSession, place: Place) -> dict[tuple[str, str], ResourceEntry]:
    """Return a copy of a place's resources, which the coordinator cannot change any more, for labgrid's drivers.

    Raises labgrid's UserError if a value could add options to a command.
    """
    found: dict[tuple[str, str], ResourceEntry] = deepcopy(labgrids_target_resources(session, place))
    for resource in found.values():
        if why := unsafe_value(resource):
            raise client.UserError(why)
    return found


class PlaceSession:
    """A connection to the coordinator, under the name of a holder."""

    def __init__(self, session: client.ClientSession, holder: str, name: str) -> None:
        self.session = session
        self.holder = holder
        self.name = name

    @property
    def place(self) -> Place:
        """The place of exactly this name. labgrid-client would also take one whose name contains it."""
        if self.name not in self.session.places:
            raise LabgridOutcome({"state": "no-place"})
        return self.session.places[self.name]

    async def acquire(self, wait_s: float) -> Mapping[str, Any]:
        """Acquire the place after its turn has come, and return the address in its resource NetworkService.

        A reservation is the place in labgrid's queue. It is cancelled in any case: an acquired place needs none.
        """
        address = self.network_service()
        if self.place.acquired == self.holder:  # the same run has been here before
            return address
        wanted = messages.Reservation.Filter(filter={"name": self.name})
        request = messages.CreateReservationRequest(filters={"main": wanted}, prio=0.0)
        token = (await self.session.stub.CreateReservation(request)).reservation.token
        try:
            await self._wait_for_turn(token, wait_s)
            await self.session.stub.AcquirePlace(messages.AcquirePlaceRequest(placename=self.name))
        finally:
            await self.session.stub.CancelReservation(messages.CancelReservationRequest(token=token))
        return address

    async def _wait_for_turn(self, token: str, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while True:
            answer = await self.session.stub.PollReservation(messages.PollReservationRequest(token=token))
            state = Reservation.from_pb2(answer.reservation).state
            if state is ReservationState.allocated:
                return
            if state is not ReservationState.waiting:
                raise LabgridOutcome({"state": "refused", "why": f"the reservation is {state.name}"})
            if time.monotonic() > deadline:
                raise LabgridOutcome(await self.holding())
            await asyncio.sleep(TURN_POLL_S)

    def resources(self) -> Iterator[ResourceEntry]:
        """Yield the resources that match the place and are available."""
        for exporter, groups in self.session.resources.items():
            for group, resources in groups.items():
                for name, resource in resources.items():
                    is_there = "cls" in resource.data and resource.avail  # a deleted one has no class
                    if is_there and self.place.hasmatch((exporter, group, resource.cls, name)):
                        yield resource

    def network_service(self) -> Mapping[str, Any]:
        """Return the address in the only resource NetworkService that matches the place."""
        resources = [*self.resources()]
        for resource in resources:
            if why := unsafe_value(resource):
                raise LabgridOutcome({"state": "refused", "why": why})
        found = [each.args for each in resources if each.cls == "NetworkService"]
        if len(found) != 1:
            raise LabgridOutcome({"state": "services", "count": len(found)})
        return {"state": "acquired", **{key: found[0].get(key) for key in ("address", "username", "port")}}

    async def holding(self) -> Mapping[str, Any]:
        """Return who has acquired the place, or for whom it is reserved."""
        if self.place.acquired:
            return {"state": "held", "by": self.place.acquired, "is_reserved": False}
        answer = await self.session.stub.GetReservations(messages.GetReservationsRequest())
        owners = [each.owner for each in answer.reservations if self.name in each.allocations.values()]
        if owners:
            return {"state": "held", "by": owners[0], "is_reserved": True}
        return {"state": "free"}

    async def release(self) -> Mapping[str, Any]:
        """Release the place if the holder has it; labgrid ignores the request if somebody else has the place."""
        answer = await self.session.stub.GetReservations(messages.GetReservationsRequest())
        for token in [each.token for each in answer.reservations if each.owner == self.holder]:
            with suppress(grpc.aio.AioRpcError):  # it has just expired
                await self.session.stub.CancelReservation(messages.CancelReservationRequest(token=token))
        place = self.session.places.get(self.name)
        was_held = place is not None and place.acquired == self.holder
        if was_held:
            request = messages.ReleasePlaceRequest(placename=self.name, fromuser=self.holder)
            await self.session.stub.ReleasePlace(request)
        return {"state": "released", "was_held": was_held}


async def outcome_of(verb: str, coordinator: str, holder: str, place: str, wait_s: str = "0") -> Mapping[str, Any]:
    """Connect to the coordinator, carry out a verb, and return the outcome."""
    address = proxymanager.get_grpc_address(coordinator, default_port=DEFAULT_PORT)
    session = client.ClientSession(address, asyncio.get_running_loop())
    try:
        await asyncio.wait_for(session.start(), ANSWER_LIMIT_S)
    except (client.ServerError, TimeoutError):
        return {"state": "no-coordinator"}
    at_place = PlaceSession(session, holder, place)
    try:
        if verb == "acquire":
            return await at_place.acquire(float(wait_s))
        return await (at_place.release() if verb == "release" else at_place.holding())
    except LabgridOutcome as outcome:
        found: Mapping[str, Any] = outcome.args[0]
        return found
    except grpc.aio.AioRpcError as error:
        return {"state": "refused", "why": error.details()}
    finally:
        await session.stop()
        await session.close()


def shortened(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return an outcome whose texts are no longer than MOST_CHARACTERS."""
    return {key: value[:MOST_CHARACTERS] if isinstance(value, str) else value for key, value in outcome.items()}


def main() -> None:
    verb, coordinator, holder, place = sys.argv[1:5]
    os.environ["LG_HOSTNAME"], os.environ["LG_USERNAME"] = holder.split("/", 1)
    for name in OTHER_SETTINGS:
        os.environ.pop(name, None)
    if verb == "power":  # labgrid-client knows which driver belongs to which power switch
        client.ClientSession.get_target_resources = checked_target_resources
        sys.argv = ["labgrid-client", f"--coordinator={coordinator}", f"--place={place}", "power", "cycle"]
        client.main()  # it exits
    outcome = asyncio.run(outcome_of(verb, coordinator, holder, place, *sys.argv[5:]))
    print(json.dumps(shortened(outcome)))  # noqa: T201


if __name__ == "__main__":
    main()
