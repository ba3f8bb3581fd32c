"""Mutants of what reads and removes files: links, pipes, removals that did not happen, Spark."""

from __future__ import annotations

from mutants.mutants import Mutant

_LOCAL = "producers/tidegate/storage/local.py"
_LISTINGS = "producers/tidegate/storage/local_listings.py"
_REMOTE = "consumers/tidegate/tables/warehouse/remote_files.py"

STORAGE_MUTANTS = (
    Mutant(
        "storage: no directory on the way below a root is a link",
        _LOCAL,
        (("os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent", "os.O_DIRECTORY, dir_fd=parent"),),
        "tests/storage/test_confined_reads.py",
    ),
    Mutant(
        "storage: none of many directories is reached by a link",
        _LISTINGS,
        (("os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent", "os.O_DIRECTORY, dir_fd=parent"),),
        "tests/storage/test_local_listings.py",
    ),
    Mutant(
        "storage: a link among the files of many directories is called one",
        _LISTINGS,
        (("kind == stat.S_IFLNK, modified_ms", "False, modified_ms"),),
        "tests/storage/test_local_listings.py tests/cleaning/test_cleaner.py",
    ),
    Mutant(
        "storage: what lies deeper in one of many directories is listed too",
        _LISTINGS,
        (("                return None\n", "                continue\n"),),
        "tests/storage/test_local_listings.py",
    ),
    Mutant(
        "storage: none of many directories is nested too deep",
        _LISTINGS,
        (("len(path.names) >= MAX_DEPTH", "len(path.names) > MAX_DEPTH"),),
        "tests/storage/test_local_listings.py",
    ),
    Mutant(
        "storage: a pipe is no file",
        _LOCAL,
        (("    if not stat.S_ISREG(found.st_mode):\n", "    if False:\n"),),
        "tests/storage/test_confined_reads.py",
    ),
    Mutant(
        "warehouse: a remote tree is seen gone before it counts as removed",
        _REMOTE,
        (("        if left is not None:\n", "        if False:\n"),),
        "tests/tables/warehouse/test_remote_faults.py",
    ),
    Mutant(
        "warehouse: remote files are seen gone before they count as removed",
        _REMOTE,
        (("        if left and (left := ", "        if False and (left := "),),
        "tests/tables/warehouse/test_remote_faults.py",
    ),
    Mutant(
        "warehouse: no link among many files is removed",
        "consumers/tidegate/tables/warehouse/local_files.py",
        (("                    if entry.is_symlink():\n", "                    if False:\n"),),
        "tests/tables/warehouse/test_writer.py -k link_among_many",
    ),
    Mutant(
        "warehouse: of files removed in parallel each name is checked before any goes",
        "consumers/tidegate/tables/warehouse/writer.py",
        ((' or name in {"", ".", ".."}:', ":"),),
        "tests/tables/warehouse/test_writer.py -k checks_every_path",
    ),
    Mutant(
        "warehouse: a checksum goes before its file",
        "consumers/tidegate/tables/warehouse/writer.py",
        (('in (f".{name}.crc", name))', 'in (name, f".{name}.crc"))'),),
        "tests/tables/warehouse/test_writer.py -k goes_with_its_file",
    ),
    Mutant(
        "spark: nobody sends work to a session without a secret",
        "consumers/tidegate/compute/spark.py",
        (("    if is_open and ", "    if False and "),),
        "tests/compute/test_spark.py -k refused",
    ),
    Mutant(
        "restores: what anybody planted in the record of removals stops no restore",
        "consumers/tidegate/restores/removal_record.py",
        (("    except (UnicodeEncodeError, FormatError):\n", "    except KeyError:\n"),),
        "tests/restores/test_removal_record.py",
    ),
)
