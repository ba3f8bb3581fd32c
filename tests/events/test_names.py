"""Two names that look the same are one name, or one of them is refused."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from support.samples import commit, release, savepoint_request
from tidegate.errors import FormatError
from tidegate.events import (
    CommitCompleted,
    Event,
    RestoreApproved,
    SavepointRequested,
    table_identity,
)
from tidegate.events.codec import decode, encode
from tidegate.events.fields import compared, visible

HIDDEN = [
    pytest.param("ana\u200b", id="zero-width space"),
    pytest.param("an\u00ada", id="soft hyphen"),
    pytest.param("\u202eana", id="right-to-left override"),
    pytest.param("ana\u2066", id="bidi isolate"),
    pytest.param("ana\ufeff", id="byte order mark"),
    pytest.param("ana\x1b[2J", id="escape sequence"),
    pytest.param("ana\n", id="new line"),
    pytest.param("ana\u2028", id="line separator"),
    pytest.param("an\u034fa", id="combining grapheme joiner"),
    pytest.param("ana\u3164", id="Hangul filler"),
    pytest.param("ana\u115f", id="Hangul choseong filler"),
    pytest.param("ana\ufe0f", id="variation selector"),
    pytest.param("ana\U000e0100", id="variation selector of a supplement"),
    pytest.param("ana\U000e0061", id="tag"),
    pytest.param("ana\u2800", id="blank braille pattern"),
    pytest.param("ana\ue000", id="private use"),
    pytest.param("ana\u0378", id="unassigned"),
    pytest.param("   ", id="only spaces"),
]
IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u200c\u200d"
    "\u200e\u200f\u202a\u202e\u2060\u2065\u2069\u3164\ufe00\ufe0f\ufeff\uffa0\ufff0\U000e0001"
    "\U000e0100\U000e01ef\U000e0fff\u2800"
)
SIGNS = st.one_of(
    st.sampled_from(
        "aAnN\u00c9\u00e9e\u0301\u0308\u0345\u03b1\u1fb3\u00df\u1e9e\ufb03 \u00a0\u3000"
    ),
    st.sampled_from("\u2003\u1680\u2126\u03a9\u212b\u01c4\u0149\u0130\u1100\u1161\uac00\uff21"),
    st.sampled_from(IGNORABLE),
    st.characters(),
)


def accepted(name: str) -> bool:
    try:
        visible(name)
    except ValueError:
        return False
    return True


def rendered(name: str) -> str:
    """What a reader can tell apart: without ignorable signs, spaces, and forms of a character."""
    seen = "".join(sign for sign in name if sign not in IGNORABLE)
    return "".join(unicodedata.normalize("NFKC", seen).split())


@given(st.lists(SIGNS, max_size=8).map("".join), st.data())
@example("ana", None)
def test_names_that_are_accepted_and_look_the_same_compare_equal(
    name: str, data: st.DataObject | None
) -> None:
    other = name if data is None else _disguised(name, data)
    if accepted(name) and accepted(other) and rendered(name) == rendered(other):
        assert compared(name) == compared(other)


def _disguised(name: str, data: st.DataObject) -> str:
    """The name in another form, with other signs in it that are not seen."""
    forms: list[Literal["NFC", "NFD", "NFKC", "NFKD"]] = ["NFC", "NFD", "NFKC", "NFKD"]
    signs = list(unicodedata.normalize(data.draw(st.sampled_from(forms)), name))
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(signs)))
        signs.insert(place, data.draw(st.sampled_from(IGNORABLE + " \u2003")))
    return "".join(signs)


@given(st.text(SIGNS, max_size=8))
def test_what_is_compared_is_compared_once_and_for_all(name: str) -> None:
    assert compared(compared(name)) == compared(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana", "ana"),
        ("Ana  Lee", "analee"),
        ("Jos\u00e9", "JOSE\u0301"),
        ("Ana\u00a0Lee", "Ana\u3000Lee"),
        ("\ufb03", "FFI"),
        ("Stra\u00dfe", "STRASSE"),
        ("\u1fb3", "\u03b1\u0345"),
    ],
)
def test_spellings_of_one_name_compare_equal(one: str, other: str) -> None:
    assert compared(one) == compared(other)


@pytest.mark.parametrize("name", HIDDEN)
def test_a_name_with_what_is_not_seen_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(ValidationError, match="a name has"):
        SavepointRequested.model_validate(dict(savepoint_request(1)) | {"requested_by": name})
    with pytest.raises(ValidationError, match="a name has"):
        CommitCompleted.model_validate(dict(commit(1)) | {"source": name})


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize(
    ("event", "field"),
    [
        pytest.param(savepoint_request(1), "requested_by", id="a person's"),
        pytest.param(savepoint_request(1), "source", id="an application's"),
        pytest.param(commit(1), "source", id="of a fact"),
        pytest.param(release(1), "source", id="of a fact read by compiled code"),
    ],
)
def test_a_name_with_what_is_not_seen_is_refused_where_it_is_read(
    event: Event, field: str, name: str
) -> None:
    forged = event.model_copy(update={field: name})

    with pytest.raises(FormatError, match=f"{field}|name"):
        decode(encode(forged))


def test_an_approvers_name_is_refused_too() -> None:
    with pytest.raises(ValidationError, match="approved_by"):
        RestoreApproved.model_validate(
            {
                "event_id": "a1",
                "table": "lake.sales.orders",
                "location": "/lake/orders",
                "occurred_at": "2026-03-01T12:00:00Z",
                "source": "test",
                "request": "r1",
                "plan_id": "p1",
                "approved_by": "ana\u200b",
                "reason": "checked",
            }
        )


@pytest.mark.parametrize("sign", ["\u200b", "\u00ad", "\u202e", "\u3164", "\ufe0f"])
def test_a_table_has_no_such_name(sign: str) -> None:
    with pytest.raises(FormatError, match="not a table name"):
        table_identity(f"lake.sales.or{sign}ders")
