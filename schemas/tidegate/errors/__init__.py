"""Every error that Tidegate raises, in one tree.

    TidegateError
    ├── FormatError          bytes or a name that break a format (Avro, Hudi, Hive)
    ├── ConfigError          the settings can't work; nothing was started
    ├── ConfinementError     a path outside the configured warehouse roots
    ├── DeliveryError        the broker did not confirm an event
    │   ├── DeliveryRefusedError the broker lets this principal in, or write there, never
    │   └── MessageTooLargeError the topic takes no message of that size, ever
    ├── PermanentError       this message can never work: set it aside, go on
    ├── TransientError       it may work next time: wait and try again
    └── StopService          this process must not go on
        ├── FencedError          another process owns the partition now
        ├── RegistryRefusedError the schema registry refuses us, or a schema that we write
        ├── OffsetGapError       an offset to read from is no longer in the topic
        └── DeadLetterFlood      almost every message fails: the code is at fault, not the data

An expected refusal (a savepoint below the last clean, a reader still there) is no error: it is an
outcome event.
"""

from __future__ import annotations


class TidegateError(Exception):
    """The common root; catch it to catch everything that Tidegate itself says."""


class FormatError(TidegateError, ValueError):
    """Bytes or a name break their format. The catcher refuses the input and touches nothing."""


class ConfigError(TidegateError):
    """The settings can't work. The catcher shows the sentence and exits before any work."""


class ConfinementError(TidegateError):
    """A path lies outside the warehouse roots. The catcher refuses the whole command."""


class DeliveryError(TidegateError):
    """The broker did not confirm an event. The caller publishes it again: ids make that safe."""


class DeliveryRefusedError(DeliveryError):
    """The broker refuses who asks (login, access rights). Asking again is in vain."""


class MessageTooLargeError(DeliveryError):
    """A message is larger than its topic takes. Sending it again is in vain."""


class PermanentError(TidegateError):
    """A message that can never work. The loop writes it to the dead letters and goes on."""


class TransientError(TidegateError):
    """A fault of broker, storage or metastore. The loop retries with backoff and jitter."""


class StopService(TidegateError):  # noqa: N818 - it says what the loop must do
    """The process must stop; a supervisor may start it again. Nothing was acknowledged."""


class FencedError(StopService):
    """Another process took over this partition's state. What was not written stays unwritten."""


class RegistryRefusedError(StopService):
    """The schema registry refuses us or a schema that we write: a person puts that right first."""


class OffsetGapError(StopService):
    """The committed offset is out of the topic's range: a person decides where to go on."""


class DeadLetterFlood(StopService):
    """More messages fail than the limit allows: stop before the topic drains into dead letters."""
