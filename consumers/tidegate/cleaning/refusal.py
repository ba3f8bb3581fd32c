"""Why a cleaning is refused.

bad-partition        the partition is no relative path below the table
outside-warehouse    the location is not below a warehouse root, or a link leads out of one
link-inside          a link among the ACID directories, in one to remove, or to the partition
no-such-table        there is no such directory
bad-snapshot         the vacuum's ValidWriteIdList can't be read, or is another table's
bad-name             an ACID directory's name, in the vacuum or in the table, can't be parsed
vacuum-mismatch      the vacuum's kind, range, products and snapshot contradict each other
not-enough-history   no base serves the vacuum's snapshot
products-missing     what the vacuum made is not there, and nothing that holds it is
products-incomplete  what the vacuum made is there without a bucket file
not-covered          something obsolete is not held by a product that is there
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing may be removed: one of this module's codes, and a sentence."""

    reason: str
    message: str


class Refused(Exception):  # noqa: N818 - how the plan's steps end it; it never leaves the plan
    """Carries a refusal up to the plan."""

    def __init__(self, reason: str, message: str) -> None:
        """Take the refusal's two parts."""
        self.refusal = Refusal(reason, message)
