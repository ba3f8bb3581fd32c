"""Outcomes: what the executors did, or why they refused. Together they are the audit trail."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self

from pydantic import AwareDatetime, Field, model_validator

from tidegate.events.base import Command, Outcome, Value
from tidegate.events.identity import derived_id
from tidegate.events.limits import Count, LongText, Message, Text
from tidegate.events.names import Name
from tidegate.events.savepoint_marks import LifetimeSeconds
from tidegate.events.verdict import Verdict


class InstantRef(Value, frozen=True):
    """An instant on a Hudi timeline, with the fields of Hudi's HoodieInstantInfo."""

    instant: Text
    action: Text


class Answer(Outcome, frozen=True):
    """The outcome of a command. Who asked, and why, is kept as long as outcomes are."""

    requested_by: Name | None = None
    why: LongText | None = None
    signed_by: Name | None = None

    def to(self, command: Command, signed_by: str | None = None) -> Self:
        """The same outcome with the requester and reason of `command`.

        `signed_by` is the name whose key signed the command; None: no signature was verified.
        """
        asked = {"requested_by": command.asked_by, "why": command.asked_why, "signed_by": signed_by}
        return type(self).model_validate(self.model_dump() | asked)


class SavepointCreated(Answer, frozen=True):
    """The savepoint is on the timeline; `already_there` if it was before this command.

    `policy`, `tiers`, `decided_at` and `lifetime_seconds` are what its mark on the timeline says;
    the tiers with those of the request, if that is the same policy's. `bytes` are those of all its
    files, where they were listed. `derived_from` is the savepoint of the table from which it was
    derived; else `listed_because` says why not.
    """

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")
    means: ClassVar[Verdict] = Verdict.DONE

    instant: Text
    partitions: Count
    files: Count
    already_there: bool = False
    duration_ms: Count
    bytes: Count | None = None
    policy: Text | None = None
    tiers: tuple[Text, ...] = ()
    decided_at: AwareDatetime | None = None
    lifetime_seconds: LifetimeSeconds | None = None
    derived_from: Text | None = None
    listed_because: Text | None = None


class SavepointRejected(Answer, frozen=True):
    """No savepoint was written. `reason` is a code of `Reason`."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "instant")
    means: ClassVar[Verdict] = Verdict.REFUSED

    instant: Text | None = None
    reason: Text
    message: Message


class SavepointsChecked(Answer, frozen=True):
    """The retention of a table's savepoints was checked; its own outcomes precede it.

    `savepoints` are those on the timeline now; `unowned` name a policy that no rule of the table
    owns: they stay. `next_check` is when time alone may change the result; None: never. For a
    `condemned` commit, `newest_before` is the newest savepoint before it, and `later` are those of
    it and of later commits, which a restore needs removed. `commits` are those of the request. If
    the request asked to measure, the pinned files are those that only savepoints keep, each counted
    once.
    """

    means: ClassVar[Verdict] = Verdict.DONE

    made: Count = 0
    removed: Count = 0
    savepoints: Count
    unowned: tuple[Text, ...] = Field(default=(), max_length=1000)
    next_check: AwareDatetime | None = None
    condemned: Text | None = None
    commits: tuple[Text, ...] = Field(default=(), max_length=100)
    newest_before: Text | None = None
    later: tuple[Text, ...] = Field(default=(), max_length=1000)
    pinned_files: Count | None = None
    pinned_bytes: Count | None = None
    oldest_at: AwareDatetime | None = None
    duration_ms: Count


class RestorePlan(Answer, frozen=True):
    """The plan of a restore: the fields that RestorePlanned and RestoreStarted share.

    `metadata_table` says whether Hudi's metadata table is kept or dropped, and why; None without
    one.
    """

    savepoint: Text
    plan_id: Text
    instants: tuple[InstantRef, ...]
    files: Count
    bytes: Count
    metadata_table: Text | None = None


class RestorePlanned(RestorePlan, frozen=True):
    """The plan of a requested restore; nothing was changed.

    `message` says why only a plan was made, if the request did not ask for a plan alone.
    """

    message: Text | None = None

    @property
    def verdict(self) -> Verdict:
        """Done: the plan was asked for. A `message` says why it came instead of a restore."""
        return Verdict.DONE if self.message is None else Verdict.REFUSED


class OfApproval(Answer, frozen=True):
    """An outcome of a restore: under which `approval` (its id) it was carried out, and whose.

    Both are None where none was needed. `approved_by` is the verified name, if there is one.
    """

    approval: Text | None = None
    approved_by: Name | None = None


class RestoreStarted(RestorePlan, OfApproval, frozen=True):
    """The restore starts to change the table; `resumed` if an earlier attempt had started."""

    restore_instant: Text
    resumed: bool = False


class RestoreProgressed(OfApproval, frozen=True):
    """How far a restore is. Published at most every twenty seconds, between two instants."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "restore_instant", "instants_done")

    savepoint: Text
    restore_instant: Text
    instants_done: Count
    instants_total: Count
    files_done: Count
    files_total: Count


class RestoreCompleted(OfApproval, frozen=True):
    """The savepointed commit is the table's last completed commit again.

    With `already_done` it was before this attempt, which deleted nothing; the counts are those of
    the first time. `metadata_table` is the fate of Hudi's metadata table, and why; None
    without one, or if it is not known any more.
    """

    means: ClassVar[Verdict] = Verdict.DONE

    savepoint: Text
    restore_instant: Text
    instants: tuple[InstantRef, ...]
    files_deleted: Count
    duration_ms: Count
    already_done: bool = False
    metadata_table: Text | None = None


class RestoreRejected(OfApproval, frozen=True):
    """The restore was refused and nothing was changed. `reason` is a code of `Reason`."""

    means: ClassVar[Verdict] = Verdict.REFUSED

    savepoint: Text
    reason: Text
    message: Message


class RestoreFailed(OfApproval, frozen=True):
    """The restore started and could not finish; another request to the savepoint resumes it."""

    means: ClassVar[Verdict] = Verdict.FAILED

    savepoint: Text
    restore_instant: Text
    message: Message


class DirectoriesOutcome(Answer, frozen=True):
    """An outcome that names directories, with the number and the size of the files in them.

    Where the names do not fit into one message there are several, with numbers from 1. Each has the
    counts of its own directories; `whole_outcomes` puts them together.
    """

    partition: Text | None = None
    directories: tuple[Text, ...]
    files: Count
    bytes: Count
    part: Count | None = None
    parts: Count | None = None

    @model_validator(mode="after")
    def _has_a_place_among_the_parts(self) -> Self:
        whole = self.part is None and self.parts is None
        if not whole and not 1 <= (self.part or 0) <= (self.parts or 0):
            raise ValueError(f"part {self.part} of {self.parts} is not a part")
        return self

    def content_id(self) -> str:
        """The id derived from the cause; a further part has one of its own."""
        if self.part is None or self.part == 1:
            return super().content_id()
        return derived_id(type(self).__name__, self.caused_by or "", f"part {self.part}")


class CleaningStarted(DirectoriesOutcome, frozen=True):
    """The directories about to be removed, published before that so that a crash can't hide it.

    With the mode `quarantine` it is moved aside and kept for `keep_ms` before it is removed.
    """

    mode: Text = "delete"
    keep_ms: Count | None = None


class CleaningProgressed(Answer, frozen=True):
    """How far a cleaning is. Published at most every twenty seconds."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "directories_done")

    partition: Text | None = None
    directories_done: Count
    directories_total: Count
    files_done: Count
    files_total: Count


class DirectoriesCleaned(DirectoriesOutcome, frozen=True):
    """Nothing that the vacuum made obsolete is left. This run removed `directories`.

    `superseded_by` names the directories of later vacuums, where their cleaning was faster. With
    the mode `quarantine` the directories were moved aside, to be removed after `keep_ms`.
    """

    means: ClassVar[Verdict] = Verdict.DONE

    duration_ms: Count
    superseded_by: tuple[Text, ...] = ()
    mode: Text = "delete"
    keep_ms: Count | None = None


class CleaningRefused(Answer, frozen=True):
    """Cleaning was refused and this attempt removed nothing. `reason` is a code of `Reason`.

    An earlier attempt may have removed directories, if the table changed during it.
    """

    means: ClassVar[Verdict] = Verdict.REFUSED

    partition: Text | None = None
    reason: Text
    message: Message


class CommitFlag(StrEnum):
    """Why a published commit needs the attention of people."""

    NO_SAVEPOINT_BEFORE = "no-savepoint-before"
    """It was condemned, and the table has no savepoint before it."""
    SAVEPOINT_AFTER = "savepoint-after"
    """It was condemned, and a savepoint of it or of a later commit is in the way of a restore."""
    SAVEPOINTS_AT_MAXIMUM = "savepoints-at-maximum"
    """A savepoint of it is due, but the policy has as many as `max_count` allows."""
    NOT_ON_TIMELINE = "not-on-timeline"
    """The table's timeline does not have it as completed: a wrong instant, or another table."""


class CommitFlagged(Outcome, frozen=True):
    """A published commit needs the attention of people. `flag` is a code of `CommitFlag`."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "flag")

    instant: Text
    flag: Text
    message: Message


class VacuumFlag(StrEnum):
    """Why a published vacuum needs the attention of people."""

    CONTENT_CHANGED = "content-changed"
    """It was published before with another snapshot, range, kind or location. This one counts."""
    HOLDS_AFTER_RELEASE = "holds-after-release"
    """Its cleaning was released before these holds were published: they were not waited for."""
    RELEASE_MAY_BE_FORGOTTEN = "release-may-be-forgotten"
    """It waits for holds whose release may have come and been forgotten: publish it again."""


class VacuumFlagged(Outcome, frozen=True):
    """A published vacuum needs the attention of people. `flag` is a code of `VacuumFlag`."""

    identified_by: ClassVar[tuple[str, ...]] = ("caused_by", "flag")

    partition: Text | None = None
    flag: Text
    locks: tuple[int, ...] = ()
    transactions: tuple[int, ...] = ()
    metastore: Text | None = None
    message: Message
