"""Checks the locked versions for known vulnerabilities (pip-audit, PyPI's service).

Exit codes: 0 no vulnerability is known; 1 vulnerabilities were found; 3 the data was not available,
so there is no result. pip-audit itself exits with 0 even if its service knows none of the packages.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parent / "constraints.txt"
UV = Path(__file__).parents[1] / ".venv" / "bin" / "uv"
TOOL = (str(UV), "tool", "run", "--quiet", "--from", "pip-audit==2.10.1", "pip-audit")
OPTIONS = ("--disable-pip", "--no-deps", "--progress-spinner", "off", "--timeout", "20")
FOUND, NO_DATA = 1, 3


def verdict(dependencies: list[dict[str, Any]]) -> tuple[int, str]:
    """The exit code and the sentence for what pip-audit says of each dependency."""
    vulnerable = [
        f"{dependency['name']} {dependency['version']}: "
        + ", ".join(known["id"] for known in dependency["vulns"])
        for dependency in dependencies
        if dependency.get("vulns")
    ]
    skipped = [dependency["name"] for dependency in dependencies if "skip_reason" in dependency]
    if vulnerable:
        return FOUND, "vulnerable, raise them with `make lock ARGS=--upgrade`: " + "; ".join(
            vulnerable
        )
    if skipped or not dependencies:
        return NO_DATA, f"not done: no data on {len(skipped)} of {len(dependencies)} packages"
    return 0, f"no vulnerability is known in {len(dependencies)} packages"


def main() -> int:
    """Run pip-audit on the lock."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        asked = ("--requirement", str(LOCK), "--format", "json", "--output", str(report))
        done = subprocess.run(
            [*TOOL, *asked, *OPTIONS], capture_output=True, text=True, check=False
        )
        content = report.read_text("utf-8") if report.exists() else ""
    if not content:
        last = done.stderr.strip().rpartition("\n")[2][:300]
        print(f"audit: not done: {last}", file=sys.stderr)
        return NO_DATA
    code, sentence = verdict(json.loads(content)["dependencies"])
    print(f"audit: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
