"""Requests and approvals on the commands topic, with the broker's times and verified signers.

An approval is checked against the commands themselves, not against outcomes: a forged outcome can't
pretend that a restore was requested. The time of a command is the broker's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, TypeVar

from tidegate.errors import ConfigError, FormatError, TransientError
from tidegate.events import Command, Outcome, RestoreApproved, RestoreRequested
from tidegate.events.keys import partition_of
from tidegate.events.topics import COMMAND_TOPIC
from tidegate.events.wire import Wire
from tidegate.restores.approval import ApprovalCase, ApprovalRule, ApprovalRules, Published
from tidegate.restores.repeats import concerns
from tidegate.runtime.authorization import Authorization, Unauthorized, is_unproven
from tidegate.runtime.bus import Bus, Partition, Record
from tidegate.runtime.executor.outcome_lookup import CLOCK_MARGIN_MS, OutcomeLookup
from tidegate.tables.warehouse.spellings import spellings_of

C = TypeVar("C", bound=Command)
_FROM_THE_START: Final = 1


class Approvals(Protocol):
    """Knows which restores need an approval, and the published commands of one. Thread-safe."""

    def rule_of(self, location: str) -> ApprovalRule | None:
        """The rule of the table at a location; None: its restores need no approval."""
        ...

    def published(self, request: RestoreRequested) -> Published[RestoreRequested] | None:
        """A request as it is in the broker; None: the broker no longer has it.

        Raises:
            TransientError: the broker can't be read now.
        """
        ...

    def case_of(self, approval: RestoreApproved) -> ApprovalCase:
        """An approval with its request and that request's outcomes.

        Raises:
            TransientError: the broker can't be read now.
        """
        ...


class NoApprovals:
    """No restore needs an approval: for a restorer without a broker."""

    def rule_of(self, location: str) -> ApprovalRule | None:  # noqa: ARG002 - the protocol's
        """Return None."""
        return None

    def published(self, request: RestoreRequested) -> Published[RestoreRequested] | None:  # noqa: ARG002
        """Return None."""
        return None

    def case_of(self, approval: RestoreApproved) -> ApprovalCase:  # noqa: ARG002
        """Return an empty case."""
        return ApprovalCase(None, None)


class ApprovalRecords:
    """Reads the commands of a table's partition, from a day before the oldest that may count.

    Skips unauthorized commands (by signature or name), which the loop refuses, too. For every id,
    the first record counts: it is the one that was carried out, and a repeat extends no deadline.
    """

    def __init__(
        self,
        rules: ApprovalRules,
        bus: Bus,
        wire: Wire,
        prefix: str,
        authorization: Authorization | None = None,
    ) -> None:
        """Take the broker and the rules; reads nothing yet.

        Args:
            rules: Which restores need an approval.
            bus: The broker.
            wire: The encoding of events.
            prefix: The prefix of the topics' names.
            authorization: Who may request and approve; by default every producer of commands.
        """
        self._rules, self._bus, self._wire = rules, bus, wire
        self._topic = COMMAND_TOPIC.name(prefix)
        self._authorization = authorization or Authorization()
        self._outcomes = OutcomeLookup(bus, wire, prefix)

    def rule_of(self, location: str) -> ApprovalRule | None:
        """See `Approvals`."""
        return self._rules.rule_of(*spellings_of(location))

    def published(self, request: RestoreRequested) -> Published[RestoreRequested] | None:
        """See `Approvals`."""
        return self._first(request, RestoreRequested, request.event_id, timedelta())

    def case_of(self, approval: RestoreApproved) -> ApprovalCase:
        """See `Approvals`."""
        rule = self.rule_of(approval.location)
        if rule is None:
            return ApprovalCase(None, None)
        own = self._first(approval, RestoreApproved, approval.event_id, timedelta())
        if own is not None and _subject(own.command) != _subject(approval):
            own = None  # a reused id must not approve anything else
        request = self._first(approval, RestoreRequested, approval.request, rule.within)
        if request is not None:  # the read may have begun after the request's first record
            request = self.published(request.command)
        outcomes = self._outcomes_of(request) if request else ()
        return ApprovalCase(own, request, tuple(outcomes))

    def _outcomes_of(self, request: Published[RestoreRequested]) -> Iterator[Outcome]:
        appended_ms = int(request.at.timestamp() * 1000)
        for outcome in self._outcomes.outcomes_of(request.command, appended_ms):
            # any producer can cause the refusal of a message with the request's id
            is_proven = not is_unproven(outcome)
            if is_proven and concerns(outcome, request.command):
                yield outcome

    def _first(
        self, about: Command, kind: type[C], event_id: str, before: timedelta
    ) -> Published[C] | None:
        """The first command of this kind and id on the partition of a command's table.

        Reads from `before` that command on, less a margin for clock differences. If the command is
        not there, reads from the start, because the time in a command is its publisher's.
        """
        made_ms = int((about.occurred_at - before).timestamp() * 1000) - CLOCK_MARGIN_MS
        for since_ms in (max(_FROM_THE_START, made_ms), _FROM_THE_START):
            for record in self._records(about.table, since_ms):
                found = self._command(record, kind, event_id)
                if found is not None:
                    return found
        return None

    def _records(self, table: str, since_ms: int) -> Iterable[Record]:
        try:
            spans = self._bus.spans(self._topic, since_ms)
        except ConfigError as error:  # the topic existed at start-up: a broker does not know it yet
            raise TransientError(str(error)) from error
        home = Partition(self._topic, partition_of(table, len(spans)))
        return self._bus.read({home: spans[home]})

    def _command(self, record: Record, kind: type[C], event_id: str) -> Published[C] | None:
        if event_id.encode() not in (record.value or b""):  # decoding costs more than a search
            return None
        try:
            event = self._wire.deserialize(record.key, record.value, record.headers)
        except FormatError:  # the loop has dead-lettered it
            return None
        if not isinstance(event, kind) or event.event_id != event_id:
            return None
        try:
            signed_by = self._authorization.check(event, record)
        except Unauthorized:
            return None
        at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
        return Published(event, record.offset, at, signed_by)


def _subject(approval: RestoreApproved) -> tuple[str, ...]:
    return approval.table, approval.location, approval.request, approval.plan_id
