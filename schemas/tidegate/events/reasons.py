"""Why a service refuses a command, as codes.

They stand in `reason` of SavepointRejected, SavepointRemovalRejected, RestoreRejected,
RestoreApprovalRejected, WithdrawalRefused, CleaningRefused and CleaningUndoRefused.
Programs compare the code, people read the outcome's `message`. Consumers must accept codes that
they do not know, because a newer service may have more.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A refusal's code. Nothing of the table was changed.

    The docstring of each has a sentence with the finding, then what the person who asked does next.
    """

    # about the table itself
    NO_SUCH_TABLE = "no-such-table"
    """There is no table (or partition) at the location. Correct the location; a table that was
    dropped needs nothing."""
    OUTSIDE_WAREHOUSE = "outside-warehouse"
    """The location is not below a configured warehouse root. Correct the location, or add its
    root to the settings."""
    LINK_INSIDE = "link-inside"
    """A symbolic link stands on the path to the table or among what would be changed. Replace
    the link by a directory; links are never followed."""
    UNREADABLE_TABLE = "unreadable-table"
    """A metadata file of the table breaks its format. Repair the file that the message names,
    with Hudi's own tools."""
    UNSUPPORTED_TABLE = "unsupported-table"
    """The table has a version, a type or a bootstrap base that is not supported. Use Hudi's own
    procedures on this table; for restores, `engine = "hudi"` does."""
    TABLE_MISMATCH = "table-mismatch"
    """Another table than the one that the command names is at the location. Correct the table's
    name or its location."""
    LOCATION_OF_ANOTHER_TABLE = "location-of-another-table"
    """The location belongs to a table of another name, or to another deployment. Use the first
    name; if the table was renamed or copied, the runbook has the steps."""
    REQUEST_TOO_OLD = "request-too-old"
    """The request is older than the ids of used requests that are remembered. Request it again,
    if you still want it."""
    # about the command's signature
    NOT_SIGNED = "not-signed"
    """The setting `security.require_signatures` is on, and the event is not signed. Sign it:
    `tidegate publish ... --sign-with KEY`, or `security.sign_with` of the service."""
    BAD_SIGNATURE = "bad-signature"
    """The signature does not verify, its key is not trusted, or it is of something else. Find
    out who wrote the message; list the key in `[[security.keys]]` if it should count."""
    SIGNATURE_EXPIRED = "signature-expired"
    """The broker got the event before or after its signature was valid, or its time is unknown.
    Make a new request; an old one that is published again stays refused. Check the clock."""
    KEY_NOT_ALLOWED = "key-not-allowed"
    """The key is trusted, but not for this event, table, location or time. Sign with a key that
    may, or extend the key's entry in `[[security.keys]]`."""
    # about a savepoint on a Hudi table
    NO_SUCH_COMMIT = "no-such-commit"
    """The instant is not a completed commit on the active timeline. Ask for a completed commit,
    or for none to have the newest."""
    BELOW_LAST_CLEAN = "below-last-clean"
    """Hudi's cleaner may have removed files that the commit needs. Ask for a newer commit; keep
    more commits in the cleaner's settings."""
    MISSING_FILES = "missing-files"
    """Data files of the commit or savepoint are gone from the storage. Choose another commit or
    savepoint, or bring the files back."""
    # about the removal of a savepoint
    NOT_OF_POLICY = "not-of-policy"
    """Its mark does not name the policy, or has no lifetime; or a person asked for it as well.
    Nothing: a savepoint of unknown origin counts as a person's; only a person removes it."""
    CLAIMED = "claimed"
    """A person asked for this savepoint as well, with a lifetime that has not ended. Nothing: it
    goes when that lifetime has ended, too; a person may remove it."""
    SAVEPOINT_INCOMPLETE = "savepoint-incomplete"
    """The savepoint was begun and never completed, so its maker is unknown. Let a person
    request its removal, or repeat the savepoint's request."""
    # about a restore of a Hudi table
    NOT_ALLOWED = "not-allowed"
    """The requester (the verified name, if signed) is not listed in `restores.requested_by`.
    Ask a person who is listed. A plan alone is open to everybody."""
    NO_SUCH_SAVEPOINT = "no-such-savepoint"
    """The table has no completed savepoint at the instant. Name one of the table's savepoints."""
    SAVEPOINT_ARCHIVED = "savepoint-archived"
    """The savepointed commit, or one with files of the savepoint, is no longer on the timeline.
    Choose a newer savepoint."""
    GREATER_SAVEPOINT = "greater-savepoint"
    """A commit that would be rolled back has a savepoint of its own. Delete the newer savepoint
    first, or restore to it."""
    GREATER_COMMIT = "greater-commit"
    """A commit that stays was built upon a write that would be rolled back. Bring back the
    files' modification times if the table is a copy, or restore further back."""
    LATER_COMMIT_STAYS = "later-commit-stays"
    """A commit began after the savepointed one and completed before it, so its rows would stay.
    Restore to an earlier savepoint."""
    UNSUPPORTED_INSTANT = "unsupported-instant"
    """An instant to roll back is of a kind or state that a restore can't undo safely. Use
    Hudi's own restore procedure."""
    RESTORE_PENDING = "restore-pending"
    """Another restore of the table has not completed. Request a restore to the savepoint of
    that one, until it completes; then ask again."""
    ROLLBACK_PENDING = "rollback-pending"
    """A rollback before the savepoint has not completed. Let Hudi finish the rollback, then ask
    again."""
    INDEXING_PENDING = "indexing-pending"
    """An indexing action has not completed. Let Hudi finish the indexing, or cancel it, then
    ask again."""
    RESTORE_ABANDONED = "restore-abandoned"
    """The restore begun for this request is no longer on the timeline: it was removed. Check
    the table, then send a new request."""
    WRITER_ALIVE = "writer-alive"
    """A heartbeat, a lock or a growing file shows that a writer is at work. Stop the writers of
    the table, then ask again."""
    PLAN_CHANGED = "plan-changed"
    """The table changed since the plan that the request expects. Ask for a plan again, read it,
    and send its id."""
    NEWER_COMMITS = "newer-commits"
    """A commit completed after the latest instant that the requester knew of. Look at the plan
    again, then send its id or the new latest instant."""
    UNSAFE_PATH = "unsafe-path"
    """A commit's metadata names a file outside the table or inside its metadata. Find out who
    wrote that commit; nothing it names is deleted."""
    DELETES_SAVEPOINT_FILE = "deletes-savepoint-file"
    """A file to delete belongs to the savepoint too. Use Hudi's own restore procedure after
    checking the table."""
    # about the approval of a restore by a second person
    APPROVAL_NOT_NEEDED = "approval-not-needed"
    """The settings ask for no approval of this table's restores. Publish the request itself
    again, under a new id: it is carried out without an approval."""
    APPROVAL_NOT_CONFIGURED = "approval-not-configured"
    """The request needs an approval, and the restorer's settings do not name an approver. Set
    `approval = true` for the table in `[[restores.rules]]`, then send a new request."""
    NO_SUCH_REQUEST = "no-such-request"
    """Before the approval there is no request of that id for this table and location. Take the
    request's id from `tidegate status`, or send a new request."""
    NOT_AWAITING = "not-awaiting"
    """The request asks for a plan alone, has its outcome, or was approved before. See `tidegate
    explain` with the request's id; send a new request if it is still needed."""
    OWN_APPROVAL = "own-approval"
    """The request and the approval have a name in common, or the key. Let another person approve
    it; two people with one login each give their name by `--requested-by`."""
    NOT_AN_APPROVER = "not-an-approver"
    """The approver (the verified name, if signed) is not listed in `approved_by`. Ask a person
    who is listed in `[[restores.rules]]` for the approval."""
    APPROVAL_EXPIRED = "approval-expired"
    """The broker got the approval later than `approve_within` after the request. Send a new
    request, and have that one approved."""
    # about cleaning a Hive ACID table after a compaction
    BAD_PARTITION = "bad-partition"
    """The partition is not a relative path below the table. Correct the compaction's event and
    publish it again."""
    BAD_SNAPSHOT = "bad-snapshot"
    """The ValidWriteIdList can't be read or is of another table. Publish the compaction again
    with the snapshot that Hive gave it."""
    BAD_NAME = "bad-name"
    """A directory's name, in the event or in the table, is not a name of Hive's. Correct the
    event, or rename the directory that the message names."""
    VACUUM_MISMATCH = "vacuum-mismatch"
    """The compaction's kind, write ids, directories and snapshot contradict each other. Correct
    the event and publish it again."""
    OTHER_CONTENT = "other-content"
    """Directories of aborted writes hold other files now: the table was created again, say. No
    action needed: the Metastore bridge checks again and requests the rest."""
    NOT_CONFIRMED = "not-confirmed"
    """The second source (`cleaning.confirm_with`) contradicts the event, or can't confirm it.
    Read both statements in the message. If the event is wrong, find its writer."""
    SECOND_SOURCE_AWAY = "second-source-away"
    """The second source (`cleaning.confirm_with`) did not answer. Bring the Metastore back: the
    cleaning is tried again each minute, without end."""
    NOT_ENOUGH_HISTORY = "not-enough-history"
    """No base in the table serves the compaction's snapshot. Compact the table again: the next
    compaction's cleaning covers this one."""
    PRODUCTS_MISSING = "products-missing"
    """A directory that the compaction made is not there, and nothing that holds its rows is.
    Check what removed it, then compact the table again."""
    PRODUCTS_INCOMPLETE = "products-incomplete"
    """A directory that the compaction made holds no bucket file although rows should be left, or
    its files are not complete ORC files with at least the rows of its inputs, less those that may
    have been deleted. Check the compaction, then compact the table again."""
    NOT_COVERED = "not-covered"
    """An obsolete directory holds rows that no directory of the compaction holds. Check the
    compaction; the directory stays until a compaction covers it."""
    # about requests that a person ends
    WITHDRAWN = "withdrawn"
    """A person withdrew the request before anything was changed. Nothing; send a new request to
    have it done."""
    DECLINED = "declined"
    """An approver rejected the restore before anything was changed. Ask the approver; then send
    a new request."""
    TOO_LATE = "too-late"
    """The request has begun to change the table, or has ended. Wait for its outcome (`tidegate
    explain`); a restore that has begun must be finished."""
    # about putting back what a cleaning moved into quarantine
    NOT_QUARANTINED = "not-quarantined"
    """Nothing of the cleaning is in quarantine. Nothing can be put back: it was deleted, its
    time has passed, or it is back already."""
    QUARANTINE_INCOMPLETE = "quarantine-incomplete"
    """A directory of the cleaning is in quarantine no more, or not as it was. Bring it back
    from a backup, beside the others; a part alone is never put back."""
    UNREADABLE_QUARANTINE = "unreadable-quarantine"
    """The quarantine holds something that Tidegate did not put there. Look at what the message
    names: bring a record's earlier version back, or move the directory it is in elsewhere."""
    NAME_TAKEN = "name-taken"
    """The table has a directory of the same name again. Find out who wrote it; move one of the
    two elsewhere."""
    ROWS_TWICE = "rows-twice"
    """Nothing in the table hides a directory from readers, who could see its rows twice. Undo
    later cleanings first, or bring back what the compaction made."""
