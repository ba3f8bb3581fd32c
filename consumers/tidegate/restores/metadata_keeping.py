"""Retain Hudi's metadata table through a restore, or remove it. Every step can be repeated.

First, the metadata table is removed from the table's properties and moved to `.hoodie/.tidegate`,
where rolled-back writes are undone in it. Last, it is moved back and declared again. After a crash
in between, readers and Hudi find no metadata table, list files, and build a new one. Hudi can't
resume the restore if the properties and the directory disagree. So nothing happens between an edit
of the properties and its rename, and Hudi can continue with `hoodie.metadata.enable=false`.

Three signs distinguish the metadata table of an earlier attempt from one that others made:

- a file next to the one that was set aside: it was as in the plan;
- a file in it, with a hash of all names and sizes: it was undone and has not changed since;
- two metadata tables: Hudi has made the other one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidegate.errors import FormatError
from tidegate.hudi import WRITES, instant_of_data_file
from tidegate.hudi.properties import METADATA_PARTITIONS, with_value, without
from tidegate.hudi_reader import HudiTable, load_table
from tidegate.hudi_reader.table import PROPERTIES, NoSuchTable, read_properties
from tidegate.restores.context import RestoreContext
from tidegate.restores.metadata_reading import digest_of
from tidegate.restores.metadata_undo import MetadataUndo, staying_of
from tidegate.restores.plan import METADATA_TABLE
from tidegate.storage import NotFound, join
from tidegate.tables.hudi import TimelineWriter
from tidegate.tables.hudi.outcome_store import FOLDER
from tidegate.tables.warehouse import AlreadyExists, Warehouse

_ASIDE: Final = f"{FOLDER}/restorer/metadata-"
_AS_SEEN: Final = ".as-seen"
_UNDONE: Final = ".hoodie/.tidegate-undone-"
_DIGEST: Final = 64
_NO_RENAME: Final = frozenset(
    {
        errno.EXDEV,
        errno.ENOTSUP,
        errno.ENOSYS,
        errno.EINVAL,
        errno.EPERM,
        errno.EMFILE,
    }
)
"""Errors of file systems that can't rename directories: overlays, mounted object stores."""
_IN_THE_WAY: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY})


@dataclass(frozen=True, slots=True)
class MetadataKeeper:
    """Order of calls: `set_aside` before the first rollback, `put_back` after the last, `discard`.

    Call `discard` once the restore is complete, even if another process completed it.
    `still_pending` is called right before every step that other processes can see. It raises if
    another process has completed the restore.
    """

    warehouse: Warehouse
    location: str
    restore: str
    undo: MetadataUndo | None = None
    still_pending: Callable[[], HudiTable] | None = None

    def set_aside(self) -> None:
        """Set the metadata table aside if it is retained, or remove it; readers then list files.

        Raises:
            TransientError: another process completed the restore meanwhile.
        """
        self._check()
        if self.undo is not None and self._is_as_undone():  # an earlier attempt put it back
            return
        self._undeclare()
        if self.undo is None or not self._is_set_aside(self.undo):
            self._remove()

    def _undeclare(self) -> None:
        content = read_properties(self.warehouse, self.location)
        edited = without(content, METADATA_PARTITIONS)
        if edited != content:
            self.warehouse.replace(join(self.location, PROPERTIES), edited)

    def put_back(self, context: RestoreContext) -> bool:
        """Undo the planned instants in the metadata table, put it back and declare it.

        By now, the table's timeline has only the remaining instants and this restore.

        Returns:
            Whether the metadata table is back; otherwise it was removed.

        Raises:
            TransientError: another process completed the restore meanwhile.
        """
        table = self._check()
        if self.undo is None or table is None:
            return False
        stays = staying_of(table.timeline, self.undo.gone, self.restore)
        if stays != self.undo.staying or not self._is_undone(self.undo, context):
            self._remove()
            return False
        # if it can't be moved, another process may have put it back
        is_back = self._exists(self._undone) or self._move(self._aside, self._place, self._is_whole)
        if not is_back and not self._is_as_undone():
            self._remove()
            return False
        content = read_properties(self.warehouse, self.location)
        declared = with_value(content, METADATA_PARTITIONS[0], ",".join(self.undo.kept))
        self.warehouse.replace(join(self.location, PROPERTIES), declared)
        if self._exists(self._place):
            return True
        self._undeclare()  # a slower process has set it aside meanwhile
        return False

    def _check(self) -> HudiTable | None:
        return None if self.still_pending is None else self.still_pending()

    def discard(self) -> None:
        """Remove a metadata table that was not put back, and the signs of this restore."""
        self.warehouse.remove_files([self._seen, self._undone])
        if self._exists(self._aside) and not self._exists(self._place):
            self._undeclare()  # the process that set it aside died before this edit
        self.warehouse.remove_tree(self._aside)

    def _is_set_aside(self, undo: MetadataUndo) -> bool:
        """Set it aside if it is as in the plan, or continue an earlier attempt; return success."""
        if self._exists(self._aside):
            if self._exists(self._seen):
                return True
        elif self._exists(self._undone) or not self._move_aside():
            return False
        if digest_of(self.warehouse, self._aside) != undo.digest:
            return False
        self._create(self._seen, b"")
        return True

    def _is_undone(self, undo: MetadataUndo, context: RestoreContext) -> bool:
        """Undo the planned instants, unless an earlier attempt did; return success."""
        if self._exists(self._undone):
            return self._is_as_undone()
        if not self._exists(self._seen) or not self._exists(self._aside):
            return False
        try:
            self._undo(undo, context)
        except (NotFound, NoSuchTable, FormatError):  # another process put it back meanwhile
            return False
        digest = digest_of(self.warehouse, self._aside)
        if digest is None:
            return False
        self._create(join(self._aside, f"{_UNDONE}{self.restore}"), digest.encode())
        return True

    def _is_as_undone(self) -> bool:
        """Whether an earlier attempt put it back undone, and it has not changed since."""
        try:
            digest = self.warehouse.read(self._undone, _DIGEST).decode("latin-1")
        except NotFound:
            return False
        is_alone = not self._exists(self._aside)
        return is_alone and digest == digest_of(self.warehouse, self._place)

    def _undo(self, undo: MetadataUndo, context: RestoreContext) -> None:
        undone = frozenset(undo.instants)
        for partition in undo.dropped:
            self.warehouse.remove_tree(join(self._aside, partition))
        files = dict[str, list[str]]()
        for partition in undo.kept:
            folder = join(self._aside, partition)
            names = [
                name
                for name in self.warehouse.names(folder)
                if not name.endswith(".crc") and instant_of_data_file(name) in undone
            ]
            if names:
                files[folder] = names
        self.warehouse.remove_with_checksums(files, context.parallel_map)
        table = load_table(self.warehouse, self._aside)
        gone = [i for i in table.files if i.timestamp in undone and i.action in WRITES]
        TimelineWriter(self.warehouse, table, context.clock).remove(gone)
        # the files that a dead writer left in it
        beats = [join(self._aside, ".hoodie/.heartbeat", instant) for instant in undo.instants]
        self.warehouse.remove_files(beats, checksums=True)
        for instant in undo.instants:
            self.warehouse.remove_tree(join(self._aside, ".hoodie/.temp", instant))

    def _remove(self) -> None:
        """Remove it in one step if the store can rename.

        A crash during a removal file by file would leave a part of it. Hudi would use that part as
        the metadata table when it resumes the restore.
        """
        self._check()
        self._undeclare()
        self.warehouse.remove_files([self._seen])  # first: without it the rest is not used
        self.warehouse.remove_tree(self._aside)
        if self.warehouse.can(self.location).renames:
            self._move_aside()
            self.warehouse.remove_tree(self._aside)
        self._check()
        self.warehouse.remove_tree(self._place)

    def _move_aside(self) -> bool:
        """Move it aside; another process may have put it back and declared it meanwhile."""
        is_moved = self._move(self._place, self._aside, lambda: True)
        if is_moved:
            self._undeclare()
        return is_moved

    def _is_whole(self) -> bool:
        """Whether the directory that was set aside is complete.

        A late step of another process may have created it again with nothing but its sign.
        """
        try:
            sign = self.warehouse.read(join(self._aside, f"{_UNDONE}{self.restore}"), _DIGEST)
        except NotFound:
            return False
        return sign.decode("latin-1") == digest_of(self.warehouse, self._aside)

    def _move(self, source: str, target: str, may_go: Callable[[], bool]) -> bool:
        """Rename a directory; False if it is missing, may not be moved, or can't be renamed."""
        (folder, _, name), (there, _, as_name) = source.rpartition("/"), target.rpartition("/")
        try:
            with suppress(NotFound), self.warehouse.moving(folder, there) as moves:

                def is_right(_files: object) -> bool:
                    self._check()
                    return may_go()

                return moves.move_if(name, is_right, as_name) is True
        except OSError as error:
            if error.errno not in _NO_RENAME | _IN_THE_WAY:
                raise
        return False

    def _create(self, path: str, content: bytes) -> None:
        with suppress(AlreadyExists):
            self.warehouse.create(path, content)

    def _exists(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        try:
            return name in self.warehouse.names(folder)
        except NotFound:
            return False

    @property
    def _place(self) -> str:
        return join(self.location, METADATA_TABLE)

    @property
    def _aside(self) -> str:
        return join(self.location, f"{_ASIDE}{self.restore}")

    @property
    def _seen(self) -> str:
        return f"{self._aside}{_AS_SEEN}"

    @property
    def _undone(self) -> str:
        return join(self._place, f"{_UNDONE}{self.restore}")
