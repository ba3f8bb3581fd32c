"""`engine = "hudi"`: Hudi itself restores, with Tidegate's checks and outcomes.

For tables that Tidegate's engine refuses: bootstrapped ones and those with consistent hashing.
Tidegate puts the restore on the timeline, where it blocks writers. Hudi's `rollback_to_savepoint`
then resumes it, as it resumes any pending restore to the same savepoint. So the restore has its
instant before Hudi changes anything, and a crash at any moment is resumed or recognised as with
Tidegate's own engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import FormatError, TransientError
from tidegate.hudi.instant import Action, InstantState
from tidegate.hudi.rollback import RestoreMetadata
from tidegate.hudi_reader.table import HudiTable
from tidegate.restores.metadata_table import drops_before_hudi, named_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION: Final = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
"""The extension with which Spark parses `CALL`; a static setting of the session."""
Session = Callable[[], "SparkSession"]
"""Returns a session; called when a restore needs it."""
_QUOTABLE: Final = re.compile(r"[^'\"\\\x00-\x1f]+")
_DEEPEST: Final = 20


def restore_by_hudi(
    session: Session, table: HudiTable, savepoint: str, restore: str
) -> RestoreMetadata:
    """Have Hudi finish a pending restore, and check the result.

    Args:
        session: Returns a session with Hudi's bundle on its class path.
        table: The table.
        savepoint: The savepoint to return to.
        restore: The instant of the pending restore.

    Returns:
        The restore's metadata that Hudi wrote on the timeline.

    Raises:
        FormatError: Hudi failed (with its message), or the table does not end at the savepoint.
        TransientError: Spark failed, not Hudi.
    """
    _call(session, table, savepoint)
    return completed_restore(table.reloaded(), savepoint, restore)


def _call(session: Session, table: HudiTable, savepoint: str) -> None:
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - comes with pyspark
    from pyspark.errors import AnalysisException, PySparkException  # noqa: PLC0415

    if _QUOTABLE.fullmatch(table.location) is None:
        raise FormatError(f"{table.location!r} can't be named in a CALL of Spark SQL")
    try:
        # a session with its own settings, on the shared Spark context
        own = session().newSession()
        for key, value in _settings(table).items():
            own.conf.set(key, value)
        call = f"rollback_to_savepoint(path => '{table.location}', instant_time => '{savepoint}')"
        own.sql(f"CALL {call}").collect()
    except Py4JJavaError as error:
        raise failure_of(list(_causes(error.java_exception))) from error
    except AnalysisException as error:  # or ParseException: a retry would fail, too
        message = str(error).strip().partition("\n")[0]
        raise FormatError(
            f"Spark refuses the call; check that the jar of Hudi's bundle is there: {message}"
        ) from error
    except PySparkException as error:
        raise failure_of([str(error).partition("\n")[0]]) from error
    except Py4JError as error:
        raise TransientError(f"Spark failed: {error}") from error


def completed_restore(table: HudiTable, savepoint: str, restore: str) -> RestoreMetadata:
    """The metadata of a completed restore, after a check that it ended at the savepoint.

    Raises:
        FormatError: the restore is not complete or can't be read, or the table does not end at the
            savepoint.
    """
    found = table.timeline.find(Action.RESTORE, restore)
    if found is None or found.state is not InstantState.COMPLETED:
        raise FormatError(f"Hudi's procedure ended, but restore {restore} is not completed")
    last = table.timeline.last_completed_write()
    if last is None or last.timestamp != savepoint:
        what = "there is none" if last is None else f"it is {last.timestamp}.{last.action}"
        raise FormatError(f"{savepoint} should be the last completed commit now, but {what}")
    return RestoreMetadata.decode(table.read(found))


def _settings(table: HudiTable) -> dict[str, str]:
    """Settings with which Hudi does not upgrade the table or create a metadata table."""
    properties = table.properties
    has_one = bool(named_partitions(properties)) and not drops_before_hudi(properties)
    return {
        "hoodie.write.table.version": str(properties.version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": str(has_one).lower(),
    }


def _causes(error: Any) -> Iterator[str]:  # noqa: ANN401 - a Java object, reached by reflection
    """The messages of a Java exception and its causes, without stack traces."""
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield str(error.toString()).partition("\n")[0]
        error = error.getCause()


def failure_of(causes: list[str]) -> FormatError | TransientError:
    """The error for a failed call: permanent if Hudi failed, transient if only Spark did.

    Args:
        causes: The messages of the exception and its causes, one line each, outermost first.
    """
    if not any("hudi" in cause.lower() for cause in causes):
        return TransientError(f"Spark failed: {causes[0]}")
    distinct = dict.fromkeys(causes)
    return FormatError(f"Hudi could not restore the table: {'; because of '.join(distinct)}")
