"""Every refusal has a code of the documented list, and every code of the list is in use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tidegate.events.reasons import Reason
from tidegate.monitoring.docstrings import attribute_docs
from tidegate.ops.contract import asyncapi

PRODUCT = Path(__file__).parents[2] / "consumers"
REFUSALS = {"Refused", "Refusal", "Unauthorized"}
OUTCOMES = {"SavepointRejected", "RestoreRejected", "CleaningRefused"}


def calls() -> Iterator[tuple[Path, ast.Call]]:
    for file in sorted(PRODUCT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield file, node


def reasons_given() -> Iterator[tuple[str, str]]:
    """Where a refusal or an outcome is made, and the expression of its reason."""
    for file, call in calls():
        function = ast.unparse(call.func)
        named = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
        if function in REFUSALS:
            yield f"{file.name}:{call.lineno}", ast.unparse((*call.args, *named)[0])
        elif function.partition(".")[0] in OUTCOMES and named:
            yield f"{file.name}:{call.lineno}", ast.unparse(named[0])


def test_no_refusal_is_given_a_reason_as_a_text() -> None:
    given = dict(reasons_given())

    assert len(given) > 20
    # a member, or the reason of a refusal that was made with one
    texts = {
        p: e for p, e in given.items() if not (e.startswith("Reason.") or e.endswith("reason"))
    }
    assert texts == {}


def test_every_reason_is_used_by_a_service() -> None:
    used = {
        node.attr
        for file in PRODUCT.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Reason"
    }

    assert used == set(Reason.__members__)


def test_every_reason_says_what_was_found_and_what_to_do() -> None:
    docs = attribute_docs(Reason)

    assert list(docs) == list(Reason.__members__)
    for reason in Reason:
        finding, remedy = docs[reason.name].split(". ", 1)
        assert reason.value == reason.name.lower().replace("_", "-")
        assert finding
        assert remedy.endswith(".")


def test_the_asyncapi_document_lists_every_reason() -> None:
    listed = asyncapi("1")["components"]["x-reasons"]

    assert list(listed) == [reason.value for reason in Reason]
    assert all(listed.values())
