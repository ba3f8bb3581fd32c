from __future__ import annotations

import pytest

from support.samples import commit, message
from tidegate.deadletters.letter import DeadLetter, read_letter
from tidegate.deadletters.selection import LetterFilter
from tidegate.deadletters.settling import redriven
from tidegate.errors import PermanentError
from tidegate.events import Event
from tidegate.events.wire import Wire
from tidegate.publisher import Message
from tidegate.runtime.bus import Partition, Record
from tidegate.runtime.dead_letters import dead_letter

COMMITS_2 = Partition("tidegate.commits", 2)


def set_aside(
    sent: Message, offset: int = 7, service: str = "savepoint-policy", error: str = "no luck"
) -> DeadLetter:
    """A message that a service sets aside, as people find it."""
    record = Record(COMMITS_2, offset, sent.key, sent.value, sent.headers, 1_000)
    letter = dead_letter(record, service, PermanentError(error), "tidegate.dead-letters")
    where = Partition(letter.topic, 2)
    return read_letter(Record(where, 0, letter.key, letter.value, letter.headers, 2_000))


def event(number: int = 1) -> tuple[Event, Message]:
    return commit(number), message(commit(number))


def test_a_letter_says_what_it_was_where_it_came_from_and_why() -> None:
    told, sent = event()

    letter = set_aside(sent)

    assert letter.service == "savepoint-policy"
    assert (letter.origin, letter.origin_offset) == (COMMITS_2, 7)
    assert letter.error == "no luck"
    assert letter.table == "lake.sales.orders"
    assert letter.headers == sent.headers
    assert letter.event(Wire()) == told


def test_a_letter_sent_back_is_the_message_that_it_was_and_says_so() -> None:
    _, sent = event()
    letter = set_aside(sent)

    [again] = redriven([letter])

    assert (again.topic, again.key, again.value) == ("tidegate.commits", sent.key, sent.value)
    mark = ("tidegate-redriven-from", letter.letter_id.encode())
    assert again.headers == (*sent.headers, mark)
    assert again.partition is None


def test_a_message_without_a_key_goes_back_to_its_own_partition() -> None:
    [again] = redriven([set_aside(Message("tidegate.commits", None, b"{}"))])

    assert (again.key, again.value, again.partition) == (None, b"{}", 2)


def test_set_aside_by_three_services_a_message_is_sent_back_once() -> None:
    _, sent = event()
    letters = [set_aside(sent, service=name) for name in ("savepoint-writer", "restorer")]

    assert len({letter.letter_id for letter in letters}) == 2
    assert len(redriven(letters)) == 1
    assert len(redriven([*letters, set_aside(sent, offset=8)])) == 2


def test_sent_back_and_set_aside_again_it_keeps_one_mark_and_its_own_headers() -> None:
    _, sent = event()
    [again] = redriven([set_aside(sent)])
    second = set_aside(again, offset=9)

    [third] = redriven([second])

    mark = ("tidegate-redriven-from", second.letter_id.encode())
    assert third.headers == (*sent.headers, mark)


def test_a_letter_of_another_tool_is_read_too() -> None:
    headers = (
        ("trace", b"abc"),
        ("x-original-topic", b"tidegate.commits"),
        ("x-original-partition", b"\x00\x00\x00\x02"),  # Spring writes numbers in binary
        ("x-exception-message", b"boom"),
    )
    where = Partition("tidegate.dead-letters", 0)

    letter = read_letter(Record(where, 5, b"no table", b"{}", headers, 2_000))

    assert letter.origin.topic == "tidegate.commits"
    assert letter.headers == (("trace", b"abc"),)
    assert (letter.error, letter.service, letter.table) == (
        "boom",
        "(not said)",
        "unknown.unknown.unknown",
    )
    assert letter.event(Wire()) is None


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param({}, True, id="none"),
        pytest.param({"service": "restorer"}, True, id="service"),
        pytest.param({"service": "cleaner"}, False, id="another service"),
        pytest.param({"topic": "commits"}, True, id="topic by its short name"),
        pytest.param({"topic": "tidegate.commits"}, True, id="topic by its full name"),
        pytest.param({"topic": "mits"}, False, id="another topic"),
        pytest.param({"table": "lake.sales.orders"}, True, id="table"),
        pytest.param({"table": "lake.sales.other"}, False, id="another table"),
        pytest.param({"reason": "SUCH bucket"}, True, id="text in the reason, in any case"),
        pytest.param({"reason": "timeout"}, False, id="another reason"),
        pytest.param({"service": "restorer", "reason": "timeout"}, False, id="all must hold"),
    ],
)
def test_letters_are_chosen(conditions: dict[str, str], *, expected: bool) -> None:
    _, sent = event()
    letter = set_aside(sent, service="restorer", error="No such bucket")

    assert LetterFilter(**conditions).covers(letter) is expected  # type: ignore[arg-type]


def test_an_id_may_be_cut_short() -> None:
    _, sent = event()
    letter = set_aside(sent)

    assert LetterFilter(letter_ids=(letter.letter_id[:8],)).covers(letter)
    assert not LetterFilter(letter_ids=("x",)).covers(letter)
