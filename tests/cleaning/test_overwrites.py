"""What INSERT OVERWRITE and TRUNCATE replaced goes with the next compaction, and not before."""

from __future__ import annotations

import pytest

from support.acid import (
    COMPACTED,
    INSERT_1,
    INSERT_3,
    INSERT_4,
    NOTHING_OPEN,
    TRUNCATED,
    emptied,
    listed,
    release,
)
from tidegate.cleaning.listing import ListedDirectory
from tidegate.cleaning.plan import CleaningPlan, plan_cleaning
from tidegate.events import CleaningReleased
from tidegate.events.reasons import Reason
from tidegate.storage import ListedFile
from tidegate.tables.refusal import Refused

OVERWRITE = "base_0000002"
MINOR = "delta_0000003_0000004_v0000024"


def after_a_minor(ids: str = f"4:{NOTHING_OPEN}::", **changes: object) -> CleaningReleased:
    fields = {
        "directories": (MINOR,),
        "min_write_id": 3,
        "max_write_id": 4,
        "valid_write_ids": f"default.table_txn_001:{ids}",
        "own_transaction_id": 24,
    }
    return release(**(fields | changes))


def after_nothing_but(base: str, ids: str = f"3:{NOTHING_OPEN}::") -> CleaningReleased:
    """A major compaction that found nothing to merge: the base was there before."""
    return release(
        kind="major",
        directories=(base,),
        max_write_id=int(base[5:12]),
        valid_write_ids=f"default.table_txn_001:{ids}",
        own_transaction_id=17,
    )


def with_format(name: str, content: bytes, *more: str) -> ListedDirectory:
    files = (ListedFile("_metadata_acid", len(content)), *(ListedFile(m, 9) for m in more))
    return ListedDirectory(name, "/wh/t", files, data_format=content)


def test_after_a_minor_compaction_what_an_overwrite_replaced_goes_too() -> None:
    listing = listed(INSERT_1, "base_0000001", OVERWRITE, INSERT_3, INSERT_4, MINOR)

    plan = plan_cleaning(listing, after_a_minor())

    assert plan.directories == ("base_0000001", INSERT_1, INSERT_3, INSERT_4)
    assert [product.name for product in plan.products] == [MINOR, OVERWRITE]


@pytest.mark.parametrize(
    ("ids", "overwrite"),
    [
        pytest.param("4:2:2:", OVERWRITE, id="open"),
        pytest.param(f"4:{NOTHING_OPEN}::2", OVERWRITE, id="aborted"),
        pytest.param(f"6:{NOTHING_OPEN}::", "base_0000005", id="after the compaction"),
        pytest.param(f"4:{NOTHING_OPEN}::", "base_0000002_v0000020", id="a compaction's own"),
    ],
)
def test_what_an_overwrite_replaced_stays_where_it_does_not_count_or_is_anothers(
    ids: str, overwrite: str
) -> None:
    listing = listed(INSERT_1, overwrite, INSERT_3, INSERT_4, MINOR)

    plan = plan_cleaning(listing, after_a_minor(ids))

    assert plan.directories == (INSERT_3, INSERT_4)


def test_a_base_that_readers_do_not_see_replaces_nothing() -> None:
    listing = (*listed(INSERT_1, INSERT_3, INSERT_4, MINOR), ListedDirectory(OVERWRITE, "/wh/t"))

    with pytest.raises(Refused) as refused:
        plan_cleaning(sorted(listing), after_a_minor())

    assert refused.value.reason is Reason.PRODUCTS_INCOMPLETE
    assert refused.value.message == f"{OVERWRITE} has no bucket file"


def plan_after(base: ListedDirectory, ids: str = f"3:{NOTHING_OPEN}::") -> CleaningPlan:
    return plan_cleaning(
        sorted((*listed("base_0000002", INSERT_1), base)), after_nothing_but(base.name, ids)
    )


def test_a_compaction_that_found_nothing_to_merge_has_the_older_copies_removed() -> None:
    [base] = listed("base_0000003")
    gone = ("base_0000002", INSERT_1)

    assert plan_after(base).directories == gone
    assert plan_after(with_format("base_0000003", TRUNCATED)).directories == gone
    with pytest.raises(Refused, match="base is empty, but nothing deletes the rows"):
        plan_after(emptied("base_0000003"))  # a lost product looks the same


@pytest.mark.parametrize("ids", ["3:3:3:", f"3:{NOTHING_OPEN}::3"], ids=["open", "aborted"])
def test_a_truncate_that_has_not_committed_removes_nothing(ids: str) -> None:
    with pytest.raises(Refused) as refused:
        plan_after(with_format("base_0000003", TRUNCATED), ids)

    assert refused.value.reason is Reason.PRODUCTS_INCOMPLETE
    assert "was written by a TRUNCATE" in refused.value.message


def test_an_empty_base_of_a_compaction_still_needs_a_reason() -> None:
    base = with_format("base_0000003", COMPACTED)
    version = ListedFile("_orc_acid_version", 1)

    with pytest.raises(Refused, match="base is empty, but nothing deletes the rows"):
        plan_after(base._replace(files=(*base.files, version)))
