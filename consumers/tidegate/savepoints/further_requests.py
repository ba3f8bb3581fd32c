"""Further requests: what else an existing savepoint was requested for.

Hudi has at most one savepoint per commit, and its mark never changes. A person may ask for one that
a policy made, or that has a lifetime; and a policy may need its own for another tier. So the
request is recorded next to the timeline, one file per request. A check keeps what they name.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Final

from pydantic import AwareDatetime

from tidegate.bounded_json import MAX_SMALL, parse_json
from tidegate.errors import FormatError, TransientError
from tidegate.events import SavepointMark, SavepointRequested, Value, derived_id
from tidegate.hudi.instant import CLOCK_TOLERANCE
from tidegate.hudi.savepoint import SavepointMetadata
from tidegate.savepoints.retention import end_of
from tidegate.storage import NotFound, Storage, join
from tidegate.tables.claim import HUDI
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_FOLDER: Final = f"{HUDI}/further-requests"


class _FurtherRequest(Value, frozen=True):
    """Who wants a savepoint kept, and until when."""

    by: str
    until: AwareDatetime | None
    """None: until a person removes it."""
    tiers: tuple[str, ...] = ()
    """The tiers of the savepoint's own policy that it serves, too; empty: a person's request."""

    def holds(self, now: datetime) -> bool:
        """Whether a person's request still applies, with the tolerated difference of two clocks."""
        return not self.tiers and (self.until is None or now < end_of(self.until, CLOCK_TOLERANCE))


def is_wish(command: SavepointRequested, there: SavepointMetadata) -> bool:
    """Whether an existing savepoint is needed for longer than its mark shows."""
    mark, _ = SavepointMark.parse(there.comment)
    if mark is None:
        return False
    if command.policy is not None:
        return bool(set(command.tiers) - set(mark.tiers))
    return mark != command.mark  # an equal mark: an earlier attempt of this request made it


def record_further_request(
    warehouse: Warehouse, location: str, command: SavepointRequested, instant: str
) -> None:
    """Record what this savepoint is needed for. Idempotent."""
    mark = command.mark
    lifetime = mark.lifetime if mark else None
    until = None if lifetime is None else end_of(command.occurred_at, lifetime)
    content = _FurtherRequest(by=command.requested_by, until=until, tiers=command.tiers)
    # a request's id may be any text, so its hash is the file name
    name = f"{derived_id('answer', command.event_id)}.json"
    with suppress(AlreadyExists):
        path = warehouse.roots.check(join(_folder(location, instant), name))
        warehouse.create(path, content.model_dump_json().encode())


def further_requests_on(storage: Storage, location: str, instant: str) -> list[_FurtherRequest]:
    """The further requests for a savepoint.

    Raises:
        FormatError: a request can't be read, so it may still apply.
        TransientError: a request was removed during the read.
    """
    try:
        files = storage.list(_folder(location, instant))
    except NotFound:
        return []
    return [_read(storage, file.path) for file in files if file.name.endswith(".json")]


def holder_of(
    storage: Storage, location: str, instant: str, now: datetime
) -> _FurtherRequest | None:
    """A request that keeps a savepoint, preferably one without an end; None: there is none.

    Raises: as `further_requests_on`.
    """
    held = [found for found in further_requests_on(storage, location, instant) if found.holds(now)]
    return min(held, key=lambda found: found.until is not None, default=None)


def all_further_requests(storage: Storage, location: str) -> dict[str, list[_FurtherRequest]]:
    """All further requests for the savepoints of a table, by instant.

    Raises: as `further_requests_on`.
    """
    try:
        folders = storage.list(join(location, _FOLDER))
    except NotFound:
        return {}
    return {folder.name: further_requests_on(storage, location, folder.name) for folder in folders}


def forget_further_requests(warehouse: Warehouse, location: str, instant: str) -> None:
    """Delete those for a removed savepoint: they don't apply to a later one of its commit."""
    try:
        warehouse.list(_folder(location, instant))
    except NotFound:
        return
    warehouse.remove_tree(_folder(location, instant))


def _folder(location: str, instant: str) -> str:
    return join(location, _FOLDER, instant)


def _read(storage: Storage, path: str) -> _FurtherRequest:
    try:
        content = parse_json(storage.read(path, MAX_SMALL), path, MAX_SMALL)
        return _FurtherRequest.model_validate(content)
    except NotFound as error:
        raise TransientError(f"{path} was removed while it was being read") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the request {path} can't be read: {error}") from error
