from __future__ import annotations

import json

import pytest

from tidegate.errors import FormatError
from tidegate.hudi_bridge.callbacks import callback_location

MESSAGE = {
    "commitTime": "20260101100000000",
    "tableName": "orders",
    "basePath": "file:/wh/orders",
    "hoodieWriteStat": [],
    "commitActionType": {"empty": False, "present": True},
    "extraMetadata": {"empty": True, "present": False},
}


def test_a_message_of_hudi_names_the_table() -> None:
    found = callback_location(json.dumps(MESSAGE).encode())
    assert found == "file:/wh/orders"


def test_a_field_that_is_not_text_between_them_does_no_harm() -> None:
    message = json.dumps({"commitTime": "2", "tableName": None, "n": -1, "basePath": "/a\u00e9"})
    assert callback_location(message.encode()) == "/a\u00e9"


def test_a_message_that_a_person_wrote_needs_only_the_table() -> None:
    assert callback_location(b'{"basePath": "/wh/orders"}\n') == "/wh/orders"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no JSON",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"commitTime": "20260101100000000"}',
        json.dumps(MESSAGE | {"basePath": 7}).encode(),
        json.dumps(MESSAGE | {"basePath": "x" * 5_000}).encode(),
    ],
)
def test_junk_is_not_a_message(content: bytes) -> None:
    with pytest.raises(FormatError):
        callback_location(content)
