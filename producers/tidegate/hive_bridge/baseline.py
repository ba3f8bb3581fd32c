"""Is it still the same Metastore? A database that was lost or replaced must release nothing. Pure.

Where the locks of a lost database are not listed, they have not ended: their readers go on reading.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final, Self

from tidegate.errors import StopService
from tidegate.hive_metastore.values import Snapshot

_SAID: Final = 220


class MetastoreReplacedError(StopService):
    """The Metastore has another database, or an older state of its own. A person must look first.

    The catcher stops the bridge; nothing is released until the bridge is started for the new state.
    """


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is known of the Metastore, and may only grow. It is kept on Kafka.

    Attributes:
        metastore: The UUID of its database, empty while it was never seen.
        high_water_mark: The highest transaction id that it has ever named.
        accepted_by: Who decided last to go on with another one, and why; shortened.
        generation: A mark of that decision, empty before the first: ids from before it mean nothing
            now, though the database may have the same UUID.
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
        """The baseline after this snapshot.

        Raises:
            MetastoreReplacedError: the snapshot is of another database, or of an earlier state.
        """
        if self.metastore and snapshot.metastore != self.metastore:
            raise MetastoreReplacedError(
                f"the Metastore's database has the UUID {snapshot.metastore}, and had"
                f" {self.metastore} before: it is another Metastore, and says nothing of the locks"
                " that vacuums wait for. Nothing is released. Point the bridge at the right one; if"
                " the old one is gone for good, see: tidegate bridge accept-metastore --help"
            )
        mark = snapshot.transactions.high_water_mark
        if mark < self.high_water_mark:
            raise MetastoreReplacedError(
                f"the Metastore's highest transaction is {mark}, and was {self.high_water_mark}"
                " before: its database was restored from an earlier state, and has forgotten locks"
                " whose readers may still read. Nothing is released. When no such reader is left,"
                " see: tidegate bridge accept-metastore --help"
            )
        return replace(self, metastore=snapshot.metastore, high_water_mark=mark)

    def dumps(self) -> str:
        """As text of at most 400 characters; the inverse of `parse`."""
        found: dict[str, object] = {
            "metastore": self.metastore,
            "high_water_mark": self.high_water_mark,
        }
        if self.accepted_by:
            found |= {"accepted_by": self.accepted_by, "generation": self.generation}
        return json.dumps(found)

    def accepted(self, by: str, why: str, generation: str) -> Self:
        """The same, with who decided to go on with it, and why; `generation` was never used."""
        said = f"{by}: {why}".encode("ascii", "replace").decode()
        return replace(self, accepted_by=said[:_SAID], generation=generation)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read it back; empty text is a bridge that never ran.

        Raises:
            MetastoreReplacedError: it can't be read, so nothing can be compared with it.
        """
        if not text:
            return cls()
        try:
            found = json.loads(text)
            said = str(found.get("accepted_by", ""))
            generation = str(found.get("generation", ""))
            return cls(str(found["metastore"]), int(found["high_water_mark"]), said, generation)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MetastoreReplacedError(
                f"what the bridge has stored of its Metastore can't be read: {text[:200]!r}"
            ) from error
