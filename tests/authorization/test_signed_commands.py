"""Where signatures are required, only who holds a trusted key has a command carried out."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from joserfc import jwt
from pydantic import ValidationError

from support.samples import NOON, memory_bus, message, savepoint_request
from support.signing import (
    ANA,
    EVE,
    Obeying,
    cleaning,
    entry,
    new_key,
    outcomes,
    reason_of,
    restore,
    settings,
    signed,
    work,
)
from tidegate.coordinator.requests import Requests
from tidegate.coordinator.subject import Subjects
from tidegate.events import (
    CleaningHoldRemovalRequested,
    Command,
    Outcome,
    RestoreFailed,
    RestoreRejected,
)
from tidegate.events.reasons import Reason
from tidegate.events.refusals import refusal
from tidegate.events.signature import MAY_SIGN, SIGNATURE_HEADER, SIGNED, TOKEN_TYPE, signed_claims
from tidegate.events.topics import EVENT_TYPES, REQUESTS
from tidegate.events.wire import Wire
from tidegate.ops.dead_letters.dead_letter import DeadLetter, redriven_message
from tidegate.publisher import Message
from tidegate.runtime.authorization import Unauthorized
from tidegate.runtime.bus import Partition, Record
from tidegate.service.assembly import authorization, subjects
from tidegate.service.settings import Settings

DAY = timedelta(days=1)
NOW = datetime.now(UTC)


def with_signature(sent: Message, signature: bytes) -> Message:
    kept = [header for header in sent.headers if header[0] != SIGNATURE_HEADER]
    return sent._replace(headers=(*kept, (SIGNATURE_HEADER, signature)))


def signature_of(sent: Message) -> bytes:
    return dict(sent.headers)[SIGNATURE_HEADER] or b""


def moved(to: Command, **more: Any) -> Message:  # noqa: ANN401
    """A message of another command, with the signature of ana's restore."""
    return with_signature(message(to, **more), signature_of(signed(restore())))


def b64(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def with_header(**header: str) -> Message:
    """Ana's restore with another header in its token, signed anew where the algorithm is HMAC."""
    _, claims, signature = signature_of(signed(restore())).split(b".")
    start = b64(json.dumps({"kid": ANA.key_id} | header).encode()) + b"." + claims
    if header["alg"] == "HS256":  # with the public key, which everybody knows, as the secret
        secret = (ANA.public_pem + "\n").encode()
        signature = b64(hmac.new(secret, start, sha256).digest())
    return with_signature(message(restore()), start + b"." + signature)


def with_times(signed_at: datetime | None, expires: datetime) -> Message:
    """Ana's restore, signed with these times."""
    sent = message(restore())
    times = {"exp": int(expires.timestamp())}
    if signed_at is not None:
        times["iat"] = int(signed_at.timestamp())
    header = {"alg": "Ed25519", "typ": TOKEN_TYPE, "kid": ANA.key_id}
    claims = signed_claims(restore(), sent.topic, "memory") | times
    token = jwt.encode(header, claims, ANA.jwk, algorithms=["Ed25519"])
    return with_signature(sent, token.encode())


def test_a_signed_command_is_carried_out_and_its_outcome_names_the_key_s_owner() -> None:
    (outcome,) = outcomes(settings(entry()), signed(restore(requested_by="mallory")))

    assert isinstance(outcome, RestoreFailed)  # so it was reached
    assert (outcome.requested_by, outcome.signed_by) == ("mallory", "ana")


def test_an_unsigned_command_is_refused_with_its_reason() -> None:
    (outcome,) = outcomes(settings(entry()), message(restore()))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "not-signed"
    assert outcome.signed_by is None
    assert outcome.caused_by == restore().event_id


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(moved(restore(savepoint="20261120000000000")), id="another savepoint"),
        pytest.param(moved(restore(event_id="r-2")), id="another request"),
        pytest.param(moved(restore("lake.hr.staff")), id="another table"),
        pytest.param(moved(restore(location="/lake/staff")), id="another place"),
        pytest.param(moved(restore(seen_up_to=None)), id="a field less"),
        pytest.param(moved(restore(requested_by="eve")), id="another name"),
        pytest.param(
            with_signature(
                message(restore()), signature_of(signed(restore(), prefix="other-deployment"))
            ),
            id="another deployment's topic",
        ),
        pytest.param(signed(restore(), cluster="staging"), id="another cluster"),
        pytest.param(with_times(NOW, NOW + DAY + timedelta(seconds=2)), id="longer than a day"),
        pytest.param(with_times(None, NOW + DAY), id="no time of its making"),
        pytest.param(signed(restore(), EVE), id="a key that is not trusted"),
        pytest.param(with_signature(message(restore()), b"x"), id="no token"),
        pytest.param(with_signature(message(restore()), b"a.b.c"), id="dots"),
        pytest.param(with_signature(message(restore()), b"\xff\xfe.\x00."), id="no text"),
        pytest.param(with_signature(message(restore()), b"A" * 9_000), id="a long one"),
        pytest.param(with_signature(message(restore()), b""), id="an empty one"),
        pytest.param(
            signed(restore())._replace(
                headers=(*signed(restore()).headers, (SIGNATURE_HEADER, b"x"))
            ),
            id="a second one",
        ),
        pytest.param(with_header(alg="none"), id="no algorithm"),
        pytest.param(with_header(alg="HS256"), id="the public key as a shared secret"),
        pytest.param(with_header(alg="Ed25519", typ="JWT"), id="another header"),
    ],
)
def test_a_forged_signature_is_refused(forged: Message) -> None:
    assert reason_of(settings(entry()), forged) == "bad-signature"
    # also where none is required: who signs wants it to count
    assert reason_of(settings(entry(), required=False), forged) == "bad-signature"


def test_the_signature_of_another_with_the_key_id_of_a_trusted_one_is_refused() -> None:
    impostor = new_key()
    impostor.key_id = ANA.key_id

    assert reason_of(settings(entry()), signed(restore(), impostor)) == "bad-signature"


def test_a_token_of_the_same_key_for_something_else_is_refused() -> None:
    header = {"alg": "Ed25519", "kid": ANA.key_id, "typ": "JWT"}
    other = jwt.encode(header, {"sub": "ana"}, ANA.jwk, algorithms=["Ed25519"]).encode()

    forged = with_signature(message(restore()), other)
    assert reason_of(settings(entry()), forged) == "bad-signature"


def test_a_command_published_after_its_signature_expired_is_refused_with_both_times() -> None:
    (outcome,) = outcomes(settings(entry()), signed(restore(), ago=2 * DAY))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "signature-expired"
    assert "expired at" in outcome.message


def test_a_signature_made_in_the_future_does_not_count_before() -> None:
    (outcome,) = outcomes(settings(entry()), signed(restore(), ago=-2 * timedelta(hours=1)))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "signature-expired"
    assert "correct the signer's clock" in outcome.message
    assert reason_of(settings(entry()), signed(restore(), ago=-timedelta(minutes=50))) == ""


def test_no_signature_counts_where_the_time_of_a_message_is_its_publisher_s() -> None:
    sent = signed(restore())
    now = int(NOW.timestamp() * 1000)
    record = Record(Partition(sent.topic, 0), 0, sent.key, sent.value, sent.headers, now)
    trusting = authorization(settings(entry()), "memory")

    trusting.check(restore(), record)
    with pytest.raises(Unauthorized, match="LogAppendTime on tidegate"):
        trusting.check(restore(), record._replace(is_brokers_time=False))


def test_a_command_published_in_time_stays_good_however_long_it_waits() -> None:
    sent = signed(restore(), ago=100 * DAY)
    appended = int((NOW - 100 * DAY).timestamp() * 1000)
    record = Record(Partition(sent.topic, 0), 0, sent.key, sent.value, sent.headers, appended)

    key = authorization(settings(entry()), "memory").check(restore(), record)
    assert key is not None
    assert (key.name, key.public.key_id) == ("ana", ANA.key_id)


def test_a_redriven_command_keeps_its_signature_and_an_expired_one_says_so() -> None:
    def redriven(sent: Message) -> Message:
        record = Record(Partition(sent.topic, 0), 0, sent.key, sent.value, sent.headers, 1)
        listed = DeadLetter("id", record, "restorer", record.partition, 0, "no such bucket", ())
        return redriven_message(listed, record)

    assert reason_of(settings(entry()), redriven(signed(restore()))) == ""
    assert reason_of(settings(entry()), redriven(signed(restore(), ago=2 * DAY))) == (
        "signature-expired"
    )


def test_a_command_published_twice_is_carried_out_once() -> None:
    sent = signed(restore())

    assert len(outcomes(settings(entry()), sent, sent)) == 1


def test_a_refused_copy_does_not_keep_the_real_command_from_being_carried_out() -> None:
    bus, obeying = memory_bus(), Obeying()
    bus.send([message(restore())])
    work(settings(entry()), bus, obeying)
    bus.send([signed(restore())])
    work(settings(entry()), bus, obeying)

    assert obeying.obeyed == [restore().event_id]


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        ({"roles": ["holder", "approver"]}, "may not sign a RestoreRequested"),
        (
            {"tables": ["lake.hr.*"], "locations": ["/lake"]},
            "may not sign for the table lake.sales.orders",
        ),
        ({"not_after": NOW - DAY}, "was trusted until"),
    ],
)
def test_a_key_counts_only_for_what_its_entry_says(limits: dict[str, Any], sentence: str) -> None:
    (outcome,) = outcomes(settings(entry(**limits)), signed(restore()))

    assert isinstance(outcome, RestoreRejected)
    assert outcome.reason == "key-not-allowed"
    assert "of ana" in outcome.message
    assert sentence in outcome.message


def test_patterns_and_times_of_a_key_that_cover_the_command_let_it_pass() -> None:
    key = entry(
        roles=["holder", "requester"],
        tables=["Lake.Sales.*"],
        locations=["/lake"],
        not_after=NOW + DAY,
    )
    assert reason_of(settings(key), signed(restore())) == ""


@pytest.mark.parametrize("key", [ANA, EVE], ids=["the old key", "the new key"])
def test_during_a_rotation_both_keys_of_a_name_count(key: Any) -> None:  # noqa: ANN401
    both = settings(entry(ANA, not_after=NOW + DAY), entry(EVE))
    (outcome,) = outcomes(both, signed(restore(), key))

    assert outcome.signed_by == "ana"


def test_the_verified_name_and_not_the_one_in_the_request_is_compared_with_the_list() -> None:
    claims_to_be_boss = signed(restore(requested_by="boss"))

    assert reason_of(settings(entry(), restores_by=["boss"]), claims_to_be_boss) == "not-allowed"
    boss = settings(entry(name="boss"), restores_by=["boss"])
    assert reason_of(boss, signed(restore(requested_by="ana"))) == ""


def test_where_none_is_required_an_unsigned_command_counts_and_a_signed_one_is_named() -> None:
    optional = settings(entry(), required=False)

    assert [outcome.signed_by for outcome in outcomes(optional, message(restore()))] == [None]
    assert [outcome.signed_by for outcome in outcomes(optional, signed(restore()))] == ["ana"]


def test_the_refusal_of_a_key_that_may_not_sign_this_names_whose_key_it_is() -> None:
    (refused,) = outcomes(settings(entry(roles=["approver"])), signed(restore()))

    assert isinstance(refused, RestoreRejected)
    assert (refused.reason, refused.signed_by) == ("key-not-allowed", "ana")


def test_without_any_key_a_signature_is_not_looked_at() -> None:
    (outcome,) = outcomes(settings(required=False), signed(restore()))

    assert isinstance(outcome, RestoreFailed)
    assert outcome.signed_by is None


@pytest.mark.parametrize(
    "make", [restore, cleaning, lambda: savepoint_request(1)], ids=["restore", "clean", "save"]
)
def test_every_kind_of_command_needs_a_signature_and_is_refused_without(
    make: Callable[[], Command],
) -> None:
    assert reason_of(settings(entry()), message(make())) == "not-signed"
    everything = settings(entry(roles=["requester", "coordinator"]))
    assert reason_of(everything, signed(make())) == ""


def places(table: str, location: str) -> str:
    """The reason for which a key for the tables of lake.sales in its directories is refused."""
    key = entry(tables=["lake.sales.*"], locations=["/lake/sales", "s3a://lake/sales/"])
    return reason_of(settings(key), signed(restore(table, location=location)))


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        pytest.param("/lake/sales/orders", "", id="below"),
        pytest.param("/lake/sales/orders/", "", id="a slash at the end"),
        pytest.param("file:///lake//sales/./orders", "", id="another spelling"),
        pytest.param("s3://lake/sales/orders", "", id="s3"),
        pytest.param("S3N://lake/sales/orders", "", id="s3n"),
        pytest.param("/lake/sales/../payroll", "key-not-allowed", id="dots"),
        pytest.param("/lake/sales/%2e%2e/../payroll", "key-not-allowed", id="escaped dots"),
        pytest.param("/lake/sales2/orders", "key-not-allowed", id="the same beginning"),
        pytest.param("/lake/payroll", "key-not-allowed", id="another directory"),
        pytest.param("/lake", "key-not-allowed", id="above"),
        pytest.param("s3://lake2/sales/orders", "key-not-allowed", id="another bucket"),
        pytest.param("s3://LAKE/sales/orders", "key-not-allowed", id="a bucket in capitals"),
        pytest.param("hdfs://lake/sales/orders", "key-not-allowed", id="another store"),
    ],
)
def test_a_key_counts_for_its_locations_in_every_spelling(location: str, reason: str) -> None:
    assert places("lake.sales.orders", location) == reason


@pytest.mark.parametrize(
    "table",
    [
        pytest.param("lake.payroll.salaries", id="another name"),
        pytest.param("lake.\uff53ales.orders", id="full width"),
        pytest.param("lake.sal\u0435s.orders", id="a Cyrillic character"),
        pytest.param("lake.sales2.orders", id="the same beginning"),
    ],
)
def test_a_key_does_not_count_for_another_name_of_a_table_at_its_location(table: str) -> None:
    assert places(table, "/lake/sales/orders") == "key-not-allowed"


@pytest.mark.parametrize(
    ("table", "reason"), [("lake.sales.orders", ""), ("lake.hr.staff", "key-not-allowed")]
)
def test_a_hold_is_on_a_name_so_its_key_needs_no_locations(table: str, reason: str) -> None:
    key = settings(entry(roles=["holder"], tables=["lake.sales.*"]))
    hold = CleaningHoldRemovalRequested.about(
        restore(table), event_id="h-1", requested_by="ana", reason="x", source="c", occurred_at=NOON
    )
    sent = signed(hold)
    now = int(NOW.timestamp() * 1000)
    record = Record(Partition(sent.topic, 0), 0, sent.key, sent.value, sent.headers, now)
    trusting = authorization(key, "memory")

    with pytest.raises(Unauthorized, match="for the table") if reason else nullcontext():
        trusting.check(hold, record)


def test_a_key_has_tables_and_locations_or_neither_because_a_signer_chooses_both() -> None:
    with pytest.raises(ValidationError, match="add the names"):
        settings(entry(roles=["writer"], locations=["/lake/sales"]))
    with pytest.raises(ValidationError, match="add the names"):
        settings(entry(roles=["holder"], locations=["/lake/sales"]))
    with pytest.raises(ValidationError, match="add the directories"):
        settings(entry(tables=["lake.sales.*"]))
    with pytest.raises(ValidationError, match="add the directories"):
        settings(entry(roles=["holder", "requester"], tables=["lake.sales.*"]))


def test_every_kind_of_signed_event_is_of_a_role() -> None:
    signed_kinds = {kind for kind in EVENT_TYPES.values() if issubclass(kind, SIGNED)}
    of_roles = tuple(kind for kinds in MAY_SIGN.values() for kind in kinds)

    assert {kind for kind in EVENT_TYPES.values() if issubclass(kind, of_roles)} == signed_kinds
    consumed = Subjects(subjects(Settings()), Requests(Wire())).consumes
    outcomes = {kind for kind in consumed if issubclass(kind, Outcome)}
    assert outcomes <= signed_kinds  # that the coordinator acts on


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_kind_of_command_has_an_outcome_that_refuses_it(kind: type[Command]) -> None:
    from importlib.resources import files  # noqa: PLC0415

    example = files("tidegate.events").joinpath("examples", f"{kind.__name__}.json")
    command = EVENT_TYPES[kind.__name__].model_validate_json(example.read_text("utf-8"))
    assert isinstance(command, Command)

    outcome = refusal(command, Reason.NOT_SIGNED, "no", "cleaner", NOW)
    assert (outcome.caused_by, outcome.table) == (command.event_id, command.table)
