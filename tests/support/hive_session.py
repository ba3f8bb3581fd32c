"""Real Hive 4 in a JVM of its own: statements, and its compactor, on a Metastore that runs."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyspark

from support.embedded_metastore import OPENED, metastore_home
from support.jar_locks import resolve
from tidegate.compute.java import find_java

HERE = Path(__file__).parents[1] / "reference/hive"
# what Hive wants beside the Metastore's class path, which has all of Hive; the rest is in the lock
FROM_SPARK = ("commons-compress-*", "commons-math3-*", "commons-compiler-*", "janino-*")


class HiveFailedError(AssertionError):
    """Hive refused or failed a statement."""


@dataclass(frozen=True)
class HiveSession:
    """Hive over its pipes; each statement has a session of its own."""

    questions: IO[str]
    answers: IO[str]

    def run(self, statement: str) -> list[str]:
        """Run a statement; its rows, columns parted by spaces."""
        return self._ask("run", statement)

    def start(self, name: str, statement: str) -> None:
        """Let a statement run beside the others."""
        self._ask("start", name, statement)

    def finish(self, name: str) -> list[str]:
        """Wait for its end; its rows."""
        return self._ask("finish", name)

    def start_worker(self) -> None:
        """Start Hive's own compactor: it takes what is in the Metastore's queue."""
        self._ask("worker")

    def _ask(self, *question: str) -> list[str]:
        self.questions.write("\t".join(question) + "\n")
        self.questions.flush()
        answer = self.answers.readline()
        if not answer or answer.startswith("error\t"):
            raise HiveFailedError(f"{' '.join(question)}: {answer.strip() or 'Hive has ended'}")
        return [row for row in answer.rstrip("\n").split("\t") if row]


@contextmanager
def hive_session(uri: str, folder: Path) -> Generator[HiveSession]:
    """Compile the driver and start Hive; its files and its log (`hive.log`) go into `folder`."""
    folder.mkdir(parents=True)
    java = find_java(17)
    spark = Path(pyspark.__file__).parent / "jars"
    jars = [
        *resolve(HERE / "hive_session.lock.json"),  # first: the Metastore has an older ANTLR
        *metastore_home(java).class_path,
        *(jar for name in FROM_SPARK for jar in sorted(spark.glob(f"{name}.jar"))),
    ]
    class_path = ":".join(map(str, [folder / "classes", *jars]))
    compiler = java.with_name("javac")
    source = str(HERE / "HiveSession.java")
    subprocess.run(
        [compiler, "-nowarn", "-d", folder / "classes", "-cp", class_path, source],
        check=True,
        capture_output=True,
    )
    options = ["-Xmx768m", "-Dlog4j2.level=ERROR", f"-Djava.io.tmpdir={folder}"]
    options += [f"-D{name}={uri}" for name in ("hive.metastore.uris", "metastore.thrift.uris")]
    with (
        (folder / "hive.log").open("w") as log,
        subprocess.Popen(
            [java, *OPENED, *options, "-cp", class_path, "HiveSession", uri, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,  # Derby and Hive leave files where they are started
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        yield HiveSession(process.stdin, process.stdout)
        process.stdin.close()
