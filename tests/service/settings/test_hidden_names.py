"""A pattern with a character that can't be seen would silently match no table and no person."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import ConfigError
from tidegate.service.settings import Settings

HIDDEN = "an\u200ba"


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(
            f'[[cleaning.rules]]\ntables = "{HIDDEN}"\nmode = "quarantine"', id="cleaning"
        ),
        pytest.param(f'[[alarms]]\ntables = "{HIDDEN}"', id="alarms"),
        pytest.param(
            f'[[savepoints]]\ntables = "{HIDDEN}"\nwhen = "every_commit"\nlifetime = "3d"',
            id="savepoints",
        ),
        pytest.param(f'[restores]\nrequested_by = ["{HIDDEN}"]', id="requesters"),
        pytest.param(
            f'[[restores.rules]]\nlocations = ["/x"]\napproval = true\napproved_by = ["{HIDDEN}"]',
            id="approvers",
        ),
        pytest.param(
            f'[[restores.rules]]\ntables = "{HIDDEN}"\nengine = "hudi"', id="tables of a restore"
        ),
        pytest.param(f'[monitoring]\ntables = ["{HIDDEN}"]', id="monitoring"),
        pytest.param(
            f'[bridge.hudi]\ntables = ["/x/*"]\ncatalog = "{HIDDEN}"', id="catalog of the bridge"
        ),
        pytest.param(
            f'[bridge.hudi]\ntables = ["/x/*"]\ncatalog = "hudi"\ndatabase = "{HIDDEN}"',
            id="database of the bridge",
        ),
    ],
)
def test_a_pattern_or_name_with_an_invisible_character_is_refused(
    tmp_path: Path, section: str
) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(f'[kafka]\n"bootstrap.servers" = "localhost:9092"\n{section}\n')
    visible = tmp_path / "visible.toml"
    visible.write_text(file.read_text().replace(HIDDEN, "ana"))
    Settings.load(visible)

    with pytest.raises(ConfigError, match="a name has no control, format or other invisible"):
        Settings.load(file)
