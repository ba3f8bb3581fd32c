"""What the guard writes beside an offset, it reads back. Without a broker."""

from __future__ import annotations

from typing import cast

import pytest

from tidegate.errors import OffsetGapError, TransientError
from tidegate.runtime.bus import TopicIdentity
from tidegate.runtime.kafka.metadata import KafkaMetadata
from tidegate.runtime.kafka.subscription import _TopicGuard, split_metadata


def guard(**ids: str) -> _TopicGuard:
    names = list(ids)
    made = _TopicGuard("g", names[:1], names[1:], cast("KafkaMetadata", None))
    made._joined |= {name: TopicIdentity(id_, 3) for name, id_ in ids.items()}
    return made


def test_the_text_behind_the_ids_is_read_back_and_other_ids_stop_the_service() -> None:
    ours = guard(vacuums="a", locks="b", outcomes="c")
    written = ours.with_ids("vacuums", '{"x": 1}')
    ids, text = split_metadata(written)

    assert ours.text_of("vacuums", written) == text == '{"x": 1}'
    assert ours.text_of("vacuums", ids + "other") == "other"
    assert guard(vacuums="a", locks="b").text_of("vacuums", written) == text
    for names in ({"vacuums": "z"}, {"vacuums": "a", "locks": "b", "outcomes": "z"}):
        with pytest.raises(OffsetGapError):
            guard(**names).text_of("vacuums", written)


def test_metadata_of_an_earlier_version_or_of_another_tool_is_text() -> None:
    assert guard(vacuums="a").text_of("vacuums", "plain") == "plain"
    assert guard(vacuums="a").text_of("vacuums", None) == ""
    assert split_metadata("plain") == ("", "plain")


def test_a_broker_that_does_not_answer_is_logged_once_and_by_that_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = guard(vacuums="a")
    watched._metadata = cast("KafkaMetadata", Away())

    assert not watched.passed()
    assert not watched.passed()

    (line,) = caplog.messages
    assert line == (
        "g: the broker does not answer, and no offsets are committed for now: vacuums: timed out"
    )


class Away:
    """The metadata of a broker that is down."""

    def identities(self, names: list[str]) -> None:
        raise TransientError(f"{names[0]}: timed out")
