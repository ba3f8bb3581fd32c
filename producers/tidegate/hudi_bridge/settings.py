"""The settings of the Hudi bridge."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tidegate.errors import validation
from tidegate.events.fields import Name


class HudiBridgeSettings(BaseModel, frozen=True, extra="forbid"):
    """Which Hudi tables are watched, and how."""

    tables: tuple[str, ...] = Field(min_length=1)
    """The tables' directories, as absolute paths or addresses; `*` stands for any name of one
    directory: `/warehouse/sales/*`."""
    catalog: Name = Field(pattern=validation.NAME_PART)
    """The first part of the tables' names: `hudi` in `hudi.sales.orders`."""
    database: Name | None = Field(default=None, pattern=validation.NAME_PART)
    """The second part, for tables whose hoodie.properties name no database; without it, the name
    of the directory that holds the table."""
    interval_ms: int = Field(default=2_000, ge=50)
    """Interval between two polls of a timeline, in milliseconds."""
    find_ms: int = Field(default=60_000, ge=50)
    """How often the patterns are matched again, to find new tables, in milliseconds."""
    start: Literal["latest", "earliest"] = "latest"
    """The commits to publish for a table without a commit on the topic: the latest one, or all that
    are on its timeline."""
    grace_ms: int = Field(default=60_000, ge=0)
    """If the table's writer publishes its commits itself: how long a commit may be missing on the
    topic, in milliseconds. After that the bridge publishes it, as reconciled."""
    threads: int = Field(default=4, ge=1)
    """How many tables are polled in parallel."""
    callback_port: int | None = Field(default=None, ge=0, le=65535)
    """Where Hudi's HTTP callback (`hoodie.write.commit.callback.http.url`) is listened to; a
    callback only makes the bridge poll at once. None: nowhere. 0: the system chooses."""
    callback_host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 for all of the machine's."""
