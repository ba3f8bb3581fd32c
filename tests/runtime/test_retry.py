"""Which faults are tried again: real ones of a file system, and those of remote file systems."""

from __future__ import annotations

import errno
import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from support.samples import (
    Recorder,
    memory_bus,
    outcomes_on,
    savepoint_request,
    task_message,
    work_off,
)
from tidegate.errors import DeliveryError, MessageTooLargeError, PermanentError, TransientError
from tidegate.runtime.executor.loop import ExecutorLoop
from tidegate.runtime.retry import DENIED_ATTEMPTS, TABLE_RETRIES, RetryPolicy, is_retriable

DEAD = "tidegate.dead-letters"
QUICK = RetryPolicy(attempts=20, first=0.001, longest=0.001)


def name_too_long(folder: Path) -> None:
    (folder / ("x" * 300)).read_bytes()


def loop_of_links(folder: Path) -> None:
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    (folder / "a").read_bytes()


def file_for_a_directory(folder: Path) -> None:
    (folder / "file").touch()
    os.listdir(folder / "file")  # noqa: PTH208 - the fault is the point


def directory_for_a_file(folder: Path) -> None:
    folder.read_bytes()


def no_such_call(folder: Path) -> None:
    raise OSError(errno.ENOTSUP, "the file system can't do this", str(folder))


@pytest.mark.parametrize(
    "fault",
    [name_too_long, loop_of_links, file_for_a_directory, directory_for_a_file, no_such_call],
)
def test_what_a_file_system_never_does_is_dead_lettered_at_once_with_its_reason(
    fault: Callable[[Path], None], tmp_path: Path
) -> None:
    with pytest.raises(OSError, match=r"\[Errno \d+\]") as caught:
        fault(tmp_path)
    bus, recorder = memory_bus(), Recorder(faults=[caught.value])
    bus.send([task_message(savepoint_request(0)), task_message(savepoint_request(1))])
    work_off(ExecutorLoop(recorder, bus, retries=QUICK))

    assert len(recorder.asked) == 2
    [dead_letter] = bus.records(DEAD)
    assert dict(dead_letter.headers)["x-exception-message"] == str(caught.value).encode()
    assert len(outcomes_on(bus)) == 1


@pytest.mark.parametrize(
    "denied",
    [
        pytest.param(PermissionError(errno.EACCES, "Permission denied"), id="no permission"),
        pytest.param(PermissionError("AccessDenied"), id="an object store's, without a number"),
        pytest.param(OSError(errno.EPERM, "Operation not permitted"), id="not the owner"),
        pytest.param(OSError(errno.EROFS, "Read-only file system"), id="mounted read-only"),
    ],
)
def test_what_is_not_permitted_is_tried_for_seconds_and_not_for_an_hour(denied: OSError) -> None:
    waits = [TABLE_RETRIES.wait_after(n, denied) for n in range(1, DENIED_ATTEMPTS + 1)]

    assert waits[-1] is None
    assert sum(wait or 0 for wait in waits) < 30
    assert all(wait is not None for wait in waits[:-1])


@pytest.mark.parametrize(
    "fault",
    [
        TransientError("Spark failed"),
        DeliveryError("no broker"),
        OSError("no number at all"),
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError(errno.ESTALE, "Stale file handle"),
        FileNotFoundError(errno.ENOENT, "a file vanished since it was listed"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        TimeoutError("timed out"),
        ssl.SSLError(1, "a handshake failed: the number is OpenSSL's"),
    ],
    ids=repr,
)
def test_faults_of_storage_and_network_are_tried_for_an_hour(fault: Exception) -> None:
    assert TABLE_RETRIES.wait_after(TABLE_RETRIES.attempts - 1, fault) is not None
    assert TABLE_RETRIES.wait_after(TABLE_RETRIES.attempts, fault) is None


@pytest.mark.parametrize(
    "fault", [PermanentError("never"), MessageTooLargeError("2 MB"), ValueError("a bug")], ids=repr
)
def test_other_faults_are_not_tried_again(fault: Exception) -> None:
    assert TABLE_RETRIES.wait_after(1, fault) is None
    assert not is_retriable(fault)


def test_waits_grow_up_to_the_longest_after_any_number_of_attempts() -> None:
    policy = RetryPolicy(attempts=10**6, first=1.0, longest=8.0)
    fault = TransientError("away")

    def longest_wait(failed: int) -> float:
        return max(policy.wait_after(failed, fault) or 0 for _ in range(300))

    assert 0.5 < longest_wait(1) <= 1.0
    assert 2.0 < longest_wait(3) <= 4.0
    assert 4.0 < longest_wait(10**5) <= 8.0


@pytest.mark.parametrize(
    ("policy", "levels"),
    [
        pytest.param(QUICK, ["WARNING", "DEBUG"], id="by default the first failure is a warning"),
        pytest.param(QUICK.quiet(), ["DEBUG", "DEBUG"], id="quiet"),
        pytest.param(
            QUICK.quiet().at_most(TABLE_RETRIES), ["DEBUG", "DEBUG"], id="the stricter one"
        ),
    ],
)
def test_the_caller_says_how_loud_a_first_failure_is(
    policy: RetryPolicy, levels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tidegate.runtime.retry")
    faults = iter([TransientError("away"), TransientError("away")])

    def action() -> int:
        for fault in faults:
            raise fault
        return 7

    assert policy.call(action) == 7
    said = [record for record in caplog.records if record.name == "tidegate.runtime.retry"]
    assert [record.levelname for record in said] == levels
