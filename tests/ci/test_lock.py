"""What development installs is what was locked, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / ".ci" / "constraints.txt").read_text("utf-8")
PACKAGES = re.findall(r"^\S+==.*(?:\n    .*)*", LOCK, re.MULTILINE)


def test_every_package_is_pinned_with_the_hashes_of_its_files() -> None:
    rest = re.sub(r"^#.*$", "", LOCK, flags=re.MULTILINE)
    for package in PACKAGES:
        rest = rest.replace(package, "")

    assert len(PACKAGES) > 100
    assert [text for text in PACKAGES if not re.search(r"--hash=sha256:[0-9a-f]{64}", text)] == []
    assert rest.strip() == ""


def test_the_lock_names_no_host() -> None:
    assert re.findall(r"://|--(?:extra-)?index-url|--find-links|--trusted-host", LOCK) == []


@pytest.mark.parametrize("file", ["Makefile", ".ci/matrix"])
def test_whatever_installs_from_the_lock_checks_its_hashes(file: str) -> None:
    text = (ROOT / file).read_text("utf-8").replace("\\\n", " ")
    installs = [
        line for line in text.splitlines() if re.search(r"\bpip install\b|install\[@\]", line)
    ]
    editable = [line for line in installs if "--editable ." in line]
    locked = [line for line in installs if "--requirement" in line]

    assert locked
    assert all("--require-hashes" in line for line in locked)
    assert all("--no-build-isolation" in line for line in editable)
    assert "--no-deps" in text
