"""Check that the Metastore's database is the one seen before; otherwise release nothing. Pure.

A lost database lists no locks, but those locks have not ended: their readers are still reading.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final, Self

from tidegate.errors import StopService
from tidegate.errors.commands import command_line
from tidegate.hive_metastore.values import Snapshot

_MAX_ACCEPTED_BY: Final = 220
_ACCEPT: Final = command_line("bridge accept-metastore", help=True)


class MetastoreReplacedError(StopService):
    """The Metastore has another database, or an older state of its own. An operator must decide.

    The catcher stops the bridge. Nothing is released until an operator accepts the new state.
    """


@dataclass(frozen=True, slots=True)
class Baseline:
    """The identity and the progress of the Metastore, as stored on Kafka.

    Attributes:
        metastore: The UUID of its database; empty until the first poll.
        high_water_mark: The highest transaction id that it has reported. It never decreases.
        accepted_by: Who last accepted another Metastore, and why; at most 220 characters.
        generation: A mark of that acceptance, empty before the first. Ids from an earlier one
            mean nothing, even if the database has the same UUID.
    """

    metastore: str = ""
    high_water_mark: int = 0
    accepted_by: str = ""
    generation: str = ""

    @property
    def name(self) -> str:
        """What ids belong to: the database, and the state of it that was accepted."""
        return f"{self.metastore}/{self.generation}" if self.generation else self.metastore

    def checked(self, snapshot: Snapshot) -> Self:
        """Check a snapshot, and return the baseline after it.

        Raises:
            MetastoreReplacedError: the snapshot is of another database, or of an earlier state.
        """
        if self.metastore and snapshot.metastore != self.metastore:
            raise MetastoreReplacedError(
                f"the Metastore's database has the UUID {snapshot.metastore}, and had"
                f" {self.metastore} before: it is another Metastore, and does not know the locks"
                " that vacuums wait for. Nothing is released. Point the bridge at the right one; if"
                f" the old one is gone for good, see: {_ACCEPT}"
            )
        mark = snapshot.transactions.high_water_mark
        if mark < self.high_water_mark:
            raise MetastoreReplacedError(
                f"the Metastore's highest transaction is {mark}, and was {self.high_water_mark}"
                " before: its database was restored from an earlier state, and has forgotten locks"
                " whose readers may still read. Nothing is released. When no such reader is left,"
                f" see: {_ACCEPT}"
            )
        return replace(self, metastore=snapshot.metastore, high_water_mark=mark)

    def dumps(self) -> str:
        """JSON of at most 400 characters; the inverse of `parse`."""
        found: dict[str, object] = {
            "metastore": self.metastore,
            "high_water_mark": self.high_water_mark,
        }
        if self.accepted_by:
            found |= {"accepted_by": self.accepted_by, "generation": self.generation}
        return json.dumps(found)

    def accepted(self, by: str, why: str, generation: str) -> Self:
        """The same baseline, with who accepted it, and why. `generation` must be unused."""
        accepted_by = f"{by}: {why}".encode("ascii", "replace").decode()
        return replace(self, accepted_by=accepted_by[:_MAX_ACCEPTED_BY], generation=generation)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read stored text; empty text means that no bridge has run yet.

        Raises:
            MetastoreReplacedError: the text is invalid, so there is nothing to compare with.
        """
        if not text:
            return cls()
        try:
            found = json.loads(text)
            accepted_by = str(found.get("accepted_by", ""))
            generation = str(found.get("generation", ""))
            uuid, high_water_mark = str(found["metastore"]), int(found["high_water_mark"])
            return cls(uuid, high_water_mark, accepted_by, generation)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MetastoreReplacedError(
                f"the stored baseline of the Metastore can't be read: {text[:200]!r}"
            ) from error
