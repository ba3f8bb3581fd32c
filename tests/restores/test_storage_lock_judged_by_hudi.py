"""Hudi's own StorageBasedLockProvider and the storage lock of a restore, on the same S3 server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
from botocore.exceptions import ClientError
from pyspark import java_gateway

from support.hudi_records import RealHudi
from support.judged import NOW
from support.s3 import BUCKET, S3Server, s3_server
from tidegate.compute.parallel_map import ThreadMap
from tidegate.errors import TransientError
from tidegate.restores.context import RestoreContext
from tidegate.restores.liveness import holding_lock
from tidegate.restores.settings import RestoreSettings
from tidegate.tables.refusal import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.judge, pytest.mark.slow]

TABLE: Final = f"s3://{BUCKET}/wh/t"
KEY: Final = "wh/t/.hoodie/.locks/table_lock.json"
SETTINGS: Final = RestoreSettings(watch_seconds=0, hold_lock=True)


@dataclass
class Client:
    """What Hudi's client for S3 does, which is not on Maven Central: conditional writes."""

    jvm: Any
    server: S3Server

    def tryUpsertLockFile(self, data: Any, previous: Any) -> Any:  # noqa: N802, ANN401 - Hudi's
        found = previous.isPresent() and previous.get()
        condition = {"IfMatch": found.getVersionId()} if found else {"IfNoneMatch": "*"}
        models = self.jvm.org.apache.hudi.client.transaction.lock.models
        content = bytes(models.StorageLockFile.toByteArray(data))
        try:
            put = self.server.client().put_object(Bucket=BUCKET, Key=KEY, Body=content, **condition)
        except ClientError:
            return self._answer(models.LockUpsertResult.ACQUIRED_BY_OTHERS, None)
        written = models.StorageLockFile(data, put["ETag"])
        return self._answer(models.LockUpsertResult.SUCCESS, written)

    def readCurrentLockFile(self) -> Any:  # noqa: N802, ANN401
        models = self.jvm.org.apache.hudi.client.transaction.lock.models
        try:
            got = self.server.client().get_object(Bucket=BUCKET, Key=KEY)
        except ClientError:
            return self._answer(models.LockGetResult.NOT_EXISTS, None)
        stream = self.jvm.java.io.ByteArrayInputStream(got["Body"].read())
        file = models.StorageLockFile.createFromStream(stream, got["ETag"])
        return self._answer(models.LockGetResult.SUCCESS, file)

    def readObject(self, _path: str, _checks: object) -> Any:  # noqa: N802, ANN401
        return self.jvm.org.apache.hudi.common.util.Option.empty()

    def close(self) -> None: ...

    def _answer(self, result: Any, file: Any) -> Any:  # noqa: ANN401
        util = self.jvm.org.apache.hudi.common.util
        return util.collection.Pair.of(result, util.Option.ofNullable(file))

    class Java:
        implements: ClassVar = ["org.apache.hudi.client.transaction.lock.StorageLockClient"]


@dataclass
class Loader:
    """A function of three arguments."""

    apply: Callable[[Any, Any, Any], Any]

    class Java:
        implements: ClassVar = ["org.apache.hudi.common.util.Functions$Function3"]


def provider_of(spark: SparkSession, server: S3Server) -> Any:  # noqa: ANN401
    """Hudi's own StorageBasedLockProvider, with the client of this test."""
    context: Any = spark.sparkContext
    gateway: Any = java_gateway
    gateway.ensure_callback_server_started(context._gateway)
    jvm = context._jvm
    hudi = jvm.org.apache.hudi
    properties = hudi.common.config.TypedProperties()
    properties.setProperty("hoodie.base.path", TABLE)
    heartbeats = hudi.client.transaction.lock.models.LockProviderHeartbeatManager
    arguments = (
        str(uuid.uuid4()),
        properties,
        Loader(heartbeats),
        Loader(lambda *_: Client(jvm, server)),
        jvm.org.slf4j.LoggerFactory.getLogger("storage lock"),
        None,
    )
    given = jvm.java.util.ArrayList()
    for argument in arguments:
        given.add(argument)
    name = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
    made = jvm.java.lang.Class.forName(name).getDeclaredConstructors()
    (constructor,) = (one for one in made if one.getParameterCount() == len(arguments))
    constructor.setAccessible(True)
    return constructor.newInstance(given.toArray())


@pytest.fixture(params=["moto", pytest.param("minio", marks=pytest.mark.full)])
def server(request: pytest.FixtureRequest) -> Generator[S3Server]:
    with s3_server(request.param) as server:
        yield server


def test_hudi_s_storage_lock_and_that_of_a_restore_exclude_each_other(
    live_hudi: RealHudi, server: S3Server
) -> None:
    provider = provider_of(live_hudi.session(), server)
    context = RestoreContext(server.warehouse(), ThreadMap(1), NOW, SETTINGS)

    assert provider.tryLock()
    with pytest.raises(Refused, match="is held"), holding_lock(context, TABLE, "r1"):
        pass
    provider.unlock()
    with holding_lock(context, TABLE, "r1") as held:
        assert not provider.tryLock()
        held.check()
    assert provider.tryLock()
    provider.close()
    with holding_lock(context, TABLE, "r2"):
        pass


def test_hudi_takes_the_lock_of_a_restore_that_was_not_renewed(
    live_hudi: RealHudi, server: S3Server
) -> None:
    provider = provider_of(live_hudi.session(), server)
    late = timedelta(minutes=6)
    context = RestoreContext(server.warehouse(), ThreadMap(1), lambda: NOW() - late, SETTINGS)

    with holding_lock(context, TABLE, "r1") as held:
        held.check()
        assert provider.tryLock()
        with pytest.raises(TransientError, match="was taken by another process"):
            held.check()
    assert provider.getLock() is not None
    assert not provider.getLock().isExpired()
    provider.close()
