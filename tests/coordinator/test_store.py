"""Rows: what a restart brings back, what is undone, and how each statement finds its rows."""

from __future__ import annotations

import ast
import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.deployment_events import vacuum
from support.rows import Rows, restored
from support.samples import NOON, release
from tidegate.coordinator import readers
from tidegate.coordinator.memory import REMEMBERED
from tidegate.coordinator.readers import ReaderGate
from tidegate.coordinator.requests import Requests
from tidegate.coordinator.rows.position import POSITION_KEY
from tidegate.coordinator.rows.records import dumps, loads, row_key
from tidegate.coordinator.rows.store import OUTBOX, RowType, Store
from tidegate.coordinator.vacuums import SELECT_VACUUMS
from tidegate.errors import FormatError, PermanentError
from tidegate.events import Event
from tidegate.publisher import Message
from tidegate.service.assembly import subjects
from tidegate.service.settings import Settings

TREES = [ast.parse(path.read_text()) for path in Path(readers.__file__).parent.rglob("*.py")]
SCANNED = {
    "select tbl, number, body from task order by tbl, number": "all running tasks: after a restart",
    SELECT_VACUUMS: "all vacuums: after a restart, for people",
    "select tbl, id, due, requested, undone, body from quarantine": "all quarantines: for people",
    "select tbl, since, body, (select count(*) from deferred where deferred.tbl = hold.tbl) from"
    " hold": "all holds: for people",
    "select sequence from outbox": "all of it was published",
    "select body from outbox order by sequence": "all of it is published",
}
"""Statements that read a table to its end, and why they may. So may those in `restored`."""
SUBJECTS = subjects(Settings())
KINDS = (*SUBJECTS.row_types, *Requests.row_types)
LASTING = (*(kind for kind in KINDS if kind is not REMEMBERED), OUTBOX)


def statements() -> list[str]:
    """Every SQL text of the package; a name in it stands for a part that is chosen by a kind."""
    found = set[str]()
    for tree in TREES:
        found |= statements_in(tree, constants_of([tree]))
    return sorted(found)


def statements_after_a_restart() -> set[str]:
    """Those in the subjects' `restored`, which runs once after each restart."""
    return {
        statement
        for tree in TREES
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "restored"
        for statement in statements_in(node, constants_of([tree]))
    }


def statements_in(tree: ast.AST, constants: dict[str, ast.expr | None]) -> set[str]:
    known = {"SELECT_VACUUMS": constants_of(TREES)["SELECT_VACUUMS"]} | constants
    nodes = (it for it in ast.walk(tree) if isinstance(it, ast.Constant | ast.JoinedStr))
    texts = (rendered(node, known) for node in nodes)
    return {text for text in texts if re.match(r"(select|update|delete) .*[^ ]$", text)}


def constants_of(trees: list[ast.Module]) -> dict[str, ast.expr | None]:
    return {
        target.id: node.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(target := node.target, ast.Name)
    }


def rendered(node: ast.expr, constants: dict[str, ast.expr | None]) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(rendered(part, constants) for part in node.values)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
        value = constants.get(node.value.id)
        return rendered(value, constants) if value is not None else f"{{{node.value.id}}}"
    return ""


def of_kinds(text: str) -> list[str]:
    """A statement with the names that its holes may have."""
    index = "from {kind} indexed by {kind}_at where tbl = ?"
    text = text.replace("{index}", index)
    if "{kind}" not in text:
        return [text]
    kinds = (("ended", "token"), ("done", "content"))
    return [text.replace("{kind}", kind).replace("{key}", key) for kind, key in kinds]


def explained() -> list[str]:
    return [made for text in statements() for made in of_kinds(text) if "{" not in made]


def test_the_package_s_statements_are_found() -> None:
    assert len(explained()) > 30


def test_every_statement_that_may_scan_exists() -> None:
    assert set(explained()) >= SCANNED.keys()
    assert "select tbl, body from policy" in statements_after_a_restart()


@pytest.mark.parametrize("statement", explained())
def test_no_statement_scans_a_hot_table(statement: str) -> None:
    """With a primary key and another index on the same table, SQLite may take the wrong one."""
    store = Store(KINDS)
    count = statement.count("?")
    plan = [row[3] for row in store.execute(f"explain query plan {statement}", (0,) * count)]
    scans = [step for step in plan if step.startswith("SCAN") and "CONSTANT" not in step]
    if statement not in SCANNED and statement not in statements_after_a_restart():
        assert [step for step in scans if "SUBQUERY" not in step and not is_end_of(step)] == []
    for step in plan:
        if "watch_" in statement.partition(" where ")[2] and "vacuum" in step:
            assert "vacuum_" in step, "not by the index of what is watched"


def is_end_of(step: str) -> bool:
    """`min(due)` over an index: SQLite calls it a scan or a search and reads one entry."""
    return bool(re.search(r"USING (COVERING )?INDEX \w+_due", step))


EVENTS: list[Event] = [
    *(vacuum(n, n + 1, table=f"lake.sales.t{n % 2}") for n in range(1, 6)),
    *(release(n, f"lake.sales.t{t}") for n in range(1, 8) for t in range(2)),
]


def all_rows(store: Store) -> dict[str, list[str]]:
    return {k.name: [*sorted(map(str, store.all(f"select * from {k.name}")))] for k in LASTING}  # noqa: S608


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=25), st.integers(1, 9))
def test_rows_after_a_restart_equal_rows_before(events: list[Event], size: int) -> None:
    rows = Rows(SUBJECTS, restarts=False)
    for start in range(0, len(events), size):
        rows.handle(*events[start : start + size], at=NOON)
        rows.store.begin()
        rows.store.add_to_outbox(Message("tidegate.tasks", b"k", bytes([start]), (("h", b"1"),)))
        rows.store.commit()
        rows.write()
    before = all_rows(rows.store)

    assert all_rows(restored(SUBJECTS, rows.log)) == before
    compacted = {key: value for key, value in rows.log if key != POSITION_KEY}
    live = [(key, value) for key, value in compacted.items() if value is not None]
    assert all_rows(restored(SUBJECTS, [*live, rows.log[-1]] if rows.log else [])) == before


def test_the_gate_needs_no_rows_but_its_own() -> None:
    gate, store = ReaderGate(), Store(ReaderGate().row_types)
    gate.handle(vacuum(1), store, NOON)
    assert len(gate.handle(release(1), store, NOON).commands) == 1


def test_a_rollback_undoes_rows_and_messages_of_one_event_alone() -> None:
    rows = Rows(restarts=False)
    rows.handle(vacuum(1, 2))
    rows.store.begin()
    rows.subject.handle(release(1), rows.store, NOON)
    rows.store.add_to_outbox(Message("tidegate.tasks", b"k", b"v"))
    rows.store.rollback()

    assert rows.store.unsent == []
    assert [key.split(b"\x00")[1] for key, _ in rows.write()] == [b"vacuum", b"position"]


def test_what_has_no_end_mark_is_written_again_with_its_former_value() -> None:
    kind = RowType("counted", ("events",))
    first = Store((kind,))
    first.begin()
    first.put("counted", "a.b.c", columns=(1,))
    first.commit()
    log = first.batch()
    first.begin()
    first.put("counted", "a.b.c", columns=(2,))
    first.put("counted", "a.b.d", columns=(9,))
    first.commit()
    cut = [*log, *first.batch()[:-1]]

    second = Store((kind,))
    second.restore(cut)
    assert second.all("select * from counted") == [("a.b.c", 1)]
    repair = second.batch()
    assert dict(repair[:-1]) == {
        row_key("a.b.c", "counted"): b"[1]",
        row_key("a.b.d", "counted"): None,
    }
    third = Store((kind,))
    third.restore([*cut, *repair])
    assert third.all("select * from counted") == [("a.b.c", 1)]


def test_a_record_that_can_t_be_read_is_not_passed_over() -> None:
    store = Store((RowType("counted", ("events",)),))
    with pytest.raises(FormatError, match="can't be read"):
        store.restore([(row_key("a.b.c", "counted"), b"[1,2]"), (POSITION_KEY, b"{}")])


def test_a_record_that_no_changelog_accepts_is_refused_and_rolled_back() -> None:
    store = Store((RowType("hoard", has_body=True),))
    store.begin()
    with pytest.raises(PermanentError, match="at most"):
        store.put("hoard", "a.b.c", body="x" * 40 * 2**20)
    store.rollback()
    assert len(store.batch()) == 1


def test_text_with_half_of_a_surrogate_pair_is_stored() -> None:
    assert loads(dumps(["/lake/\ud800"])) == ["/lake/\ud800"]
    assert dumps(["/lake/\ud800"]).isascii()


def test_a_closed_store_holds_nothing() -> None:
    store = Store(KINDS)
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        store.tables()
