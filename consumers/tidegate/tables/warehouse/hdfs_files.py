"""Change HDFS: files go as they were listed, and directories only when they are empty.

The NameNode removes nothing on condition of a version: it is compared right before. A rename is
atomic and refuses an existing name, so files are created by one, and directories are moved by one.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOTEMPTY
from functools import partial
from typing import Final

from hdfs_native import WriteOptions

from tidegate.errors import TransientError
from tidegate.storage import FileInfo, NotFound
from tidegate.storage.file_info import Version
from tidegate.storage.hdfs import HdfsStore
from tidegate.tables.warehouse.changes import MayGo, Move, RemoteChanges

_FEW: Final = 10
"""Files that are removed together with their directories: some at once would take longer."""


class HdfsChanges(HdfsStore, RemoteChanges):
    """One cluster."""

    def create(self, location: str, content: bytes) -> None:
        """See `Changes`. Its directories are created, too."""
        draft = self._write_draft(location, content, make_folder=True)
        self._rename_draft(draft, location, replaces=False)

    def replace(self, location: str, content: bytes, if_version: Version) -> None:
        """See `Changes`."""
        draft = self._write_draft(location, content, make_folder=False)
        there = self._entry_or_none(location)
        if if_version is not None and (there is None or there.version != if_version):
            self._delete(draft)
            raise FileExistsError(location)
        self._rename_draft(draft, location, replaces=True)

    def remove(self, entries: Sequence[FileInfo]) -> int:
        """See `Changes`."""
        return sum(self.call_all(self._delete_listed, entries, in_order=False))

    def remove_names(self, folder: str, names: Sequence[str]) -> int:
        """See `Changes`."""
        return sum(self.call_all(self._delete_named, [f"{folder}/{name}" for name in names]))

    def remove_if_empty(self, location: str) -> bool:
        """See `Changes`."""
        entry = self._entry_or_none(location)
        return entry is None or (entry.is_dir and self._delete_unless_full(location))

    def remove_listed(self, location: str, found: Sequence[FileInfo]) -> Sequence[FileInfo]:
        """See `RemoteChanges`. The directory itself goes last."""
        files = [entry for entry in found if not entry.is_dir]
        folders = [entry for entry in reversed(found) if entry.is_dir]
        self.call_all(self._delete_found, files[_FEW:], in_order=False)
        if all(self.call_all(self._delete_found, [*files[:_FEW], *folders])):
            return []
        left = self.below(location)
        self.require_gone(found, [entry for entry in left if not entry.is_dir])
        return left

    @contextmanager
    def moving(self, source: str, target: str) -> Generator[Move]:
        """See `Changes`."""
        for location in (source, target):
            entry = self._entry_or_none(location)
            if entry is None or not entry.is_dir:
                raise NotFound(location)
        yield partial(self._move, source, target)

    def _move(
        self, source: str, target: str, name: str, as_name: str, may_go: MayGo
    ) -> bool | None:
        """Move a directory. A changed or exchanged one is recognised by its modification time."""
        here, there = f"{source}/{name}", f"{target}/{as_name}"
        try:
            checked = self.entry(here)
            if not may_go([entry for entry in self.entries(here) if not entry.is_dir]):
                return False
            self.rename(here, there)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if self.entry(there).modified_ms != checked.modified_ms:
            self.rename(there, here)
            raise TransientError(f"{here} was changed during its move")
        return True

    def entries(self, location: str) -> Sequence[FileInfo]:
        """See `RemoteChanges`. Files are in the order of `tree`; a directory is before its own."""
        name = location.rpartition("/")[2]
        return [FileInfo(name, location, True, 0, 0), *self.all_below(location)]  # noqa: FBT003

    def rename(self, source: str, target: str, *, replaces: bool = False) -> None:
        """Rename a file or directory; refuses an existing name, unless it replaces a file."""
        paths = self.path(source), self.path(target)
        self.call(source, lambda: self.client.rename(*paths, overwrite=replaces))

    def _write_draft(self, location: str, content: bytes, *, make_folder: bool) -> str:
        """Write a hidden file next to a location; return its location."""
        folder, _, name = location.rpartition("/")
        draft = f"{folder}/.{name[:100]}.{uuid.uuid4().hex}.tmp"
        path = self.path(draft)
        options = WriteOptions(create_parent=make_folder, overwrite=False)

        def write() -> None:
            with self.client.create(path, options) as file:
                file.write(content)

        self.call(location, write)
        return draft

    def _rename_draft(self, draft: str, location: str, *, replaces: bool) -> None:
        """Give a draft its name, or remove it.

        The client repeats a call whose answer was lost, and finds the draft gone by its own
        success: only this call knows the name of the draft.
        """
        try:
            self.rename(draft, location, replaces=replaces)
        except (OSError, TransientError) as error:
            is_there = self._delete(draft)
            if isinstance(error, FileExistsError):
                raise FileExistsError(location) from error
            if is_there or self._entry_or_none(location) is None:
                raise

    def _entry_or_none(self, location: str) -> FileInfo | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            return self.entry(location)
        return None

    def _delete(self, location: str) -> bool:
        """Remove a file or an empty directory; return whether it existed."""
        path = self.path(location)
        with suppress(NotADirectoryError):  # its directory is a file now
            return self.call(location, lambda: self.client.delete(path, recursive=False))
        return False

    def _delete_found(self, entry: FileInfo) -> bool:
        """Whether nothing is there any more."""
        if entry.is_dir:
            return self._delete_unless_full(entry.path)
        self._delete(entry.path)
        return True

    def _delete_listed(self, entry: FileInfo) -> bool:
        return self._entry_or_none(entry.path) == entry and self._delete(entry.path)

    def _delete_named(self, location: str) -> bool:
        entry = self._entry_or_none(location)
        if entry is not None and entry.is_dir:
            raise IsADirectoryError(location)
        return entry is not None and self._delete(location)

    def _delete_unless_full(self, location: str) -> bool:
        """Whether nothing is there any more."""
        try:
            self._delete(location)
        except OSError as error:
            if error.errno != ENOTEMPTY:
                raise
            return False
        return True
