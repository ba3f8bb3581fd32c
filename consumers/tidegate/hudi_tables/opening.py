"""Opening a table that a command names, and every reason not to.

Reason codes: outside-warehouse, link-inside, no-such-table, unreadable-table, table-mismatch,
unsupported-table.
"""

from __future__ import annotations

from typing import Final

from tidegate.errors import ConfinementError, FormatError
from tidegate.hudi import TableProperties
from tidegate.hudi_reader import HudiTable, NoSuchTable, load_table
from tidegate.hudi_tables.answers import FOLDER
from tidegate.refusals import Refused
from tidegate.storage import join
from tidegate.warehouse import ReachedByLink, Warehouse

SUPPORTED_VERSIONS: Final = frozenset({6, 8, 9})


def open_table(warehouse: Warehouse, location: str, identity: str | None = None) -> HudiTable:
    """Read a table, once it is known to lie below the warehouse roots.

    Args:
        warehouse: Its roots decide what may be read at all.
        location: The table's base path.
        identity: `catalog.database.table`; its last parts must be the table's own
            database, where it has one, and name.

    Raises:
        Refused: for one of this module's reasons.
    """
    where = _confined(warehouse, location)
    _confined(warehouse, join(where, FOLDER))
    try:
        table = load_table(warehouse, where)
    except NoSuchTable as error:
        raise Refused("no-such-table", str(error)) from error
    except FormatError as error:
        raise Refused("unreadable-table", str(error)) from error
    if identity is not None:
        _check_name(table.properties, identity)
    _check_kind(table.properties)
    _confined(warehouse, join(where, table.properties.timeline_folder))
    return table


def _confined(warehouse: Warehouse, location: str) -> str:
    try:
        return warehouse.roots.check(location)
    except ReachedByLink as error:
        raise Refused("link-inside", str(error)) from error
    except ConfinementError as error:
        raise Refused("outside-warehouse", str(error)) from error


def _check_name(properties: TableProperties, identity: str) -> None:
    _, database, name = identity.lower().split(".")
    there = (properties.database or database, properties.name)
    if (there[0].lower(), there[1].lower()) != (database, name):
        raise Refused(
            "table-mismatch", f"the command is about {identity}, but there lies {'.'.join(there)}"
        )


def _check_kind(properties: TableProperties) -> None:
    if properties.version not in SUPPORTED_VERSIONS:
        known = ", ".join(map(str, sorted(SUPPORTED_VERSIONS)))
        why = f"table version {properties.version} is not among {known}"
    elif properties.table_type != "COPY_ON_WRITE":
        why = f"{properties.table_type} tables are not supported yet, only COPY_ON_WRITE"
    elif properties.is_bootstrapped:
        why = "bootstrapped tables keep base files outside the table"
    else:
        return
    raise Refused("unsupported-table", why)
