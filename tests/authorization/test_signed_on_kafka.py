"""A signed request through a real broker, from the command line to its outcome."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typer.testing import CliRunner

from support.acid import IDS_1_TO_3, INSERTS, MINOR_3, NOON, TABLE, build, names_in
from support.deployment import Deployment
from support.quarantined import visible
from support.samples import work_off
from support.signing import Obeying, entry, key_file, new_key, restore, services, settings, signed
from support.waiting import wait_for
from tidegate.bridges.event_reader import EventReader
from tidegate.cli import app
from tidegate.events import (
    Answer,
    LockHold,
    LockReleased,
    RestoreFailed,
    VacuumFinished,
    VacuumKind,
)
from tidegate.events.wire import Wire
from tidegate.publisher import Publisher
from tidegate.runtime.authorization import Unauthorized
from tidegate.runtime.bus import Partition
from tidegate.runtime.kafka.bus import KafkaBus
from tidegate.service.assembly import authorization
from tidegate.service.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
VACUUM = VacuumFinished(
    table=TABLE,
    location="/",
    occurred_at=NOON,
    source="compactor",
    kind=VacuumKind.MINOR,
    directories=(MINOR_3,),
    min_write_id=1,
    max_write_id=3,
    valid_write_ids=IDS_1_TO_3,
    own_lock_id=7,
    locks=(LockHold(lock_id=7),),
)
RESTORE = (
    *("publish", "restore", "-t", "lake.sales.orders", "-l", "/lake/orders"),
    *("--savepoint", "20261121041551845", "--reason", "a bad load", "--requested-by", "mallory"),
    "--new",
)


def test_a_signed_request_from_the_command_line_is_carried_out_and_an_unsigned_one_is_not(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    with Deployment(bootstrap_servers, topic_prefix, tmp_path) as place:
        file = str(place.settings_file("cli", {}))
        for more in (["--sign-with", str(key_file(tmp_path))], []):
            done = CliRunner().invoke(app, [*RESTORE, *more, "-c", file])
            assert done.exit_code == 0, done.output

        bus, obeying = KafkaBus(place.connection), Obeying()
        bus.send([signed(restore(), prefix=topic_prefix, cluster="staging")])
        coordinator, executor = services(settings(entry()), bus, obeying, topic_prefix)

        def three_outcomes() -> list[Answer] | None:
            coordinator.step(0.1)
            executor.step(0.1)
            log = bus.log(Partition(f"{topic_prefix}.outcomes", 0))
            found = [Wire().deserialize(record.key, record.value, record.headers) for record in log]
            answers = [event for event in found if isinstance(event, Answer)]
            return answers if len(answers) == 3 else None

        answers = wait_for("three outcomes", three_outcomes)
        work_off(executor)
        executor.close()
        coordinator.close()
        bus.close()

    [obeyed] = [answer for answer in answers if isinstance(answer, RestoreFailed)]
    unsigned, of_staging = [answer for answer in answers if answer is not obeyed]
    assert (obeyed.signed_by, obeyed.requested_by, obeyed.why) == ("ana", "mallory", "a bad load")
    assert getattr(unsigned, "reason", None) == "not-signed"
    assert getattr(of_staging, "reason", None) == "bad-signature"
    assert "its cluster differs" in getattr(of_staging, "message", "")
    assert len(obeying.obeyed) == 1


def test_the_time_of_a_publisher_revives_no_expired_signature(
    bootstrap_servers: str, topic_prefix: str
) -> None:
    signed_at = datetime.now(UTC) - timedelta(days=3)
    topic = f"{topic_prefix}.requests"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    times = {"message.timestamp.type": "CreateTime"}
    for made in admin.create_topics([NewTopic(topic, 1, 1, config=times)]).values():
        made.result(30)
    sent = signed(restore(), ago=timedelta(days=3), prefix=topic_prefix)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(
        topic,
        sent.value,
        sent.key,
        headers=list(sent.headers),
        timestamp=int(signed_at.timestamp() * 1000),
    )
    assert producer.flush(30) == 0

    bus = KafkaBus({"bootstrap.servers": bootstrap_servers})
    [record] = bus.log(Partition(topic, 0))
    with pytest.raises(Unauthorized, match="LogAppendTime"):
        authorization(settings(entry()), "memory").check(restore(), record)
    bus.close()


def test_an_unsigned_or_wrongly_signed_vacuum_or_release_is_refused_and_nothing_is_removed(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    location = build(tmp_path / "table", {**dict.fromkeys(INSERTS, 9), MINOR_3: 27})
    made = VACUUM.model_copy(update={"location": str(location)})
    vacuum = VacuumFinished.model_validate(made.model_dump(exclude={"event_id"}))
    end = LockReleased(table=TABLE, location=str(location), occurred_at=NOON, source="b", lock_id=7)
    keys = {name: new_key() for name in ("gate", "bridge", "stranger")}
    files: dict[str, Path] = {}
    lines = ["[security]", "require_signatures = true"]
    for name, key in keys.items():
        (tmp_path / name).mkdir()
        files[name] = key_file(tmp_path / name, key)
    lines.append(f'sign_with = "{files["gate"]}"')
    roles_of = {"gate": ["coordinator", "worker"], "bridge": ["writer"]}
    for name, roles in roles_of.items():
        lines += ["[[security.keys]]", f'name = "{name}"', f"roles = {roles}"]
        lines += [
            f'tables = ["{TABLE}"]',
            f'locations = ["{location}"]',
            f"public_key = '''{keys[name].public_pem}'''",
        ]
    more = "\n".join(lines)

    with Deployment(bootstrap_servers, topic_prefix, tmp_path, settings=more) as place:

        def publish(event: VacuumFinished | LockReleased, signer: str | None) -> None:
            with Publisher(
                place.servers,
                source="test",
                prefix=place.prefix,
                config=place.connection,
                sign_with=signer and files[signer],
            ) as publisher:
                publisher.publish(event)

        place.run("coordinator")
        place.run("cleaner")
        for signer in (None, "stranger"):
            publish(vacuum, signer)
        publish(vacuum, "bridge")
        for signer in (None, "stranger", "gate"):
            publish(end, signer)
        refused = wait_for(
            "five dead letters",
            lambda: found if len(found := place.records("dead-letters")) == 5 else None,
        )
        reasons = [str(dict(record.headers)) for record in refused]
        assert sum("not-signed" in reason for reason in reasons) == 2
        assert sum("bad-signature" in reason for reason in reasons) == 2
        assert place.records("tasks") == []
        assert set(INSERTS) <= set(names_in(location))

        publish(end, "bridge")
        wait_for("the removal", lambda: visible(location) == [MINOR_3])
        owner = json.loads((location / ".tidegate" / "owner").read_text())
        cluster = KafkaBus(place.connection).cluster_id()
        assert owner == {"deployment": f"{cluster}/{topic_prefix}", "table": TABLE}
        trusting = authorization(Settings.load(place.settings_file("bridge", {})), cluster)
        topics = {f"{topic_prefix}.locks": None}
        read = EventReader(place.connection, topics, "bridge", authorization=trusting).read()
        assert [event for batch in read for event in batch] == [end]  # a bridge believes no other
