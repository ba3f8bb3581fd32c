"""List and read the files of tables, wherever they lie."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any, Final

from tidegate.errors import ConfigError, ConfinementError, TidegateError
from tidegate.storage.file_info import FileInfo, ListedFile
from tidegate.storage.local import LocalStore
from tidegate.storage.locations import is_below, normalise, place_of
from tidegate.storage.parallel import ParallelMap
from tidegate.storage.store import MAX_READ, Capabilities, Store

_STORES: Final = {
    "abfss": "azure:AzureStore",
    "gs": "gcs:GcsStore",
    "hdfs": "hdfs:HdfsStore",
    "s3": "s3:S3Store",
}
"""By scheme the module and the class. An extra of the module's name has the client."""


class NotFound(TidegateError):  # noqa: N818 - an expected result, not a failure
    """Nothing exists at this location. The catcher treats it as absent."""


@contextmanager
def missing_at(location: str) -> Generator[None]:
    """Make the errors of a store for a missing file NotFound."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise NotFound(location) from error


class Storage:
    """Reads local and mounted file systems, S3, GCS, Azure, HDFS; through fsspec all others.

    If it is confined to directories, nothing outside is read, and symbolic links of local or
    mounted file systems are never followed. Object stores have no links. HDFS has links only if an
    administrator enabled them (they are off by default). Then the NameNode resolves paths, and only
    the path's spelling is checked.
    """

    def __init__(
        self,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        confined_to: Sequence[str] = (),
    ) -> None:
        """Take the options of stores and the directories to stay in.

        Args:
            options: By place, what the constructor of its store takes:
                `{"s3://lake": {"endpoint": ...}}`. By protocol, fsspec's options:
                `{"webhdfs": {"user": ...}}`.
            confined_to: Normalised directories to which this reader is confined. If empty, it may
                read everything, and follows links as the operating system does.
        """
        self.options = {key: dict(value) for key, value in (options or {}).items()}
        self.confined_to = tuple(confined_to)
        self._stores: dict[str, Store] = {}

    def can(self, location: str) -> Capabilities:
        """The properties of the place where a location is."""
        return self._at(normalise(location)).can

    def list(self, location: str) -> list[FileInfo]:
        """List the direct children, sorted by name. Links are listed, not followed.

        Raises:
            NotFound: the directory does not exist.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the directories that this reader is confined to.
            FormatError: an object store has a key with an empty name there (`a//b`).
            PermanentError: the bucket of an object store does not exist.
        """
        with missing_at(location):
            store, where = self._confined(location)
            return sorted(store.children(where))  # names come first in the tuples

    def names(self, location: str) -> Sequence[str]:
        """The names of the direct children, in no order. Unlike `list`, needs no stat per child.

        Raises: as `list`.
        """
        with missing_at(location):
            store, where = self._confined(location)
            return store.names(where)

    def entry(self, location: str) -> FileInfo | None:
        """A file, as its parent's listing shows it; None if there is none.

        Raises: as `list`.
        """
        try:
            with missing_at(location):
                store, where = self._confined(location)
                return store.entry(where)
        except NotFound:
            return None

    def walk(self, location: str) -> Iterator[FileInfo]:
        """Yield every file below a location; symbolic links are yielded, never followed.

        Raises:
            NotFound: the directory does not exist.
            FormatError: directories are nested deeper than MAX_DEPTH.
            ReachedByLink, ConfinementError: as in `list`.
        """
        with missing_at(location):
            store, where = self._confined(location)
            yield from store.tree(where)

    def walk_each(
        self, location: str, names: Sequence[str], parallel_map: ParallelMap
    ) -> Sequence[tuple[ListedFile, ...] | None]:
        """List all files below these directories of one parent; None for a missing directory.

        Raises:
            FormatError, ReachedByLink, ConfinementError: as in `walk`.
        """
        if any("/" in name or name in {"", ".", ".."} for name in names):
            raise ConfinementError(f"some are not names of directories in {location}: {names[:3]}")
        with missing_at(location):
            store, where = self._confined(location)
            return store.trees(where, names, parallel_map)

    def read(self, location: str, limit: int = MAX_READ) -> bytes:
        """Read a complete file.

        Args:
            location: The file.
            limit: The maximum size in bytes; pass a small one for files that should be small.

        Raises:
            NotFound: the file does not exist.
            FormatError: it is larger than the limit, or not a regular file.
            ReachedByLink: a name below the root is a link to another location below it.
            ConfinementError: it is outside the directories that this reader is confined to.
        """
        with missing_at(location):
            store, where = self._confined(location)
            return store.read(where, limit)

    def read_end(self, location: str, count: int) -> bytes:
        """Read the last bytes of a file, or all of a smaller one; raises as `read`."""
        with missing_at(location):
            store, where = self._confined(location)
            return store.read_end(where, count)

    def _confined(self, location: str) -> tuple[Store, str]:
        """The store of a location that is in the directories of this reader; both normalised."""
        where, roots = normalise(location), self.confined_to
        if roots and not any(where == root or is_below(where, root) for root in roots):
            raise ConfinementError(f"{location} is outside the warehouse roots {roots}")
        return self._at(where), where

    def _at(self, location: str) -> Store:
        """The store of a normalised location.

        Raises:
            ConfigError: its client is not installed, or its protocol is unknown.
        """
        place = place_of(location)
        if place not in self._stores:
            try:
                self._stores[place] = self._open(place)
            except (ImportError, ValueError) as error:
                extra = _STORES.get(place.partition(":")[0], "").partition(":")[0]
                is_missing = extra and isinstance(error, ImportError)
                hint = f"; install tidegate[{extra}]" if is_missing else ""
                raise ConfigError(f"{place}: {error}{hint}") from error
        return self._stores[place]

    def _open(self, place: str) -> Store:
        """A store for a place; those of other clients are imported when needed."""
        if not place:
            return LocalStore(self.confined_to)
        scheme, _, authority = place.partition("://")
        if name := _STORES.get(scheme):
            kind = resolve_name(f"tidegate.storage.{name}")
            store: Store = kind(authority, **self.options.get(place, {}))
            return store
        from tidegate.storage.fsspec_store import FsspecStore  # noqa: PLC0415

        return FsspecStore(scheme, self.options.get(scheme, {}))
