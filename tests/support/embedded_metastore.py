"""A real Hive Metastore, 4.0.1 or 3.1.3: started from its jars, on embedded Derby."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from support.jar_locks import resolve
from tidegate.compute.java import find_java
from tidegate.embedded.jars import cache_dir, one_at_a_time, spark_jars
from tidegate.embedded.process import HOST, LOGGING, Child, EmbeddedServer, is_open, java_command
from tidegate.errors import ConfigError

_HERE = Path(__file__).parent
_PACKAGE = "org.apache.hadoop.hive.metastore"
_SCHEMA_SECONDS = 600
# Hadoop's client lies in pyspark, shaded; what it keeps to itself is in the lock
_FROM_SPARK = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")
# drivers of databases that are not embedded
_LEFT_OUT = ("mysql-", "mssql-", "postgresql-")
_OPENED = ("lang", "net", "util", "util.concurrent", "util.concurrent.atomic", "nio", "io")
OPENED = tuple(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED)
_NEEDS_JAVA = 17
_HEAP_MB = 384
_OURS = {
    "metastore.thrift.bind.host": HOST,
    # the doubled name is Hive's own
    "metastore.metastore.event.db.notification.api.auth": "false",
    # Tidegate is the cleaner; Hive's own must not run beside it
    "metastore.compactor.initiator.on": "false",
    "metastore.compactor.cleaner.on": "false",
}


@dataclass(frozen=True, slots=True)
class MetastoreVersion:
    """What differs between the versions of the Metastore when one is started.

    Attributes:
        lock: The lock of its jars.
        schema_tool: The class that creates its schema.
        housekeeper: The class that ends transactions and locks whose time has passed.
        interval_setting: How often that one runs.
        main: The class to start, or the path of a .java file.
    """

    lock: Path
    schema_tool: str
    housekeeper: str
    interval_setting: str
    main: str = f"{_PACKAGE}.HiveMetaStore"


HIVE_4 = MetastoreVersion(
    _HERE / "metastore.json",
    f"{_PACKAGE}.tools.schematool.MetastoreSchemaTool",
    f"{_PACKAGE}.txn.service.AcidHouseKeeperService",
    "metastore.acid.housekeeper.interval",
)
"""Hive 4.0.1."""
HIVE_3 = MetastoreVersion(
    _HERE / "metastore-3.json",
    f"{_PACKAGE}.tools.MetastoreSchemaTool",
    f"{_PACKAGE}.txn.AcidHouseKeeperService",
    "metastore.timedout.txn.reaper.interval",
    str(_HERE.parent / "reference/hive/Metastore3.java"),
)
"""Hive 3.1.3, with its Worker."""


class _Home(NamedTuple):
    """Where an unpacked Metastore is, and what to start it with."""

    folder: Path
    class_path: Sequence[Path]

    @property
    def empty_database(self) -> Path:
        """An embedded Derby database with the Metastore's schema and nothing in it."""
        return self.folder / "database"

    def command(
        self,
        java: Path,
        main: str,
        arguments: Sequence[str],
        settings: Mapping[str, str],
        options: Sequence[str],
    ) -> list[str]:
        """The command of one of the Metastore's main classes; `settings` are its own, by name."""
        properties = {"metastore.home": self.folder / "program", **settings}
        all_options = [*OPENED, *(f"-D{name}={value}" for name, value in properties.items())]
        all_options += options
        return java_command(
            java, self.class_path, main, arguments, heap_mb=_HEAP_MB, options=all_options
        )


def metastore_home(java: Path, version: MetastoreVersion = HIVE_4) -> _Home:
    """Fetch, unpack and initialise the Metastore, unless the cache has it.

    Any number of processes may call at once: one works, the others wait for it.
    """
    files = resolve(version.lock)
    [archive] = (file for file in files if file.name.endswith(".tar.gz"))
    stamp = hashlib.sha256("\n".join(file.name for file in files).encode()).hexdigest()[:12]
    folder = cache_dir() / "metastore" / f"{archive.name.removesuffix('.tar.gz')}-{stamp}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(folder):
        if not folder.exists():
            _make(folder, archive, files, java, version)
    return _Home(folder, _class_path(folder, files))


def _make(
    folder: Path, archive: Path, files: Sequence[Path], java: Path, version: MetastoreVersion
) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as draft:
        unpacked, made = Path(draft) / "unpacked", Path(draft) / "made"
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        [program] = unpacked.iterdir()
        made.mkdir()
        program.rename(made / "program")
        _create_schema(_Home(made, _class_path(made, files)), java, version)
        made.rename(folder)


def _create_schema(home: _Home, java: Path, version: MetastoreVersion) -> None:
    command = home.command(
        java,
        version.schema_tool,
        ["-dbType", "derby", "-initSchema"],
        _derby_settings(home.empty_database, create=True),
        [f"-Dderby.stream.error.file={home.folder / 'derby.log'}"],
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


def _derby_settings(database: Path, *, create: bool = False) -> dict[str, str]:
    """The Metastore's settings for an embedded Derby database in a directory."""
    url = f"jdbc:derby:;databaseName={database}" + (";create=true" if create else "")
    return {
        "javax.jdo.option.ConnectionURL": url,
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    }


def _class_path(folder: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    """The order matters: the locked jars first, hive-exec, which contains a bit of all, last."""
    jars = [file for file in files if file.suffix == ".jar"]
    last = [jar for jar in jars if jar.name.startswith("hive-exec")]
    first = [jar for jar in jars if jar not in last]
    own = sorted((folder / "program" / "lib").glob("*.jar"))
    wanted = [jar for jar in own if not jar.name.startswith(_LEFT_OUT)]
    hadoop = [jar for pattern in _FROM_SPARK for jar in sorted(spark_jars().glob(pattern))]
    return (*first, *wanted, *hadoop, *last)


class EmbeddedMetastore(EmbeddedServer):
    """One Metastore with a database of its own.

    Start-up takes some 4 s; the first one on a machine also fetches 165 MB and creates the schema
    (15 s).
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        version: MetastoreVersion = HIVE_4,
    ) -> None:
        """Describe it; nothing is touched yet.

        Args:
            folder: Its directory: database, warehouse, `metastore.log`. Made if it is not there.
            settings: The Metastore's settings that win over ours, by name.
            version: Hive's version.
        """
        super().__init__("Metastore", folder, startup_seconds=120)
        self.warehouse = folder / "warehouse"
        self.settings = dict(settings or {})
        self.version = version

    @property
    def uri(self) -> str:
        """`thrift://host:port` for clients. Raises as `ports`."""
        return f"thrift://{HOST}:{self.ports[0]}"

    def _launch(self, ports: tuple[int, int]) -> Child:
        java = find_java(_NEEDS_JAVA)
        home = metastore_home(java, self.version)
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        database = self.folder / "database"
        if not database.exists():
            shutil.copytree(home.empty_database, database)
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOGGING, encoding="utf-8")
        settings = {
            **_derby_settings(database),
            "metastore.warehouse.dir": f"file:{self.warehouse}",
            "metastore.warehouse.external.dir": f"file:{self.warehouse}",
            **_OURS,
            "metastore.task.threads.always": self.version.housekeeper,
            self.version.interval_setting: "5s",
            **self.settings,
        }
        options = [
            f"-Dlog4j2.configurationFile={logging}",
            f"-Dderby.stream.error.file={self.folder / 'derby.log'}",
        ]
        arguments = ["-p", str(ports[0])]
        command = home.command(java, self.version.main, arguments, settings, options)
        return Child(command, self.log)

    def _answers(self) -> bool:
        return is_open(HOST, self.ports[0])
