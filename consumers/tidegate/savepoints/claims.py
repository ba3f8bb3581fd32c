"""Claims: a person's request to keep a savepoint that a service or another person made.

Hudi has at most one savepoint per commit. A person may ask for one that a policy made, or that has
a lifetime. The mark of that savepoint would let a service remove it one day. So the request is
recorded next to the timeline, one file per request, and every removal by a service checks for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import FormatError, TransientError
from tidegate.events import SavepointMark, SavepointRequested
from tidegate.hudi import SavepointMetadata
from tidegate.hudi.instant_time import CLOCK_TOLERANCE
from tidegate.savepoints.retention import end_of
from tidegate.storage import NotFound, Storage, join
from tidegate.tables.hudi import OutcomeStore
from tidegate.tables.hudi.outcome_store import FOLDER
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_FOLDER: Final = "savepoint-claims"


@dataclass(frozen=True, slots=True)
class Claim:
    """Who wants a savepoint kept, and until when."""

    by: str
    until: datetime | None
    """None: until a person removes it."""

    def holds(self, now: datetime) -> bool:
        """Whether the claim still applies, allowing for the difference between two clocks."""
        return self.until is None or now < end_of(self.until, CLOCK_TOLERANCE)


def is_wish(command: SavepointRequested, there: SavepointMetadata) -> bool:
    """Whether a person asks for an existing savepoint that a service may remove by its mark."""
    mark, _ = SavepointMark.parse(there.comment)
    if command.policy is not None or mark is None:
        return False
    return mark != command.mark  # an equal mark: an earlier attempt of this request made it


def claim(warehouse: Warehouse, location: str, command: SavepointRequested, instant: str) -> None:
    """Record that a person wants this savepoint kept. Idempotent."""
    mark = command.mark
    lifetime = mark.lifetime if mark else None
    until = None if lifetime is None else end_of(command.occurred_at, lifetime)
    content = {"by": command.requested_by, "until": until and until.isoformat()}
    path = OutcomeStore(warehouse, location, join(_FOLDER, instant)).path_of(command.event_id)
    try:
        warehouse.create(path, json.dumps(content).encode())
    except AlreadyExists:
        return


def claims_on(storage: Storage, location: str, instant: str) -> list[Claim]:
    """The claims on a savepoint.

    Raises:
        FormatError: a claim can't be read, so it may still apply.
        TransientError: a claim was removed during the read.
    """
    try:
        files = storage.list(_folder(location, instant))
    except NotFound:
        return []
    return [_read(storage, file.path) for file in files if file.name.endswith(".json")]


def claimant(storage: Storage, location: str, instant: str, now: datetime) -> Claim | None:
    """A claim that keeps a savepoint, preferably one without an end; None if nothing claims it.

    Raises: as `claims_on`.
    """
    held = [claim for claim in claims_on(storage, location, instant) if claim.holds(now)]
    return min(held, key=lambda claim: claim.until is not None, default=None)


def claimed_for_good(storage: Storage, location: str, now: datetime) -> frozenset[str]:
    """The instants of a table's savepoints that have a claim without an end.

    Only a person may remove those.

    Raises: as `claims_on`.
    """
    try:
        folders = storage.list(join(location, FOLDER, _FOLDER))
    except NotFound:
        return frozenset()
    claims = {folder.name: claimant(storage, location, folder.name, now) for folder in folders}
    return frozenset(name for name, claim in claims.items() if claim and claim.until is None)


def forget_claims(warehouse: Warehouse, location: str, instant: str) -> None:
    """Delete the claims on a removed savepoint: they don't apply to a later one of its commit."""
    try:
        warehouse.list(_folder(location, instant))
    except NotFound:
        return
    warehouse.remove_tree(_folder(location, instant))


def _folder(location: str, instant: str) -> str:
    return join(location, FOLDER, _FOLDER, instant)


def _read(storage: Storage, path: str) -> Claim:
    try:
        read = parse_json(storage.read(path, MAX_SMALL), path, MAX_SMALL)
        until = read["until"]
        return Claim(str(read["by"]), None if until is None else _moment(until))
    except NotFound as error:
        raise TransientError(f"{path} was removed while it was being read") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"the claim {path} can't be read: {error}") from error


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return moment
