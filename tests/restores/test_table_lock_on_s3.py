"""The lock of a restore on a real S3 server that loses the answer to its creation."""

from __future__ import annotations

import pytest

from support.judged import NOW
from support.s3 import BUCKET, Request, S3Server, s3_server
from tidegate.compute.parallel_map import ThreadMap
from tidegate.restores.context import RestoreContext
from tidegate.restores.liveness import holding_lock
from tidegate.restores.settings import RestoreSettings
from tidegate.tables.refusal import Refused

TABLE = f"s3://{BUCKET}/wh/t"
LOCK = "wh/t/.hoodie/lock"


def context_of(server: S3Server) -> RestoreContext:
    settings = RestoreSettings(hold_lock=True, lock_files=(".hoodie/lock",))
    return RestoreContext(server.warehouse(), ThreadMap(), NOW, settings)


def test_a_restorer_whose_creation_was_not_answered_holds_its_lock_and_removes_it() -> None:
    """The client repeats the request, and the server refuses it: the file exists by then."""
    lost: list[Request] = []

    def lose_first(request: Request) -> bool:
        is_first = request[0] == "PUT" and request[1].startswith(f"/{BUCKET}/{LOCK}") and not lost
        if is_first:
            lost.append(request)
        return is_first

    with s3_server() as server:
        server.loses_answer = lose_first
        with holding_lock(context_of(server), TABLE, "r1"):
            assert server.all_keys() == [LOCK]
        assert server.all_keys() == []
    assert len(lost) == 1


def test_a_lock_of_a_writer_is_refused_and_left() -> None:
    with s3_server() as server:
        server.put(LOCK)
        with pytest.raises(Refused, match="is held"), holding_lock(context_of(server), TABLE, "r1"):
            pass
        assert server.all_keys() == [LOCK]
