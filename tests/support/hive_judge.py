"""Real Hive, asked about ACID directories on the local disk, in one JVM over its pipes."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyspark

from support.jar_locks import resolve
from tidegate.compute.java import find_java
from tidegate.hive.obsolete import _AcidState
from tidegate.hive.write_ids import ValidTxns, ValidWriteIds

HERE = Path(__file__).parents[1] / "reference/hive"
# hive-exec holds all of Hive; what it wants of Hadoop and for its log lies in Spark's jars
FROM_SPARK = (
    "hadoop-client-api-*.jar",
    "hadoop-client-runtime-*.jar",
    "commons-lang3-*.jar",
    "commons-logging-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
)
OPENED = ("java.lang", "java.net", "java.util")
NO_TXNS = ValidTxns(0, 1)


@dataclass(frozen=True)
class HiveJudge:
    """Hive's getAcidState in one JVM, asked over its pipes."""

    questions: IO[str]
    answers: IO[str]

    def ask(
        self, table: Path, write_ids: ValidWriteIds, txns: ValidTxns, *, as_cleaner: bool
    ) -> _AcidState | str:
        """What Hive says of a directory on the disk: its state, or its error."""
        view = "cleaner" if as_cleaner else "reader"
        answer = self._answer(table, view, write_ids, txns)
        if answer[0] == "error":
            return answer[1]
        base, *groups = (tuple(filter(None, part.split(","))) for part in answer)
        return _AcidState(base[0] if base else None, *groups)

    def rows(
        self,
        table: Path,
        write_ids: ValidWriteIds,
        columns: Mapping[str, str],
        txns: ValidTxns = NO_TXNS,
    ) -> list[str]:
        """The rows that Hive reads, as it prints them, sorted."""
        types = (",".join(columns), ",".join(columns.values()))
        return sorted(filter(None, self._answer(table, "rows", write_ids, txns, *types)))

    def compact(
        self, table: Path, write_ids: ValidWriteIds, columns: Mapping[str, str], txns: ValidTxns
    ) -> None:
        """Let Hive's own compactor run a major compaction, as the last of these transactions."""
        types = (",".join(columns), ",".join(columns.values()))
        answer = self._answer(table, "compact", write_ids, txns, *types)
        assert answer == [""], answer

    def _answer(self, *question: object) -> list[str]:
        self.questions.write("\t".join(map(str, question)) + "\n")
        self.questions.flush()
        return self.answers.readline().rstrip("\n").split("\t")


class NoCompiler(Exception):  # noqa: N818 - states a finding
    """Java has no compiler here. The catcher skips what needs the judge."""


@contextmanager
def hive_judge(*options: str) -> Generator[HiveJudge]:
    """Start a JVM with these options, and stop it at the end.

    Raises:
        NoCompiler: only a full JDK can compile the judge.
    """
    spark = Path(pyspark.__file__).parent / "jars"
    jars = [*resolve(HERE / "hive.lock.json"), *(j for p in FROM_SPARK for j in spark.glob(p))]
    java = find_java()
    process = subprocess.Popen(
        [java, *options, *_arguments(java, jars)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin
        assert process.stdout
        yield HiveJudge(process.stdin, process.stdout)
        process.stdin.close()


def _arguments(java: Path, jars: Sequence[Path]) -> Sequence[str]:
    listed = [str(java), "--list-modules"]
    if (
        "jdk.compiler"
        not in subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    ):
        raise NoCompiler("a full JDK is needed: it compiles the judge")
    return (
        "-Dlog4j2.level=ERROR",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        "-cp",
        ":".join(map(str, jars)),
        str(HERE / "AcidJudge.java"),
    )
