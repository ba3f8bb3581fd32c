"""What may be put back: judged by getAcidState for every snapshot that a reader can have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.acid import INSERT_1, INSERTS, MAJOR_3, MINOR_3, NOON, listed, release
from tidegate.cleaning.plan import CleaningPlan, plan_cleaning
from tidegate.cleaning.quarantine import Entry, QuarantineRecord
from tidegate.cleaning.quarantine_commands import _UndoPlan, plan_undo
from tidegate.events import CleaningReleased
from tidegate.hive.names import Base, parse_name
from tidegate.hive.obsolete import FoundDirectory, NotEnoughHistory, acid_state, hides
from tidegate.hive.write_ids import NOTHING_OPEN, IdRanges, ValidTxns, ValidWriteIds
from tidegate.tables.refusal import Refused

ALL = ValidTxns(10_000, 10_001)


def entry(
    command: CleaningReleased, plan: CleaningPlan, kept: Sequence[str] | None = None
) -> Entry:
    record = QuarantineRecord.of(command, plan, "why", NOON, 1)
    names = plan.directories if kept is None else kept
    return Entry("run", f"/wh/t/.q/{command.event_id}", record, names)


def quarantine(names: Iterable[str], command: CleaningReleased) -> tuple[set[str], Entry]:
    """The rest of a listing after a cleaning, and the entry of the removed part."""
    plan = plan_cleaning(listed(*names), command)
    return set(names) - set(plan.directories), entry(command, plan)


def undo(names: Iterable[str], *entries: Entry, cleaning: str) -> _UndoPlan:
    return plan_undo(listed(*names), entries, cleaning, "undo-1")


def reason(names: Iterable[str], *entries: Entry, cleaning: str) -> str:
    with pytest.raises(Refused) as refused:
        undo(names, *entries, cleaning=cleaning)
    return refused.value.reason


def test_a_base_without_a_known_commit_hides_nothing() -> None:
    """A compaction that died, or runs now, leaves a base that readers pass over."""
    command = release()
    left, kept = quarantine([*INSERTS, MINOR_3], command)
    assert undo(left, kept, cleaning=command.event_id).put_back
    strange = {"base_0000009_v0000099"}
    assert reason(strange, kept, cleaning=command.event_id) == "rows-twice"


def test_a_later_cleanings_product_is_known_from_its_own_record() -> None:
    first = release()
    left, one = quarantine([*INSERTS, MINOR_3], first)
    second = release(kind="major", directories=(MAJOR_3,), caused_by="vacuum-2")
    left, two = quarantine([*left, MAJOR_3], second)
    assert left == {MAJOR_3}
    assert len(undo(left, one, two, cleaning=first.event_id).put_back) == len(INSERTS)
    assert reason(left, one, cleaning=first.event_id) == "rows-twice"


def test_what_a_crash_left_in_several_entries_comes_back_as_one() -> None:
    command = release()
    plan = plan_cleaning(listed(*INSERTS, MINOR_3), command)
    dead = entry(command, plan, [INSERT_1])
    rest = CleaningPlan(plan.remove[1:], plan.products)
    alive = Entry("run-2", "/wh/t/.q/2", entry(command, rest).record, rest.directories)
    found = undo([MINOR_3], dead, alive, cleaning=command.event_id)
    assert [name for name, _ in found.put_back] == list(INSERTS)
    assert reason([MINOR_3], alive, dead, dead, cleaning=command.event_id) == "name-taken"
    assert reason([MINOR_3], alive, cleaning="other") == "not-quarantined"


def test_an_undo_leaves_what_a_compaction_left_that_aborted_in_quarantine() -> None:
    """Readers would see it once the Metastore has forgotten the abort."""
    made, failed = "delta_0000001_0000003_v0000009", "base_0000003_v0000008"
    command = release(directories=(made,), own_transaction_id=9)
    plan = plan_cleaning(listed(*sorted([*INSERTS, made, failed])), command, {8})
    assert failed in plan.directories

    found = undo([made], entry(command, plan), cleaning=command.event_id)

    assert [name for name, _ in found.put_back] == list(found.sizes) == list(INSERTS)
    of_the_failed = plan_cleaning(listed(failed, made), command, {8})
    alone = entry(command, of_the_failed)
    assert reason([made], alone, cleaning=command.event_id) == "not-quarantined"


@pytest.mark.parametrize(
    ("product", "name", "is_hidden"),
    [
        ("delta_1_3_v20", "delta_2_2_0000", True),
        ("delta_1_3_v20", "delete_delta_2_2_0000", True),
        ("delta_1_3_v20", "delta_1_2_v9", True),
        ("delta_2_2_v20", "delta_2_2_0000", True),
        ("delta_1_3_v20", "delta_1_3", False),
        ("delta_1_3_v20", "delta_1_3_v9", False),
        ("delta_1_3_v20", "delta_3_4_v9", False),
        ("delta_1_3_v20", "delta_4_4_0000", False),
        ("delta_1_3_v20", "base_2_v9", False),
        ("delta_2_2_0000", "delta_2_2_0001", False),
        ("base_3_v20", "delta_3_3_0000", True),
        ("base_3_v20", "base_2_v9", True),
        ("base_3_v20", "base_3", True),
        ("base_3_v20", "base_3_v9", False),
        ("base_3", "base_3_v9", False),
        ("base_3_v20", "delta_1_4_v9", False),
        ("base_3_v20", "base_4_v9", False),
    ],
)
def test_what_hides_what(product: str, name: str, *, is_hidden: bool) -> None:
    """And who sees the product reads the same with it: as getAcidState says."""
    assert hides(FoundDirectory.named(product), FoundDirectory.named(name)) is is_hidden
    latest = ValidWriteIds("default.t", 9)
    changes = _reads([product, name], latest) != _reads([product], latest)
    assert not (is_hidden and changes)
    assert is_hidden or changes or product == "base_3" or name.startswith("base")


NAMES = st.builds(
    lambda low, width, statement, txn, kind: (
        f"base_{low}{'' if txn is None else f'_v{txn}'}"
        if kind == "base"
        else f"{kind}_{low}_{low + (0 if statement is not None else width)}"
        f"{'' if statement is None else f'_{statement:04d}'}"
        f"{'' if txn is None or statement is not None else f'_v{txn}'}"
    ),
    st.integers(1, 5),
    st.integers(0, 3),
    st.none() | st.integers(0, 1),
    st.none() | st.integers(20, 22),
    st.sampled_from(["delta", "delete_delta", "base"]),
)


@given(st.lists(NAMES, unique_by=parse_name, max_size=5), NAMES, st.integers(0, 9))
def test_what_a_product_hides_changes_nothing_for_who_sees_the_product(
    others: list[str], product: str, which: int
) -> None:
    """The theorem on which the undo rests, for every snapshot, not for those of a history only."""
    wide = FoundDirectory.named(product)
    if not isinstance(wide.acid, Base) and wide.acid.statement is not None:
        return
    known = [n for n in others if _is_legal(n)]
    hidden = [n for n in known if n != product and hides(wide, FoundDirectory.named(n))]
    if not hidden:
        return
    found = hidden[which % len(hidden)]
    rest = [n for n in known if n not in {found, product}]
    for write_ids in _snapshots():
        before = _reads([*rest, product], write_ids)
        if before is not None and _uses(product, [*rest, product], write_ids):
            assert _reads([*rest, product, found], write_ids) == before, (rest, product, found)


def _is_legal(name: str) -> bool:
    """Whether its range is one that a writer or compactor leaves beside others of up to five."""
    return parse_name(name).max_write_id <= 8


def _snapshots() -> Iterable[ValidWriteIds]:
    for high in range(10):
        for opened in ((), (1,), (2,), (3,), (4,), (2, 4)):
            ids = tuple(write_id for write_id in opened if write_id <= high)
            if len(ids) == len(opened):
                least = min(ids, default=NOTHING_OPEN)
                yield ValidWriteIds("default.t", high, least, IdRanges.of(*ids))


def _reads(names: Sequence[str], write_ids: ValidWriteIds) -> frozenset[str] | None:
    found = [FoundDirectory.named(name) for name in sorted(names)]
    try:
        state = acid_state(found, write_ids)
    except NotEnoughHistory:
        return None
    return frozenset({*state.current, *filter(None, [state.base])})


def _uses(product: str, names: Sequence[str], write_ids: ValidWriteIds) -> bool:
    """Whether a reader reads the product, or what hides it in turn."""
    reads = _reads(names, write_ids) or frozenset()
    return product in reads
