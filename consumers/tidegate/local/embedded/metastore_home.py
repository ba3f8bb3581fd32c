"""The files of the embedded Metastore: its class path, its SQL scripts, and an empty database.

The archive is unpacked and the schema is created once; every Metastore starts from a copy of the
empty database. The unpacked files are compared with the lock before each start, which costs 0.2 s.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.compute.java import Jdk
from tidegate.errors import ConfigError
from tidegate.local.embedded.jars import cache_dir, resolve
from tidegate.local.embedded.java import java_command
from tidegate.local.embedded.lock import read_lock, tree_digest, unpack

log = logging.getLogger(__name__)
_PACKAGE: Final = "org.apache.hadoop.hive.metastore"
_SCHEMA_SECONDS: Final = 600
# Hadoop's client lies in pyspark, shaded; what it keeps to itself is in the lock
_FROM_SPARK: Final = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")
# drivers of databases that are not embedded
_LEFT_OUT: Final = ("mysql-", "mssql-", "postgresql-")
_OPENED: Final = ("lang", "net", "util", "util.concurrent", "util.concurrent.atomic", "nio", "io")
OPENED: Final = tuple(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED)


@dataclass(frozen=True, slots=True)
class MetastoreVersion:
    """What differs between the versions of the Metastore when one is started.

    Attributes:
        lock: The lock of its jars: the name of one of this package, or the path of any other.
        schema_tool: The class that creates its schema.
        housekeeper: The class that ends transactions and locks whose time is over.
        interval_setting: How often that one runs.
        main: The class to start, or the path of a .java file.
    """

    lock: str | Path
    schema_tool: str
    housekeeper: str
    interval_setting: str
    main: str = f"{_PACKAGE}.HiveMetaStore"


HIVE_4: Final = MetastoreVersion(
    "metastore",
    f"{_PACKAGE}.tools.schematool.MetastoreSchemaTool",
    f"{_PACKAGE}.txn.service.AcidHouseKeeperService",
    "metastore.acid.housekeeper.interval",
)
"""Hive 4.0.1."""
HIVE_3: Final = MetastoreVersion(
    "metastore-3",
    f"{_PACKAGE}.tools.MetastoreSchemaTool",
    f"{_PACKAGE}.txn.AcidHouseKeeperService",
    "metastore.timedout.txn.reaper.interval",
)
"""Hive 3.1.3."""


class MetastoreHome:
    """Where an unpacked Metastore is, and what to start it with."""

    def __init__(self, folder: Path, class_path: Sequence[Path]) -> None:
        """Take what `metastore_home` found."""
        self.folder = folder
        self.class_path = tuple(class_path)

    @property
    def empty_database(self) -> Path:
        """An embedded Derby database with the Metastore's schema and nothing in it."""
        return self.folder / "database"

    def command(  # noqa: PLR0913 - each is one part of the command line
        self,
        jdk: Jdk,
        main: str,
        arguments: Sequence[str],
        settings: Mapping[str, str],
        *,
        heap_mb: int,
        options: Sequence[str] = (),
    ) -> list[str]:
        """Compose the command of one of the Metastore's main classes.

        Args:
            jdk: The Java to start.
            main: The class.
            arguments: Its arguments.
            settings: The Metastore's own settings, by name.
            heap_mb: The JVM's heap in MiB.
            options: More of the JVM's options.
        """
        properties = [f"-D{name}={value}" for name, value in settings.items()]
        home = f"-Dmetastore.home={self.folder / 'program'}"
        return java_command(
            jdk,
            self.class_path,
            main,
            arguments,
            heap_mb=heap_mb,
            options=[home, *OPENED, *properties, *options],
        )


def metastore_home(jdk: Jdk, version: MetastoreVersion = HIVE_4) -> MetastoreHome:
    """Fetch, unpack and initialise the Metastore, unless the cache has what the lock specifies.

    Any number of processes may call at once: one works, the others wait for it.

    Raises:
        ConfigError: pyspark is not installed; the lock is not a Metastore's, or has no digest of
            its unpacked archive; or the schema tool failed.
        TransientError: the jars could not be fetched.
    """
    files = resolve(version.lock)
    _, content = read_lock(version.lock)
    archives = [jar for jar in content.jars if jar.name.endswith(".tar.gz")]
    if len(archives) != 1:
        raise ConfigError(f"the lock {version.lock} must have one archive, the Metastore's")
    [archive] = archives
    if archive.unpacked is None:
        raise ConfigError(f"the lock {version.lock} has no digest of the unpacked {archive.name}")
    stamp = hashlib.sha256("\n".join(file.name for file in files).encode()).hexdigest()[:12]
    folder = cache_dir() / "metastore" / f"{archive.name.removesuffix('.tar.gz')}-{stamp}"
    if not _is_unpacked(folder, archive.unpacked):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder):
            if not _is_unpacked(folder, archive.unpacked):
                if folder.exists():
                    log.warning("%s was changed: it is made again from its archive", folder)
                    shutil.rmtree(folder)
                packed = next(file for file in files if file.name == archive.name)
                _make(folder, packed, files, jdk, version)
    return MetastoreHome(folder, _class_path(folder, files))


def _is_unpacked(folder: Path, digest: str) -> bool:
    return folder.exists() and tree_digest(folder / "program") == digest


def _make(
    folder: Path, archive: Path, files: Sequence[Path], jdk: Jdk, version: MetastoreVersion
) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as draft:
        program = unpack(archive, Path(draft) / "unpacked")
        made = Path(draft) / "made"
        made.mkdir()
        program.rename(made / "program")
        _create_schema(MetastoreHome(made, _class_path(made, files)), jdk, version)
        made.rename(folder)


def _create_schema(home: MetastoreHome, jdk: Jdk, version: MetastoreVersion) -> None:
    command = home.command(
        jdk,
        version.schema_tool,
        ["-dbType", "derby", "-initSchema"],
        derby_settings(home.empty_database, create=True),
        heap_mb=256,
        options=[f"-Dderby.stream.error.file={home.folder / 'derby.log'}"],
    )
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_SCHEMA_SECONDS,
        check=False,
        # the tool reads its SQL scripts from there
        env={**os.environ, "METASTORE_HOME": str(home.folder / "program")},
    )
    if answer.returncode != 0 or not home.empty_database.exists():
        output = (answer.stdout + answer.stderr).strip()[-2000:]
        raise ConfigError(f"the schema of the embedded Metastore could not be created: {output}")


def derby_settings(database: Path, *, create: bool = False) -> dict[str, str]:
    """The Metastore's settings for an embedded Derby database in a directory."""
    url = f"jdbc:derby:;databaseName={database}" + (";create=true" if create else "")
    return {
        "javax.jdo.option.ConnectionURL": url,
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    }


def copy_database(home: MetastoreHome, target: Path) -> None:
    """Give a Metastore a database of its own, with the schema and nothing in it."""
    shutil.copytree(home.empty_database, target)


def _class_path(folder: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    """The order matters: the locked jars first, hive-exec, which contains a bit of all, last."""
    jars = [file for file in files if file.suffix == ".jar"]
    last = [jar for jar in jars if jar.name.startswith("hive-exec")]
    first = [jar for jar in jars if jar not in last]
    own = sorted((folder / "program" / "lib").glob("*.jar"))
    wanted = [jar for jar in own if not jar.name.startswith(_LEFT_OUT)]
    spark = _spark_jars()
    hadoop = [jar for pattern in _FROM_SPARK for jar in sorted(spark.glob(pattern))]
    return (*first, *wanted, *hadoop, *last)


def _spark_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "the Metastore needs the Hadoop client in pyspark: pip install 'tidegate[embedded]'"
        )
    return Path(spec.origin).parent / "jars"


@contextmanager
def _one_at_a_time(folder: Path) -> Generator[None]:
    with (folder.parent / f".{folder.name}.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
