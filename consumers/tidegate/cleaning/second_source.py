"""The second source of a removal: asked by the cleaner at the moment of acting.

The events are the first. Directories go on the word of both, never of one.
"""

from __future__ import annotations

from typing import Final, Protocol

from tidegate.cleaning.confirmation import Answers, Claim, Proof, Verdict, judge
from tidegate.cleaning.plan import Cleaning, CleaningPlan, check_complete
from tidegate.errors import (
    FormatError,
    MetastoreRefusedError,
    MissingInMetastoreError,
    TidegateError,
)
from tidegate.events import AbortedCleaningReleased
from tidegate.events.reasons import Reason
from tidegate.hive.orc import LONGEST_END, is_complete_orc
from tidegate.hive_metastore import MetastoreClient, MetastoreSettings
from tidegate.hive_metastore.holds import HeldTables
from tidegate.storage import NotFound, Storage, join, normalise
from tidegate.tables.refusal import Refused

_BELIEVED: Final = Verdict(Proof.BELIEVED)
_UNPROVEN: Final = Verdict(Proof.UNPROVEN)


class NotConfirmed(TidegateError):  # noqa: N818 - expected, not a fault
    """The second source contradicts a removal, or is away. The catcher defers the cleaning.

    Attributes:
        reason: NOT_CONFIRMED or SECOND_SOURCE_AWAY.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        """Take the code, and the sentence for people."""
        self.reason = reason
        super().__init__(message)


class SecondSource(Protocol):
    """Says whether what an event claims is so. Thread-safe."""

    def verdict(self, command: Cleaning, plan: CleaningPlan) -> Verdict:
        """Ask about a plan that removes something.

        Raises:
            Refused: the command can't be read.
            TransientError: the source did not answer.
        """
        ...


class NoSource:
    """The events are believed."""

    def verdict(self, command: Cleaning, plan: CleaningPlan) -> Verdict:  # noqa: ARG002 - the protocol's
        """Believes everything."""
        return _BELIEVED


class Quarantine:
    """No source is asked: what goes can be put back, so it is never deleted at once."""

    def verdict(self, command: Cleaning, plan: CleaningPlan) -> Verdict:  # noqa: ARG002 - the protocol's
        """Leaves it to the files. Aborted writes and committed ones have the same files."""
        if isinstance(command, AbortedCleaningReleased):
            missing = "no Metastore is configured that could confirm it (cleaning.confirm_with)"
            return Verdict(Proof.CONTRADICTED, "that these writes aborted", missing)
        return _UNPROVEN


class MetastoreSource:
    """Asks a Hive Metastore, in six calls at most, on a connection of its own.

    It knows the tables of its catalog; for others `others` is asked.
    """

    def __init__(
        self, settings: MetastoreSettings, others: SecondSource, *, readers_lock_at_once: bool
    ) -> None:
        """Take the Metastore; nothing is connected yet.

        Args:
            settings: Where it is, and its catalog.
            others: Asked about tables of other catalogs.
            readers_lock_at_once: As the bridge's setting: then a transaction that has locked other
                tables only does not count as a reader.
        """
        self._settings, self._others = settings, others
        self._at_once = readers_lock_at_once
        self._is_checked = not readers_lock_at_once

    def verdict(self, command: Cleaning, plan: CleaningPlan) -> Verdict:
        """See `SecondSource`."""
        if command.table.split(".", 1)[0] != self._settings.catalog.lower():
            return self._others.verdict(command, plan)
        claim = Claim.of(command, plan)
        with MetastoreClient(self._settings) as client:
            return judge(claim, self._answers(claim, client))

    def _answers(self, claim: Claim, client: MetastoreClient) -> Answers:
        """The locks come before the transactions: see `Answers`; the slow calls come first."""
        database, table, partition = claim.database, claim.table, claim.partition
        try:
            location = normalise(client.table(database, table).location)
        except (MissingInMetastoreError, FormatError):
            location = None
        partition_location = None
        if partition is not None:
            try:
                found = client.partition(database, table, partition)
                partition_location = normalise(found.location)
            except (MetastoreRefusedError, FormatError):  # its columns may be others by now
                partition_location = None
        compactions = client.compactions(database, table)
        if not self._is_checked:  # once: they change with a restart of the Metastore only
            self._at_once, self._is_checked = not client.reads_without_locks(), True
        # what a transaction has locked elsewhere counts only where readers lock at once
        held = HeldTables(client.locks(None if self._at_once else database))
        transactions = client.transaction_states()
        return Answers(
            location,
            partition_location,
            compactions,
            held,
            transactions,
            client.write_ids(database, table, transactions.valid()),
            readers_lock_at_once=self._at_once,
        )


def check_files(storage: Storage, plan: CleaningPlan, command: Cleaning) -> None:
    """Check that the products are complete, by names and by the ends of their ORC files.

    Raises:
        Refused: PRODUCTS_INCOMPLETE.
        TransientError, OSError: the store did not answer.
    """
    check_complete(plan, command)
    for product in plan.products:
        for file in product.files:
            if not file.name.startswith("bucket_"):  # of an insert-only table, in any format
                continue
            where = join(product.path, file.name)
            try:
                end = storage.read_end(where, LONGEST_END)
            except NotFound as error:
                raise Refused(Reason.PRODUCTS_INCOMPLETE, f"{where} is gone") from error
            if not is_complete_orc(end, file.size):
                raise Refused(
                    Reason.PRODUCTS_INCOMPLETE, f"{where} does not end as an ORC file does"
                )
