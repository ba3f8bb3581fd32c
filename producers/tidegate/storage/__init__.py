"""Read tables, wherever they lie. Nothing in this package can change a table."""

from __future__ import annotations

from tidegate.storage.file_info import FileInfo as FileInfo
from tidegate.storage.file_info import ListedFile as ListedFile
from tidegate.storage.locations import is_below as is_below
from tidegate.storage.locations import join as join
from tidegate.storage.locations import local_path as local_path
from tidegate.storage.locations import normalise as normalise
from tidegate.storage.parallel import ParallelMap as ParallelMap
from tidegate.storage.reader import NotFound as NotFound
from tidegate.storage.reader import Storage as Storage
