"""A bar is drawn on a terminal only, and makes room for every line."""

from __future__ import annotations

from contextlib import closing
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console

from support.deployment_events import completed, restore_request, started
from support.samples import NOON
from tidegate.cli.sending import _OutcomeBar, share_of
from tidegate.events import CleaningProgressed, RestoreProgressed

if TYPE_CHECKING:
    import pytest

REQUEST = restore_request()
BASE: dict[str, Any] = {"source": "restorer", "occurred_at": NOON}
HALF = RestoreProgressed.about(
    REQUEST,
    **BASE,
    savepoint="20261121120000001",
    restore_instant="20261121130000000",
    instants_done=1,
    instants_total=2,
    files_done=30,
    files_total=60,
)
CLEANING = CleaningProgressed.about(
    REQUEST, **BASE, directories_done=3, directories_total=12, files_done=3, files_total=12
)


def terminal() -> Console:
    return Console(file=StringIO(), force_terminal=True, width=120, color_system=None)


def shown(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_progress_is_drawn_and_an_outcome_is_printed_where_the_bar_was() -> None:
    console = terminal()
    with closing(_OutcomeBar(console)) as bar:
        assert not bar.take(started(REQUEST))
        assert bar.take(HALF)
        assert not bar.take(completed(REQUEST))
        bar.close()

    assert REQUEST.table in shown(console)
    assert "30/60 files" in shown(console)
    assert "50%" in shown(console)
    assert shown(console).endswith("\x1b[2K")  # the bar's line is erased


def test_where_there_is_not_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(_OutcomeBar()) as bar:
        assert not bar.take(HALF)

    assert capsys.readouterr() == ("", "")


def test_a_table_s_name_is_not_markup() -> None:
    console = terminal()
    with closing(_OutcomeBar(console)) as bar:
        bar.take(HALF.model_validate(HALF.model_dump() | {"table": "lake.[red]sales.orders"}))

    assert "lake.[red]sales.orders" in shown(console)


def test_each_kind_of_progress_has_its_unit() -> None:
    assert share_of(HALF) == (30, 60, "files")
    assert share_of(CLEANING) == (3, 12, "directories")
    assert share_of(completed(REQUEST)) is None
    assert share_of(None) is None
