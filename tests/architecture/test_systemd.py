"""The unit for systemd: what systemd itself says of it, and that it starts what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tidegate.service.settings import Settings

UNIT = Path(__file__).parents[2] / "compose" / "systemd" / "tidegate@.service"


def directives(section: str) -> dict[str, list[str]]:
    """The values of each directive, which may be there more than once."""
    found: dict[str, list[str]] = {}
    here = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            here = line.strip("[]")
        elif here == section and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_little_to_say_against_it() -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_nothing_is_writable_unless_it_is_listed() -> None:
    service = directives("Service")

    assert service["ProtectSystem"] == ["strict"]
    assert "ReadWritePaths" not in service


def test_it_waits_longer_than_a_service_takes_to_stop() -> None:
    stop = float(directives("Service")["TimeoutStopSec"][0])

    assert stop > Settings().services.stop_seconds


def test_the_variables_that_it_sets_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for directive in directives("Service")["Environment"]:
        name, _, value = directive.partition("=")
        if name != "TIDEGATE_CONFIG":
            monkeypatch.setenv(name, value.replace("%d", "/run/credentials/unit"))
    monkeypatch.delenv("TIDEGATE_CONFIG", raising=False)

    assert Settings.load().security.sign_with == Path("/run/credentials/unit/signing-key")
