"""Small ACID tables for tests: listings, vacuums over them, and trees on the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tidegate.cleaning.listing import ListedDirectory
from tidegate.events import CleaningReleased
from tidegate.hive.obsolete import FoundDirectory, _AcidState, acid_state
from tidegate.hive.write_ids import CleanerWriteIds, ValidTxns, ValidWriteIds
from tidegate.storage import ListedFile

NOTHING_OPEN = 9223372036854775807
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TABLE = "hive.default.table_txn_001"
IDS_1_TO_3 = f"default.table_txn_001:3:{NOTHING_OPEN}::"
IDS_1_TO_4 = f"default.table_txn_001:4:{NOTHING_OPEN}::"

INSERT_1 = "delta_0000001_0000001_0000"
INSERT_2 = "delta_0000002_0000002_0000"
INSERT_3 = "delta_0000003_0000003_0000"
INSERT_4 = "delta_0000004_0000004_0000"
DELETE_4 = "delete_delta_0000004_0000004_0000"
MINOR_3 = "delta_0000001_0000003"
MINOR_4 = "delta_0000001_0000004"
MINOR_DELETES_4 = "delete_delta_0000001_0000004"
MAJOR_3 = "base_0000003"
MAJOR_4 = "base_0000004"
INSERTS = (INSERT_1, INSERT_2, INSERT_3)


@dataclass(frozen=True)
class Case:
    """A listing after a vacuum, and what that vacuum made obsolete."""

    title: str
    directories: Mapping[str, int]
    made: tuple[str, ...]
    max_write_id: int
    obsolete: tuple[str, ...]

    @property
    def write_ids(self) -> str:
        return f"default.table_txn_001:{self.max_write_id}:{NOTHING_OPEN}::"

    @property
    def kind(self) -> str:
        return "major" if any(name.startswith("base") for name in self.made) else "minor"


FIVE_LISTINGS = (
    Case("three inserts", {INSERT_1: 901, INSERT_2: 909, INSERT_3: 905}, (), 3, ()),
    Case(
        "minor compaction",
        {INSERT_1: 901, MINOR_3: 916, INSERT_2: 909, INSERT_3: 905},
        (MINOR_3,),
        3,
        INSERTS,
    ),
    Case(
        "major compaction",
        {MAJOR_3: 916, INSERT_1: 903, INSERT_2: 910, INSERT_3: 905},
        (MAJOR_3,),
        3,
        INSERTS,
    ),
    Case(
        "minor and major compaction on one table",
        {MAJOR_3: 917, INSERT_1: 913, MINOR_3: 918, INSERT_2: 903, INSERT_3: 910},
        (MAJOR_3,),
        3,
        (INSERT_1, MINOR_3, INSERT_2, INSERT_3),
    ),
    Case(
        "minor compaction with delete deltas",
        {
            MINOR_DELETES_4: 786,
            DELETE_4: 786,
            INSERT_1: 907,
            MINOR_4: 938,
            INSERT_2: 911,
            INSERT_3: 908,
            INSERT_4: 925,
        },
        (MINOR_4, MINOR_DELETES_4),
        4,
        (DELETE_4, INSERT_1, INSERT_2, INSERT_3, INSERT_4),
    ),
)
VACUUMED = FIVE_LISTINGS[1:]


COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'
TRUNCATED = b'{"thisFileVersion":"0","dataFormat":"truncated"}'
"""What Hive writes into `_metadata_acid` of a base."""


def reader(text: str) -> ValidWriteIds:
    return ValidWriteIds.parse(text)


def cleaner(text: str) -> CleanerWriteIds:
    return CleanerWriteIds.of(ValidWriteIds.parse(text))


def found(*names: str) -> list[FoundDirectory]:
    return [FoundDirectory.named(name) for name in names]


def visible(directories: Sequence[FoundDirectory], txns: ValidTxns) -> list[FoundDirectory]:
    """Those that Hive shows a reader with these transactions."""
    return [
        one
        for one in directories
        if one.acid.visibility_txn is None or txns.is_valid(one.acid.visibility_txn)
    ]


def state_seen(
    directories: Sequence[FoundDirectory], write_ids: ValidWriteIds, txns: ValidTxns
) -> _AcidState:
    """What a reader with these transactions sees, as Hive's getAcidState says it."""
    shown = visible(directories, txns)
    failed = [
        one.name
        for one in directories
        if one not in shown and txns.is_aborted(one.acid.visibility_txn or 0)
    ]
    state = acid_state(shown, write_ids)
    return replace(state, aborted=(*failed, *state.aborted))


def listed(*names: str, empty: Sequence[str] = ()) -> tuple[ListedDirectory, ...]:
    """A listing in which each directory holds one bucket file of 900 bytes, or nothing."""
    bucket = (ListedFile("_orc_acid_version", 1), ListedFile("bucket_00000", 900))
    filled = [ListedDirectory(name, "/wh/t", bucket) for name in names]
    return tuple(
        sorted(
            [*filled, *(ListedDirectory(name, "/wh/t") for name in empty)],
            key=lambda directory: directory.name,
        )
    )


def emptied(name: str) -> ListedDirectory:
    """A directory with Hive's version file alone."""
    return ListedDirectory(name, "/wh/t", (ListedFile("_orc_acid_version", 1),))


def release(location: object = "/wh/t", **changes: object) -> CleaningReleased:
    """The command for a minor vacuum of the write ids 1 to 3, unless changed."""
    fields = {
        "table": TABLE,
        "location": location,
        "occurred_at": NOON,
        "source": "coordinator",
        "caused_by": "vacuum-1",
        "kind": "minor",
        "directories": (MINOR_3,),
        "min_write_id": 1,
        "max_write_id": 3,
        "valid_write_ids": IDS_1_TO_3,
    }
    return CleaningReleased.model_validate(fields | changes)


def release_of(case: Case, location: str = "/wh/t") -> CleaningReleased:
    return release(
        location,
        kind=case.kind,
        directories=case.made,
        max_write_id=case.max_write_id,
        valid_write_ids=case.write_ids,
    )


def build(root: Path, directories: Mapping[str, int]) -> Path:
    """Make a table of ACID directories, each with a version file and one bucket of that size."""
    for name, size in directories.items():
        (root / name).mkdir(parents=True)
        (root / name / "_orc_acid_version").write_text("2")
        (root / name / "bucket_00000").write_bytes(b"x" * size)
    return root


def tree(root: Path) -> dict[str, int | str]:
    """Every path below `root`, with its size or, for a link, where it leads."""
    return {
        str(path.relative_to(root)): str(path.readlink())
        if path.is_symlink()
        else path.stat().st_size * path.is_file()
        for path in sorted(root.rglob("*"))
    }


def names_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())
