"""Two real HDFS clusters in one JVM, which tests drive with Hadoop's own client, over py4j."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from support.jar_locks import resolve
from tidegate.compute.java import find_java
from tidegate.tables.warehouse import Warehouse, WarehouseRoots

_LOCK: Final = Path(__file__).with_name("hdfs.json")
_SMALL: Final = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Cluster:
    """A NameNode, with the official client as its user."""

    address: str
    """`hdfs://localhost:PORT`"""
    web: str
    """Where WebHDFS answers: `localhost:PORT`"""
    files: Any
    """Hadoop's FileSystem."""
    jvm: Any

    def path(self, path: str) -> Any:  # noqa: ANN401 - py4j is untyped
        return self.jvm.org.apache.hadoop.fs.Path(None, None, path)

    def put(self, path: str, content: bytes = b"1") -> None:
        stream = self.files.create(self.path(path), True)  # noqa: FBT003 - of Java
        stream.write(content)
        stream.close()

    def make(self, path: str) -> None:
        self.files.mkdirs(self.path(path))

    def remove(self, path: str) -> None:
        self.files.delete(self.path(path), True)  # noqa: FBT003 - of Java

    def all_files(self, below: str = "/wh") -> list[str]:
        """The files below a directory, by their paths from there."""
        names = list[str]()
        found = self.files.listFiles(self.path(below), True)  # noqa: FBT003 - of Java
        while found.hasNext():
            names.append(str(found.next().getPath().toUri().getPath())[len(below) + 1 :])
        return sorted(names)

    def copy(self, local: Path, path: str) -> None:
        """Copy a directory with all that is in it."""
        self.files.copyFromLocalFile(
            self.jvm.org.apache.hadoop.fs.Path(str(local)), self.path(path)
        )

    def warehouse(self, timeout: float = 20.0) -> Warehouse:
        place = self.address.removesuffix(":8020")
        return Warehouse(WarehouseRoots.of(f"{self.address}/wh"), {place: {"timeout": timeout}})

    def viewfs(self, table: str, mounts: Mapping[str, str]) -> Any:  # noqa: ANN401 - of py4j
        """Hadoop's ViewFileSystem of a mount table."""
        conf = self.jvm.org.apache.hadoop.conf.Configuration()
        for name, target in mounts.items():
            conf.set(name, target)
        uri = self.jvm.java.net.URI(f"viewfs://{table}/")
        return self.jvm.org.apache.hadoop.fs.FileSystem.newInstance(uri, conf)

    def safe_mode(self, *, on: bool) -> None:
        actions = getattr(self.jvm.org.apache.hadoop.hdfs.protocol, "HdfsConstants$SafeModeAction")
        self.files.setSafeMode(actions.SAFEMODE_ENTER if on else actions.SAFEMODE_LEAVE)


@dataclass(frozen=True)
class Hdfs:
    """Two clusters, which share nothing but a DataNode."""

    lake: Cluster
    other: Cluster


@pytest.fixture(scope="session")
def hdfs_clusters(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hdfs]:
    with running(tmp_path_factory.mktemp("hdfs")) as clusters:
        yield clusters


@pytest.fixture
def hdfs(hdfs_clusters: Hdfs) -> Hdfs:
    """The clusters of the session, with an empty `/wh` on both."""
    for cluster in (hdfs_clusters.lake, hdfs_clusters.other):
        cluster.remove("/wh")
        cluster.make("/wh")
    return hdfs_clusters


@contextmanager
def running(folder: Path, settings: Mapping[str, str] | None = None) -> Generator[Hdfs]:
    """Start both. The JVM ends with this process, too. It takes KRB5_CONFIG for Kerberos."""
    import pyspark  # noqa: PLC0415 - the unit tests run without it, too (.ci/matrix)

    spark = Path(pyspark.__file__).parent / "jars"
    [py4j], [jaxb] = spark.glob("py4j-*.jar"), spark.glob("jakarta.xml.bind-api-*.jar")
    with (folder / "log").open("wb") as log:
        port, token = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(map(str, [*resolve(_LOCK), jaxb])),
            javaopts=[
                *_SMALL,
                f"-Dtest.build.data={folder}",
                f"-Dhadoop.log.dir={folder}",
                f"-Djava.security.krb5.conf={os.environ.get('KRB5_CONFIG', '')}",
            ],
            java_path=str(find_java(17)),
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    jvm = gateway.jvm
    hdfs = jvm.org.apache.hadoop.hdfs
    conf = hdfs.HdfsConfiguration()
    # else a client waits almost half a second before it asks again whether a file is complete
    conf.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "5")
    for name, value in (settings or {}).items():
        conf.set(name, value)
    jvm.org.apache.hadoop.security.UserGroupInformation.setConfiguration(conf)
    builder = getattr(hdfs, "MiniDFSCluster$Builder")(conf)
    topology = hdfs.MiniDFSNNTopology.simpleFederatedTopology(2)
    cluster = builder.nnTopology(topology).numDataNodes(1).build()
    cluster.waitActive()
    clusters = [
        Cluster(
            f"hdfs://localhost:{cluster.getNameNodePort(n)}",
            f"localhost:{cluster.getNameNode(n).getHttpAddress().getPort()}",
            cluster.getFileSystem(n),
            jvm,
        )
        for n in range(2)
    ]
    try:
        yield Hdfs(*clusters)
    finally:
        cluster.shutdown()
        gateway.shutdown()
