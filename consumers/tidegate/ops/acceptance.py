"""Accept another Metastore: a person's decision after `MetastoreReplacedError`.

The bridge can't tell whether the previous Metastore's readers still read, but a person can. The
person and the reason are stored with the position, and appear in every release that follows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.bridges.position import baseline_in, group_of, store, stored_position
from tidegate.errors import ConfigError
from tidegate.events import LockReleased, ReleaseReason
from tidegate.hive_bridge.baseline import Baseline, MetastoreReplacedError
from tidegate.hive_metastore import MetastoreClient
from tidegate.ops.groups import Groups
from tidegate.ops.waiting import PendingVacuum, waiting_vacuums
from tidegate.publisher import Publisher
from tidegate.service.settings import Settings

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """The accepted Metastore, and the vacuums that wait for holds of the previous one."""

    position: TopicPartition
    before: Baseline | None
    """None: the stored baseline can't be read."""
    now: Baseline
    waiting: tuple[PendingVacuum, ...]

    @property
    def is_needed(self) -> bool:
        """Whether the bridge would stop without this acceptance."""
        if self.before is None:
            return True
        other = self.before.metastore not in ("", self.now.metastore)
        return other or self.now.high_water_mark < self.before.high_water_mark

    def releases(self, source: str) -> Iterator[LockReleased]:
        """Releases of every outstanding hold, as expired: its reader may still be alive."""
        for vacuum in self.waiting:
            for hold in vacuum.outstanding:
                yield LockReleased(
                    table=vacuum.table,
                    location=vacuum.location,
                    occurred_at=datetime.now(UTC),
                    source=source,
                    lock_id=hold.lock_id,
                    transaction_id=hold.transaction_id,
                    partition=vacuum.partition,
                    reason=ReleaseReason.EXPIRED,
                    reconciled=True,
                    metastore=vacuum.metastore,
                )


def plan_acceptance(settings: Settings) -> _Acceptance:
    """Read the stored position, the Metastore and the waiting vacuums; change nothing.

    Raises:
        ConfigError: no Metastore is configured, or no bridge has stored a position yet.
        TransientError: the broker or the Metastore does not answer.
    """
    watched = settings.bridge.metastore
    if watched is None:
        raise ConfigError("no Metastore is configured: set uri in [bridge.metastore]")
    position = stored_position(settings.connection(), settings.topics.prefix)
    if position is None:
        raise ConfigError("no bridge has stored a position yet: there is nothing to accept")
    try:
        before = baseline_in(position)
    except MetastoreReplacedError:
        before = None
    with MetastoreClient(watched) as client:
        now = Baseline().checked(client.snapshot())
    catalog = watched.catalog.lower()
    waiting = tuple(
        vacuum for vacuum in waiting_vacuums(settings) if vacuum.table.split(".", 1)[0] == catalog
    )
    return _Acceptance(position, before, now, waiting)


def accept(settings: Settings, plan: _Acceptance, *, by: str, why: str, release: bool) -> int:
    """Store the current Metastore as the accepted one; return the number of published releases.

    Args:
        settings: The deployment.
        plan: The result of `plan_acceptance`.
        by: The person who decides.
        why: The reason.
        release: Whether to publish a release of every outstanding hold.

    Raises:
        TidegateError: a bridge is running.
        TransientError: the broker did not answer.
        DeliveryError: not all releases were confirmed; nothing was stored.
    """
    connection, prefix = settings.connection(), settings.topics.prefix
    Groups(connection).check_unused(group_of(prefix))
    released = list(plan.releases(f"{by}: {why}"[:1000])) if release else []
    if released:
        with Publisher(
            source=by,
            prefix=prefix,
            config=connection,
            registry=settings.registry,
            sign_with=settings.security.sign_with,
        ) as publisher:
            publisher.publish(*released)
    store(connection, prefix, plan.position, plan.now.accepted(by, why, secrets.token_hex(4)))
    return len(released)
