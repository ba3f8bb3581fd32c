"""Every error that Tidegate raises, in one tree.

    TidegateError
    ├── FormatError          bytes or a name in an invalid format (Avro, Hudi, Hive)
    │   └── InvalidEventError    an event that a service would refuse; it was not published
    ├── ConfigError          the settings or the command line are invalid; nothing was started
    ├── ConfinementError     a path outside the configured warehouse roots
    │   └── ReachedByLink        a path that contains a symbolic link below a root
    ├── DeliveryError        the broker did not confirm an event
    │   ├── DeliveryRefusedError the broker denies this principal access; retrying is useless
    │   └── MessageTooLargeError the message exceeds the topic's limit; retrying is useless
    ├── PermanentError       this message can never be processed: make it a dead letter, go on
    ├── TransientError       the next attempt may succeed: wait and retry
    ├── MetastoreRefusedError the Metastore refuses a call
    │   ├── MissingInMetastoreError the table or partition does not exist
    │   └── MissingCallError    its version does not have the call
    └── StopService          this process must stop
        ├── OffsetGapError       the offset to continue from is no longer in the topic
        ├── DeadLetterFlood      almost every message fails: the code is at fault, not the data
        └── StoppingError        it was asked to stop during a long call

An expected refusal (a savepoint below the last clean, a live writer) is not an error but an outcome
event.
"""

from __future__ import annotations

from typing import NamedTuple


class TidegateError(Exception):
    """The common root: catches every error that Tidegate itself raises."""


class FormatError(TidegateError, ValueError):
    """Bytes or a name in an invalid format. The catcher refuses the input and changes nothing."""


class InvalidEventError(FormatError):
    """An event whose fields contradict each other. The publisher corrects it; nothing was sent."""


class ConfigError(TidegateError):
    """Invalid settings. The catcher shows the message and exits before doing any work."""


class ConfinementError(TidegateError):
    """A path is outside the warehouse roots. The catcher refuses the whole command."""


class ReachedByLink(ConfinementError):  # noqa: N818 - states a finding
    """A path contains a symbolic link below a root. The catcher refuses the command.

    Otherwise a command for one table could read or change another one.
    """


class DeliveryError(TidegateError):
    """The broker did not confirm events; they may be stored nevertheless.

    The caller publishes them again. A repeated event has the same id, and a request is repeated
    with its request id. Consumers process every id once.

    Attributes:
        event_ids: The ids of all events of the call, in their order; empty if not known.
        results: What became of each, in the same order: a `Receipt` of what is stored, `NotStored`
            for what was refused and is not, `Unconfirmed` for what may be stored. Only the last
            need to be published again, and what was refused once its fault is corrected.
    """

    event_ids: tuple[str, ...] = ()
    results: tuple[Delivery, ...] = ()


class DeliveryRefusedError(DeliveryError):
    """The broker denies access (authentication or ACL). The caller must not retry."""


class MessageTooLargeError(DeliveryError):
    """A message exceeds its topic's size limit. The caller must not retry."""


class PermanentError(TidegateError):
    """A message that can never be processed. The loop makes it a dead letter and goes on."""


class TransientError(TidegateError):
    """A temporary fault of broker, storage or metastore. The loop retries with backoff."""


class MetastoreRefusedError(TidegateError):
    """The Metastore refuses a call. The catcher skips the subject of the call, and reports it."""


class MissingInMetastoreError(MetastoreRefusedError):
    """The Metastore has no such table or partition: it was dropped or renamed."""


class MissingCallError(MetastoreRefusedError):
    """The Metastore's version does not have the call. The catcher goes on and reports it."""


class StopService(TidegateError):  # noqa: N818 - named for what the loop must do
    """The process must stop; a supervisor may restart it. Unfinished work is not acknowledged."""


class OffsetGapError(StopService):
    """The committed offset is outside the topic's range; an operator decides where to continue."""


class StoppingError(StopService):
    """The process was asked to stop during a long call. The catcher shuts down cleanly."""


class DeadLetterFlood(StopService):
    """More messages fail than the limit allows: stop before all of them become dead letters."""


class Receipt(NamedTuple):
    """Where the broker stored a message, and the id of the event in it."""

    topic: str
    partition: int
    offset: int
    event_id: str = ""


class NotStored(NamedTuple):
    """A message that was refused: the broker does not have it."""

    reason: str
    event_id: str = ""


class Unconfirmed(NamedTuple):
    """A message of which no confirmation came: the broker may have it. Publish it again."""

    reason: str
    event_id: str = ""


Delivery = Receipt | NotStored | Unconfirmed
