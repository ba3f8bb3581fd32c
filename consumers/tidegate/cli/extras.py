"""Which extra of the package brings a library that a command needs and that is not installed."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.metadata import requires
from typing import Final

_REQUIREMENT: Final = re.compile(r"""^([A-Za-z0-9._-]+).*extra\s*==\s*["']([A-Za-z0-9_-]+)["']""")
_OF_MODULE: Final = {
    "py4j": "pyspark",
    "venv_pack": "venv-pack",
    "puresasl": "pure-sasl",
    "opentelemetry": "opentelemetry-api",
}
"""Where a module has another name than what is installed."""
_USUAL: Final = "services"
_FOR_DEVELOPERS: Final = frozenset({"test", "dev"})


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """What to install; None where no extra brings the module: then it is a defect.

    The extras are read from the installed package, so that this list is never out of date. Of
    several that bring it, it is the services', else the smallest.
    """
    module = (error.name or "").partition(".")[0]
    wanted = _plain(_OF_MODULE.get(module, module))
    libraries = defaultdict[str, set[str]](set)
    for requirement in requires("tidegate") or ():
        if found := _REQUIREMENT.match(requirement):
            libraries[found[2]].add(_plain(found[1]))
    bringing = [
        library
        for library, names in libraries.items()
        if wanted in names and library not in _FOR_DEVELOPERS
    ]
    if not bringing:
        return None
    extra = min(bringing, key=lambda library: (library != _USUAL, len(libraries[library]), library))
    return f"this needs {module}, which is not installed: pip install 'tidegate[{extra}]'"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
