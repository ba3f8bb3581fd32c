"""What a savepoint says on the timeline about who made it and how long it is kept.

Hudi's metadata of a savepoint has room for a user and a comment, and no other. The mark is the
beginning of the comment: it lives and dies with the savepoint, whatever is lost elsewhere.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, Self

from pydantic import AwareDatetime, Field

from tidegate.errors import validation
from tidegate.events.base import Value
from tidegate.events.limits import Count, Text
from tidegate.events.names import Name

PREFIX: Final = "[tidegate "
"""What a mark begins with; the comment of a request must not."""
_MARK: Final = re.compile(r"\[tidegate ([a-z]+=\S+(?: [a-z]+=\S+)*)\](?: |$)")

PolicyName = Annotated[str, Field(pattern=validation.POLICY)]
"""Letters, digits and . _ -, because it stands in a mark."""
LifetimeSeconds = Annotated[int, Field(ge=0, le=100 * 366 * 86_400)]
"""At most a hundred years: a time that is added to another one."""
TierName = Annotated[str, Field(pattern=validation.TIER)]
"""A tier of a policy, such as daily."""


class SavepointMark(Value, frozen=True):
    """Who made a savepoint and how long it is kept.

    With a policy, its settings say how long; a person's request says `lifetime_seconds`.
    `decided_at` is the broker's time of what caused a policy's request; of a person's request the
    requester's.
    """

    policy: PolicyName | None = None
    tiers: tuple[TierName, ...] = Field(default=(), max_length=20)
    decided_at: AwareDatetime
    lifetime_seconds: LifetimeSeconds | None = None

    @property
    def lifetime(self) -> timedelta | None:
        """How long a person wants the savepoint kept; None: no such wish."""
        return None if self.lifetime_seconds is None else timedelta(seconds=self.lifetime_seconds)

    def before(self, comment: str) -> str:
        """The comment with this mark at its beginning."""
        fields = {
            "policy": self.policy,
            "tiers": ",".join(self.tiers) or None,
            "decided": self.decided_at.isoformat(),
            "lifetime": None if self.lifetime_seconds is None else f"{self.lifetime_seconds}s",
        }
        text = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
        return f"[tidegate {text}] {comment}".rstrip()

    @classmethod
    def parse(cls, comment: str) -> tuple[Self | None, str]:
        """The mark at the beginning of a comment, and the rest; (None, comment) without a mark.

        A savepoint with an invalid mark counts as a person's.
        """
        found = _MARK.match(comment)
        if found is None:
            return None, comment
        fields = dict(part.split("=", 1) for part in found[1].split(" "))
        try:
            mark = cls.model_validate(
                {
                    "policy": fields.pop("policy", None),
                    "tiers": tuple(filter(None, fields.pop("tiers", "").split(","))),
                    "decided_at": fields.pop("decided"),
                    "lifetime_seconds": _seconds(fields.pop("lifetime", None)),
                    **fields,  # unknown ones are refused
                }
            )
        except (ValueError, KeyError):
            return None, comment
        return mark, comment[found.end() :]


def _seconds(text: str | None) -> int | None:
    return None if text is None else int(text.removesuffix("s"))


class KeptSavepoint(Value, frozen=True):
    """A savepoint that is on a table's timeline, with what its mark says.

    The pinned files are those that no slice of the table's newest commit has any more: only
    savepoints keep them from Hudi's cleaner. None: not looked at.
    """

    instant: Text
    made_by: Name
    made_at: AwareDatetime
    policy: Text | None = None
    tiers: tuple[Text, ...] = ()
    decided_at: AwareDatetime | None = None
    lifetime_seconds: LifetimeSeconds | None = None
    files: Count
    pinned_files: Count | None = None
    pinned_bytes: Count | None = None
